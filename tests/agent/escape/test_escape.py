"""A hostile job: each way out, and each way to starve others, is tried in the real sandbox and stopped.

Quiet attempts (reads, system calls, connections) are made by one job, `probes.py`; each is a test of its own here. Loud ones
(fork bomb, memory, disk, log flood, orphans) each run as a job beside a neighbour that must not notice.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent import clocks, folders, supervisor
from agent.launching import Ground, make_folder
from tests.agent.conftest import Job, alive, until
from tests.agent.escape import probes

Start = Callable[..., Job]
PROBES = Path(probes.__file__).read_text()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    """Filled by the first test that needs it: starting a sandbox per system call would be waste."""
    return {}


@pytest.fixture
def listener() -> Iterator[int]:
    """A service on the node's loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.fixture
def look(ground: Ground, start: Start, room: Path, listener: int, verdicts: dict[str, str]) -> dict[str, str]:
    if verdicts:
        return verdicts
    secret = room / "node.json"
    secret.write_text("the node's secret")
    secret.chmod(0o600)
    neighbour = make_folder(ground.attempt_folder("att_neighbour"), ground.uid(50))
    (neighbour / "data").write_text("another tenant's")
    name = f"idlewild-escape-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as box:
        box.bind("\0" + name)
        box.listen()
        facts = {
            "secret": secret, "neighbour": neighbour, "port": listener, "abstract": name, "agent": os.getpid(),
            "shm": 4711, "socket": "/proc/self/cwd/../s",
        }  # fmt: skip
        words = " ".join(f"{key}={value}" for key, value in facts.items())
        job = start(
            ground, f"python3 - {words} <<'PROBES'\n{PROBES}\nPROBES\n", memory_mib=256 if ground.layout else 2048
        )
        ended = job.exit()
    assert ended["reason"] == "finished", (ended, job.said("stderr"))
    for line in job.said("stdout").splitlines():
        attempt, _, said = line.partition(" ")
        verdicts[attempt] = said
    return verdicts


@pytest.mark.parametrize("attempt", sorted(probes.ATTEMPTS))
def test_a_quiet_attempt_is_stopped(look: dict[str, str], attempt: str) -> None:
    assert look[attempt].startswith("stopped"), look[attempt]


# ── loud ones, beside a neighbour ─────────────────────────────────────────────────────────────────────────────────────

TICK = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"


@pytest.fixture
def neighbour(grouped: Ground, start: Start) -> Job:
    """A small job that must go on whatever happens beside it."""
    job = start(grouped, TICK)
    job.says("\n5\n")
    return job


def goes_on(neighbour: Job) -> None:
    before = neighbour.said("stdout").count("\n")
    until(lambda: neighbour.said("stdout").count("\n") > before + 3, 10, "for the neighbour")


def test_a_fork_bomb(grouped: Ground, start: Start, neighbour: Job) -> None:
    # The shells that fork each other give up at the first fork that is refused; what the last one began stays.
    bomb = "(f() { f | f & }; f) 2>/dev/null; (while :; do sleep 30 & done) 2>/dev/null; sleep 30"
    job = start(grouped, bomb, pids=64)
    until(lambda: len(job.pids()) > 40, 20, "for the bomb")
    goes_on(neighbour)
    assert len(job.pids()) <= 64
    job.group().kill()
    job.exit()
    assert job.pids() == []


def test_all_memory(grouped: Ground, start: Start, neighbour: Job) -> None:
    job = start(grouped, "x=$(head -c 900000000 /dev/zero | tr '\\0' x); echo survived")
    assert job.exit()["reason"] == "out_of_memory"
    assert "survived" not in job.said("stdout")
    goes_on(neighbour)


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_memory_by_files_in_memory(grouped: Ground, start: Start, neighbour: Job, place: str) -> None:
    job = start(grouped, f"head -c 900000000 /dev/zero > {place}/fill; echo survived; sleep 0.1")
    ended = job.exit()
    assert ended["reason"] in ("out_of_memory", "exit_nonzero")
    assert ended["mem_peak_bytes"] <= 80 << 20
    goes_on(neighbour)


def test_the_disk_by_one_file(grouped: Ground, start: Start, neighbour: Job) -> None:
    job = start(grouped, "dd if=/dev/zero of=fill bs=1M count=2000 2>/dev/null; sleep 60")
    ended = job.exit()
    assert ended["reason"] == "disk_full"
    goes_on(neighbour)


def test_the_disk_by_many_files(grouped: Ground, start: Start, neighbour: Job) -> None:
    job = start(grouped, "i=0; while :; do i=$((i+1)); head -c 4000000 /dev/zero > f$i; done")
    assert job.exit()["reason"] == "disk_full"
    used = sum(path.stat().st_blocks * 512 for path in job.job_folder.iterdir())
    assert used < 4 << 30
    goes_on(neighbour)


def test_a_file_that_is_deleted_but_held_open(grouped: Ground, start: Start) -> None:
    """It is in no folder, so a walk does not see it: the file limit is what stops it."""
    job = start(grouped, "exec 3> fill; rm fill; head -c 900000000 /dev/zero >&3; echo survived")
    ended = job.exit()
    assert ended["reason"] in ("disk_full", "exit_nonzero")
    assert "survived" not in job.said("stdout")


