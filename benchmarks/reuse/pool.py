"""Eight institutions, their machines and their work: each alone, or sharing what is idle through the market.

Machines are counted, not named: a job takes k of them at once. Rules of the pool are those of the market:

* **owner first**: an institution's own job starts at once where something is idle; else interruptible guests are asked to go, and it
  starts when their grace is over;
* **guests** fill what is idle above a headroom, oldest first; one that does not fit lets the next try. They store a checkpoint every
  ten minutes and go on from it elsewhere; what they did after it is lost, and is not counted as use.
"""

import csv
import gzip
import heapq
import itertools
import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
INSTITUTIONS = 8
GRACE_S = 30.0
CHECKPOINT_S = 600.0
LOOK_AHEAD = 50
"""Waiting guests that may overtake one that does not fit."""


class Missing(Exception):
    """The reference data is not here."""


def folder() -> Path:
    named = os.environ.get("IDLEWILD_REFERENCE_DIR")
    base = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (base / "workloads/swf").is_dir():
        raise Missing(f"reference data is not here: {base} (set IDLEWILD_REFERENCE_DIR)")
    return base


@dataclass(frozen=True)
class Job:
    arrives: float  # seconds
    lasts: float
    needs: int
    owner: int = -1  # -1: a guest


def nasa(base: Path, seed: int) -> list[Job]:
    """Three months of a parallel machine; its users are dealt into the institutions."""
    rows = []
    with gzip.open(base / "workloads/swf/NASA-iPSC-1993-3.1-cln.swf.gz", "rt") as file:
        for line in file:
            if line.startswith(";"):
                continue
            parts = line.split()
            if float(parts[3]) > 0 and int(parts[4]) > 0:
                rows.append((float(parts[1]), float(parts[3]), int(parts[4]), int(parts[11])))
    users = sorted({row[3] for row in rows})
    dealt = np.random.default_rng(seed).permutation(len(users)) % INSTITUTIONS
    owner = dict(zip(users, dealt, strict=True))
    return [Job(arrives, lasts, needs, int(owner[user])) for arrives, lasts, needs, user in rows]


