"""Real jobs in the real sandbox under the real supervisor: limits, deadline, stop, kill, and what the job can see."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import clocks, supervisor
from agent.devices.plugin import Attachment
from agent.launching import Ground
from agent.protocol import Reason
from agent.supervisor import Spool
from tests.agent.conftest import Job, alive, until

Start = Callable[..., Job]
SPIN = "while :; do :; done"
TICKS = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"


def test_a_job_runs_and_says_so(ground: Ground, start: Start) -> None:
    record = (job := start(ground, "echo out; echo err >&2; echo kept > /job/file", setup="echo first")).exit()
    assert (record["reason"], record["exit_code"], record["started"]) == ("finished", 0, True)
    assert job.said("stdout") == "first\nout\n"
    assert job.said("stderr") == "err\n"
    assert (job.job_folder / "file").read_text() == "kept\n"
    assert record["ran_us"] > 0


def test_what_a_job_sees(ground: Ground, start: Start) -> None:
    script = """
    id -u; cat /proc/sys/kernel/hostname; ls /proc | grep -c '^[0-9]'
    for p in /root /home /sys /etc/passwd /var; do [ -e $p ] && echo seen $p; done
    for p in / /usr /etc /dev; do ( : > $p/x ) 2>/dev/null && echo wrote $p; done
    grep -c : /proc/net/dev
    env | cut -d= -f1 | sort | tr '\\n' ' '; echo
    echo through > /dev/stdout
    mount -t tmpfs none /tmp 2>/dev/null && echo mounted
    exit 0
    """
    job = start(ground, script)
    record = job.exit()
    assert record["reason"] == "finished", (record, job.said("stderr"))
    lines = job.said("stdout").splitlines()
    assert lines[0] == str(ground.uid(1) if ground.drops_uid else os.getuid())
    assert lines[1] == "job"
    assert int(lines[2]) <= 6
    assert lines[3] == "1"
    assert lines[4].split() == ["HOME", "IDLEWILD_ATTEMPT", "PATH", "PWD"]
    assert lines[5:] == ["through"]


def test_the_exit_code_of_the_job(ground: Ground, start: Start) -> None:
    record = start(ground, "exit 7").exit()
    assert (record["reason"], record["exit_code"]) == ("exit_nonzero", 7)


def test_a_failed_setup_is_told_apart_and_ends_it(ground: Ground, start: Start) -> None:
    job = start(ground, "echo never", setup="echo preparing; false")
    record = job.exit()
    assert (record["reason"], record["exit_code"], record["phase"]) == ("setup_failed", 1, "setup")
    assert job.said("stdout") == "preparing\n"


def test_a_sandbox_that_cannot_start_is_not_the_tenants_fault(ground: Ground, start: Start) -> None:
    job = start(ground, "echo never", attachment=Attachment((("/no/such/card", "/dev/card"),)))
    record = job.exit()
    assert (record["reason"], record["started"], record["exit_code"]) == ("start_failed", False, None)
    assert "/no/such/card" in record["message"]


def test_memory_over_the_limit(grouped: Ground, start: Start) -> None:
    """One process dies of it; on v1 the script would go on, so the rest is killed."""
    job = start(grouped, "head -c 300000000 /dev/zero | tail > /dev/null; echo survived; sleep 60")
    record = job.exit()
    assert record["reason"] == "out_of_memory"
    assert "survived" not in job.said("stdout")
    assert record["mem_peak_bytes"] >= 60 << 20


def test_processes_over_the_limit(grouped: Ground, start: Start) -> None:
    job = start(grouped, "i=0; while [ $i -lt 50 ]; do sleep 9 & i=$((i+1)); done; echo all", pids=12)
    assert job.exit()["reason"] == "exit_nonzero"
    assert "all" not in job.said("stdout")


def test_the_cpu_cap_and_its_counter(grouped: Ground, start: Start) -> None:
    job = start(grouped, SPIN, cores_milli=250)
    facts = job.until(lambda f: f["ran_us"] > 1_500_000)
    job.stop()
    cpu, ran = job.exit()["cpu_us"], facts["ran_us"]
    assert ran // 10 < cpu < ran // 2


def test_a_file_over_the_disk_limit(ground: Ground, start: Start) -> None:
    job = start(ground, "head -c 20000000 /dev/zero > big; echo whole", disk_mib=4)
    record = job.exit()
    assert record["reason"] == "disk_full"
    assert (job.job_folder / "big").stat().st_size <= 4 << 20


def test_many_files_over_the_disk_limit(ground: Ground, start: Start) -> None:
    script = "i=0; while [ $i -lt 40 ]; do head -c 200000 /dev/zero > f$i; i=$((i+1)); done; sleep 60"
    assert start(ground, script, disk_mib=4).exit()["reason"] == "disk_full"


def test_the_time_limit_gives_term_then_kills(ground: Ground, start: Start) -> None:
    job = start(ground, "trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done", max_duration_ms=700)
    record = job.exit()
    assert record["reason"] == "time_limit"
    assert "saved" in job.said("stdout")
    stubborn = start(ground, "trap '' TERM; while :; do sleep 0.05; done", max_duration_ms=500, stop_grace_ms=300)
    before = time.monotonic()
    assert stubborn.exit()["reason"] == "time_limit"
    assert time.monotonic() - before < 5


def test_freeze_at_the_deadline_and_thaw_on_renewal(ground: Ground, start: Start) -> None:
    job = start(ground, TICKS, deadline_ms=900)
    frozen = job.until(lambda f: f["frozen"])
    assert frozen["started"]
    time.sleep(0.2)  # what it wrote before is on its way through the pipe
    said = job.said("stdout")
    time.sleep(0.5)
    later = job.status()
    assert job.said("stdout") == said
    assert later["ran_us"] == frozen["ran_us"]
    assert later["frozen_us"] > frozen["frozen_us"]
    assert not job.renew(60_000)["frozen"]
    until(lambda: job.said("stdout") != said)
    assert job.status()["ran_us"] > later["ran_us"]
    job.stop()
    record = job.exit()
    assert record["frozen_us"] >= 400_000


def test_no_cpu_while_frozen(grouped: Ground, start: Start) -> None:
    job = start(grouped, SPIN, deadline_ms=3000)
    job.until(lambda f: f["started"])
    job.until(lambda f: f["frozen"])
    before = job.group().usage().cpu_us
    time.sleep(0.4)
    assert job.group().usage().cpu_us == before
    assert job.group().frozen()


def test_a_renewal_in_time_freezes_nothing(ground: Ground, start: Start) -> None:
    job = start(ground, TICKS, deadline_ms=800)
    for _ in range(15):
        job.until(lambda f: f["started"])
        job.renew(800)
        time.sleep(0.1)
    assert job.status()["frozen_us"] == 0
    job.renew(-10_000)  # a late answer never shortens what was granted
    assert not job.status()["frozen"]


def test_a_renewal_that_is_over_already_does_not_thaw(ground: Ground, start: Start) -> None:
    job = start(ground, TICKS, deadline_ms=600)
    job.until(lambda f: f["frozen"])
    assert job.renew(-1)["frozen"]


def test_frozen_for_too_long_is_killed(ground: Ground, start: Start) -> None:
    job = start(ground, TICKS, deadline_ms=500, frozen_kill_ms=600)
    record = job.exit()
    assert record["reason"] == "platform_fault"
    assert "frozen" in record["message"]


def test_stop_lets_a_trap_finish(ground: Ground, start: Start) -> None:
    job = start(ground, "trap 'echo saving; sleep 0.5; echo saved; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    job.says("up")
    job.stop(grace_ms=10_000)
    record = job.exit()
    assert (record["reason"], record["exit_code"]) == ("cancelled_by_tenant", 3)
    assert "saved" in job.said("stdout")


def test_stop_does_not_run_the_scripts_next_command(ground: Ground, start: Start) -> None:
    """The shell has no handler: it is stopped itself, so that it can't go on when its child dies of TERM."""
    job = start(ground, "echo up; sleep 60; echo next; sleep 60")
    job.says("up")
    before = time.monotonic()
    job.stop(grace_ms=10_000)
    assert job.exit()["reason"] == "cancelled_by_tenant"
    assert "next" not in job.said("stdout")
    assert time.monotonic() - before < 3


