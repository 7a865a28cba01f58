"""Following a job: its events by sequence, its logs by offset, until it has ended.

Both are asked for again and again (every half second while something happens, up to two seconds when nothing does) from
where the last answer stopped, so a dropped connection loses nothing and repeats nothing. A round asks for the new
events and for the streams that are still open: the job and its attempts are read again only when an event says that
they have changed, which keeps a follower well below the portal's limit of reads. While the portal is away the follower
waits for it, up to `patience_s`; then `Unreachable` says that the job goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Union

from .api import Idlewild
from .errors import NotFound, Unreachable
from .models import Event, Job, Row, text

SHORTEST_S = 0.5
LONGEST_S = 2.0
LOOK_AGAIN = 20  # rounds after which the job is read even if no event called for it
LAST_EVENTS = frozenset({"job.done", "job.failed", "job.cancelled"})
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class Line:
    """A line of a log, without its end."""

    attempt: str
    stream: str
    text: str


@dataclass(frozen=True)
class Ended:
    """The last word: the job, its tasks and attempts."""

    job: Job
    tasks: list[Row]
    attempts: list[Row]


Item = Union[Event, Line, Ended]


class _Reader:
    """One stream of one attempt."""

    def __init__(self, attempt: str, stream: str) -> None:
        self.attempt = attempt
        self.stream = stream
        self.offset = 0
        self.is_over = False
        self._rest = ""

    def read(self, portal: Idlewild, job: str) -> Iterator[Line]:
        """Lines that came since the last time."""
        while not self.is_over:
            piece = portal.jobs.logs(job, attempt=self.attempt, stream=self.stream, offset=self.offset)
            content = text(piece.get("text"))
            following = int(piece.get("next_offset") or self.offset)
            moved, self.offset = following > self.offset, max(following, self.offset)
            self.is_over = piece.get("complete") is True and self.offset >= int(piece.get("total") or 0)
            lines = (self._rest + content).split("\n")
            self._rest = lines.pop()
            for line in lines:
                yield Line(self.attempt, self.stream, line)
            if not moved:
                return

    def last(self) -> Iterator[Line]:
        """What stands there without a line end."""
        if self._rest:
            yield Line(self.attempt, self.stream, self._rest)
            self._rest = ""


class Follower:
    """The job from the beginning (or from `after`) to its end."""

    def __init__(
        self,
        portal: Idlewild,
        job: str,
        *,
        logs: bool = True,
        attempt: str = "",
        task: str = "",
        stream: str = "",
        patience_s: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._portal = portal
        self._job = job
        self._logs = logs
        self._attempt, self._task = attempt, task
        self._streams = (stream,) if stream else STREAMS
        self._patience_s = patience_s
        self._sleep = sleep
        self._sequence = 0
        self._readers: dict[tuple[str, str], _Reader] = {}
        self._attempts: list[Row] | None = None

    def items(self) -> Iterator[Item]:
        """Everything, in the order in which it became known; the last item is `Ended`."""
        pause, away_since, rounds = SHORTEST_S, 0.0, 0
        while True:
            seen, ended = 0, rounds % LOOK_AGAIN == 0
            try:
                for item in self._news():
                    seen += 1
                    ended = ended or (isinstance(item, Event) and item.type in LAST_EVENTS)
                    yield item
                job = self._portal.jobs.get(self._job) if ended else None
                if job is not None and job.state.is_terminal:
                    yield from self._news()  # what came between the two questions
                    yield from self.rest()
                    yield Ended(job, self._portal.jobs.tasks(self._job), self._portal.jobs.attempts(self._job))
                    return
                away_since = 0.0
            except Unreachable:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > self._patience_s:
                    raise
            rounds += 1
            pause = SHORTEST_S if seen else min(pause * 1.5, LONGEST_S)
            self._sleep(pause)

    def _news(self) -> Iterator[Item]:
        for event in self._portal.jobs.events(self._job, after=self._sequence):
            self._sequence = event.sequence
            self._attempts = None  # read again
            yield event
        if self._logs:
            yield from self.lines()

    def lines(self) -> Iterator[Line]:
        """New log lines of the attempts that are wanted."""
        if self._attempts is None:
            self._attempts = [row for row in self._portal.jobs.attempts(self._job) if self._wants(row)]
        for attempt in self._attempts:
            name = text(attempt.get("id"))
            for stream in self._streams:
                reader = self._readers.setdefault((name, stream), _Reader(name, stream))
                try:
                    yield from reader.read(self._portal, self._job)
                except NotFound:
                    continue  # nothing was written yet

    def _wants(self, attempt: Row) -> bool:
        if self._attempt and self._attempt not in {text(attempt.get("id")), text(attempt.get("number"))}:
            return False
        if not self._task:
            return True
        task = attempt.get("task")
        names = (
            {text(task.get("id")), text(task.get("name"))}
            if isinstance(task, dict)
            else {text(task), text(attempt.get("task_name"))}
        )
        return self._task in names

    def rest(self) -> Iterator[Line]:
        for reader in self._readers.values():
            yield from reader.last()
