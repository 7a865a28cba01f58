"""What running attempts use, for people to see; nothing is decided or billed by it."""

from django.db import models


class AttemptMetric(models.Model):
    """One sample: counters since the first process, and the memory of that moment."""

    attempt = models.ForeignKey("scheduling.Attempt", models.CASCADE, related_name="metrics")
    at = models.DateTimeField()
    ran_us = models.BigIntegerField()
    cpu_us = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    network_bytes = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["attempt", "at"], name="metric_of_attempt"),  # the chart
            models.Index(fields=["at"], name="metric_age"),  # expiry
        ]

    def __str__(self) -> str:
        return f"{self.attempt} {self.at}"
