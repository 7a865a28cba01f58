"""What is printed: one line looks the same in the API, on the page, in JSON, CSV and PDF.

A printed line is built from a rated line (what is coming) or from a stored one (what was issued). Amounts are decimal text of whole minor units;
quantities are printed in unit-hours with four decimals, beside the exact whole number.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from billing.domain.metering import Resource
from billing.domain.rating import Line
from portal.kit.money import GIGABYTE, Money, micro_text
from portal.kit.quantities import US_PER_HOUR

UNITS = {
    Resource.CORE: "core-hour",
    Resource.CARD: "card-hour",
    Resource.MEMORY_GIB: "GiB-hour",
    Resource.STORAGE_GIB: "GiB-hour",
    Resource.NETWORK_BYTE: "GB",
}
PLACES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedLine:
    """A line as people read it."""

    position: int
    correction_of: str
    project_ref: str
    project_name: str
    department: str
    provider_ref: str
    provider_name: str
    resource: str
    sku: str
    hardware_model: str
    region: str
    zone: str
    virtual: bool
    demo: bool
    price_version_ref: str
    price_micro: int
    tier: int
    discount_ppm: int
    qty_us: int
    amount_micro: int
    list_amount: Money
    amount: Money
    tax_rate_ppm: int
    unbilled_reason: str
    node_ref: str
    attempt_ref: str
    green_ratio_ppm: int | None
    green_known_ppm: int
    first_at: datetime
    last_at: datetime
    grant_ref: str = ""

    @property
    def unit(self) -> str:
        """core-hour, card-hour, GiB-hour or GB."""
        return UNITS[Resource(self.resource)]

    @property
    def quantity(self) -> str:
        """The quantity in units, four decimals."""
        return quantity_text(self.resource, self.qty_us, PLACES)

    @property
    def unit_price(self) -> str:
        """The price of one unit, decimal text."""
        return micro_text(self.price_micro)

    @property
    def label(self) -> str:
        """``Correction Oct`` for a line that corrects a closed month; else empty."""
        return correction_label(self.correction_of)

    @property
    def description(self) -> str:
        """What was used, in a few words: ``card A100-80GB, spot``, ``network_byte``; a line of 0 says why."""
        words = [f"{self.resource} {self.hardware_model}".strip()]
        words += [self.sku.rpartition(":")[2]] if self.sku.count(":") == 2 else []
        words += [text for text in (self.label, "virtual" * self.virtual, self.unbilled_reason, self.granted) if text]
        return ", ".join(words)

    @property
    def granted(self) -> str:
        """``granted hours`` for a line that a grant covers; else empty."""
        return "granted hours" if self.grant_ref else ""

    def wire(self) -> dict[str, Any]:
        """The JSON form: of the document, and of the API."""
        return {
            "n": self.position,
            "description": self.description,
            "correction_of": self.correction_of or None,
            "label": self.label or None,
            "project": {"id": self.project_ref, "name": self.project_name, "department": self.department},
            "provider": {"id": self.provider_ref, "name": self.provider_name},
            "resource": self.resource,
            "sku": self.sku,
            "hardware_model": self.hardware_model or None,
            "region": self.region,
            "zone": self.zone,
            "virtual": self.virtual,
            "demo": self.demo,
            "price_version": self.price_version_ref,
            "unit": self.unit,
            "unit_price": self.unit_price,
            "tier": self.tier or None,
            "discount": ppm_text(self.discount_ppm),
            "quantity": self.quantity,
            "qty_us": self.qty_us,
            "list_amount": self.list_amount.text(),
            "amount": self.amount.text(),
            "tax_rate": ppm_text(self.tax_rate_ppm),
            "unbilled_reason": self.unbilled_reason or None,
            "node": self.node_ref or None,
            "attempt": self.attempt_ref or None,
            "grant": self.grant_ref or None,
            "green_ratio": None if self.green_ratio_ppm is None else ppm_text(self.green_ratio_ppm),
            "green_known": ppm_text(self.green_known_ppm),
            "first_at": iso(self.first_at),
            "last_at": iso(self.last_at),
        }


def printed(line: Line, *, position: int, tax_rate_ppm: int) -> PrintedLine:
    """A rated line as it is printed. Its names are those of its latest record."""
    named, key = line.named, line.key
    return PrintedLine(
        position=position,
        correction_of=key.correction_of,
        project_ref=key.project_ref,
        project_name=named.project_name,
        department=key.department,
        provider_ref=key.provider_ref,
        provider_name=named.provider_name,
        resource=line.resource,
        sku=key.sku,
        hardware_model=named.hardware_model,
        region=named.region,
        zone=key.zone,
        virtual=key.virtual,
        demo=key.demo,
        price_version_ref=key.price_version_ref,
        price_micro=key.price_micro,
        tier=key.tier,
        discount_ppm=key.discount_ppm,
        qty_us=line.qty_us,
        amount_micro=line.exact.micro(),
        list_amount=line.list_amount,
        amount=line.amount,
        tax_rate_ppm=tax_rate_ppm,
        unbilled_reason=key.unbilled_reason,
        node_ref=key.node_ref,
        attempt_ref=key.attempt_ref,
        grant_ref=key.grant_ref,
        green_ratio_ppm=line.green_ratio_ppm,
        green_known_ppm=line.green_known_ppm,
        first_at=line.first,
        last_at=line.last,
    )


def quantity_text(resource: str, quantity: int, places: int) -> str:
    """A quantity in unit-hours (bytes: in decimal gigabytes) with `places` decimals, half away from zero."""
    per = GIGABYTE if resource == Resource.NETWORK_BYTE else US_PER_HOUR
    whole = (2 * abs(quantity) * 10**places + per) // (2 * per)
    text = str(whole).rjust(places + 1, "0")
    return ("-" if quantity < 0 and whole else "") + f"{text[:-places]}.{text[-places:]}"


def ppm_text(ppm: int) -> str:
    """Parts per million as a decimal share: 60000 → ``0.06``."""
    return micro_text(ppm)


def percent_text(ppm: int) -> str:
    """Parts per million as per cent without needless zeros: 60000 → ``6``, 62500 → ``6.25``."""
    whole, places = divmod(ppm, 10_000)
    return f"{whole}.{places:04d}".rstrip("0").rstrip(".")


def correction_label(month: str) -> str:
    """``2026-10`` → ``Correction Oct``."""
    if not month:
        return ""
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return f"Correction {names[int(month[5:]) - 1]}"


def iso(moment: datetime) -> str:
    """RFC 3339 in UTC with ``Z``."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def canonical(document: Mapping[str, Any]) -> bytes:
    """A document as bytes: sorted keys, no needless space, UTF-8; equal content gives equal bytes."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