def pai(base: Path, seed: int, most: int) -> list[Job]:
    """Jobs of a cloud (length, cores); without user names, so runs of 50 in a row are dealt, as one user's campaign would come."""
    with gzip.open(base / "workloads/gaia/pai-100k.csv.gz", "rt", newline="") as file:
        rows = [(float(r["arrival_time"]), float(r["length"]), int(r["cpus"])) for r in csv.DictReader(file)]
    rows = sorted(rows)[:most]
    dealt = np.random.default_rng(seed).integers(0, INSTITUTIONS, len(rows) // 50 + 1)
    return [Job(3600 * a, 3600 * b, c, int(dealt[i // 50])) for i, (a, b, c) in enumerate(rows)]


def guests(work: Sequence[Job], seed: int, share: float, horizon: float, capacity: int) -> list[Job]:
    """What others ask of the market: jobs of the same kind, drawn anew, for `share` of the pool over the whole time."""
    random = np.random.default_rng(seed + 1000)
    longest = 12 * 3600.0
    likely = [job for job in work if 1800 <= job.lasts <= longest and job.needs <= capacity // 8]
    made, asked = [], 0.0
    while asked < share * horizon * capacity:
        one = likely[int(random.integers(len(likely)))]
        made.append(Job(float(random.uniform(0, horizon)), one.lasts, one.needs))
        asked += one.lasts * one.needs
    return sorted(made, key=lambda job: job.arrives)


def peak(work: Iterable[Job]) -> int:
    """The most machines that run at once when nothing ever waits."""
    moves = sorted(itertools.chain.from_iterable(((j.arrives, j.needs), (j.arrives + j.lasts, -j.needs)) for j in work))
    running = most = 0
    for _, change in moves:
        running += change
        most = max(most, running)
    return most


@dataclass
class Outcome:
    """Waiting times by owner, and machine-seconds that did something useful within the time looked at."""

    waits: dict[int, list[float]] = field(default_factory=dict)
    used: float = 0.0
    own_used: float = 0.0
    interrupted: int = 0
    lost: float = 0.0

    def p95(self, owner: int) -> float:
        return float(np.percentile(self.waits[owner], 95))


@dataclass
class _Guest:
    job: Job
    left: float
    began: float = 0.0
    turn: int = 0


class Pool:
    """Event by event: arrivals, ends, and guests that have gone."""

    def __init__(self, capacity: int, headroom: int, horizon: float) -> None:
        self.free, self.headroom, self.horizon = capacity, headroom, horizon
        self.out = Outcome()
        self.events: list[tuple[float, int, str, object]] = []
        self.ticket = itertools.count()
        self.waiting: deque[_Guest] = deque()
        self.running: dict[int, _Guest] = {}
        self.owners: deque[Job] = deque()
        self.leaving = 0

    def run(self, work: Iterable[Job]) -> Outcome:
        for job in work:
            self._push(job.arrives, "comes", job)
        while self.events:
            now, _, what, thing = heapq.heappop(self.events)
            if now > self.horizon and not self.owners and what != "comes":
                self._stop(now)
                break
            getattr(self, f"_{what}")(now, thing)
            self._start_owners(now)
            self._start_guests(now)
        return self.out

    def _push(self, at: float, what: str, thing: object) -> None:
        heapq.heappush(self.events, (at, next(self.ticket), what, thing))

    def _comes(self, now: float, job: Job) -> None:
        if job.owner < 0:
            self.waiting.append(_Guest(job, job.lasts))
        else:
            self.owners.append(job)

    def _ends(self, now: float, job: Job) -> None:
        self.free += job.needs

    def _guest_ends(self, now: float, pair: tuple[int, int]) -> None:
        guest = self.running.get(pair[0])
        if guest is None or guest.turn != pair[1]:
            return  # it was asked to go before
        del self.running[pair[0]]
        self.free += guest.job.needs
        self._count(guest, guest.left, now)

    def _gone(self, now: float, needs: int) -> None:
        self.free += needs
        self.leaving -= needs

    def _start_owners(self, now: float) -> None:
        while self.owners and self.owners[0].needs <= self.free:
            job = self.owners.popleft()
            self.free -= job.needs
            self.out.waits.setdefault(job.owner, []).append(now - job.arrives)
            useful = job.needs * max(0.0, min(now + job.lasts, self.horizon) - now)
            self.out.used += useful
            self.out.own_used += useful
            self._push(now + job.lasts, "ends", job)
        missing = sum(job.needs for job in self.owners) + self.headroom * bool(self.owners) - self.free - self.leaving
        if missing > 0:
            self._ask_to_go(now, missing)

    def _ask_to_go(self, now: float, missing: int) -> None:
        """The youngest guests first: they lose least."""
        for key in sorted(self.running, key=lambda k: -self.running[k].began):
            if missing <= 0:
                return
            guest = self.running.pop(key)
            ran = now - guest.began
            kept = min(guest.left, ran // CHECKPOINT_S * CHECKPOINT_S)
            self._count(guest, kept, now)
            self.out.interrupted += 1
            self.out.lost += (ran - kept) * guest.job.needs
            guest.left -= kept
            guest.turn += 1
            self.waiting.appendleft(guest)
            self.leaving += guest.job.needs
            self._push(now + GRACE_S, "gone", guest.job.needs)
            missing -= guest.job.needs

    def _start_guests(self, now: float) -> None:
        if self.owners or now > self.horizon:
            return
        passed: list[_Guest] = []
        while self.waiting and len(passed) < LOOK_AHEAD and self.free > self.headroom:
            guest = self.waiting.popleft()
            if guest.job.needs > self.free - self.headroom:
                passed.append(guest)
                continue
            self.free -= guest.job.needs
            guest.began = now
            key = next(self.ticket)
            self.running[key] = guest
            self._push(now + guest.left, "guest_ends", (key, guest.turn))
        self.waiting.extendleft(reversed(passed))

    def _count(self, guest: _Guest, seconds: float, now: float) -> None:
        self.out.used += guest.job.needs * max(0.0, min(seconds, self.horizon - guest.began))

    def _stop(self, now: float) -> None:
        for guest in self.running.values():
            self._count(guest, min(guest.left, self.horizon - guest.began), now)
        self.running.clear()
