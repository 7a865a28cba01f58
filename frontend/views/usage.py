"""Usage: what was measured in a month, by project, day, provider …, with what it costs where a bill line says so."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from billing.domain.statement import PrintedLine
from billing.selectors import insight as insights
from billing.selectors import periods
from billing.selectors import usage as selectors
from frontend.doors import PageRequest, page, show
from frontend.forms.usage import GROUPS, UsageForm
from frontend.presenters import figures, insight, money_lines
from frontend.presenters.topics import topics_of
from portal import clock
from portal.kit.money import Money
from scheduling.selectors import insights as attempts

SHOWN = 8
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
OF_LINE = {
    "project": "project_ref",
    "department": "department",
    "provider": "provider_ref",
    "region": "region",
    "sku": "sku",
}
"""Groups that a bill line knows, so that they have an amount."""


@page("money.read")
def index(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    known = {row.month: row for row in periods.all_of([home.id], since=LONG_AGO).get(home.id, [])}
    months = [(month, money_lines.month_text(month)) for month in sorted(known, reverse=True)]
    this_month = f"{clock.now():%Y-%m}"
    form = UsageForm(request.GET or None, months=months or [(this_month, money_lines.month_text(this_month))])
    wanted = form.cleaned_data if form.is_valid() else {}
    month = wanted.get("month") or (months[0][0] if months else this_month)
    by = wanted.get("by") or "project"
    form = UsageForm({"month": month, "by": by}, months=months or [(month, money_lines.month_text(month))])
    lines = selectors.of_month(known[month]).lines if month in known else ()
    groups = selectors.summary(home.id, month, by) if month in known else []
    today = clock.now().date()
    context = {
        "form": form,
        "title": money_lines.month_text(month),
        "group_title": dict(GROUPS)[by],
        "rows": rows(groups, lines, by, home.currency),
        "figures": totals(lines, home.currency),
        "topics": topics_of(home),
        "insight": (lambda: insight.view(insights.of_month(home, month))) if month in known else {},
        "elsewhere": (lambda: attempts.elsewhere(home, month, today=today)[:SHOWN]) if month in known else [],
        "idle": (lambda: attempts.idle(home, month)) if month in known else [],
        "downloads": downloads(month, by, known.get(month)),
    }
    return show(request, "usage/index", context)


def downloads(month: str, by: str, period: Any) -> list[dict[str, str]]:
    """Files of a month: its usage as CSV; when it is closed also the monthly statement and the split bill."""
    if period is None:
        return []
    lang = "zh" if (get_language() or "en").startswith("zh") else "en"
    files = [{"name": _("Usage, CSV"), "href": f"/api/v1/usage.csv?month={month}&group_by={by}"}]
    if period.state == "closed":
        for kind, name in (("monthly", _("Monthly statement")), ("split", _("Split bill"))):
            files.append({"name": f"{name}, XLSX", "href": f"/api/v1/statements/{month}/{kind}.xlsx?lang={lang}"})
            files.append({"name": f"{name}, CSV", "href": f"/api/v1/statements/{month}/{kind}.csv?lang={lang}"})
    return files


def rows(groups: Iterable[Any], lines: Iterable[PrintedLine], by: str, currency: str) -> list[dict[str, Any]]:
    """One row a group: hours, transfer, green share, and the amount where lines know the group."""
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        row = found.setdefault(
            group.key, {"name": group.name or _("none"), "key": group.key, "quantities": defaultdict(int)}
        )
        row["quantities"][group.resource] += group.qty_us
    amounts: dict[str, int] = defaultdict(int)
    of_key: dict[str, list[PrintedLine]] = defaultdict(list)
    if by in OF_LINE:
        for line in lines:
            key = getattr(line, OF_LINE[by])
            amounts[key] += line.amount.minor
            of_key[key].append(line)
    whole = sum(amounts.values())
    return [
        {
            "name": row["name"],
            "sub": row["key"] if row["key"] != row["name"] and by in ("job", "project", "provider") else "",
            "core_us": row["quantities"].get("core", 0),
            "card_us": row["quantities"].get("card", 0),
            "gigabytes": figures.gigabytes(row["quantities"].get("network_byte", 0)),
            "green_ppm": money_lines.green_ppm(of_key[key]),
            "amount": Money(amounts[key], currency) if by in OF_LINE else None,
            "share": round(100 * amounts[key] / whole) if whole else 0,
        }
        for key, row in found.items()
    ]


def totals(lines: Iterable[PrintedLine], currency: str) -> list[dict[str, str]]:
    """The four figures above the table."""
    lines = list(lines)
    quantity: dict[str, int] = defaultdict(int)
    free: dict[str, int] = defaultdict(int)
    amount = Money(0, currency)
    for line in lines:
        quantity[line.resource] += line.qty_us
        free[line.resource] += line.qty_us if line.unbilled_reason else 0
        amount = amount + line.amount
    given = _("%(hours)s of them cost nothing: the node or the platform failed")
    plain = _("measured to the second")
    return [
        {"name": _("Amount"), "value": figures.money(amount), "context": _("before tax")},
        {
            "name": _("Core-hours"),
            "value": figures.hours(quantity["core"]),
            "context": given % {"hours": figures.hours(free["core"])} if free["core"] else plain,
        },
        {
            "name": _("Card-hours"),
            "value": figures.hours(quantity["card"]),
            "context": given % {"hours": figures.hours(free["card"])} if free["card"] else plain,
        },
        {
            "name": _("Green power"),
            "value": figures.percent(money_lines.green_ppm(lines)),
            "context": _("of the hours with a known share"),
        },
    ]
