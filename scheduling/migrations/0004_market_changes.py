"""Every change of what is for sale leaves a row with the id of its transaction, so that a process that keeps the market reads
only what changed (``scheduling.selectors.kept``).

A change of an offer, price, node, card or fingerprint names its node; a change of a region, zone or organisation concerns
many and names none. Only columns that placement looks at count; a heartbeat changes nothing for sale.
"""

from django.db import migrations, models

NOTES = """
CREATE FUNCTION scheduling_note_change(node bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO scheduling_marketchange (node_id, changed_in, at)
    VALUES (node, pg_current_xact_id()::text::bigint, statement_timestamp());
$$;

CREATE FUNCTION scheduling_of_node_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN PERFORM scheduling_note_change(OLD.node_id); END IF;
    IF TG_OP <> 'DELETE' THEN PERFORM scheduling_note_change(NEW.node_id); END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER offer_noted AFTER INSERT OR UPDATE OR DELETE ON marketplace_offer
    FOR EACH ROW EXECUTE FUNCTION scheduling_of_node_changed();
CREATE TRIGGER device_noted AFTER INSERT OR UPDATE OR DELETE ON marketplace_device
    FOR EACH ROW EXECUTE FUNCTION scheduling_of_node_changed();
CREATE TRIGGER fingerprint_noted AFTER INSERT OR UPDATE OR DELETE ON marketplace_fingerprint
    FOR EACH ROW EXECUTE FUNCTION scheduling_of_node_changed();

CREATE FUNCTION scheduling_price_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM scheduling_note_change((SELECT node_id FROM marketplace_offer WHERE id = coalesce(NEW.offer_id, OLD.offer_id)));
    RETURN NULL;
END $$;
CREATE TRIGGER price_noted AFTER INSERT OR UPDATE OR DELETE ON marketplace_priceversion
    FOR EACH ROW EXECUTE FUNCTION scheduling_price_changed();

CREATE FUNCTION scheduling_node_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM scheduling_note_change(NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER node_noted AFTER UPDATE ON marketplace_node FOR EACH ROW
    WHEN ((OLD.organisation_id, OLD.zone_id, OLD.name, OLD.state, OLD.isolation, OLD.lease_classes, OLD.cores_milli, OLD.memory_mib,
           OLD.disk_gib, OLD.arch, OLD.cpu_model, OLD.executor, OLD.hardware_hash, OLD.reliability_ppm, OLD.refuse_past_due)
          IS DISTINCT FROM
          (NEW.organisation_id, NEW.zone_id, NEW.name, NEW.state, NEW.isolation, NEW.lease_classes, NEW.cores_milli, NEW.memory_mib,
           NEW.disk_gib, NEW.arch, NEW.cpu_model, NEW.executor, NEW.hardware_hash, NEW.reliability_ppm, NEW.refuse_past_due))
    EXECUTE FUNCTION scheduling_node_changed();

CREATE FUNCTION scheduling_all_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM scheduling_note_change(NULL);
    RETURN NULL;
END $$;
CREATE TRIGGER region_noted AFTER UPDATE OR DELETE ON marketplace_region FOR EACH STATEMENT EXECUTE FUNCTION scheduling_all_changed();
CREATE TRIGGER zone_noted AFTER UPDATE OR DELETE ON marketplace_zone FOR EACH STATEMENT EXECUTE FUNCTION scheduling_all_changed();
CREATE TRIGGER organisation_noted AFTER UPDATE ON accounts_organisation FOR EACH ROW
    WHEN ((OLD.state, OLD.name, OLD.slug, OLD.provider_verified) IS DISTINCT FROM (NEW.state, NEW.name, NEW.slug, NEW.provider_verified))
    EXECUTE FUNCTION scheduling_all_changed();
"""
UNDO = """
DROP TRIGGER organisation_noted ON accounts_organisation;
DROP TRIGGER zone_noted ON marketplace_zone;
DROP TRIGGER region_noted ON marketplace_region;
DROP TRIGGER node_noted ON marketplace_node;
DROP TRIGGER price_noted ON marketplace_priceversion;
DROP TRIGGER fingerprint_noted ON marketplace_fingerprint;
DROP TRIGGER device_noted ON marketplace_device;
DROP TRIGGER offer_noted ON marketplace_offer;
DROP FUNCTION scheduling_all_changed();
DROP FUNCTION scheduling_node_changed();
DROP FUNCTION scheduling_price_changed();
DROP FUNCTION scheduling_of_node_changed();
DROP FUNCTION scheduling_note_change(bigint);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0003_checkpoints"),
        ("marketplace", "0002_guards"),
        ("accounts", "0001_start"),
    ]
    operations = [
        migrations.CreateModel(
            name="MarketChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node_id", models.BigIntegerField(null=True)),
                ("changed_in", models.BigIntegerField()),
                ("at", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["changed_in"], name="market_changed")]},
        ),
        migrations.RunSQL(NOTES, UNDO),
    ]
