"""The platform's fee and the seller's share: they always add up to the line.

The fee is rounded half up once per (invoice, provider) on the sum of its net lines, then laid over the lines by largest remainder. Negative lines
(corrections) are a group of their own, so what was taken is given back by the same rule (billing P7).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from portal.kit.money import PPM, half_up, split


@dataclass(frozen=True, slots=True)
class Shares:
    """One line's net amount in two parts."""

    fee_minor: int
    seller_minor: int


def shares(lines: Sequence[tuple[str, int]], fee_ppm: int) -> list[Shares]:
    """Fee and seller's share of each (provider, net minor) line, in the given order."""
    if not 0 <= fee_ppm <= PPM:
        raise ValueError("a fee lies between 0 and 1,000,000 ppm")
    fees = [0] * len(lines)
    groups: dict[tuple[str, bool], list[int]] = {}
    for index, (provider, net) in enumerate(lines):
        if net:
            groups.setdefault((provider, net < 0), []).append(index)
    for members in groups.values():
        nets = [lines[i][1] for i in members]
        fee = half_up(Fraction(sum(nets) * fee_ppm, PPM))
        for index, part in zip(members, split(fee, [abs(net) for net in nets]), strict=True):
            fees[index] = part
    return [Shares(fee, net - fee) for fee, (_, net) in zip(fees, lines, strict=True)]
