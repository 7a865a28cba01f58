"""The whole agent, a real process against a portal over HTTP: leases kept and lost, kills, adoption, what is told at the end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent import protocol as wire
from agent.executors import cgroups
from agent.executors.groups import Limits
from agent.protocol import Input, Output, Reason, Resource, Resources, Source
from tests.agent.conftest import ROOT, Node, alive, until
from tests.agent.peer import Peer, Problem

TICKS = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
PATIENT = {"ttl_ms": 30_000, "renew_ms": 1_000, "deadline_ms": 25_000}


def job_pids(attempt: str) -> list[int]:
    mark = f"IDLEWILD_ATTEMPT={attempt}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and alive(int(entry)):
            try:
                if mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                continue
    return found


def test_a_job_from_assignment_to_finish(node: Node, portal: Peer) -> None:
    script = "echo working; cat /job/data/in.txt; id -u >&2; mkdir out; echo result > out/r.txt; sleep 0.5"
    attempt = portal.assign(
        script,
        setup="echo setting up",
        resources=Resources(500, 64, 64, devices=("virtual-1",)),
        inputs=(Input("/job/data/in.txt", Source.PORTAL),),
        outputs=(Output("r", "/job/out/r.txt"), Output("maybe", "/job/none", required=False)),
        secrets={"KEY": "hush-hush-hush"},
        envs={"COLOUR": "green"},
        contents={0: b"from the portal\n"},
    )
    report = portal.finished(attempt)
    lease = portal.leases[attempt]
    assert (report.reason, report.exit_code, report.started) == (Reason.FINISHED, 0, True)
    assert lease.outputs == {"r": b"result\n"}
    assert [output.name for output in report.outputs] == ["r"]
    assert portal.log(attempt) == "setting up\nworking\nfrom the portal\n"
    assert report.stdout_bytes == len(lease.logs["stdout"])
    counters = {c.resource: c for c in report.counters}
    assert counters[Resource.CORE].qty_us == 500 * report.ran_us // 1000
    assert counters[Resource.CARD].qty_us == report.ran_us
    assert 400_000 < report.ran_us < 5_000_000
    assert lease.usage, "usage is reported while it runs"
    assert all(row.qty_us <= counters[row.resource].qty_us for row in lease.usage)
    assert {phase for phase, _ in lease.phases} >= {"staging", "run", "uploading"}


def test_the_environment_of_a_job(node: Node, portal: Peer) -> None:
    attempt = portal.assign(
        "env | sort", envs={"COLOUR": "green", "IDLEWILD_ATTEMPT": "att_false"}, secrets={"KEY": "hush-hush-hush"}
    )
    portal.finished(attempt)
    told = dict(line.split("=", 1) for line in portal.log(attempt).splitlines())
    assert told == {
        "COLOUR": "green",
        "KEY": "***",
        "HOME": "/job",
        "PATH": "/usr/bin:/bin",
        "PWD": "/job",
        "IDLEWILD_ATTEMPT": attempt,
        "IDLEWILD_JOB_ID": portal.leases[attempt].spec.job,
        "IDLEWILD_REGION": "east",
        "IDLEWILD_TASK": "main",
    }


def test_what_a_node_tells_about_itself(node: Node, portal: Peer) -> None:
    first = portal.inventories[0]
    assert first.hardware.cores_milli == 1000
    assert [d.id for d in first.hardware.devices] == ["virtual-0", "virtual-1"]
    assert first.self_test is not None
    assert first.runtime is not None
    assert "os" in first.runtime
    measured = portal.until(lambda: next((i.fingerprint for i in portal.inventories if i.fingerprint), None), 60)
    assert measured.short
    assert {m.name for m in measured.metrics} >= {"gemm_1024", "conv_8", "block_1", "copy", "triad"}
    assert {m.name for m in measured.metrics} >= {
        "checked_gemm",
        "checked_memory",
        "stream_server",
        "rtt_server",
        "disk_read",
    }
    assert len(measured.runs) == 3, "all runs that the portal timed have passed"
    assert all(m.value > 0 and m.p99_ms >= m.p95_ms >= m.p50_ms > 0 for m in measured.metrics)
    answer = node.status()
    assert (answer["connected"], answer["isolation"]) == (True, first.self_test.isolation.value)


def test_isolation_is_full_where_root_has_control_groups(node: Node, portal: Peer) -> None:
    tested = portal.inventories[0].self_test
    assert tested is not None
    if tested.cgroups == "none":
        pytest.skip(f"needs root and control groups: {tested.note}")
    assert [check.name for check in tested.checks if not check.ok] == []
    assert tested.isolation is wire.Isolation.FULL


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"run": "exit 4"}, Reason.EXIT_NONZERO),
        ({"run": "true", "setup": "false"}, Reason.SETUP_FAILED),
        ({"run": "true", "outputs": (Output("m", "/job/m"),)}, Reason.OUTPUT_MISSING),
        ({"run": "ln -s /etc/hostname m", "outputs": (Output("m", "/job/m"),)}, Reason.OUTPUT_MISSING),
        ({"run": "true", "inputs": (Input("x", Source.CONTENT, content="%%%"),)}, Reason.INPUT_UNREADABLE),
        ({"run": "true", "resources": Resources(500, 64, 64, devices=("gone-0",))}, Reason.DEVICE_ERROR),
        ({"run": "sleep 60", "max_duration_s": 1}, Reason.TIME_LIMIT),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
def test_why_a_job_ended(node: Node, portal: Peer, spec: dict[str, object], reason: Reason) -> None:
    attempt = portal.assign(str(spec["run"]), **{k: v for k, v in spec.items() if k != "run"})
    assert portal.finished(attempt).reason is reason
    until(lambda: not node.status()["attempts"])
    assert not list((node.state / "attempts").glob("att_*"))


def test_a_cancelled_job_saves_and_reports(node: Node, portal: Peer) -> None:
    attempt = portal.assign("trap 'sleep 0.2; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    until(lambda: "up" in portal.log(attempt))
    portal.cancel(attempt, Reason.PREEMPTED)
    assert portal.finished(attempt).reason is Reason.PREEMPTED
    assert "saved" in portal.log(attempt)


def test_a_silent_portal_freezes_the_job_and_a_late_renewal_thaws_it(node: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    portal.mood = "deaf"
    until(lambda: node.status()["attempts"][0]["state"] == "frozen")
    ran = node.status()["attempts"][0]["ran_us"]
    time.sleep(0.6)
    assert node.status()["attempts"][0]["ran_us"] == ran
    portal.mood = "ok"
    until(lambda: node.status()["attempts"][0]["state"] == "running")
    portal.cancel(attempt)
    report = portal.finished(attempt)
    assert report.frozen_us > 500_000
    assert ("run", True) in portal.leases[attempt].phases


def test_answers_lost_one_way_freeze_too(node: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    portal.mood = "mute"
    until(lambda: node.status()["attempts"][0]["state"] == "frozen")
    asked = portal.syncs[-1]
    assert asked.acknowledges < asked.seq - 1, "the portal can see that its answers don't arrive"
    portal.mood = "ok"
    until(lambda: node.status()["attempts"][0]["state"] == "running")


def test_410_kills_at_once_and_nothing_more_is_said(node: Node, portal: Peer) -> None:
    attempt = portal.assign(f"setsid sleep 60 & {TICKS}")
    portal.running(attempt)
    until(lambda: len(job_pids(attempt)) >= 3)
    portal.lapse(attempt)
    before = time.monotonic()
    until(lambda: not job_pids(attempt), 5)
    assert time.monotonic() - before < 2
    until(lambda: not node.status()["attempts"])
    assert portal.leases[attempt].finish is None


def test_a_frozen_job_that_was_given_away_dies_when_the_portal_is_back(node: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    portal.mood = "deaf"
    until(lambda: node.status()["attempts"][0]["state"] == "frozen")
    portal.leases[attempt].state = "lapsed"
    portal.mood = "ok"
    until(lambda: not job_pids(attempt), 3)
    assert portal.leases[attempt].finish is None


def test_a_stopped_agent_and_supervisor_come_back_to_a_410(lasting: Node, portal: Peer) -> None:
    """SIGSTOP to both past the deadline: the job froze by itself before; after SIGCONT it is gone within a second."""
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    supervisor = lasting.supervisor(attempt)
    lasting.signal(signal.SIGSTOP)
    time.sleep(3.2)  # past the deadline: the supervisor alone has frozen the job
    log = lasting.state / "attempts" / attempt / "stdout.log"
    size = log.stat().st_size
    os.kill(supervisor, signal.SIGSTOP)
    time.sleep(0.5)
    portal.leases[attempt].state = "lapsed"
    os.kill(supervisor, signal.SIGCONT)
    lasting.signal(signal.SIGCONT)
    before = time.monotonic()
    until(lambda: not job_pids(attempt), 5)
    assert time.monotonic() - before < 1.5
    assert not log.exists() or log.stat().st_size == size


def test_the_agent_freezes_for_a_stopped_supervisor(lasting: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    if portal.inventories[0].self_test is None or portal.inventories[0].self_test.cgroups == "none":
        pytest.skip("needs root and control groups")
    os.kill(lasting.supervisor(attempt), signal.SIGSTOP)
    portal.mood = "deaf"
    until(lambda: re.search(f"{attempt}: .*the agent freezes the job", lasting.said()), 10)
    os.kill(lasting.supervisor(attempt), signal.SIGCONT)


def test_the_agent_is_killed_and_the_next_one_adopts(lasting: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS, **PATIENT)
    portal.running(attempt)
    until(lambda: portal.log(attempt))  # its shell is there
    supervisor = lasting.supervisor(attempt)
    pids = set(job_pids(attempt))
    lasting.kill()
    time.sleep(0.7)
    assert pids & set(job_pids(attempt)), "the job goes on without its agent"
    portal.syncs.clear()
    lasting.up(wait=False)
    until(lambda: any(s.leases and s.incarnation == portal.incarnation for s in portal.syncs), what=lasting.said())
    assert lasting.supervisor(attempt) == supervisor
    time.sleep(0.5)
    portal.cancel(attempt)
    report = portal.finished(attempt)
    assert report.frozen_us == 0
    lines = [int(line) for line in portal.log(attempt).split()]
    assert lines == list(range(1, len(lines) + 1)), "logs are contiguous"
    assert report.incarnation == portal.incarnation


RESTARTS = 20
"""As case P21 asks."""


def test_an_agent_killed_again_and_again_keeps_process_and_meter(lasting: Node, portal: Peer) -> None:
    """P21 on the node: the same process under the same fence, and no metered second lost or doubled."""
    attempt = portal.assign(TICKS, **PATIENT)
    portal.running(attempt)
    until(lambda: portal.log(attempt))  # its shell is there
    supervisor, pids = lasting.supervisor(attempt), set(job_pids(attempt))
    for _ in range(RESTARTS):
        lasting.kill()
        portal.syncs.clear()
        lasting.up(wait=False)
        until(lambda: any(s.leases and s.incarnation == portal.incarnation for s in portal.syncs), what=lasting.said())
        assert lasting.supervisor(attempt) == supervisor
        assert pids & set(job_pids(attempt))
        assert [lease.fence for lease in portal.syncs[-1].leases] == [portal.leases[attempt].spec.fence]
    portal.cancel(attempt)
    report = portal.finished(attempt)
    assert report.frozen_us == 0
    lines = [int(line) for line in portal.log(attempt).split()]
    assert lines == list(range(1, len(lines) + 1)), "one process, its log without a gap"
    usage = [row.qty_us for row in portal.leases[attempt].usage if row.resource is Resource.CORE]
    assert usage == sorted(usage), "a counter never falls"
    final = next(c.qty_us for c in report.counters if c.resource is Resource.CORE)
    assert final >= max(usage, default=0)  # an agent that never lives a whole report long says it all at the end
    assert final == portal.leases[attempt].spec.resources.cores_milli * report.ran_us // 1000
    assert report.ran_us >= (len(lines) - 1) * 50_000, "it ran at least as long as its ticks took"


def test_an_own_jobs_agent_takes_its_jobs_with_it(node: Node, portal: Peer) -> None:
    attempt = portal.assign(f"setsid sleep 60 & {TICKS}", **PATIENT)
    portal.running(attempt)
    until(lambda: len(job_pids(attempt)) >= 3)
    node.kill()
    until(lambda: not job_pids(attempt), 5)
    node.up()
    report = portal.finished(attempt)
    assert report.reason is Reason.PLATFORM_FAULT
    assert report.started
    assert report.ran_us > 0


def test_sigterm_with_own_jobs_reports_the_drain(node: Node, portal: Peer) -> None:
    attempt = portal.assign("trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done", **PATIENT)
    portal.running(attempt)
    before = time.monotonic()
    node.signal(signal.SIGTERM)
    assert node.process is not None
    assert node.process.wait(10) == 0
    assert time.monotonic() - before < 5
    assert portal.finished(attempt, 1).reason is Reason.NODE_DRAINED
    assert portal.drained, "so that no work is placed on it meanwhile"
    assert job_pids(attempt) == []


def test_sigterm_leaves_a_production_nodes_jobs(lasting: Node, portal: Peer) -> None:
    attempt = portal.assign("sleep 2; echo done", **PATIENT)
    portal.running(attempt)
    lasting.signal(signal.SIGTERM)
    assert lasting.process is not None
    assert lasting.process.wait(10) == 0
    assert job_pids(attempt)
    time.sleep(2.5)  # it ends while no agent is there
    lasting.up(wait=False)
    report = portal.finished(attempt)
    assert (report.reason, report.exit_code) == (Reason.FINISHED, 0)
    assert portal.log(attempt) == "done\n"


def test_a_killed_supervisor_is_our_fault(lasting: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS, **PATIENT)
    portal.running(attempt)
    time.sleep(0.5)
    os.kill(lasting.supervisor(attempt), signal.SIGKILL)
    report = portal.finished(attempt)
    assert report.reason is Reason.PLATFORM_FAULT
    assert report.started
    assert job_pids(attempt) == []


def test_agent_and_supervisor_killed_at_once(lasting: Node, portal: Peer) -> None:
    attempt = portal.assign(f"setsid sleep 60 & {TICKS}", **PATIENT)
    portal.running(attempt)
    supervisor = lasting.supervisor(attempt)
    lasting.kill()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not job_pids(attempt), 5)
    lasting.up(wait=False)
    assert portal.finished(attempt).reason is Reason.PLATFORM_FAULT


def test_another_boot_of_the_machine(lasting: Node, portal: Peer) -> None:
    """The journal names another boot: the pid in it may be anyone's and is left alone."""
    attempt = portal.assign(TICKS, **PATIENT)
    portal.running(attempt)
    supervisor = lasting.supervisor(attempt)
    lasting.kill()
    os.kill(supervisor, signal.SIGKILL)
    with sqlite3.connect(lasting.state / "journal.sqlite") as db:
        db.execute("UPDATE attempts SET boot_id = 'another'")
    db.close()
    lasting.up(wait=False)
    assert portal.finished(attempt).reason is Reason.NODE_REBOOTED


