"""Charts as plain SVG that the server draws: no script, no library, the same figures in a table below.

Bars are whole numbers in a box of 640 × 170; the style sheet gives them their colours, and an odd bar has a mark of its own, as colour never speaks alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.utils.translation import gettext as _

from frontend.presenters import figures
from portal.kit.money import Money
from portal.kit.quantities import US_PER_HOUR

WIDTH, HEIGHT, TOP, BOTTOM, LEFT = 640, 170, 18, 22, 4
LABELLED = 7
"""Every so many days have their number under them."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One day: its rectangle, whether it is odd, its number where it is printed, and what it says when pointed at."""

    x: int
    y: int
    width: int
    height: int
    middle: int
    odd: bool
    label: str
    text: str


def days(rows: Sequence[tuple[str, Money, int, int]], odd: Collection[str]) -> dict[str, Any] | None:
    """The cost of each day of a month as bars, with a sentence that says the finding; None where nothing was paid."""
    most = max((amount.minor for _, amount, _, _ in rows), default=0)
    if most <= 0:
        return None
    room = HEIGHT - TOP - BOTTOM
    step = (WIDTH - 2 * LEFT) // len(rows)
    bars = []
    for place, (name, amount, core, card) in enumerate(rows):
        height = max(1 if amount.minor > 0 else 0, room * max(0, amount.minor) // most)
        x, day = LEFT + place * step, date.fromisoformat(name)
        label = str(day.day) if place % LABELLED == 0 else ""
        text = f"{name}: {figures.money(amount)}, {_hours(core, card)}"
        bars.append(Bar(x, TOP + room - height, step - 3, height, x + (step - 3) // 2, name in odd, label, text))
    top = max(rows, key=lambda row: row[1].minor)
    return {
        "bars": bars,
        "base": TOP + room,
        "foot": HEIGHT - 6,
        "box": f"0 0 {WIDTH} {HEIGHT}",
        "width": WIDTH,
        "most": figures.money(top[1]),
        "finding": _("Cost per day: the highest is %(amount)s on %(day)s.")
        % {"amount": figures.money(top[1]), "day": top[0]},
        "rows": [
            {"day": name, "amount": amount, "core_us": core, "card_us": card, "odd": name in odd}
            for name, amount, core, card in rows
        ],
    }


def _hours(core: int, card: int) -> str:
    """Core- and card-hours of a day, rounded for reading."""
    parts = []
    if core:
        parts.append(_("%(n)s core-hours") % {"n": figures.number(core / US_PER_HOUR, 1)})
    if card:
        parts.append(_("%(n)s card-hours") % {"n": figures.number(card / US_PER_HOUR, 1)})
    return ", ".join(parts) or _("no hours")
