"""Budgets: how much of a month is used, which thresholds that passes, what happens at 100 %, and where the month will end.

=========  ===========================================================
at 100 %   what happens
=========  ===========================================================
notify     people are told, nothing else
block      nothing new is submitted or placed; what runs goes on
stop       the same, and what runs is stopped
=========  ===========================================================

Spent = what the month's jobs used, tax included; committed = per job the larger of what it used and what it holds. Alerts and ``stop`` go by what is
spent, ``block`` by what is committed, so that many submits at once cannot overrun.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from portal.kit.intervals import Interval
from portal.kit.money import half_up

THRESHOLDS = (50, 75, 90, 100)
"""Per cent at which people are told, unless a budget says otherwise."""
MOST_PERCENT = 200


class Scope(StrEnum):
    ORGANISATION = "organisation"
    DEPARTMENT = "department"
    PROJECT = "project"
    JOB = "job"


class AtLimit(StrEnum):
    NOTIFY = "notify"
    BLOCK = "block"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Spender:
    """One job's share in a month: who it belongs to, what it used, what it holds."""

    job_ref: str
    project_ref: str
    department: str
    used_minor: int
    held_minor: int = 0

    @property
    def committed_minor(self) -> int:
        return max(self.used_minor, self.held_minor)


def concerns(scope: Scope, key: str, spender: Spender) -> bool:
    """Whether a budget counts this job."""
    return {
        Scope.ORGANISATION: True,
        Scope.DEPARTMENT: spender.department == key,
        Scope.PROJECT: spender.project_ref == key,
        Scope.JOB: spender.job_ref == key,
    }[scope]


@dataclass(frozen=True, slots=True)
class Standing:
    """A budget in its month."""

    amount_minor: int
    spent_minor: int
    committed_minor: int

    @property
    def percent(self) -> int:
        """Whole per cent spent, rounded down: 100 means all of it is gone."""
        return self.spent_minor * 100 // self.amount_minor

    @property
    def left_minor(self) -> int:
        """What nothing has used or reserved."""
        return max(0, self.amount_minor - self.committed_minor)

    @property
    def exhausted(self) -> bool:
        return self.spent_minor >= self.amount_minor

    def passed(self, thresholds: Iterable[int]) -> list[int]:
        """The thresholds that are reached, lowest first."""
        return [limit for limit in sorted(thresholds) if self.spent_minor * 100 >= self.amount_minor * limit]


def standing(amount_minor: int, scope: Scope, key: str, spenders: Iterable[Spender]) -> Standing:
    """How a budget stands, over the jobs of its month."""
    mine = [spender for spender in spenders if concerns(scope, key, spender)]
    return Standing(amount_minor, sum(s.used_minor for s in mine), sum(s.committed_minor for s in mine))


def fits(standing: Standing, more_minor: int) -> bool:
    """Whether a budget that blocks has room for `more_minor`."""
    return standing.committed_minor + more_minor <= standing.amount_minor


def forecast(*, spent_minor: int, recent_minor: int, recent: Interval, month: Interval, now: datetime) -> int:
    """What the month will have cost at its end, at the pace of `recent` (at most seven days): spent + pace × what is left of the month."""
    length, left = recent.microseconds, max(0, (month.end - now).total_seconds().__floor__()) * 1_000_000
    if length <= 0:
        return spent_minor
    return spent_minor + half_up(Fraction(recent_minor * left, length))


def check_thresholds(values: Iterable[object]) -> tuple[int, ...]:
    """Thresholds as they are stored: whole per cents from 1 to 200, each once, rising. ValueError says what is wrong."""
    found = sorted(set(value for value in values if isinstance(value, int) and not isinstance(value, bool)))
    given = list(values) if isinstance(values, list | tuple) else found
    if not found or len(found) != len(given) or not found[0] >= 1 or found[-1] > MOST_PERCENT or len(found) > 10:
        raise ValueError(f"thresholds are one to ten different whole per cents from 1 to {MOST_PERCENT}")
    return tuple(found)


def merged(used: Mapping[str, tuple[str, str, int]], held: Mapping[str, tuple[str, str, int]]) -> list[Spender]:
    """Jobs by what they used and what they hold; each is job → (project, department, minor)."""
    jobs = sorted({*used, *held})
    found = []
    for job in jobs:
        project, department, _ = used.get(job) or held[job]
        found.append(Spender(job, project, department, used.get(job, ("", "", 0))[2], held.get(job, ("", "", 0))[2]))
    return found
