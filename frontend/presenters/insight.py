"""A month's insight as a page says it: sentences for what is odd, for savings, for energy."""

from typing import Any

from django.utils.translation import gettext as _

from billing.domain import energy
from billing.selectors.insight import Explained, Insight
from frontend.presenters import charts, figures, money_lines, words


def view(found: Insight) -> dict[str, Any]:
    """What the page shows of an insight."""
    odd = {row["day"] for anomaly in found.found for row in _days(found, anomaly)}
    return {
        "chart": charts.days(found.days, odd),
        "anomalies": [_anomaly(row) for row in found.found],
        "hot": [
            {"job": job, "name": name or job, "amount": amount, "share": figures.percent(share)}
            for job, name, amount, share in found.hot
        ],
        "savings": [{"text": _saving(row), "saved": row.saved} for row in found.saved],
        "energy": _energy(found),
    }


def _days(found: Insight, explained: Explained) -> list[dict[str, str]]:
    since, until = explained.anomaly.since, explained.anomaly.until
    return [{"day": day} for day, _amount, _core, _card in found.days if since <= day <= until]


def _anomaly(row: Explained) -> dict[str, Any]:
    anomaly = row.anomaly
    usual = figures.minor(anomaly.usual, row.currency)
    when = anomaly.since if anomaly.days == 1 else f"{anomaly.since} – {anomaly.until}"
    said = _("%(what)s in %(project)s cost %(actual)s; usual is %(usual)s a day.") % {
        "what": money_lines.title(row.resource),
        "project": row.project_name or _("no project"),
        "actual": figures.minor(anomaly.actual, row.currency),
        "usual": usual,
    }
    return {
        "when": when,
        "text": said,
        "excess": figures.minor(anomaly.excess, row.currency),
        "jobs": [{"job": job, "name": name or job, "amount": amount} for job, name, amount in row.jobs],
    }


def _saving(row: Any) -> str:
    if row.kind == "failed_work":
        return _("Work that failed was billed: %(reason)s") % {"reason": words.word("reason", row.where).text}
    if row.kind == "spot":
        return _("%(what)s: you also paid the interruptible price for this; all of it at that price") % {
            "what": row.subject
        }
    return _("%(what)s: all of it where you paid least (%(where)s)") % {
        "what": _subject(row.subject),
        "where": row.where,
    }


def _subject(text: str) -> str:
    """``card A100-80GB, spot`` in the reader's words."""
    capacity, _comma, rental = text.rpartition(", ")
    resource, _space, model = capacity.partition(" ")
    kind = _("spot") if rental == "spot" else _("fixed price")
    return f"{money_lines.title(resource)} {model}, {kind}".replace(" ,", ",")


def _energy(found: Insight) -> list[dict[str, str]]:
    """Three figures with their basis; empty where no power is known."""
    if not found.energy_known_ppm:
        return []
    share = _("for %(share)s of the hours") % {"share": figures.percent(found.energy_known_ppm)}
    carbon = _("for %(share)s of the hours") % {"share": figures.percent(found.carbon_known_ppm)}
    names = {
        "measured × PUE": _("measured × PUE"),
        "measured, machine only": _("measured, machine only"),
        "nameplate × PUE": _("maker's figure × PUE"),
        "nameplate, machine only": _("maker's figure, machine only"),
        "coefficient × PUE": _("published average × PUE"),
        "coefficient, machine only": _("published average, machine only"),
    }
    basis = ", ".join(names.get(name, name) for name in found.bases)
    return [
        {"name": _("Energy"), "value": f"{energy.kwh_text(found.energy_uwh)} kWh", "context": f"{share} · {basis}"},
        {
            "name": _("Carbon, location-based"),
            "value": f"{energy.kg_text(found.carbon_ug)} kg",
            "context": _("CO2e of the grid, %(share)s") % {"share": carbon},
        },
        {
            "name": _("Carbon, market-based"),
            "value": f"{energy.kg_text(found.carbon_market_ug)} kg",
            "context": _("without the offers' green share"),
        },
    ]
