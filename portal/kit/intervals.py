"""Half-open intervals ``[start, end)`` of aware times (rule 12)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise


@dataclass(frozen=True, order=True)
class Interval:
    """A stretch of time; `start` belongs to it, `end` does not. ValueError if naive or if it ends before it starts."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("an interval needs aware times")
        if self.end < self.start:
            raise ValueError("an interval cannot end before it starts")

    @property
    def microseconds(self) -> int:
        """Length in whole microseconds."""
        length = self.end - self.start
        return (length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    def clip(self, other: "Interval") -> "Interval | None":
        """The part of this interval inside `other`; None if they do not overlap."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Interval(start, end) if start < end else None

    def cut(self, moments: Iterable[datetime]) -> list["Interval"]:
        """This interval cut at each of `moments` that lies strictly inside it; the parts tile it in order."""
        marks = [self.start, *sorted({m for m in moments if self.start < m < self.end}), self.end]
        return [Interval(a, b) for a, b in pairwise(marks)]
