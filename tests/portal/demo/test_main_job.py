"""The story of the main job never hangs, and says what it waited for. That it ends well is shown by `./dev up --check`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from portal.demo.main_job import Command, MainJob, Running, Story, Stuck, front_table, line_table, metered, point_cells

POINT = {
    "index": 1,
    "node": {"id": "nod_1", "name": "harbour-1"},
    "region": "asia-southeast1",
    "cost": {"expected": {"amount": "0.41", "currency": "CNY"}},
    "values": {"time_s": 601, "green": "0.04"},
    "green_ratio": "0.04",
    "transfer": {"bytes": 2_000_000_000, "cost": {"amount": "0.08", "currency": "CNY"}},
    "roles": ["fastest", "choice"],
}


class Says(Command):
    """A command that runs a line of Python instead."""

    def process(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", words[0]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@pytest.fixture
def running() -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for one in started:
        one.stop()
        assert one.process.stdout is not None
        one.process.stdout.close()


def test_a_step_that_takes_too_long_says_what_was_waited_for(running: list[Running]) -> None:
    running.append(Running(Says({}), 'import time; print(\'{"type": "quote"}\', flush=True); time.sleep(30)'))
    began = time.monotonic()
    with pytest.raises(Stuck, match="the job running again elsewhere: not within 1 s"):
        list(running[0].lines(1.0, "the job running again elsewhere"))
    assert time.monotonic() - began < 10


def test_a_command_that_ends_early_says_what_it_printed(running: list[Running]) -> None:
    running.append(Running(Says({}), "print('no such file')"))
    with pytest.raises(Stuck, match="no such file"):
        list(running[0].lines(20.0, "a quote"))


def test_a_refusal_ends_the_story_with_its_sentence(running: list[Running]) -> None:
    running.append(Running(Says({}), 'print(\'{"error": {"detail": "Your credit limit is reached."}}\')'))
    with pytest.raises(Stuck, match="Your credit limit is reached"):
        list(running[0].lines(20.0, "a quote"))


def test_a_real_command_without_a_portal_is_told(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with pytest.raises(Stuck, match="exit code 201"):
        Command(environment).call("ps")


def test_a_front_that_is_too_small_is_no_front() -> None:
    job = MainJob(story=Story(), command=Command({}), state=Path("/none"), input_region="east")
    with pytest.raises(Stuck, match="3 were expected"):
        job.check_front({"points": [POINT, POINT]})


def test_the_tables_say_it_all() -> None:
    assert point_cells(POINT, True) == [
        "→ 1", "harbour-1", "asia-southeast1", "0.41 CNY", "601 s", "4 %", "2.0 GB for 0.08 CNY", "fastest, choice",
    ]  # fmt: skip
    out = StringIO()
    console = Console(file=out, width=160)
    console.print(front_table({"points": [POINT], "pick": 1}))
    line = {
        "description": "card",
        "provider": {"name": "Sol"},
        "quantity": "0.0015",
        "unit": "card-hour",
        "unit_price": "0.00",
        "amount": "0.00",
    }
    console.print(line_table("Coming lines", [{**line, "unbilled_reason": "node_lost", "node": "nod_1"}]))
    for word in ("harbour-1", "0.0015 card-hour", "node_lost (nod_1)"):
        assert word in out.getvalue()


def test_metered_time_is_summed_from_the_records() -> None:
    records = [
        {"attempt": "att_1", "resource": "core", "qty_us": 2_600_000},
        {"attempt": "att_1", "resource": "card", "qty_us": 5_300_000},
        {"attempt": "att_1", "resource": "network_byte", "qty_us": 9},
        {"attempt": "att_2", "resource": "core", "qty_us": 1},
    ]
    assert metered(records, "att_1") == "5.3 card-seconds and 2.6 core-seconds"
    assert metered(records, "att_3") == "nothing"
