"""What of a node is free: the one row that guards its capacity."""

from django.db import models
from django.db.models import F, Q


class NodeState(models.Model):
    """Free and total capacity of a listed node. Guarded writes say ``free >= x``; checks stand behind them."""

    node = models.OneToOneField("marketplace.Node", models.CASCADE, primary_key=True, related_name="capacity")
    total_cores_milli = models.IntegerField()
    total_memory_mib = models.IntegerField()
    total_disk_gib = models.IntegerField()
    total_cards = models.IntegerField()
    free_cores_milli = models.IntegerField()
    free_memory_mib = models.IntegerField()
    free_disk_gib = models.IntegerField()
    free_cards = models.IntegerField()
    open = models.BooleanField(default=True)  # takes new work (listed, not draining)
    kept_for = models.CharField(max_length=32, blank=True)  # task public id a preemption freed it for
    kept_until = models.DateTimeField(null=True)
    changed_in = models.BigIntegerField(default=0)  # transaction id of the last change, set by a trigger
    decay_micro = models.BigIntegerField(default=0)  # e of the node: logarithm in millionths
    hardware_decay = models.JSONField(default=dict)  # H: {card model, or "" for processors: {task type: millionths}}
    version = models.PositiveBigIntegerField(default=0)
    silent_since = models.DateTimeField(null=True)  # not heard since; for people, nothing is decided by it
    silence_told = models.BooleanField(default=False)
    last_sync_at = models.DateTimeField(null=True)  # last sync that reached PostgreSQL; the live value is soft state

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(free_cores_milli__gte=0, free_memory_mib__gte=0, free_disk_gib__gte=0, free_cards__gte=0),
                name="capacity_never_negative",
            ),
            models.CheckConstraint(
                condition=Q(
                    free_cores_milli__lte=F("total_cores_milli"),
                    free_memory_mib__lte=F("total_memory_mib"),
                    free_disk_gib__lte=F("total_disk_gib"),
                    free_cards__lte=F("total_cards"),
                ),
                name="capacity_never_above_total",
            ),
        ]
        indexes = [models.Index(fields=["changed_in"], name="capacity_changed")]  # deltas of the snapshot

    def __str__(self) -> str:
        return f"capacity of {self.node_id}"
