"""A tenant who goes on working while everything falls: submits, cancels, asks, over REST, and repeats what was not answered under the same key.

What the platform has answered is remembered, so that nothing can be lost unnoticed. It forks nothing, so it may be a thread.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

TICKS = "i=0; while [ $i -lt {n} ]; do echo tick $i; i=$((i+1)); sleep {every}; done"


@dataclass
class Tenant:
    key: str
    urls: Callable[[], list[str]]
    seed: int
    most_open: int = 8
    patience_s: float = 60.0  # after so long without an answer the platform has failed
    jobs: dict[str, str] = field(default_factory=dict)  # job id → what it is
    failures: list[str] = field(default_factory=list)
    unanswered: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True, name="tenant")
        self._count = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def call(self, method: str, path: str, **words: Any) -> Any:
        """The answer's JSON; tries again, elsewhere, while there is none. What is refused for good is a failure of the platform."""
        until, turn = time.monotonic() + self.patience_s, 0
        while True:
            urls = self.urls()
            turn += 1
            try:
                answer = httpx.request(
                    method, f"{urls[turn % len(urls)]}/api/v1{path}", timeout=5,
                    headers={"Authorization": f"Bearer {self.key}", **words.get("headers", {})}, json=words.get("json"),
                )  # fmt: skip
                if answer.status_code < 300:
                    return answer.json() if answer.content else None
                if answer.status_code < 500 and answer.status_code not in (409, 429):
                    raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
                said = f"{answer.status_code} {answer.text[:200]}"
            except httpx.HTTPError as error:
                said = repr(error)
            self.unanswered += 1
            if time.monotonic() > until:
                raise AssertionError(f"{method} {path}: no answer in {self.patience_s:.0f} s, last {said}")
            time.sleep(0.3)

    def submit(self, kind: str, run: str, **fields: Any) -> str:
        self._count += 1
        name = f"{kind}-{self._count}"
        spec = {
            "name": name, "run": run, "max_price": "100", "max_duration": "30m",
            "resources": {"cpus": "0.1", "memory": "32MiB", "disk_size": "1GiB", **fields.pop("resources", {})}, **fields,
        }  # fmt: skip
        made = self.call("POST", "/jobs", json={"spec": spec}, headers={"Idempotency-Key": f"chaos-{self.seed}-{name}"})
        job = str(made["id"])
        self.jobs[job] = kind
        return job

    def cancel(self, job: str) -> None:
        self.call("POST", f"/jobs/{job}:cancel")

    def open(self) -> list[str]:
        items = (
            self.call("GET", "/jobs?state=queued&limit=100")["items"]
            + self.call("GET", "/jobs?state=running&limit=100")["items"]
        )
        return [item["id"] for item in items]

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                self._act()
            except AssertionError as failure:
                self.failures.append(str(failure))
            self._stop.wait(0.2 + self._chance.random() * 0.6)

    def _act(self) -> None:
        there = self.open()
        if there and self._chance.random() < 0.08:
            self.cancel(self._chance.choice(there))
            return
        if len(there) >= self.most_open:
            return
        what = self._chance.random()
        if what < 0.15:
            self.submit("fails", "sleep 1; exit 3")
        elif what < 0.35:
            out = [{"name": "out", "path": "/job/out"}]
            self.submit("writes", "sleep 2; echo 42 > /job/out", outputs=out)
        else:
            self.submit("ticks", TICKS.format(n=self._chance.randint(4, 30), every=0.3))
