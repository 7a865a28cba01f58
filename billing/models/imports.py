"""Usage that was metered elsewhere, as it was sent to us: one row a batch."""

from django.db import models

from portal import ids


def new_import_id() -> str:
    return ids.public_id("imp")


class UsageImport(models.Model):
    """A batch of imported usage: where it came from, its digest, and what became of its rows. The rows themselves are usage records."""

    public_id = models.CharField(max_length=32, unique=True, default=new_import_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="usage_imports")
    source = models.CharField(max_length=40)  # the name of the meter, chosen by who sends it
    format = models.CharField(max_length=8)  # json, csv, focus
    sha256 = models.CharField(max_length=64)
    rows = models.PositiveIntegerField()
    stored = models.PositiveIntegerField()
    duplicates = models.PositiveIntegerField()
    conflicts = models.PositiveIntegerField()
    quarantined = models.PositiveIntegerField()
    skipped = models.PositiveIntegerField()  # FOCUS rows that are no usage
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["organisation", "-id"], name="usage_import_of_organisation")]  # list

    def __str__(self) -> str:
        return f"{self.source}: {self.rows} rows"
