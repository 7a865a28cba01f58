"""Stored, replayable placement decisions."""

from django.db import models

from portal import ids


def new_decision_id() -> str:
    return ids.public_id("dec")


class PlacementDecision(models.Model):
    """All that one choice was made from, and the choice: deciding again on `inputs` gives the same node."""

    public_id = models.CharField(max_length=32, unique=True, default=new_decision_id, editable=False)
    task = models.ForeignKey("scheduling.Task", models.CASCADE, related_name="decisions")
    attempt = models.OneToOneField("scheduling.Attempt", models.CASCADE, null=True, related_name="decision")
    decided_at = models.DateTimeField()
    seed = models.BigIntegerField()
    versions = models.JSONField()  # policy, weights, SCU
    inputs = models.JSONField()  # shortlist rows, limits, floors, request
    digest = models.CharField(max_length=64)  # SHA-256 of the canonical inputs
    front = models.JSONField()  # size, representatives
    choice = models.JSONField()  # node, vector, score, why
    alternatives = models.JSONField(default=list)  # runners-up with Δcost Δtime Δgreen
    seen = models.JSONField(default=dict)  # regions, zones, nodes looked at; cut by what
    refused = models.JSONField(default=list)
    transfer = models.JSONField(default=dict)  # per link: bytes × unit price

    class Meta:
        indexes = [models.Index(fields=["task", "-id"], name="decision_newest")]  # explain

    def __str__(self) -> str:
        return self.public_id
