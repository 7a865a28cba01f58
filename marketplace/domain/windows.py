"""Daily spans of local time: when an offer is open, and when it costs another price.

A span ``22:00-07:00 Europe/Paris`` is half-open on the wall clock of its zone: 22:00 belongs to it, 07:00 does not. It
may pass midnight; ``00:00-24:00`` (or equal ends) is the whole day. On the day clocks change, the span is as long as
the wall clock makes it. Where two price windows overlap, the first one of the list holds.

The factor that holds when an attempt is placed is pinned in its lease and holds to its end.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from portal.kit.errors import Finding
from portal.kit.money import PPM, half_up, parse_micro

DAY = 24 * 60
MAX_FACTOR_PPM = 100 * PPM
MOST_SPANS = 24
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|(24:00)")


@dataclass(frozen=True)
class Span:
    """From minute `start` to minute `end` of each local day; `factor_ppm` multiplies prices (1,000,000 = as listed)."""

    start: int
    end: int
    timezone: str
    factor_ppm: int = PPM

    def holds(self, moment: datetime) -> bool:
        """Does the span hold at that moment?"""
        local = moment.astimezone(ZoneInfo(self.timezone))
        minute = local.hour * 60 + local.minute
        if self.start == self.end % DAY:
            return True
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def wire(self) -> dict[str, Any]:
        """As stored and sent: ``{"from": "22:00", "to": "07:00", "timezone": …, "factor_ppm": …}``."""
        return {
            "from": _clock(self.start),
            "to": _clock(self.end),
            "timezone": self.timezone,
            "factor_ppm": self.factor_ppm,
        }


def stored(rows: Sequence[Mapping[str, Any]]) -> tuple[Span, ...]:
    """The spans of a stored list, which was read by :func:`read` before."""
    return tuple(
        Span(_minutes(row["from"]), _minutes(row["to"]), row["timezone"], int(row.get("factor_ppm", PPM)))
        for row in rows
    )


def read(path: str, value: Any, *, timezone: str, priced: bool) -> tuple[tuple[Span, ...], list[Finding]]:
    """Spans of an input list, and what is wrong with it. `timezone` is taken where a span names none."""
    if not isinstance(value, list):
        return (), [Finding(path, "not_a_list", "a list of spans", '[{"from": "22:00", "to": "07:00"}]')]
    if len(value) > MOST_SPANS:
        return (), [Finding(path, "too_many", f"at most {MOST_SPANS} spans")]
    spans: list[Span] = []
    findings: list[Finding] = []
    for index, row in enumerate(value):
        span, wrong = _read_one(f"{path}[{index}]", row, timezone, priced)
        findings += wrong
        if span:
            spans.append(span)
    return tuple(spans), findings


def _read_one(path: str, row: Any, timezone: str, priced: bool) -> tuple[Span | None, list[Finding]]:
    if not isinstance(row, dict):
        return None, [Finding(path, "not_an_object", "from, to and timezone")]
    known = {"from", "to", "timezone"} | ({"factor", "factor_ppm"} if priced else set())
    findings = [
        Finding(f"{path}.{name}", "unknown_field", "there is no such field") for name in row if name not in known
    ]
    for name in ("from", "to"):
        if not isinstance(row.get(name), str) or not _CLOCK.fullmatch(row[name]):
            findings.append(Finding(f"{path}.{name}", "bad_time", "a time of day", "22:00"))
    zone = row.get("timezone") or timezone
    if not isinstance(zone, str) or zone not in available_timezones():
        findings.append(Finding(f"{path}.timezone", "unknown_time_zone", "a name of the IANA list", "Asia/Shanghai"))
    factor, wrong = _factor(path, row) if priced else (PPM, [])
    findings += wrong
    if findings:
        return None, findings
    return Span(_minutes(row["from"]), _minutes(row["to"]), str(zone), factor), []


def _factor(path: str, row: Mapping[str, Any]) -> tuple[int, list[Finding]]:
    given = row.get("factor_ppm")
    if given is None:
        try:
            given = parse_micro(str(row["factor"]))
        except (KeyError, ValueError):
            return PPM, [Finding(f"{path}.factor", "bad_factor", "a factor with at most six decimals", "0.5")]
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_FACTOR_PPM:
        return PPM, [Finding(f"{path}.factor", "out_of_range", "a factor from 0 to 100", "0.5")]
    return given, []


def is_open(hours: Sequence[Span], moment: datetime) -> bool:
    """Is an offer with these open hours open? No hours: always."""
    return not hours or any(span.holds(moment) for span in hours)


def in_force(windows: Sequence[Span], moment: datetime) -> Span | None:
    """The price window that holds at that moment, or None for the listed price."""
    return next((span for span in windows if span.holds(moment)), None)


def priced(unit_price_micro: int, window: Span | None) -> int:
    """The unit price under a window, in whole micro-currency, half away from zero."""
    if window is None:
        return unit_price_micro
    return half_up(Fraction(unit_price_micro * window.factor_ppm, PPM))


def next_change(spans: Sequence[Span], moment: datetime, *, within: timedelta = timedelta(days=2)) -> datetime | None:
    """The first whole minute after `moment` at which any of `spans` begins or ends to hold.

    None if none does `within`.
    """
    if not spans:
        return None
    now = [span.holds(moment) for span in spans]
    probe = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while probe <= moment + within:
        if [span.holds(probe) for span in spans] != now:
            return probe
        probe += timedelta(minutes=1)
    return None


def _minutes(text: str) -> int:
    hours, _colon, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
