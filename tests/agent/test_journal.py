"""The journal gives back what it was told, also to another process, also after that one was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from agent.journal import KEPT_S, Journal, Record
from agent.machine import Attempt, State
from agent.protocol import Phase, Reason, UploadedOutput

ROOT = Path(__file__).resolve().parents[2]
FULL = Record(
    attempt=Attempt(
        "att_1",
        3,
        State.UPLOADING,
        Phase.UPLOADING,
        deadline_ms=5,
        has_outputs=True,
        started=True,
        reason=Reason.FINISHED,
        exit_code=0,
        message="m",
        outputs=(UploadedOutput("a", 1, "0" * 64),),
    ),
    boot_id="boot",
    slot=4,
    group={"kind": "v2", "path": "/x"},
    supervisor_pid=77,
    supervisor_start=88,
    report_seq=2,
    usage_seq=9,
    ended_ms=123,
    facts={"ran_us": 5},
)


def test_round_trip(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    journal.save(FULL, now_s=1)
    journal.close()
    again = Journal(tmp_path / "j.sqlite")
    assert again.unfinished() == [FULL]
    assert again.get("att_1") == FULL
    assert again.get("att_2") is None
    assert (tmp_path / "j.sqlite").stat().st_mode & 0o077 == 0
    again.close()


def test_done_ones_are_kept_thirty_days(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    done = FULL.with_attempt(replace(FULL.attempt, state=State.DONE))
    journal.save(done, now_s=1000)
    assert journal.unfinished() == []
    journal.purge(1000 + KEPT_S)
    assert journal.get("att_1") is not None
    journal.purge(1001 + KEPT_S)
    assert journal.get("att_1") is None
    journal.close()


def test_named_values(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite")
    assert journal.noted("x") is None
    journal.note("x", "1")
    journal.note("x", "2")
    assert journal.noted("x") == "2"
    journal.close()


def test_a_row_survives_the_kill_of_its_writer(tmp_path: Path) -> None:
    code = (
        "import sys, os\n"
        "from pathlib import Path\n"
        "from agent.journal import Journal, Record\n"
        "from agent.machine import Attempt, State\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "for i in range(10_000):\n"
        "    j.save(Record(Attempt('att_1', i + 1, State.RUNNING), 'boot'), i)\n"
        "    print(i + 1, flush=True)\n"
    )
    path = tmp_path / "j.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    said = 0
    while said < 20:
        said = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait()
    said = max([said, *map(int, rest)])
    journal = Journal(path)
    record = journal.get("att_1")
    assert record is not None
    assert record.attempt.fence in (said, said + 1)
    journal.close()
