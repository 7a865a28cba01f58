"""The audit trail refuses change, also by raw SQL of its owner."""

from django.db import migrations

GUARD = """
CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = '42501';
END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change();
"""
UNDO = "DROP TRIGGER audit_append_only ON audit_auditevent; DROP FUNCTION audit_refuse_change();"


class Migration(migrations.Migration):
    dependencies = [("audit", "0001_start")]
    operations = [migrations.RunSQL(GUARD, UNDO)]
