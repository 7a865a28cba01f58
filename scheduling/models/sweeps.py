"""What the last sweep saw: the memory of the watch over silent nodes."""

from django.db import models


class SweepState(models.Model):
    """One row. A sweep locks it, so two recovery workers never judge at once, and whoever sweeps next knows what the
    last one knew.
    """

    run_id = models.CharField(max_length=64, blank=True)  # of the soft store's process; "" = it did not answer
    generation = models.CharField(max_length=40, blank=True)  # our mark in it: gone after FLUSHALL
    swept_at = models.DateTimeField(null=True)
    hearing_since = models.DateTimeField(null=True)  # since when nodes have been heard without a break
    deaf_since = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="sweep_state_one_row")]

    def __str__(self) -> str:
        return f"swept at {self.swept_at}"
