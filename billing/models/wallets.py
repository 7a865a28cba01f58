"""How a tenant pays: before or after. The money itself is in the ledger; a wallet is what its accounts say (``selectors.wallets``)."""

from django.db import models
from django.db.models import Q

from billing.domain.holds import PayMode


class Terms(models.Model):
    """The terms of one organisation; without a row it is postpaid, 14 days, at list price."""

    organisation = models.OneToOneField("accounts.Organisation", models.PROTECT, primary_key=True, related_name="terms")
    mode = models.CharField(max_length=8, default=PayMode.POSTPAID)
    payment_days = models.PositiveSmallIntegerField(default=14)
    low_minor = models.BigIntegerField(null=True)  # a notice when less than this is free; null = one hour of what runs
    low_told_at = models.DateTimeField(null=True)  # set by the notice, cleared by a top-up
    discount_ppm = models.IntegerField(default=0)  # off the list price, pinned at placement
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(mode__in=[mode.value for mode in PayMode]), name="terms_mode_known"),
            models.CheckConstraint(
                condition=Q(discount_ppm__gte=0, discount_ppm__lte=1_000_000), name="terms_discount_is_a_share"
            ),
            models.CheckConstraint(condition=Q(payment_days__lte=120), name="terms_payment_days_sane"),
            models.CheckConstraint(condition=Q(low_minor=None) | Q(low_minor__gte=0), name="terms_low_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.organisation_id}: {self.mode}"
