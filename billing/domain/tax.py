"""Tax: once per rate, on the subtotal of that rate, never per line (3 × 0.09 at 6 % is 0.02, not 0.03).

Which rate holds is decided per tenant and copied into each invoice:

==========================================================  ========  ===========================================
issuer and tenant                                           category  rate
==========================================================  ========  ===========================================
both with a VAT id, in two states of the European Union     ``AE``    0: reverse charge, the tenant owes the tax
the rate of the platform is above 0                         ``S``     that rate
rate 0, the issuer has no tax id                            ``O``     0: not subject to tax
rate 0, tenant outside the European Union                   ``G``     0: supplied to another territory
rate 0 otherwise                                            ``Z``     0
==========================================================  ========  ===========================================

The codes are those of EN 16931 (UNTDID 5305).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from portal.kit.money import PPM, half_up

EU = frozenset([
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IT", "LT", "LU", "LV",
    "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK",
])  # fmt: skip
VAT_PREFIX = {"GR": "EL"}
"""Where a VAT id begins otherwise than with the country's code."""


class Category(StrEnum):
    STANDARD = "S"
    ZERO = "Z"
    REVERSE = "AE"
    EXPORT = "G"
    OUTSIDE = "O"


@dataclass(frozen=True, slots=True)
class Treatment:
    """How a tenant is taxed: a rate in parts per million and its category."""

    rate_ppm: int
    category: Category

    @property
    def reverse_charge(self) -> bool:
        return self.category is Category.REVERSE


@dataclass(frozen=True, slots=True)
class Party:
    """Who sells or buys, as far as tax asks: ISO 3166 country and tax id; empty = not known."""

    country: str = ""
    tax_id: str = ""

    @property
    def vat(self) -> bool:
        """Whether it has a VAT id of its own state of the European Union."""
        prefix = VAT_PREFIX.get(self.country, self.country)
        return self.country in EU and self.tax_id.replace(" ", "").upper().startswith(prefix)


def treat(*, rate_ppm: int, issuer: Party, tenant: Party) -> Treatment:
    """The treatment of a tenant by the table of this module; ValueError for a negative rate."""
    if rate_ppm < 0:
        raise ValueError("a tax rate is not negative")
    if issuer.vat and tenant.vat and issuer.country != tenant.country:
        return Treatment(0, Category.REVERSE)
    if rate_ppm:
        return Treatment(rate_ppm, Category.STANDARD)
    if not issuer.tax_id:
        return Treatment(0, Category.OUTSIDE)
    return Treatment(0, Category.ZERO if tenant.country in EU else Category.EXPORT)


@dataclass(frozen=True, slots=True)
class Tax:
    """The tax of one rate, snapshotted into the document."""

    rate_ppm: int
    taxable_minor: int
    tax_minor: int


def of_lines(lines: Iterable[tuple[int, int]]) -> list[Tax]:
    """One Tax per rate of (net minor, rate ppm) lines, lowest rate first; a rate of 0 has none."""
    taxable: dict[int, int] = {}
    for net, rate_ppm in lines:
        if rate_ppm < 0:
            raise ValueError("a tax rate is not negative")
        if rate_ppm:
            taxable[rate_ppm] = taxable.get(rate_ppm, 0) + net
    return [Tax(rate, net, half_up(Fraction(net * rate, PPM))) for rate, net in sorted(taxable.items())]


def included(gross_minor: int, rate_ppm: int) -> tuple[int, int]:
    """(net, tax) of a price that includes its tax."""
    net = half_up(Fraction(gross_minor * PPM, PPM + rate_ppm))
    return net, gross_minor - net