def test_groups_of_nobody_are_cleared_at_the_start(lasting: Node, portal: Peer) -> None:
    layout, _ = cgroups.detect(portal.node)
    if layout is None:
        pytest.skip("needs root and control groups")
    lasting.signal(signal.SIGTERM)
    assert lasting.process is not None
    lasting.process.wait(10)
    layout.prepare()
    stray = layout.group("att_stray")
    stray.create(Limits(500, 64))
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    stray.join(pid)
    lasting.up()
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert "att_stray" not in layout.names()


def test_an_assignment_that_was_taken_back(node: Node, portal: Peer) -> None:
    def refuse(method: str, path: str) -> None:
        if path.endswith("/accept"):
            raise Problem(409, "TAKEN_BACK")

    portal.hook = refuse
    attempt = portal.assign("echo never")
    until(lambda: "TAKEN_BACK" in node.said())
    portal.leases[attempt].state = "lapsed"
    portal.hook = None
    again = portal.assign("echo now")
    assert portal.finished(again).reason is Reason.FINISHED


def test_a_finish_is_repeated_until_it_is_taken(node: Node, portal: Peer) -> None:
    tries: list[str] = []

    def lose(method: str, path: str) -> None:
        if path.endswith("/finish"):
            tries.append(path)
            if len(tries) < 3:
                raise Problem(503, "down")

    portal.hook = lose
    attempt = portal.assign("echo hi")
    assert portal.finished(attempt).reason is Reason.FINISHED
    assert len(tries) == 3