def test_a_child_that_saves_gets_its_time(ground: Ground, start: Start) -> None:
    child = "trap 'sleep 0.4; echo checkpoint >> /job/state; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    job = start(ground, f'sh -c "{child}"; echo next')
    job.says("up")
    job.stop(grace_ms=10_000)
    job.exit()
    assert (job.job_folder / "state").read_text() == "checkpoint\n"
    assert "next" not in job.said("stdout")


def test_the_grace_is_over(ground: Ground, start: Start) -> None:
    job = start(ground, "trap 'echo no' TERM; echo up; while :; do sleep 0.05 || true; done")
    job.says("up")
    before = time.monotonic()
    job.stop(grace_ms=500)
    assert job.exit()["reason"] == "cancelled_by_tenant"
    assert 0.4 < time.monotonic() - before < 4


def test_kill_reaches_sessions_of_their_own(grouped: Ground, start: Start) -> None:
    job = start(grouped, "setsid sleep 60 & (setsid sh -c 'setsid sleep 60 & sleep 60' &) ; echo up; sleep 60")
    job.says("up")
    until(lambda: len(job.pids()) >= 6)
    pids = job.pids()
    job.stop(grace_ms=0)
    assert job.exit()["reason"] == "cancelled_by_tenant"
    assert not any(alive(pid) for pid in pids)


