"""How far an attempt's counters have been metered."""

from django.db import models


class Meter(models.Model):
    """The last cumulative reading of one resource of one attempt, and how much of it became usage facts.

    `accepted` may stay behind `reported`: what an interval had no room for is offered again with the next one, so the
    jitter of the network costs nobody a microsecond.
    """

    attempt = models.ForeignKey("scheduling.Attempt", models.CASCADE, related_name="meters")
    resource = models.CharField(max_length=12)  # core card memory_gib storage_gib network_byte
    seq = models.PositiveBigIntegerField(default=0)
    reported = models.BigIntegerField(default=0)  # cumulative, resource-microseconds (network_byte: bytes)
    accepted = models.BigIntegerField(default=0)
    count_milli = models.BigIntegerField(default=0)
    proven_until = models.DateTimeField()  # end of the last interval

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "resource"], name="meter_once_per_resource")]

    def __str__(self) -> str:
        return f"{self.resource} of {self.attempt_id}"
