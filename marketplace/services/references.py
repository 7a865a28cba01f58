"""Other markets' published prices: loaded with their source, licence and date. Shown as such, never in a quote."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.db import transaction

from marketplace.domain.pricing import read_price
from marketplace.models import ReferencePrice
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES


@dataclass(frozen=True)
class Listing:
    """One row of a published list; prices as decimal text per hour of the whole instance."""

    name: str
    price: str
    currency: str
    region: str = ""
    card_model: str = ""
    cards: int = 0
    card_memory_gib: int | None = None
    cores: int | None = None
    memory_gib: int | None = None
    spot_price: str = ""


def load(
    *, market: str, listings: Sequence[Listing], source: str, licence: str, listed_on: date, by: str, now: datetime
) -> int:
    """Add a list; rows that are known by (market, name, region, date) stay as they are. Returns how many are new."""
    rows, findings = [], []
    for index, listing in enumerate(listings):
        try:
            if listing.currency not in CURRENCIES:
                raise ValueError(f"currency {listing.currency}")
            price = read_price(listing.price)
            spot = read_price(listing.spot_price) if listing.spot_price else None
        except ValueError as error:
            findings.append(Finding(f"listings[{index}]", "bad_price", str(error)))
            continue
        rows.append(
            ReferencePrice(
                market=market,
                name=listing.name,
                region=listing.region,
                card_model=listing.card_model,
                cards=listing.cards,
                card_memory_gib=listing.card_memory_gib,
                cores=listing.cores,
                memory_gib=listing.memory_gib,
                price_micro=price,
                spot_price_micro=spot,
                currency=listing.currency,
                source=source,
                licence=licence,
                listed_on=listed_on,
            )
        )
    if findings:
        raise InvalidInput(findings)
    with transaction.atomic():
        before = ReferencePrice.objects.filter(market=market).count()
        ReferencePrice.objects.bulk_create(rows, ignore_conflicts=True)
        new = ReferencePrice.objects.filter(market=market).count() - before
        note(actor=by, deed="references.load", target=market, data={"rows": new, "source": source}, now=now)
    return new