def test_a_chunk_of_log_that_came_but_was_not_answered(node: Node, portal: Peer) -> None:
    attempt = portal.assign("echo one; sleep 1; echo two")
    until(lambda: "one" in portal.log(attempt))
    portal.leases[attempt].logs["stdout"] += b"two\n"  # the portal has more than we think
    portal.finished(attempt)
    assert portal.log(attempt) == "one\ntwo\n"


def test_a_full_stream_does_not_stop_the_job(node: Node, portal: Peer) -> None:
    def full(method: str, path: str) -> None:
        if path.endswith("/logs/stdout"):
            raise Problem(413, "STREAM_FULL")

    portal.hook = full
    attempt = portal.assign("echo a; sleep 0.5; echo b >&2")
    assert portal.finished(attempt).reason is Reason.FINISHED
    assert portal.log(attempt, "stderr") == "b\n"


def test_a_node_that_was_cloned_stops(node: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    portal.incarnation += 1  # another agent has signed in for this node
    assert node.process is not None
    assert node.process.wait(15) == 3
    assert job_pids(attempt) == []


def test_a_cloned_production_node_stops_its_jobs_too(lasting: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    portal.incarnation += 1
    assert lasting.process is not None
    assert lasting.process.wait(15) == 3
    assert job_pids(attempt) == []


def test_a_new_secret_is_kept(lasting: Node, portal: Peer) -> None:
    """The portal rotates the node's secret: the next call signs in with it, and so does the next start."""
    portal.next_secret = "another-secret-of-the-node"
    until(lambda: portal.secret == "another-secret-of-the-node")
    attempt = portal.assign("echo hi")
    assert portal.finished(attempt).reason is Reason.FINISHED
    lasting.kill()
    lasting.up()


def test_down_waits_for_the_jobs_and_ends(node: Node, portal: Peer) -> None:
    attempt = portal.assign("sleep 1; echo done")
    portal.running(attempt)
    done = node.command("down", "--deadline", "1m")
    assert (done.returncode, "stopped" in done.stdout) == (0, True), done.stderr
    assert portal.finished(attempt, 1).reason is Reason.FINISHED
    assert node.process is not None
    assert node.process.wait(5) == 0


def test_a_drain_at_its_deadline_stops_the_jobs(node: Node, portal: Peer) -> None:
    attempt = portal.assign(TICKS)
    portal.running(attempt)
    portal.order(wire.OrderKind.DRAIN, deadline_ms=300)
    assert portal.finished(attempt).reason is Reason.NODE_DRAINED


def test_orders_are_carried_out(node: Node, portal: Peer) -> None:
    known = len(portal.inventories)
    portal.order(wire.OrderKind.SELF_TEST)
    portal.until(lambda: any(i.self_test for i in portal.inventories[known:]))
    portal.order(wire.OrderKind.INVENTORY)
    portal.until(lambda: any(i.runtime for i in portal.inventories[known:]))


def test_two_agents_on_one_machine_leave_each_other_alone(node: Node, portal: Peer, room: Path) -> None:
    attempt = portal.assign(TICKS, **PATIENT)
    portal.running(attempt)
    with Peer() as other:
        other.node = portal.node + "b"
        state = room / "second"
        state.mkdir(mode=0o711)
        second = Node(other, state, ["--own-jobs", "--slot-uid-base", "20101"])
        try:
            second.enroll()
            second.up()
            theirs = other.assign("id -u; sleep 0.3")
            assert other.finished(theirs).reason is Reason.FINISHED
            if os.geteuid() == 0:
                assert other.log(theirs) == "20101\n"
            second.signal(signal.SIGTERM)
            assert second.process is not None
            second.process.wait(10)
        finally:
            second.end()
    assert job_pids(attempt)
    portal.cancel(attempt)
    assert portal.finished(attempt).frozen_us == 0


def test_a_second_agent_in_the_same_folder_is_refused(node: Node) -> None:
    done = node.command("up")
    assert done.returncode == 1
    assert "running already" in done.stderr


def test_a_clean_end_leaves_nothing(node: Node, portal: Peer) -> None:
    attempt = portal.assign("echo hi")
    portal.finished(attempt)
    node.signal(signal.SIGTERM)
    assert node.process is not None
    assert node.process.wait(10) == 0
    assert {entry.name for entry in node.state.iterdir()} <= {
        "attempts",
        "agent.log",
        "journal.sqlite",
        "lock",
        "node.json",
        "tools",
    }
    groups = Path("/sys/fs/cgroup")
    assert not [path for path in (*groups.glob(f"*/idlewild-{portal.node}"), *groups.glob(f"idlewild-{portal.node}"))]


def test_an_upgrade_under_a_running_job(portal: Peer, room: Path) -> None:
    """The old agent's files are gone and another version is there: the job goes on under its old supervisor, the new
    agent adopts it, and what the job does afterwards (its second phase, its end) is told by the new one."""
    old, new, state = room / "old", room / "new", room / "state"
    portal.node = f"nod_u{os.getpid()}"
    for place in (old, new):
        shutil.copytree(ROOT / "agent", place / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    config = new / "agent" / "config.py"
    config.write_text(re.sub(r"^VERSION = .*$", 'VERSION = "9.9.9"', config.read_text(), flags=re.MULTILINE))
    state.mkdir(mode=0o711)

    def run(place: Path, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "agent", *words, "--state-dir", str(state)]
        log = (room / "agent.log").open("ab")
        with log:
            return subprocess.Popen(command, cwd=place, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": ""})

    node = Node(portal, state, [])
    assert run(old, "enroll", portal.token, "--url", portal.url).wait(60) == 0
    try:
        node.process = run(old, "up", "--cores", "1", "--short-suite")
        portal.until(lambda: portal.inventories, what=f"for the inventory: {(room / 'agent.log').read_text()}")
        script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo $i; sleep 0.1; done"
        attempt = portal.assign(
            script, setup="echo set up; sleep 3", checkpoint=wire.CheckpointPlan("/job/x", 60_000), **PATIENT
        )
        portal.until(lambda: "set up" in portal.log(attempt), what="for its first words")
        supervisor = node.supervisor(attempt)
        node.process.terminate()
        node.process.wait(20)
        shutil.rmtree(old)  # as an upgrade does it: what was not loaded before cannot be now
        node.process = run(new, "up", "--cores", "1", "--short-suite")
        report = portal.finished(attempt, 90)
        assert (report.reason, report.exit_code) == (wire.Reason.FINISHED, 0)
        assert portal.log(attempt).split() == ["set", "up", *[str(n) for n in range(1, 61)]]
        assert ("run", False) in portal.leases[attempt].phases
        assert supervisor
        portal.until(lambda: portal.inventories[-1].agent_version == "9.9.9", what="for the new version")
        assert len({sync.incarnation for sync in portal.syncs if sync.incarnation}) == 2
        assert not [phase for phase, frozen in portal.leases[attempt].phases if frozen]
    finally:
        node.end()


def test_what_a_job_uses_is_told_while_it_runs(node: Node, portal: Peer) -> None:
    attempt = portal.assign("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 60")
    samples = portal.leases[attempt].samples
    portal.until(lambda: len(samples) >= 6, what="for samples")
    assert [one.cpu_us for one in samples] == sorted(one.cpu_us for one in samples)
    assert max(one.memory_bytes for one in samples) > 100_000
    portal.cancel(attempt)
    portal.finished(attempt)
