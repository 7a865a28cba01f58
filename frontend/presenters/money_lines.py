"""Printed lines as page rows: the same for a job's cost, the upcoming month and an issued invoice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from billing.domain.statement import PrintedLine
from frontend.presenters import figures, words
from portal.kit.money import Money


def unit(resource: str) -> str:
    return {
        "core": _("core-hours"),
        "card": _("card-hours"),
        "memory_gib": _("GiB-hours"),
        "storage_gib": _("GiB-hours"),
        "network_byte": _("GB"),
    }.get(resource, resource)


@dataclass(frozen=True, slots=True)
class LineRow:
    """One line of money as a page shows it."""

    position: int
    title: str
    detail: str
    quantity: str
    price: str
    amount: Money
    project: str
    department: str
    provider: str
    virtual: bool
    demo: bool
    reason: str
    node: str
    href: str = ""


def bounds(period: Any) -> dict[str, Any]:
    """The half-open month of an invoice in its own zone, with its true length: a month with a clock change has an hour more or less."""
    zone = ZoneInfo(period.timezone)
    ends = [
        {"utc": f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", "local": f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"}
        for moment in (period.starts_at, period.ends_at)
    ]
    hours = (period.ends_at - period.starts_at) / timedelta(hours=1)
    return {"ends": ends, "zone": period.timezone, "hours": f"{hours:g}"}


def row(line: PrintedLine, href: str = "", names: Mapping[str, str] | None = None) -> LineRow:
    """A printed line. `names`: of nodes by id, where the page knows them."""
    spot = line.sku.rsplit(":", 1)[-1] == "spot"
    detail = [part for part in (line.hardware_model, line.zone or line.region) if part and part != "-"]
    if spot:
        detail.append(_("spot"))
    if line.correction_of:
        detail.append(_("correction of %(month)s") % {"month": line.correction_of})
    if line.green_ratio_ppm is not None:
        detail.append(_("%(share)s green power") % {"share": figures.percent(line.green_ratio_ppm)})
    return LineRow(
        position=line.position,
        title=title(line.resource),
        detail=" · ".join(detail),
        quantity=f"{figures.grouped(line.quantity)} {unit(line.resource)}",
        price=figures.unit_price(line.price_micro, line.amount.currency),
        amount=line.amount,
        project=line.project_name,
        department=line.department,
        provider=line.provider_name,
        virtual=line.virtual,
        demo=line.demo,
        reason=str(words.word("reason", line.unbilled_reason).text) if line.unbilled_reason else "",
        node=(names or {}).get(line.node_ref, line.node_ref) or _("unknown node"),
        href=href,
    )


def title(resource: str) -> str:
    return {
        "core": _("Processor cores"),
        "card": _("Cards"),
        "memory_gib": _("Memory"),
        "storage_gib": _("Storage"),
        "network_byte": _("Data transfer"),
    }.get(resource, resource)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Lines of one department, with their sum: a split bill."""

    title: str
    lines: list[LineRow]
    total: Money


def by_department(lines: Sequence[LineRow], currency: str) -> list[GroupRow]:
    """Lines grouped by department, those without one under the organisation itself."""

    def key(line: LineRow) -> str:
        return line.department

    ordered = sorted(lines, key=lambda line: (line.department == "", line.department, line.position))
    return [
        GroupRow(department or _("Without department"), found, _sum(found, currency))
        for department, found in ((name, list(group)) for name, group in groupby(ordered, key))
    ]


def _sum(lines: Iterable[LineRow], currency: str) -> Money:
    total = Money(0, currency)
    for line in lines:
        total = total + line.amount
    return total


def green_ppm(lines: Iterable[PrintedLine]) -> int | None:
    """The green share of the core- and card-hours for which one is known; None if it is known for none."""
    known = [
        (line.qty_us * line.green_known_ppm, line.green_ratio_ppm)
        for line in lines
        if line.green_ratio_ppm is not None and line.resource in ("core", "card")
    ]
    weight = sum(quantity for quantity, _ratio in known)
    return sum(quantity * ratio for quantity, ratio in known) // weight if weight else None


def month_text(month: str) -> str:
    """2026-11 → November 2026, 2026年11月."""
    year, _dash, number = month.partition("-")
    names = {
        1: _("January"), 2: _("February"), 3: _("March"), 4: _("April"), 5: pgettext("month", "May"), 6: _("June"),
        7: _("July"), 8: _("August"), 9: _("September"), 10: _("October"), 11: _("November"), 12: _("December"),
    }  # fmt: skip
    return _("%(month)s %(year)s") % {"month": names[int(number)], "year": year}


def verification(checked: Any) -> dict[str, Any]:
    """The result of computing an invoice again, in words."""
    if checked.ok:
        return {
            "ok": True,
            "title": _("The invoice is right."),
            "text": _(
                "%(lines)s lines were computed again from their usage records; the total is %(total)s both times."
            )
            % {"lines": len(checked.lines), "total": figures.money(checked.total)},
        }
    wrong = ", ".join(str(line.position) for line in checked.lines if not line.ok)
    problems = [*checked.problems, *([_("lines %(lines)s differ") % {"lines": wrong}] if wrong else [])]
    return {
        "ok": False,
        "title": _("The invoice does not agree with its records."),
        "text": _("Computed again it is %(again)s, printed is %(printed)s: %(problems)s")
        % {
            "again": figures.money(checked.recomputed_total),
            "printed": figures.money(checked.total),
            "problems": "; ".join(problems),
        },
    }
