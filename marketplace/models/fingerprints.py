"""Immutable results of the operator suite."""

from enum import StrEnum

from django.db import models
from django.db.models import Q

from marketplace.domain import challenge
from marketplace.models.nodes import Node
from portal import ids


class FingerprintState(StrEnum):
    ACCEPTED = "accepted"
    UNSTABLE = "unstable"
    REFUSED = "refused"


def new_fingerprint_id() -> str:
    return ids.public_id("fgp")


def new_run_id() -> str:
    return ids.public_id("run")


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


class CheckedRun(models.Model):
    """One run that the portal ordered and timed; the rules are in :mod:`marketplace.domain.challenge`."""

    public_id = models.CharField(max_length=32, unique=True, default=new_run_id, editable=False)
    node = models.ForeignKey(Node, models.CASCADE, related_name="checked_runs")
    kind = models.CharField(max_length=10)
    state = models.CharField(max_length=10, default=challenge.State.BEGUN)
    nonce = models.CharField(max_length=64)  # of a stream: the portal's secret, never sent
    size = models.PositiveIntegerField()
    parts = models.PositiveSmallIntegerField()
    short = models.BooleanField(default=False)
    begun_at = models.DateTimeField()
    committed_at = models.DateTimeField(null=True)
    root = models.CharField(max_length=64, blank=True)
    asked = models.JSONField(default=list)  # leaves to show
    measured = models.CharField(max_length=40, blank=True)  # GFLOPS or GB/s by the portal's clock, decimal text
    reason = models.CharField(max_length=40, blank=True)  # why it failed
    used_in = models.ForeignKey(Fingerprint, models.PROTECT, null=True, related_name="runs")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in challenge.State]), name="checked_run_state_known"
            )
        ]
        indexes = [models.Index(fields=["node", "-begun_at"], name="checked_run_newest")]  # those of the last hour

    def __str__(self) -> str:
        return f"{self.kind} {self.public_id} of {self.node}"
