"""The front of a quote as a table: what each point costs, when it would be finished, how green it is, what is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from ..models import Point, Quote, Row, money_text, text
from ..words import N_, t
from .session import plain

CONFIDENCE = {"high": N_("high"), "medium": N_("medium"), "low": N_("low")}


def seconds(value: Any) -> str:
    """`1 h 04 min`, `42 s`."""
    try:
        whole = round(float(value))
    except (TypeError, ValueError):
        return plain(value)
    if whole < 120:
        return t("{n} s", n=whole)
    if whole < 7200:
        return t("{m} min {s} s", m=whole // 60, s=f"{whole % 60:02d}")
    return t("{h} h {m} min", h=whole // 3600, m=f"{whole % 3600 // 60:02d}")


def share(value: Any) -> str:
    """`63 %` of 0…1."""
    try:
        return f"{float(value) * 100:.0f} %"
    except (TypeError, ValueError):
        return plain(value)


def size(value: Any) -> str:
    """Decimal sizes, as transfer is priced."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return plain(value)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def expected(point: Point) -> str:
    return money_text(point.cost.get("expected"))


def finish(point: Point) -> Any:
    return point.values.get("time_s", point.values.get("time"))


def green(point: Point) -> Any:
    return point.raw.get("green_ratio", point.values.get("green_ratio", point.values.get("green")))


def moved(point: Point) -> str:
    transfer: Any = point.raw.get("transfer")
    if isinstance(transfer, Mapping):
        cost = transfer.get("cost")
        return f"{size(transfer.get('bytes'))}{' · ' + money_text(cost) if cost else ''}"
    return plain(transfer if transfer is not None else point.values.get("transfer"))


def table(quote: Quote) -> Table:
    out = Table(
        title=t("Front: {n} placements, none better than another in everything", n=len(quote.points)),
        title_justify="left",
    )
    for heading in (
        "#",
        t("node"),
        t("region"),
        t("cost (low – high)"),
        t("finished in"),
        t("green"),
        t("data moved"),
        t("best at"),
    ):
        out.add_column(heading)
    for point in quote.points:
        low, high = money_text(point.cost.get("low")), money_text(point.cost.get("high"))
        mark = "→ " if point.index == quote.pick else "  "
        cells = (
            f"{mark}{point.index}",
            point.node,
            "/".join(part for part in (point.region, point.zone.split("/")[-1]) if part),
            f"{expected(point)} ({low.split(' ')[0]} – {high.split(' ')[0]})",
            seconds(finish(point)),
            share(green(point)),
            moved(point),
            ", ".join(point.roles) or "–",
        )
        out.add_row(*[Text(cell) for cell in cells], style="bold" if point.index == quote.pick else None)
    return out


def why(reason: Any) -> str:
    """The choice's reason as a sentence."""
    if isinstance(reason, Mapping):
        return text(reason.get("text") or reason.get("sentence") or reason.get("message")) or plain(
            {k: v for k, v in reason.items() if v not in (None, "", [])}
        )
    return text(reason)


def foreseen(quote: Quote) -> list[str]:
    """What the portal guessed of the job: its kind and why, how long it will run and how sure that is."""
    said = []
    kind: Any = quote.raw.get("task_type")
    if isinstance(kind, Mapping):
        found = text(kind.get("found"))
        because = (
            t("because of {found}", found=found) if found else t("earlier runs") if kind.get("sure") else t("no clue")
        )
        said.append(
            t(
                "Kind of work, guessed: {kind} ({because}); task_type overrides it.",
                kind=kind.get("kind"),
                because=because,
            )
        )
    run: Any = quote.raw.get("run_time")
    if isinstance(run, Mapping):
        if run.get("seconds") is None:
            said.append(t("Run time unknown: counted with {most}.", most=seconds(run.get("assumed_s"))))
        else:
            sure = text(run.get("confidence"))
            said.append(
                t(
                    "Run time from {n} earlier runs: {low} – {high}, confidence {sure}.",
                    n=run.get("runs"),
                    low=seconds(run.get("low_s")),
                    high=seconds(run.get("high_s")),
                    sure=t(CONFIDENCE.get(sure, sure)),
                )
            )
    return said


def refusals(refused: list[Row]) -> Table:
    """How many places each reason left out."""
    out = Table(title=t("Left out"), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in (t("tier"), t("count"), t("reason"), t("asked"), t("best")):
        out.add_column(heading)
    for row in refused:
        unit = text(row.get("unit"))
        cells = (
            text(row.get("tier")),
            text(row.get("count")),
            text(row.get("text") or row.get("reason")),
            f"{plain(row.get('asked'))} {unit}".strip(),
            f"{plain(row.get('best'))} {unit}".strip(),
        )
        out.add_row(*[Text(cell) for cell in cells])
    return out
