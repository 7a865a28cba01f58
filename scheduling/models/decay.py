"""Sums over ended attempts, from which the decay of nodes and hardware comes. Logarithms in millionths: floats are in no table."""

from django.db import models


class DecaySum(models.Model):
    """Faded Σ and n of one subject: a job name on a hardware type, a (hardware type, task type), or a node."""

    kind = models.CharField(max_length=10)  # name, hardware, node
    subject = models.CharField(max_length=400)
    part = models.CharField(
        max_length=200, blank=True
    )  # of a name: the hardware type; of a hardware type: the task type
    total_micro = models.BigIntegerField(default=0)
    count_micro = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject", "part"], name="decay_sum_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} {self.part}"


class DecayAttempt(models.Model):
    """An ended attempt that was looked at, once. `error_micro`: its y in millionths; null = it said nothing."""

    attempt = models.OneToOneField("scheduling.Attempt", models.CASCADE, related_name="learned")
    scu_micro = models.BigIntegerField(null=True)  # of what it had, without decay
    error_micro = models.BigIntegerField(null=True)
    looked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"learned from {self.attempt}"
