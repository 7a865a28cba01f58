"""What the database itself refuses, whoever asks: the application, the owner of the tables, or raw SQL (billing §6).

===================================================================  ========
guard                                                                SQLSTATE
===================================================================  ========
the entries of a posting sum to 0, and there are at least two        23514
an entry has the currency of its account and of its posting          23503
entries and postings, usage, endings, lines, documents: append-only  42501
accounts and invoices cannot be deleted or truncated                 42501
entries only in the transaction that made their posting              42501
a balance changes only by an entry; accounts open at 0               42501
an issued invoice changes in state and payment only, never backwards 42501
lines, taxes and proofs are added only to a draft                    42501
a closed period changes in nothing, bounds never change              42501
document numbers grow by one                                         42501
===================================================================  ========

Statement triggers guard the append-only tables, so they refuse even when no row would match. DDL by the owner is outside the promise.
"""

from django.db import migrations

APPEND_ONLY = (
    "usagekey",
    "usagerecord",
    "usageanomaly",
    "attemptending",
    "invoiceline",
    "linerecord",
    "taxline",
    "invoicedocument",
    "txn",
    "entry",
)
UNDELETABLE = ("account", "invoice", "billingperiod", "documentcounter")

REFUSE = """
CREATE FUNCTION billing_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501';
END $$;
"""

LEDGER = """
ALTER TABLE billing_txn ADD COLUMN made_in xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE billing_entry
    ADD CONSTRAINT entry_currency_of_txn FOREIGN KEY (txn_id, currency) REFERENCES billing_txn (id, currency),
    ADD CONSTRAINT entry_currency_of_account FOREIGN KEY (account_id, currency) REFERENCES billing_account (id, currency);

CREATE FUNCTION billing_txn_made_now() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.made_in <> pg_current_xact_id() THEN
        RAISE EXCEPTION 'a posting is made in its own transaction' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_txn_made_now BEFORE INSERT ON billing_txn FOR EACH ROW EXECUTE FUNCTION billing_txn_made_now();

CREATE FUNCTION billing_entry_in_its_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM billing_txn WHERE id = NEW.txn_id AND made_in <> pg_current_xact_id()) THEN
        RAISE EXCEPTION 'entries are added only in the transaction that made their posting' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_entry_in_its_transaction BEFORE INSERT ON billing_entry
    FOR EACH ROW EXECUTE FUNCTION billing_entry_in_its_transaction();

CREATE FUNCTION billing_entry_moves_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE billing_account SET balance_minor = balance_minor + NEW.amount_minor WHERE id = NEW.account_id;
    RETURN NULL;
END $$;
CREATE TRIGGER billing_entry_moves_balance AFTER INSERT ON billing_entry
    FOR EACH ROW EXECUTE FUNCTION billing_entry_moves_balance();

CREATE FUNCTION billing_txn_balanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    found record;
BEGIN
    IF TG_TABLE_NAME = 'billing_txn' THEN wanted := NEW.id; ELSE wanted := NEW.txn_id; END IF;
    SELECT count(*) AS legs, coalesce(sum(amount_minor), 0) AS total INTO found FROM billing_entry WHERE txn_id = wanted;
    IF found.legs < 2 OR found.total <> 0 THEN
        RAISE EXCEPTION 'posting % does not balance: % entries, sum %', wanted, found.legs, found.total USING ERRCODE = '23514';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER billing_txn_balanced AFTER INSERT ON billing_txn DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION billing_txn_balanced();
CREATE CONSTRAINT TRIGGER billing_entry_balanced AFTER INSERT ON billing_entry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION billing_txn_balanced();

CREATE FUNCTION billing_account_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.balance_minor <> 0 THEN
            RAISE EXCEPTION 'an account opens at 0' USING ERRCODE = '42501';
        END IF;
        RETURN NEW;
    END IF;
    IF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'a balance changes only by an entry' USING ERRCODE = '42501';
    END IF;
    IF (NEW.id, NEW.owner, NEW.kind, NEW.currency, NEW.allow_negative)
        IS DISTINCT FROM (OLD.id, OLD.owner, OLD.kind, OLD.currency, OLD.allow_negative) THEN
        RAISE EXCEPTION 'owner, kind and currency of an account are frozen' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_account_guard BEFORE INSERT OR UPDATE ON billing_account
    FOR EACH ROW EXECUTE FUNCTION billing_account_guard();
CREATE FUNCTION billing_account_no_plain_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_trigger_depth() < 2 THEN
        RAISE EXCEPTION 'a balance changes only by an entry' USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER billing_account_no_plain_update BEFORE UPDATE ON billing_account
    FOR EACH STATEMENT EXECUTE FUNCTION billing_account_no_plain_update();
"""

DOCUMENTS = """
CREATE FUNCTION billing_invoice_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ranks CONSTANT jsonb :=
        '{"draft": 0, "open": 1, "partially_paid": 2, "past_due": 3, "paid": 9, "void": 9, "uncollectible": 9}';
    free CONSTANT text[] := ARRAY['state', 'paid_minor', 'settled_at'];
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
    IF NEW.paid_minor < OLD.paid_minor THEN
        RAISE EXCEPTION 'what was paid is not unpaid again' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_invoice_guard BEFORE INSERT OR UPDATE ON billing_invoice
    FOR EACH ROW EXECUTE FUNCTION billing_invoice_guard();

CREATE FUNCTION billing_draft_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM added a JOIN billing_invoice i ON i.id = a.invoice_id WHERE i.state <> 'draft') THEN
        RAISE EXCEPTION 'lines are added only to a draft' USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER billing_line_draft_only AFTER INSERT ON billing_invoiceline
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION billing_draft_only();
CREATE TRIGGER billing_tax_draft_only AFTER INSERT ON billing_taxline
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION billing_draft_only();

CREATE FUNCTION billing_proof_draft_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM (SELECT DISTINCT line_id FROM added) a JOIN billing_invoiceline l ON l.id = a.line_id
               JOIN billing_invoice i ON i.id = l.invoice_id WHERE i.state <> 'draft') THEN
        RAISE EXCEPTION 'proofs are added only to a draft' USING ERRCODE = '42501';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER billing_proof_draft_only AFTER INSERT ON billing_linerecord
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION billing_proof_draft_only();

CREATE FUNCTION billing_period_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'closed' THEN
        RAISE EXCEPTION 'period % is closed', OLD.month USING ERRCODE = '42501';
    END IF;
    IF (NEW.organisation_id, NEW.month, NEW.starts_at, NEW.ends_at, NEW.timezone)
        IS DISTINCT FROM (OLD.organisation_id, OLD.month, OLD.starts_at, OLD.ends_at, OLD.timezone) THEN
        RAISE EXCEPTION 'the bounds of a period never change' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_period_guard BEFORE UPDATE ON billing_billingperiod FOR EACH ROW EXECUTE FUNCTION billing_period_guard();

CREATE FUNCTION billing_counter_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.last <> 0 THEN
            RAISE EXCEPTION 'a series begins at 0' USING ERRCODE = '42501';
        END IF;
    ELSIF NEW.series <> OLD.series OR NEW.last <> OLD.last + 1 OR NEW.last_date < OLD.last_date THEN
        RAISE EXCEPTION 'document numbers grow by one, dates never fall' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER billing_counter_guard BEFORE INSERT OR UPDATE ON billing_documentcounter
    FOR EACH ROW EXECUTE FUNCTION billing_counter_guard();
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
    dependencies = [("billing", "0001_start")]
    operations = [migrations.RunSQL(REFUSE + _refusals() + LEDGER + DOCUMENTS, migrations.RunSQL.noop)]
