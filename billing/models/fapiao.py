"""Requests for a fapiao (发票): we keep and export the record; the tax bureau's system issues it, an operator notes its number."""

from django.db import models
from django.db.models import Q

from billing.domain.fapiao import FapiaoKind, FapiaoState
from portal import ids


def new_fapiao_id() -> str:
    return ids.public_id("fap")


class FapiaoRequest(models.Model):
    """One request for one invoice: the buyer as it stood, and what became of it."""

    public_id = models.CharField(max_length=32, unique=True, default=new_fapiao_id, editable=False)
    invoice = models.ForeignKey("billing.Invoice", models.PROTECT, related_name="fapiao_requests")
    kind = models.CharField(max_length=8)  # normal, special
    state = models.CharField(max_length=10, default=FapiaoState.REQUESTED)
    buyer_name = models.CharField(max_length=120)
    buyer_code = models.CharField(max_length=18)  # 统一社会信用代码
    buyer_contact = models.CharField(max_length=200, blank=True)  # 地址电话
    buyer_bank = models.CharField(max_length=200, blank=True)  # 开户行账号
    email = models.EmailField(blank=True)
    number = models.CharField(max_length=20, blank=True)  # 发票号码
    red_number = models.CharField(max_length=20, blank=True)  # of the red-letter fapiao that took it back
    reason = models.CharField(max_length=200, blank=True)  # why it was refused or reversed
    requested_by = models.CharField(max_length=80)
    requested_at = models.DateTimeField()
    ended_by = models.CharField(max_length=80, blank=True)
    issued_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in FapiaoState]), name="fapiao_state_known"),
            models.CheckConstraint(condition=Q(kind__in=[k.value for k in FapiaoKind]), name="fapiao_kind_known"),
            models.UniqueConstraint(
                fields=["invoice"],
                condition=Q(state__in=[FapiaoState.REQUESTED, FapiaoState.ISSUED]),
                name="fapiao_once_per_invoice",
            ),
        ]

    def __str__(self) -> str:
        return self.number or self.public_id
