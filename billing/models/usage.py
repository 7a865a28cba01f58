"""Usage: facts that are stored once and for ever, and the hourly roll-up that can be rebuilt from them.

A record is self-contained. It has no foreign key into its neighbours, only text references and snapshots: invoices outlive jobs.
"""

from django.db import models
from django.db.models import Q

from billing.domain.endings import REASONS
from billing.domain.metering import RecordState


class UsageKey(models.Model):
    """(attempt, resource, seq): there is one fact of that name, whatever its time. Holds no time on purpose (billing §7, trap 1)."""

    pk = models.CompositePrimaryKey("attempt_ref", "resource", "seq")
    attempt_ref = models.CharField(max_length=80)
    resource = models.CharField(max_length=20)
    seq = models.BigIntegerField()
    content_hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.attempt_ref} {self.resource} {self.seq}"


class Snapshot(models.Model):
    """What both a record and the roll-up remember of who used what, where and at which price."""

    organisation_id = models.BigIntegerField()
    attempt_ref = models.CharField(max_length=80)
    resource = models.CharField(max_length=20)
    sku = models.CharField(max_length=120)
    price_version_ref = models.CharField(max_length=160)  # transfer: "link:<region>→<region>"
    unit_price_micro = models.BigIntegerField()
    discount_ppm = models.IntegerField(default=0)
    currency = models.CharField(max_length=3)
    tiers = models.JSONField(default=list)
    project_ref = models.CharField(max_length=80, blank=True)
    project_name = models.CharField(max_length=120, blank=True)
    department = models.CharField(max_length=120, blank=True)
    provider_ref = models.CharField(max_length=80, blank=True)
    provider_name = models.CharField(max_length=120, blank=True)
    node_ref = models.CharField(max_length=80, blank=True)
    job_ref = models.CharField(max_length=80, blank=True)
    job_name = models.CharField(max_length=120, blank=True)
    task_name = models.CharField(max_length=120, blank=True)
    user_ref = models.CharField(max_length=80, blank=True)
    region = models.CharField(max_length=80, blank=True)
    zone = models.CharField(max_length=80, blank=True)
    hardware_model = models.CharField(max_length=200, blank=True)
    virtual = models.BooleanField(default=False)
    demo = models.BooleanField(default=False)

    class Meta:
        abstract = True


class UsageRecord(Snapshot):
    """One fact, as it was judged when it arrived; append-only."""

    seq = models.BigIntegerField()
    fence = models.BigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    count_milli = models.BigIntegerField()
    qty_us = models.BigIntegerField()  # bytes for network_byte
    labels = models.JSONField(default=dict)
    green_ratio_ppm = models.IntegerField(null=True)
    pue_milli = models.IntegerField(null=True)
    power_mw = models.IntegerField(null=True)  # milliwatts that one whole unit draws
    power_basis = models.CharField(max_length=12, blank=True, default="", db_default="")  # energy.Basis
    grid_g_per_kwh = models.IntegerField(null=True)
    energy_uwh = models.BigIntegerField(null=True)  # with the zone's PUE, where it is known
    carbon_ug = models.BigIntegerField(null=True)  # location-based
    carbon_market_ug = models.BigIntegerField(null=True)  # market-based: without the offer's green share
    received_at = models.DateTimeField()
    state = models.CharField(max_length=20)
    oddity = models.CharField(max_length=20, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt_ref", "resource", "seq"], name="usage_record_key_once"
            ),  # also: of an attempt
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in RecordState]), name="usage_record_state_known"
            ),
            models.CheckConstraint(
                condition=~Q(state=RecordState.OK) | Q(qty_us__gte=0, ended_at__gte=models.F("started_at")),
                name="usage_record_ok_is_sane",
            ),
            models.CheckConstraint(
                condition=~Q(state=RecordState.OK) | Q(unit_price_micro__gte=0, unit_price_micro__lte=10**12),
                name="usage_record_price_sane",
            ),
        ]
        indexes = [
            models.Index(fields=["organisation_id", "ended_at"], name="usage_record_of_month"),  # close, usage page
            models.Index(fields=["job_ref"], name="usage_record_of_job"),  # cost of a job
        ]

    def __str__(self) -> str:
        return f"{self.attempt_ref} {self.resource} {self.seq}: {self.qty_us}"


