"""Groups: what this machine has for real, and both trees of control files as they are written and read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent.executors import cgroups, tree
from agent.executors.cgroups import Layout, V1Group, V2Group
from agent.executors.groups import GroupRefused, Limits
from agent.launching import Ground
from tests.agent.conftest import until

FILES_V2 = {
    "cgroup.procs": "",
    "cpu.max": "max 100000",
    "cpu.stat": "usage_usec 123\nuser_usec 100\n",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.current": "2048",
    "memory.peak": "4096",
    "memory.events": "low 0\noom 1\noom_kill 2\n",
    "memory.oom.group": "0",
    "pids.max": "max",
    "cgroup.freeze": "0",
    "cgroup.events": "populated 0\nfrozen 1\n",
    "cgroup.kill": "",
}


def test_what_is_written_into_a_v2_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, str] = {}
    monkeypatch.setattr(cgroups, "write", lambda path, value: written.__setitem__(path.name, value))
    group = V2Group(tmp_path / "job")
    group.create(Limits(1500, 64, 100))
    assert written == {
        "cpu.max": "150000 100000",
        "memory.max": str(64 << 20),
        "memory.oom.group": "1",
        "pids.max": "100",
    }
    with pytest.raises(FileExistsError):
        group.create(Limits(1500, 64))
    group.remove()
    group.remove()


def test_what_is_read_from_a_v2_group(tmp_path: Path) -> None:
    for name, text in FILES_V2.items():
        (tmp_path / name).write_text(text)
    group = V2Group(tmp_path)
    assert (group.usage().cpu_us, group.usage().mem_peak_bytes, group.usage().oom_kills) == (123, 4096, 2)
    (tmp_path / "memory.peak").unlink()  # before 5.19
    (tmp_path / "memory.current").write_text("8192")
    assert group.usage().mem_peak_bytes == 8192
    (tmp_path / "memory.current").write_text("10")
    assert group.usage().mem_peak_bytes == 8192
    assert group.freeze()
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
    assert group.kill()
    assert cgroups.from_json(dict(group.to_json())).to_json() == group.to_json()


def test_a_refusal_of_the_kernel_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(GroupRefused, match=r"writing '5'.*none"):
        cgroups.write(tmp_path / "none", "5")


def test_a_group_that_is_gone_is_killed_and_empty(tmp_path: Path) -> None:
    gone = V2Group(tmp_path / "gone")
    assert gone.kill()
    assert gone.pids() == []
    assert not gone.frozen()
    plain = V1Group({name: tmp_path / "gone" for name in cgroups.V1_NEEDED})
    assert plain.kill()
    assert not plain.frozen()


def test_mounts_are_read_with_their_roots(tmp_path: Path) -> None:
    assert cgroups._folder((Path("/sys/fs/cgroup/cpu"), "/"), "/a/b") == Path("/sys/fs/cgroup/cpu/a/b")
    assert cgroups._folder((Path("/sys/fs/cgroup/cpu"), "/box"), "/box/a") == Path("/sys/fs/cgroup/cpu/a")
    assert cgroups._folder((Path("/sys/fs/cgroup"), "/"), "/") == Path("/sys/fs/cgroup")


def test_the_real_group_of_this_machine(grouped: Ground) -> None:
    assert grouped.layout is not None
    group = grouped.layout.group("att_real")
    group.create(Limits(300, 64))
    assert grouped.layout.names() == {"att_real"}
    pid = os.fork()
    if pid == 0:
        try:
            group.join(os.getpid())
            while True:
                pass
        finally:
            os._exit(1)
    until(lambda: group.pids() == [pid])
    until(lambda: group.usage().cpu_us > 10_000)
    again = cgroups.from_json(dict(group.to_json()))
    assert again.freeze()
    assert group.frozen()
    before = group.usage().cpu_us
    time.sleep(0.2)
    assert group.usage().cpu_us == before
    group.thaw()
    until(lambda: group.usage().cpu_us > before)
    group.freeze()
    assert group.kill()
    os.waitpid(pid, 0)
    group.remove()
    assert grouped.layout.names() == set()


def test_a_pure_v1_group_freezes_and_kills_too(grouped: Ground) -> None:
    """The hybrid's controllers without its v2 tree: the older way of freezing and killing."""
    layout = grouped.layout
    if layout is None or layout.kind == "v2":
        pytest.skip("needs cgroup v1 controllers")
    plain = Layout("v1", {name: base for name, base in layout.bases.items() if name != "unified"})
    group = plain.group("att_v1")
    group.create(Limits(500, 64))
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            try:
                group.join(os.getpid())
                while True:
                    time.sleep(0.01)
            finally:
                os._exit(1)
        pids.append(pid)
    until(lambda: sorted(group.pids()) == sorted(pids))
    assert group.freeze()
    assert group.frozen()
    group.thaw()
    assert not group.frozen()
    group.freeze()
    killer = os.fork()  # the children are ours: their zombies stay in the group until we wait for them
    if killer == 0:
        os._exit(0 if group.kill() else 1)
    for pid in pids:
        os.waitpid(pid, 0)
    assert os.waitpid(killer, 0)[1] == 0
    assert group.usage().cpu_us > 0
    group.remove()


def test_no_layout_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_writable", lambda folder: False)
    layout, why = cgroups.detect("nod_none")
    assert layout is None
    assert "delegate a group" in why


def test_a_tree_follows_its_root() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(2):
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
            time.sleep(60)
        finally:
            os._exit(0)
    group = tree.TreeGroup(pid, "att_tree")
    until(lambda: len(group.pids()) == 2)
    assert group.freeze()
    assert group.frozen()
    group.thaw()
    assert not group.frozen()
    assert group.usage().mem_now_bytes > 0
    assert group.kill()
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert group.pids() == []  # the root is gone: its pid may be anyone's
    assert tree.from_json(dict(group.to_json())).pids() == []


def test_start_times_name_processes() -> None:
    assert tree.start_time(os.getpid()) == tree.start_time(os.getpid())
    assert tree.start_time(2**22 - 1) is None