def test_a_frozen_tree_can_be_killed(grouped: Ground, start: Start) -> None:
    job = start(grouped, "setsid sleep 60 & " + SPIN, deadline_ms=500)
    job.until(lambda f: f["frozen"])
    pids = job.pids()
    before = time.monotonic()
    job.stop(grace_ms=30_000)
    job.exit()
    assert time.monotonic() - before < 3
    assert not any(alive(pid) for pid in pids)


def test_the_supervisor_is_killed_and_the_tree_is_gone(grouped: Ground, start: Start) -> None:
    job = start(grouped, "setsid sleep 60 & echo up; sleep 60")
    job.says("up")
    pids = job.pids()
    assert len(pids) >= 4
    before = time.monotonic()
    os.kill(job.process.pid, signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in pids), 5)
    assert time.monotonic() - before < 1
    assert not (job.folder / "exit.json").exists()


def test_a_supervisor_that_was_stopped_counts_only_to_the_deadline(grouped: Ground, start: Start) -> None:
    """SIGSTOP past the deadline (a paused machine); the agent freezes the group meanwhile, a renewal thaws it."""
    job = start(grouped, TICKS, deadline_ms=900)
    job.until(lambda f: f["started"])
    os.kill(job.process.pid, signal.SIGSTOP)
    started = clocks.boot_ms()
    time.sleep(1.5)
    job.group().freeze()
    os.kill(job.process.pid, signal.SIGCONT)
    facts = job.renew(60_000)
    assert not facts["frozen"]
    assert not job.group().frozen()
    assert facts["ran_us"] <= 900_000 + 200_000, (facts, clocks.boot_ms() - started)


def test_orphans_of_a_bare_process_are_killed(ground: Ground, start: Start) -> None:
    bare = Ground("nod_bare", "process", "", None, ground.folder, 20001, True)
    job = start(bare, "(setsid sleep 60 &) ; (sh -c 'sleep 61 &' &) ; echo up; sleep 60")
    job.says("up")
    mark = b"IDLEWILD_ATTEMPT=" + job.order["attempt"].encode()
    until(lambda: len(_marked(mark)) >= 4)
    job.stop(grace_ms=0)
    assert job.exit()["reason"] == "cancelled_by_tenant"
    assert _marked(mark) == []


def test_a_bare_process_freezes_and_thaws(ground: Ground, start: Start) -> None:
    bare = Ground("nod_bare", "process", "", None, ground.folder, 20001, True)
    job = start(bare, TICKS, deadline_ms=700)
    job.until(lambda f: f["frozen"])
    said = job.said("stdout")
    time.sleep(0.3)
    assert job.said("stdout") == said
    job.renew(60_000)
    until(lambda: job.said("stdout") != said)