class UsageHour(Snapshot):
    """Σ of an attempt's rated facts in one UTC hour (cut again where a billing month ends); can be rebuilt from the records at any time."""

    bucket_at = models.DateTimeField()
    qty_us = models.DecimalField(max_digits=30, decimal_places=0)
    green_known_us = models.DecimalField(max_digits=30, decimal_places=0, default=0)
    green_weight = models.DecimalField(max_digits=40, decimal_places=0, default=0)
    energy_uwh = models.DecimalField(max_digits=30, decimal_places=0, default=0, db_default=0)
    energy_known_us = models.DecimalField(max_digits=30, decimal_places=0, default=0, db_default=0)
    carbon_ug = models.DecimalField(max_digits=30, decimal_places=0, default=0, db_default=0)
    carbon_market_ug = models.DecimalField(max_digits=30, decimal_places=0, default=0, db_default=0)
    carbon_known_us = models.DecimalField(max_digits=30, decimal_places=0, default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "attempt_ref",
                    "resource",
                    "price_version_ref",
                    "unit_price_micro",
                    "discount_ppm",
                    "bucket_at",
                ],
                name="usage_hour_once",
            )
        ]
        indexes = [
            models.Index(
                fields=["organisation_id", "bucket_at"], name="usage_hour_of_month"
            ),  # upcoming, spending, usage page
            models.Index(fields=["provider_ref", "bucket_at"], name="usage_hour_of_provider"),  # earnings
        ]

    def __str__(self) -> str:
        return f"{self.attempt_ref} {self.resource} {self.bucket_at}"


class UsageAnomaly(models.Model):
    """A fact that contradicted a stored one, or was clipped: kept for people to look at; append-only."""

    attempt_ref = models.CharField(max_length=80)
    resource = models.CharField(max_length=20)
    seq = models.BigIntegerField()
    organisation_id = models.BigIntegerField()
    kind = models.CharField(max_length=20)
    content_hash = models.CharField(max_length=64)
    sent = models.JSONField()
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt_ref", "resource", "seq", "kind", "content_hash"], name="usage_anomaly_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.attempt_ref} {self.resource} {self.seq}"


class AttemptEnding(models.Model):
    """How an attempt ended and whether its metered time is billed; set once."""

    attempt_ref = models.CharField(max_length=80, primary_key=True)
    reason = models.CharField(max_length=40)
    fault = models.CharField(max_length=10)
    billed = models.BooleanField()
    message = models.TextField(blank=True)
    ended_at = models.DateTimeField()
    noted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(reason__in=sorted(REASONS)), name="attempt_ending_reason_known")
        ]

    def __str__(self) -> str:
        return f"{self.attempt_ref}: {self.reason}"


class LateChange(models.Model):
    """Something that may touch a closed month, and that the next close looks at.

    ==================  ====================================================================================
    set                 meaning
    ==================  ====================================================================================
    record, period      usage that came after the month closed (or while it did): rate it if no line has it
    + line_record       billed time that turned out unbillable: take it back
    attempt_ref         an attempt ended unbilled while a month closed: find what was billed of it
    ==================  ====================================================================================
    """

    organisation_id = models.BigIntegerField()
    period = models.ForeignKey("billing.BillingPeriod", models.PROTECT, null=True, related_name="+")
    record = models.ForeignKey(UsageRecord, models.PROTECT, null=True, related_name="+")
    line_record = models.ForeignKey("billing.LineRecord", models.PROTECT, null=True, related_name="+")
    attempt_ref = models.CharField(max_length=80, blank=True)
    settled_by = models.ForeignKey("billing.Invoice", models.PROTECT, null=True, related_name="+")
    settled_at = models.DateTimeField(null=True)
    noted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["record", "period", "line_record", "attempt_ref"], nulls_distinct=False, name="late_change_once"
            )
        ]
        indexes = [
            models.Index(fields=["organisation_id"], condition=Q(settled_at=None), name="late_change_waiting"),  # close
        ]

    def __str__(self) -> str:
        return f"late: record {self.record_id} {self.attempt_ref}"
