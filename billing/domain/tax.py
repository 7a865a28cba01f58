"""Tax: once per rate, on the subtotal of that rate, never per line (3 × 0.09 at 6 % is 0.02, not 0.03)."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from portal.kit.money import PPM, half_up


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
