"""Immutable results of the operator suite."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from marketplace.models.nodes import Node
from portal import ids


class FingerprintState(StrEnum):
    ACCEPTED = "accepted"
    UNSTABLE = "unstable"
    REFUSED = "refused"


def new_fingerprint_id() -> str:
    return ids.public_id("fgp")


class Fingerprint(models.Model):
    """One measurement of one node; append-only. Metrics are decimal text, so they stay exactly as reported."""

    public_id = models.CharField(max_length=32, unique=True, default=new_fingerprint_id, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="fingerprints")
    suite = models.CharField(max_length=20)  # name and version of the suite
    short = models.BooleanField(default=False)  # one pass, no limit on spread
    state = models.CharField(max_length=10)
    reason = models.CharField(max_length=200, blank=True)
    metrics = models.JSONField()  # {"gemm_tflops": "0.0912", "triad_gbps": …, "operators": {…}}
    hardware_hash = models.CharField(max_length=64)
    measured_at = models.DateTimeField()
    valid_until = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in FingerprintState]), name="fingerprint_state_known"
            )
        ]
        indexes = [models.Index(fields=["node", "-measured_at"], name="fingerprint_newest")]  # the valid one of a node

    def __str__(self) -> str:
        return f"{self.public_id} of {self.node}"
