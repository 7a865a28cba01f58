"""Credit notes: what may still be taken back of an invoice, what tax and which shares go with it, and where the money goes.

Tax of a note is half up on its net, never more than the tax that is not credited yet; the note that brings the net to zero takes exactly what is left, of
tax, fee and total. The fee given back = the fee before − the fee on what remains (billing P7). A note first lowers what is open on the invoice, what was paid
goes to the tenant's credit balance. Σ notes ≤ invoice, always.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from portal.kit.errors import Conflict
from portal.kit.money import PPM, Money, half_up, split


@dataclass(frozen=True, slots=True)
class NotedLine:
    """A line of the invoice with what earlier notes took of it."""

    position: int
    provider_ref: str
    net_minor: int
    fee_minor: int
    tax_rate_ppm: int
    noted_net_minor: int = 0
    noted_fee_minor: int = 0

    @property
    def left_minor(self) -> int:
        """What may still be taken back, net; nothing of a line that is itself a correction downwards."""
        return max(0, self.net_minor - self.noted_net_minor)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a note takes of one line."""

    position: int
    provider_ref: str
    net_minor: int
    fee_minor: int

    @property
    def seller_minor(self) -> int:
        return self.net_minor - self.fee_minor


@dataclass(frozen=True, slots=True)
class Standing:
    """An invoice before the note: its totals, its payments, and what earlier notes took."""

    subtotal_minor: int
    tax_minor: int
    payable_minor: int
    paid_minor: int
    credited_minor: int
    noted_net_minor: int
    noted_tax_minor: int

    @property
    def open_minor(self) -> int:
        """What is still asked for."""
        return self.payable_minor - self.paid_minor - self.credited_minor

    @property
    def creditable_minor(self) -> int:
        """What notes may still take back, tax included."""
        return self.subtotal_minor + self.tax_minor - self.noted_net_minor - self.noted_tax_minor


@dataclass(frozen=True, slots=True)
class Note:
    """A credit note before it is written."""

    lines: tuple[Taken, ...]
    net_minor: int
    tax_minor: int
    off_open_minor: int
    to_credit_minor: int

    @property
    def total_minor(self) -> int:
        return self.net_minor + self.tax_minor


class TooMuch(Conflict):
    """More than the invoice still has."""

    code = "credit_exceeds_invoice"


def by_total(lines: Sequence[NotedLine], standing: Standing, total: Money) -> dict[int, int]:
    """Net amounts per position of a note over `total` with tax included: the net follows from the invoice's own tax, then goes over its lines by what is
    left of each, by largest remainder. A total that no net and its rounded tax make up is lowered by the one minor unit that it misses.
    """
    if total.minor <= 0:
        raise TooMuch("a credit note takes back more than nothing", code="bad_amount")
    if total.minor > standing.creditable_minor:
        raise TooMuch(f"at most {Money(standing.creditable_minor, total.currency).text()} can still be credited")
    left = standing.subtotal_minor - standing.noted_net_minor
    net = left if total.minor == standing.creditable_minor else _net_of(total.minor, standing, left)
    if net == 0:
        most = Money(standing.creditable_minor, total.currency).text()
        raise TooMuch(f"so small an amount has no net part: credit more of the {most} that are left", code="bad_amount")
    parts = split(net, [line.left_minor for line in lines])
    return {line.position: part for line, part in zip(lines, parts, strict=True) if part}


def _net_of(total: int, standing: Standing, left: int) -> int:
    """The largest net whose net + tax is not above `total`."""
    net = min(left, half_up(Fraction(total * standing.subtotal_minor, standing.subtotal_minor + standing.tax_minor)))
    while net > 0 and net + tax_of(net, standing) > total:
        net -= 1
    return net


def tax_of(net_minor: int, standing: Standing) -> int:
    """The tax of a note over `net_minor`: its share of the invoice's tax, half up, never more than is left; all that is left with the last net."""
    left = standing.tax_minor - standing.noted_tax_minor
    if standing.noted_net_minor + net_minor == standing.subtotal_minor:
        return left
    return min(left, half_up(Fraction(net_minor * standing.tax_minor, standing.subtotal_minor)))


def write(
    lines: Sequence[NotedLine], wanted: Mapping[int, int], standing: Standing, *, fee_ppm: int, currency: str
) -> Note:
    """The note that takes `wanted` (position → net minor) back; TooMuch names the line that has less."""
    known = {line.position: line for line in lines}
    for position, net in sorted(wanted.items()):
        line = known.get(position)
        if line is None:
            raise TooMuch(f"the invoice has no line {position}", code="bad_line")
        if not 0 < net <= line.left_minor:
            raise TooMuch(f"line {position} has {Money(line.left_minor, currency).text()} left to credit")
    net = sum(wanted.values())
    if net <= 0:
        raise TooMuch("a credit note takes back more than nothing", code="bad_amount")
    if net > standing.subtotal_minor - standing.noted_net_minor:  # lines below zero had lowered the invoice
        most = standing.subtotal_minor - standing.noted_net_minor
        raise TooMuch(f"at most {Money(most, currency).text()} net can still be credited")
    tax = tax_of(net, standing)
    off = min(net + tax, standing.open_minor)
    return Note(tuple(_taken(known, wanted, fee_ppm)), net, tax, off, net + tax - off)


def _taken(known: Mapping[int, NotedLine], wanted: Mapping[int, int], fee_ppm: int) -> list[Taken]:
    """Each line's share of the fee that is given back, per provider."""
    groups: dict[str, list[int]] = {}
    for position in sorted(wanted):
        groups.setdefault(known[position].provider_ref, []).append(position)
    taken = []
    for provider, positions in sorted(groups.items()):
        mine = [line for line in known.values() if line.provider_ref == provider and line.net_minor > 0]
        fee_left = sum(line.fee_minor - line.noted_fee_minor for line in mine)
        net_left = sum(line.left_minor for line in mine)
        back = sum(wanted[position] for position in positions)
        fee = fee_left - half_up(Fraction((net_left - back) * fee_ppm, PPM)) if net_left > back else fee_left
        fee = min(max(fee, 0), fee_left, back)
        for position, part in zip(positions, split(fee, [wanted[p] for p in positions]), strict=True):
            taken.append(Taken(position, provider, wanted[position], part))
    return sorted(taken, key=lambda one: one.position)