def _marked(mark: bytes) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and alive(int(entry)):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                continue
    return found


def test_without_groups_the_sandbox_still_ends_with_its_supervisor(ground: Ground, start: Start) -> None:
    plain = ground.without_cgroups()
    job = start(plain, "setsid sleep 60 & echo up; sleep 60")
    job.says("up")
    mark = b"IDLEWILD_ATTEMPT=" + job.order["attempt"].encode()
    until(lambda: len(_marked(mark)) >= 3)
    os.kill(job.process.pid, signal.SIGKILL)
    until(lambda: not _marked(mark), 5)


def test_secrets_are_masked_and_not_on_any_command_line(ground: Ground, start: Start) -> None:
    environment = {"PATH": "/usr/bin:/bin", "TOKEN": "open-sesame-1"}
    job = start(ground, 'echo "it is $TOKEN"; sleep 0.6', environment=environment, masks=("open-sesame-1",))
    job.says("it is ")
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    assert b"open-sesame-1" not in file.read()
            except OSError:
                continue
    job.exit()
    assert job.said("stdout") == "it is ***\n"
    assert not (job.folder / "launch.json").exists()


@pytest.mark.parametrize(
    "pieces", [["my sec", "ret is secr", "et"], ["secret"], ["s", "e", "c", "r", "e", "t"], ["secre", "sy"]]
)
def test_a_secret_cut_in_pieces_is_still_masked(room: Path, pieces: list[str]) -> None:
    path = room / "log"
    spool = Spool(path, [b"secret"])
    for piece in pieces:
        spool.write(piece.encode())
    spool.close()
    assert path.read_text() == "".join(pieces).replace("secret", "***")


def test_a_stream_is_cut_at_its_limit(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LOG_MOST", 250)
    path = room / "log"
    spool = Spool(path, [])
    spool.write(b"x" * 150)
    spool.write(b"y" * 150)
    spool.write(b"z")
    spool.close()
    text = path.read_text()
    assert len(text) <= 250
    assert text.startswith("x" * 150)
    assert "output cut here" in text
    assert "z" not in text.rsplit("]", 1)[1]


def test_a_stop_that_meets_the_deadline_kills(ground: Ground, start: Start) -> None:
    """Frozen in the middle of its grace, the job can't tidy up any more."""
    job = start(ground, "trap 'echo no' TERM; echo up; while :; do sleep 0.05 || true; done", deadline_ms=4000)
    job.says("up")
    job.stop(grace_ms=60_000)
    before = time.monotonic()
    assert job.exit()["reason"] == "cancelled_by_tenant"
    assert time.monotonic() - before < 10


def test_a_job_holds_no_descriptor_of_ours(ground: Ground, start: Start) -> None:
    """With bubblewrap's status descriptor it could tell its own exit code, with others read our memory."""
    script = """ls /proc/self/fd | tr '\\n' ' '; echo; echo '{"exit-code": 0}' >&8; exit 5"""
    job = start(ground, script)
    record = job.exit()
    assert record["exit_code"] != 0
    assert job.said("stdout").splitlines()[0].split() == ["0", "1", "2", "3"]  # 3: the folder that ls reads


def test_a_broken_sandbox_program_is_a_start_failure(ground: Ground, start: Start) -> None:
    broken = Ground("nod_b", "bwrap", "/no/such/bwrap", ground.layout, ground.folder, 20001, True)
    job = start(broken, "true")
    record = job.exit()
    assert (record["reason"], record["started"]) == ("start_failed", False)


def test_nonsense_on_the_socket_harms_nobody(ground: Ground, start: Start) -> None:
    job = start(ground, TICKS)
    job.until(lambda f: f["started"])
    assert "unknown request dance" in job.ask(do="dance")["error"]
    assert "error" in job.ask(what="?")
    assert "error" in job.ask(do="stop", grace_ms=1, reason="bored")
    assert job.status()["started"]


def test_reasons_of_the_supervisor_are_words_of_the_wire() -> None:
    for word in (
        "finished",
        "exit_nonzero",
        "setup_failed",
        "out_of_memory",
        "disk_full",
        "time_limit",
        "start_failed",
    ):
        assert Reason(word)
