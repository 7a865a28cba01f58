"""What rolled-up usage costs, exactly for plain prices and closely for tiers (whose order of use the roll-up does not keep)."""

import json

from billing.domain import rating, tiers
from billing.domain.metering import Resource
from portal.kit.money import Exact


def amount(
    tier_text: str,
    price_micro: int,
    resource: str,
    sku: str,
    quantity: int,
    discount_ppm: int,
    currency: str,
    places: dict[str, int],
) -> Exact:
    """The exact amount of a quantity; `places` holds what each sku has used of its tiers so far and is moved on."""
    if tier_text == "[]" or resource == Resource.NETWORK_BYTE:
        return rating.exact(resource, quantity, price_micro, currency, discount_ppm)
    steps = tiers.parse(json.loads(tier_text))
    position = places.get(sku, 0)
    places[sku] = position + quantity
    total = rating.exact(resource, 0, price_micro, currency)
    for piece in tiers.slices(steps, price_micro, position_us=position, qty_us=quantity):
        total = total + rating.exact(resource, piece.qty_us, piece.price_micro, currency, discount_ppm)
    return total
