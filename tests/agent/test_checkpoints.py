"""A job's state is stored while it runs, whole or not at all, and laid where the next attempt looks for it."""

from __future__ import annotations

import io
import os
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import checkpoints
from agent.protocol import CheckpointPlan, Reason
from tests.agent.conftest import Node
from tests.agent.peer import Peer, Problem

MIB = 1 << 20


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    (folder / "ckpt" / "deep").mkdir(parents=True)
    (folder / "ckpt" / "step").write_text("7")
    (folder / "ckpt" / "deep" / "weights").write_bytes(os.urandom(3 * MIB))
    (folder / "other").write_text("not stored")
    return folder


Take = Callable[..., Any]


@pytest.fixture
def take() -> Iterator[Take]:
    """`checkpoints.take`, whose files are closed when the test is over."""
    shots = []

    def taking(*arguments: Any) -> checkpoints.Snapshot | None:
        shots.append(checkpoints.take(*arguments))
        return shots[-1]

    yield taking
    for shot in shots:
        if shot is not None:
            shot.file.close()


def names(shot: checkpoints.Snapshot) -> list[str]:
    with tarfile.open(fileobj=shot.file) as tar:
        return tar.getnames()


def test_a_folder_is_taken_whole_with_names_from_above_it(take: Take, job: Path) -> None:
    shot = take(job, "/job/ckpt", 64 * MIB)
    assert shot is not None
    assert names(shot) == ["ckpt", "ckpt/deep", "ckpt/step", "ckpt/deep/weights"]
    assert (shot.files, shot.skipped, shot.whole.size) == (2, 0, shot.file.seek(0, 2))


def test_a_file_can_be_the_checkpoint(take: Take, job: Path) -> None:
    shot = take(job, "ckpt/deep/weights", 64 * MIB)
    assert shot is not None
    assert names(shot) == ["weights"]


def test_what_has_not_changed_is_not_taken_again(take: Take, job: Path) -> None:
    first = take(job, "/job/ckpt", 64 * MIB)
    assert first is not None
    assert take(job, "/job/ckpt", 64 * MIB, first.manifest) is None
    (job / "ckpt" / "step").write_text("8")
    again = take(job, "/job/ckpt", 64 * MIB, first.manifest)
    assert again is not None
    assert again.manifest != first.manifest


@pytest.mark.parametrize("path", ["/job/nothing", "/job/ckpt/none/at/all", "/etc", "../ckpt"])
def test_nothing_there_is_no_checkpoint(take: Take, job: Path, path: str) -> None:
    assert take(job, path, 64 * MIB) is None


def test_an_empty_folder_is_no_checkpoint(take: Take, job: Path) -> None:
    (job / "empty").mkdir()
    assert take(job, "/job/empty", 64 * MIB) is None


def test_a_file_that_is_being_written_is_left_out(take: Take, job: Path) -> None:
    big = job / "ckpt" / "growing"
    big.write_bytes(b"0" * 40 * MIB)
    done = threading.Event()

    def write() -> None:
        with big.open("r+b") as file:
            while not done.is_set():
                file.write(b"1")
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        shot = take(job, "/job/ckpt", 256 * MIB)
    finally:
        done.set()
        writer.join()
    assert shot is not None
    assert shot.skipped == 1
    assert sorted(names(shot)) == ["ckpt", "ckpt/deep", "ckpt/deep/weights", "ckpt/step"]
    with tarfile.open(fileobj=io.BytesIO(_all(shot))) as tar:  # what stands after the cut is whole, too
        weights = tar.extractfile("ckpt/deep/weights")
        assert weights is not None
        assert weights.read() == (job / "ckpt" / "deep" / "weights").read_bytes()


def _all(shot: checkpoints.Snapshot) -> bytes:
    shot.file.seek(0)
    return shot.file.read()


