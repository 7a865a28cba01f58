"""The audit trail: append-only (database triggers refuse UPDATE, DELETE and TRUNCATE)."""

from django.db import models


class AuditEvent(models.Model):
    """One deed. Actor and target are text ids, so the trail outlives what it names."""

    public_id = models.CharField(max_length=32, unique=True)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=80)  # usr_…, key_…, nod_…, "system", "policy:ID@VERSION"
    deed = models.CharField(max_length=60)  # e.g. "job.submit", "offer.reprice"
    target = models.CharField(max_length=80)
    organisation_id = models.BigIntegerField(null=True)
    address = models.GenericIPAddressField(null=True)
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["organisation_id", "-id"], name="audit_of_organisation")]  # audit log page

    def __str__(self) -> str:
        return f"{self.actor} {self.deed} {self.target}"
