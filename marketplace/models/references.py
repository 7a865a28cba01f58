"""Other markets' published prices: shown as such, never in a quote."""

from django.db import models

from portal import ids


def new_reference_id() -> str:
    return ids.public_id("ref")


class ReferencePrice(models.Model):
    """One row of a published price list, with its source and date."""

    public_id = models.CharField(max_length=32, unique=True, default=new_reference_id, editable=False)
    market = models.CharField(max_length=60)  # whose list
    name = models.CharField(max_length=120)  # the instance type
    region = models.CharField(max_length=80, blank=True)
    card_model = models.CharField(max_length=80, blank=True)
    cards = models.PositiveIntegerField(default=0)
    card_memory_gib = models.PositiveIntegerField(null=True)
    cores = models.PositiveIntegerField(null=True)
    memory_gib = models.PositiveIntegerField(null=True)
    price_micro = models.BigIntegerField()  # micro-currency per hour of the whole instance
    spot_price_micro = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3)
    source = models.CharField(max_length=200)
    licence = models.CharField(max_length=40)
    listed_on = models.DateField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["market", "name", "region", "listed_on"], name="reference_once")]
        indexes = [
            models.Index(fields=["card_model", "price_micro"], name="reference_by_card")
        ]  # reference tab of the market page

    def __str__(self) -> str:
        return f"{self.market} {self.name}"
