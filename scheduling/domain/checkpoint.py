"""Checkpoints of a task: which one the next attempt begins with, and which may go.

Newest means: of the highest fence, and within it of the highest number. Only whole ones count. A task keeps its newest
`keep`; an upload that was never finished goes when its attempt has ended or a newer one of the attempt is whole. All go
:data:`KEPT_FOR` after the job has ended, so that a `retry` of the tenant still finds them.

The loss of a job whose attempt ends at any moment is at most one interval: an agent begins the next one so early that it
is stored when the last one is `interval` old (``agent.checkpoints.next_ms``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True)
class Stored:
    """One row; `over`: its attempt has ended."""

    id: int
    fence: int
    number: int
    complete: bool
    over: bool

    @property
    def age(self) -> tuple[int, int]:
        return self.fence, self.number


def newest(rows: Iterable[Stored]) -> tuple[int, ...]:
    """Ids of the whole ones, newest first: what an attempt may begin with."""
    return tuple(row.id for row in sorted((row for row in rows if row.complete), key=lambda row: row.age, reverse=True))


def to_drop(rows: Iterable[Stored], *, keep: int) -> frozenset[int]:
    """Ids of those that may be deleted; `keep` ≥ 1."""
    rows = tuple(rows)
    kept = set(newest(rows)[: max(1, keep)])
    whole = [row.age for row in rows if row.complete]
    dead = {row.id for row in rows if not row.complete and (row.over or any(age > row.age for age in whole))}
    return frozenset({row.id for row in rows if row.complete and row.id not in kept} | dead)
