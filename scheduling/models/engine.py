"""Which process runs cycles."""

from django.db import models
from django.db.models import Q


class EngineLeader(models.Model):
    """One row: which process runs cycles now, and until when it may be sure of it. It saves work; guarded commits keep what is right."""

    holder = models.CharField(max_length=64, blank=True)
    until = models.DateTimeField(null=True)
    since = models.DateTimeField(null=True)
    takeovers = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="engine_leader_one_row")]

    def __str__(self) -> str:
        return f"{self.holder} until {self.until}"
