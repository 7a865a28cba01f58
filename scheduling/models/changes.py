"""That something for sale changed: one row per change, for the market that processes keep (``selectors.kept``)."""

from django.db import models


class MarketChange(models.Model):
    """Written by triggers only. `node_id` is the node whose offer, price, card or fingerprint changed; NULL = every node."""

    node_id = models.BigIntegerField(null=True)
    changed_in = models.BigIntegerField()  # transaction id
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["changed_in"], name="market_changed")]  # deltas of the snapshot

    def __str__(self) -> str:
        return f"change of node {self.node_id}"