def test_many_files_that_are_deleted_but_held_open(grouped: Ground, start: Start, neighbour: Job) -> None:
    script = (
        'python3 -c "import os, time\n'
        "held = []\n"
        "for n in range(5):\n"
        "  held.append(open(str(n), 'wb')); os.unlink(str(n)); held[-1].write(bytes(30000000)); held[-1].flush()\n"
        'time.sleep(60)"'
    )
    job = start(grouped, script, memory_mib=256)
    ended = job.exit()
    assert ended["reason"] == "disk_full"
    goes_on(neighbour)


def test_a_tree_deeper_than_any_path(grouped: Ground, start: Start) -> None:
    """Below 4,096 bytes of path a walk by names sees nothing: files there would be free, and the folder would stay for ever."""
    script = (
        'python3 -c "import os, time\n'
        "for _ in range(3000):\n  os.mkdir('d'); os.chdir('d')\n"
        "open('hidden', 'wb').write(bytes(1000000)); time.sleep(60)\""
    )
    job = start(grouped, script, memory_mib=128)
    ended = job.exit()
    assert (ended["reason"], ended["message"][-20:]) == ("disk_full", "or nested too deeply")
    folders.remove(job.folder)
    assert not job.folder.exists()


def test_a_flood_of_output(grouped: Ground, start: Start, neighbour: Job) -> None:
    job = start(grouped, "yes flood")
    until(lambda: job.status()["stdout_bytes"] >= supervisor.LOG_MOST - 100, 60, "for the limit")
    before = clocks.boot_ms()
    job.status()  # the supervisor still answers
    assert clocks.boot_ms() - before < 3000
    time.sleep(0.3)
    assert (job.folder / "stdout.log").stat().st_size <= supervisor.LOG_MOST
    goes_on(neighbour)
    job.stop()
    job.exit()


def test_orphans_in_sessions_of_their_own(grouped: Ground, start: Start) -> None:
    job = start(
        grouped,
        "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP INT; setsid sleep 300 & sleep 300' &) ; done; echo up; sleep 300",
    )
    job.says("up")
    until(lambda: len(job.pids()) >= 8, 10, "for the orphans")
    pids = job.pids()
    job.stop(grace_ms=200)
    job.exit()
    until(lambda: not [pid for pid in pids if alive(pid)], 2, "for the last orphan")


def test_signals_are_ignored(grouped: Ground, start: Start) -> None:
    job = start(grouped, "trap '' TERM INT HUP USR1 USR2 QUIT; echo up; while :; do sleep 1; done")
    job.says("up")
    begun = time.monotonic()
    job.stop(grace_ms=300)
    job.exit()
    assert time.monotonic() - begun < 5


def test_all_cores(grouped: Ground, start: Start, neighbour: Job) -> None:
    job = start(grouped, "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait", cores_milli=250)
    job.until(lambda facts: facts["ran_us"] > 2_000_000)
    goes_on(neighbour)
    job.stop()
    ended = job.exit()
    assert ended["cpu_us"] <= ended["ran_us"] * 250 // 1000 * 3 // 2


def test_a_million_descriptors(grouped: Ground, start: Start, neighbour: Job) -> None:
    script = (
        'python3 -c "import os\n'
        "held=[]\n"
        "try:\n"
        "  while True: held.append(os.open('/dev/null', 0))\n"
        "except OSError: print('held', len(held))\"\n"
    )
    job = start(grouped, script, memory_mib=128)
    ended = job.exit()
    assert ended["reason"] == "finished", job.said("stderr")
    held = int(job.said("stdout").split()[1])
    assert held <= 1024
    goes_on(neighbour)


@pytest.mark.parametrize("name", ["x" * 255, "-rf *", "a\nb", "\\x1b]0;owned\\x07"])
def test_names_that_are_meant_for_our_tools(grouped: Ground, start: Start, name: str) -> None:
    job = start(grouped, "python3 -c \"import sys; open(sys.argv[1], 'w').write('x')\" \"$NAME\"; echo made",
                environment={"PATH": "/usr/bin:/bin", "HOME": "/job", "NAME": name})  # fmt: skip
    assert job.exit()["reason"] == "finished"
    assert len(list(job.job_folder.iterdir())) == 1


def test_a_job_cannot_outlive_its_supervisor(grouped: Ground, start: Start) -> None:
    job = start(grouped, "(setsid sleep 300 &); echo up; sleep 300")
    job.says("up")
    pids = job.pids()
    job.process.kill()
    until(lambda: not [pid for pid in pids if alive(pid)], 3, "for the tree")


def test_writing_back_to_the_log_pipe_blocks_nobody(grouped: Ground, start: Start) -> None:
    """A job that holds its output open after its end, and one that closes it, end all the same."""
    job = start(grouped, "exec 1>&- 2>&-; sleep 0.2")
    assert job.exit()["reason"] == "finished"
    job = start(grouped, "(setsid sleep 300 &) ; echo bye")
    assert job.exit(20)["reason"] == "finished"


def test_many_jobs_at_once_stay_apart(grouped: Ground, start: Start) -> None:
    jobs = [start(grouped, "touch mine; ls /job; ls -A /tmp") for _ in range(4)]
    for job in jobs:
        job.exit()
        assert job.said("stdout") == "mine\n"
    assert len({job.order["uid"] for job in jobs}) == (4 if grouped.drops_uid else 1)


def test_there_are_more_than_forty() -> None:
    loud = [name for name in globals() if name.startswith("test_")]
    assert len(probes.ATTEMPTS) + len(loud) - 2 >= 60
    assert threading.active_count() < 50  # nothing of the loud ones is left in this process
