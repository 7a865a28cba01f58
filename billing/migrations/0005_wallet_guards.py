"""What the database itself refuses of grants, credit notes, bank transfers, reminders and rates (billing §6, invariants L3, P6, P7).

========================================================================  ========
guard                                                                     SQLSTATE
========================================================================  ========
credit notes, uses of credit, reminders, statements, rates: append-only   42501
granted hours: append-only                                                42501
a credit grant's terms are frozen, what is left of it never grows         42501
a bank transfer says for ever what came; it is settled once               42501
an issued invoice also keeps what notes took off it; that never falls     42501
the lines of a credit note add up to it, Σ notes ≤ their invoice          23514
========================================================================  ========
"""

from django.db import migrations

APPEND_ONLY = (
    "creditnote", "creditnoteline", "credituse", "reminder", "bankstatement", "exchangerate", "hourgrant",
)  # fmt: skip
UNDELETABLE = ("creditgrant", "banktransfer")

INVOICE = """
CREATE OR REPLACE FUNCTION billing_invoice_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ranks CONSTANT jsonb :=
        '{"draft": 0, "open": 1, "partially_paid": 2, "past_due": 3, "paid": 9, "void": 9, "uncollectible": 9}';
    free CONSTANT text[] := ARRAY['state', 'paid_minor', 'credited_minor', 'settled_at'];
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'draft' THEN
            RAISE EXCEPTION 'an invoice begins as a draft' USING ERRCODE = '42501';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.state = 'draft' THEN
        RETURN NEW;
    END IF;
    IF (to_jsonb(OLD) - free) <> (to_jsonb(NEW) - free) THEN
        RAISE EXCEPTION 'invoice % is issued: its content is frozen', OLD.number USING ERRCODE = '42501';
    END IF;
    IF NEW.state <> OLD.state AND ((ranks ->> OLD.state)::int >= 9 OR (ranks ->> NEW.state)::int < (ranks ->> OLD.state)::int) THEN
        RAISE EXCEPTION 'invoice % cannot go from % to %', OLD.number, OLD.state, NEW.state USING ERRCODE = '42501';
    END IF;
    IF (ranks ->> OLD.state)::int >= 9 AND NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'invoice % is settled', OLD.number USING ERRCODE = '42501';
    END IF;
    IF NEW.paid_minor < OLD.paid_minor OR NEW.credited_minor < OLD.credited_minor THEN
        RAISE EXCEPTION 'what was paid or credited is not taken back' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
"""

NOTES = """
CREATE FUNCTION billing_credit_note_adds_up() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    note billing_creditnote;
    net bigint;
    noted bigint;
    whole bigint;
BEGIN
    IF TG_TABLE_NAME = 'billing_creditnote' THEN wanted := NEW.id; ELSE wanted := NEW.note_id; END IF;
    SELECT * INTO note FROM billing_creditnote WHERE id = wanted;
    SELECT coalesce(sum(amount_minor), 0) INTO net FROM billing_creditnoteline WHERE note_id = wanted;
    IF net <> note.net_minor THEN
        RAISE EXCEPTION 'the lines of credit note % add up to %, not to %', note.number, net, note.net_minor USING ERRCODE = '23514';
    END IF;
    SELECT sum(total_minor) INTO noted FROM billing_creditnote WHERE invoice_id = note.invoice_id;
    SELECT subtotal_minor + tax_minor INTO whole FROM billing_invoice WHERE id = note.invoice_id;
    IF noted > whole THEN
        RAISE EXCEPTION 'credit notes of % exceed their invoice of %', noted, whole USING ERRCODE = '23514';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_credit_note_adds_up AFTER INSERT ON billing_creditnote DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION billing_credit_note_adds_up();
CREATE CONSTRAINT TRIGGER billing_credit_note_line_adds_up AFTER INSERT ON billing_creditnoteline DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION billing_credit_note_adds_up();
"""

GRANTS = """
CREATE FUNCTION billing_credit_grant_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    free CONSTANT text[] := ARRAY['left_minor', 'ended_at'];
BEGIN
    IF (to_jsonb(OLD) - free) <> (to_jsonb(NEW) - free) OR NEW.left_minor > OLD.left_minor THEN
        RAISE EXCEPTION 'the terms of a credit grant are frozen' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_credit_grant_guard BEFORE UPDATE ON billing_creditgrant
    FOR EACH ROW EXECUTE FUNCTION billing_credit_grant_guard();

CREATE FUNCTION billing_bank_transfer_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    free CONSTANT text[] := ARRAY[
        'state', 'why', 'organisation_id', 'invoice_id', 'to_invoice_minor', 'to_wallet_minor', 'settled_by', 'settled_at'];
BEGIN
    IF OLD.state <> 'unmatched' THEN
        RAISE EXCEPTION 'bank transfer % is settled', OLD.bank_reference USING ERRCODE = '42501';
    END IF;
    IF (to_jsonb(OLD) - free) <> (to_jsonb(NEW) - free) THEN
        RAISE EXCEPTION 'what a bank said is not changed' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_bank_transfer_guard BEFORE UPDATE ON billing_banktransfer
    FOR EACH ROW EXECUTE FUNCTION billing_bank_transfer_guard();
"""


def _refusals() -> str:
    append_only = "".join(
        f"CREATE TRIGGER billing_{table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_{table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();\n"
        for table in APPEND_ONLY
    )
    return append_only + "".join(
        f"CREATE TRIGGER billing_{table}_undeletable BEFORE DELETE OR TRUNCATE ON billing_{table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION billing_refuse_change();\n"
        for table in UNDELETABLE
    )


class Migration(migrations.Migration):
    dependencies = [("billing", "0004_wallets")]
    operations = [migrations.RunSQL(INVOICE + NOTES + GRANTS + _refusals(), migrations.RunSQL.noop)]