def test_no_link_leads_out(take: Take, job: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the node")
    (job / "ckpt" / "link").symlink_to(secret)
    (job / "away").symlink_to(tmp_path)
    os.mkfifo(job / "ckpt" / "pipe")  # reading it would block for ever
    shot = take(job, "/job/ckpt", 64 * MIB)
    assert shot is not None
    assert b"of the node" not in _all(shot)
    shot.file.seek(0)
    assert "ckpt/pipe" not in names(shot)
    assert take(job, "/job/away/secret", 64 * MIB) is None


def test_larger_than_the_disk_is_refused_before_it_is_copied(take: Take, job: Path) -> None:
    with open(job / "ckpt" / "hole", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(checkpoints.TooLarge):
        take(job, "/job/ckpt", 64 * MIB)


@pytest.mark.parametrize(("took", "wanted"), [(0, 10_000), (1_000, 8_500), (60_000, 2_500)])
def test_the_next_one_begins_so_early_that_it_is_stored_in_time(took: int, wanted: int) -> None:
    assert checkpoints.next_ms(begun_ms=0, took_ms=took, interval_ms=10_000) == wanted


# ── on a node ─────────────────────────────────────────────────────────────────────────────────────────────────────────

STEPS = "mkdir -p ckpt; i=$(cat ckpt/step 2>/dev/null || echo 0); echo from $i resume ${IDLEWILD_RESUME:-no}; "
COUNT = STEPS + "while [ $i -lt 400 ]; do i=$((i+1)); echo $i > ckpt/new; mv ckpt/new ckpt/step; sleep 0.05; done"


def test_stored_while_it_runs_and_found_by_the_next_attempt(node: Node, portal: Peer) -> None:
    first = portal.assign(COUNT, checkpoint=CheckpointPlan("/job/ckpt", 500))
    lease = portal.leases[first]
    portal.until(lambda: len(lease.whole) >= 3, what="for three checkpoints")
    portal.cancel(first, Reason.PREEMPTED)
    assert portal.finished(first).reason is Reason.PREEMPTED
    step = _step(lease.checkpoints[lease.whole[-1]])
    assert step > _step(lease.checkpoints[lease.whole[0]])
    assert ("uploading", False) in lease.phases  # the last one was stored when the job had ended
    kept = portal.keep("chk_00000001", lease.checkpoints[lease.whole[-1]])
    second = portal.assign(COUNT, fence=2, checkpoint=CheckpointPlan("/job/ckpt", 60_000, (kept,)))
    portal.running(second)
    portal.until(lambda: "from" in portal.log(second), what="for its first line")
    assert portal.log(second) == f"from {step} resume 1\n"
    assert ("restoring", False) in portal.leases[second].phases


def _step(archive: bytes) -> int:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile("ckpt/step")
        assert file is not None
        return int(file.read())


def test_an_older_one_is_taken_when_the_newest_is_broken(node: Node, portal: Peer) -> None:
    good = io.BytesIO()
    with tarfile.open(fileobj=good, mode="w") as tar:
        info = tarfile.TarInfo("ckpt/step")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"42"))
    old = portal.keep("chk_00000002", good.getvalue())
    new = portal.keep("chk_00000003", b"x" * 5000)
    portal.kept["chk_00000003"] = b"y" * 5000  # other bytes than the hash says
    attempt = portal.assign(STEPS, checkpoint=CheckpointPlan("/job/ckpt", 60_000, (new, old)))
    assert portal.finished(attempt).reason is Reason.FINISHED
    assert portal.log(attempt) == "from 42 resume 1\n"


def test_none_readable_is_our_fault_and_no_fresh_start(node: Node, portal: Peer) -> None:
    new = portal.keep("chk_00000004", b"x" * 5000)
    portal.kept["chk_00000004"] = b"y" * 5000
    attempt = portal.assign(STEPS, checkpoint=CheckpointPlan("/job/ckpt", 60_000, (new,)))
    report = portal.finished(attempt)
    assert (report.reason, report.started) == (Reason.PLATFORM_FAULT, False)
    assert "chk_00000004" in report.message


def test_a_lost_answer_is_gone_on_from(node: Node, portal: Peer) -> None:
    """A part that arrived but was not answered, and a portal that is away for a moment."""
    calls = []

    def lose(method: str, path: str) -> None:
        if "/checkpoints/" in path:
            calls.append(path)
            if len(calls) in (1, 3):
                raise Problem(503, "down")

    portal.hook = lose
    script = "mkdir -p ckpt; head -c 9000000 /dev/zero > new; mv new ckpt/big; sleep 60"
    attempt = portal.assign(script, checkpoint=CheckpointPlan("/job/ckpt", 300))
    portal.until(lambda: portal.leases[attempt].whole, what="for a checkpoint")
    assert len(set(calls)) == 1  # one number, in parts
    assert len(calls) >= 5


def test_410_for_a_checkpoint_kills_the_job(lasting: Node, portal: Peer) -> None:
    def fence(method: str, path: str) -> None:
        if "/checkpoints/" in path:
            raise Problem(410, "FENCED")

    portal.hook = fence
    attempt = portal.assign(COUNT, checkpoint=CheckpointPlan("/job/ckpt", 300))
    portal.running(attempt)
    until = time.monotonic() + 20
    while lasting.status()["attempts"] and time.monotonic() < until:
        time.sleep(0.05)
    assert not lasting.status()["attempts"]
    assert portal.leases[attempt].finish is None
