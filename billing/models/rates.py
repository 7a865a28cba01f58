"""Exchange rates: dated, with their source. They compare and display; nothing is ever paid or credited by them."""

from django.db import models
from django.db.models import F, Q

from portal.kit.money import CURRENCIES


class ExchangeRate(models.Model):
    """1 `base` = `rate_nano` / 10⁹ `quote` on that day; append-only, a later row of the same day corrects it."""

    day = models.DateField()
    base = models.CharField(max_length=3)
    quote = models.CharField(max_length=3)
    rate_nano = models.BigIntegerField()
    source = models.CharField(max_length=120)
    entered_by = models.CharField(max_length=80)
    entered_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(rate_nano__gt=0), name="exchange_rate_positive"),
            models.CheckConstraint(
                condition=Q(base__in=sorted(CURRENCIES), quote__in=sorted(CURRENCIES)) & ~Q(base=F("quote")),
                name="exchange_rate_of_two_known_currencies",
            ),
        ]
        indexes = [models.Index(fields=["base", "quote", "-day", "-id"], name="exchange_rate_latest")]

    def __str__(self) -> str:
        return f"{self.day} {self.base}/{self.quote}"
