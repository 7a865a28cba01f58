"""The timetable: two beats tick once, and the second takes over when the first is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import redis
from django.conf import settings

from portal.celery import TIMETABLE, app
from tests.portal.stack.running import wait_until
from tests.sources import ROOT

LOCK_S = 10
TASK, QUEUE = "portal.relay", "relay"  # asked for each second


class Beats:
    """Two beats on a prefix of their own, and the messages that they leave (nobody takes them)."""

    def __init__(self) -> None:
        self.prefix = f"beats-{os.getpid()}-{time.monotonic_ns()}"
        self.client = redis.Redis.from_url(settings.REDIS_URL)
        self.processes = [self._start(), self._start()]

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "celery",
            "-q",
            "-A",
            "portal.celery",
            "beat",
            "-l",
            "error",
            "--pidfile=",
        ]
        environment = {**os.environ, "IDLEWILD_KEY_PREFIX": self.prefix}
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def ticks(self) -> int:
        messages = self.client.lrange(f"{self.prefix}:celery:{QUEUE}", 0, -1)
        return sum(json.loads(message)["headers"]["task"] == TASK for message in messages)

    def holder(self) -> int:
        """Which of the two has the lock: the one whose death stops the ticks is found by asking the operating system to pause it."""
        for number, process in enumerate(self.processes):
            process.send_signal(signal.SIGSTOP)
            before = self.ticks()
            time.sleep(2.5)
            still = self.ticks() > before
            process.send_signal(signal.SIGCONT)
            if not still:
                return number
        raise AssertionError("neither beat makes the ticks")

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(10)
        for key in self.client.scan_iter(f"{self.prefix}:*"):
            self.client.delete(key)
        self.client.close()


@pytest.fixture
def beats() -> Iterator[Beats]:
    running = Beats()
    yield running
    running.stop()


@pytest.mark.timeout(120)
def test_two_beats_tick_as_one_and_the_second_takes_over(beats: Beats) -> None:
    wait_until(lambda: beats.ticks() >= 2, 40, "the first ticks")
    before = beats.ticks()
    time.sleep(10)
    assert 9 <= beats.ticks() - before <= 11

    holder = beats.processes[beats.holder()]
    wait_until(lambda: beats.ticks() > before, 20, "ticks go on")
    holder.kill()
    holder.wait(10)
    at_death = beats.ticks()
    seconds = wait_until(lambda: beats.ticks() > at_death, LOCK_S + 10, "the second beat's first tick")
    assert seconds <= LOCK_S + 5


def test_an_unanswered_question_expires() -> None:
    for name, entry in app.conf.beat_schedule.items():
        every = TIMETABLE[name][1]
        assert entry["options"]["expires"] == max(every, 1.0)
        assert entry["options"]["queue"] == TIMETABLE[name][0]


def test_no_result_is_kept_and_nothing_is_run_twice_for_long() -> None:
    assert app.conf.task_ignore_result
    assert app.conf.result_backend is None
    assert app.conf.task_time_limit == 300
    assert app.conf.worker_prefetch_multiplier == 1
