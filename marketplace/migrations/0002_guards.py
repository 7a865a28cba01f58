"""Price versions and fingerprints refuse change, also by raw SQL of their owner. The one thing that may change is the end of a price version, once."""

from django.db import migrations

GUARD = """
CREATE FUNCTION marketplace_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = '42501';
END $$;

CREATE TRIGGER fingerprint_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON marketplace_fingerprint
    FOR EACH STATEMENT EXECUTE FUNCTION marketplace_refuse_change();

CREATE FUNCTION marketplace_price_version_closes_once() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before marketplace_priceversion := OLD;
BEGIN
    before.valid_until := NEW.valid_until;
    IF OLD.valid_until IS NOT NULL OR NEW.valid_until IS NULL OR before IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'a price version is append-only: only its end is set, once' USING ERRCODE = '42501';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER price_version_closes_once BEFORE UPDATE ON marketplace_priceversion
    FOR EACH ROW EXECUTE FUNCTION marketplace_price_version_closes_once();
CREATE TRIGGER price_version_append_only BEFORE DELETE OR TRUNCATE ON marketplace_priceversion
    FOR EACH STATEMENT EXECUTE FUNCTION marketplace_refuse_change();
"""
UNDO = """
DROP TRIGGER price_version_append_only ON marketplace_priceversion;
DROP TRIGGER price_version_closes_once ON marketplace_priceversion;
DROP FUNCTION marketplace_price_version_closes_once();
DROP TRIGGER fingerprint_append_only ON marketplace_fingerprint;
DROP FUNCTION marketplace_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("marketplace", "0001_start")]
    operations = [migrations.RunSQL(GUARD, UNDO)]
