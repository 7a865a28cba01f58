"""From an assignment to `launch.json`: the sandbox of this machine, the limits, the environment made from nothing."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import egress
from .devices.plugin import Attachment
from .executors.cgroups import Layout
from .protocol import AssignmentSpec, Phase

SOCKET_S = 0.5
PIDS = 4096
TMP_MOST = 1 << 30


@dataclass(frozen=True)
class Ground:
    """What the self-test settled about this machine: executor, groups, and whose ids the jobs get."""

    node: str
    executor: str  # bwrap, process
    bwrap: str
    layout: Layout | None  # None: no control groups
    folder: Path  # attempts live below it; the slots' users can reach it
    slot_uid_base: int
    own_jobs: bool

    @property
    def drops_uid(self) -> bool:
        return self.executor == "bwrap" and os.geteuid() == 0

    def uid(self, slot: int) -> int | None:
        """Slots count from 1."""
        return self.slot_uid_base + slot - 1 if self.drops_uid else None

    def attempt_folder(self, attempt: str) -> Path:
        return self.folder / attempt

    def group(self, attempt: str) -> dict[str, Any]:
        return dict(self.layout.group(attempt).to_json()) if self.layout else {"kind": "tree"}

    def without_cgroups(self) -> Ground:
        return replace(self, layout=None)


def environment(spec: AssignmentSpec, attachment: Attachment, *, resumed: bool = False) -> dict[str, str]:
    """The job's whole environment. Ours come last: a tenant cannot pretend to be another attempt."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/job",
        **spec.envs,
        **spec.secrets,
        **attachment.environment,
        "IDLEWILD_JOB_ID": spec.job,
        "IDLEWILD_TASK": spec.task_name,
        "IDLEWILD_ATTEMPT": spec.attempt,
        "IDLEWILD_REGION": spec.region,
        **({"IDLEWILD_RESUME": "1"} if resumed else {}),
        **(egress.environment() if spec.egress else {}),
    }


def launch(
    ground: Ground,
    *,
    attempt: str,
    fence: int,
    slot: int,
    job_folder: Path,
    phases: list[tuple[str, str]],
    environment: Mapping[str, str],
    cores_milli: int,
    memory_mib: int,
    disk_mib: int,
    shm_mib: int,
    deadline_ms: int,
    max_duration_ms: int,
    frozen_kill_ms: int,
    stop_grace_ms: int,
    attachment: Attachment = Attachment(),  # noqa: B008 - frozen
    masks: tuple[str, ...] = (),
    pids: int = PIDS,
    hosts: tuple[str, ...] = (),
    private_hosts: bool = False,
) -> dict[str, Any]:
    home = dict(environment)
    if ground.executor != "bwrap":
        home["HOME"] = str(job_folder)
    return {
        "attempt": attempt,
        "fence": fence,
        "executor": ground.executor,
        "bwrap": ground.bwrap,
        "job_folder": str(job_folder),
        "uid": ground.uid(slot),
        "shm_bytes": shm_mib << 20,
        "tmp_bytes": min(TMP_MOST, memory_mib << 20),
        "file_bytes": disk_mib << 20,
        "memory_bytes": None if ground.layout else memory_mib << 20,
        "binds": [list(pair) for pair in attachment.binds],
        "environment": home,
        "phases": phases,
        "group": ground.group(attempt),
        "cores_milli": cores_milli,
        "memory_mib": memory_mib,
        "pids": pids,
        "disk_bytes": disk_mib << 20,
        "deadline_ms": deadline_ms,
        "max_duration_ms": max_duration_ms,
        "frozen_kill_ms": frozen_kill_ms,
        "stop_grace_ms": stop_grace_ms,
        "masks": list(masks),
        "egress": list(hosts),
        "private_egress": private_hosts,
        "own_jobs": ground.own_jobs,
        "agent_pid": os.getpid(),
    }


def from_spec(
    ground: Ground,
    spec: AssignmentSpec,
    slot: int,
    deadline_ms: int,
    attachment: Attachment,
    *,
    resumed: bool = False,
) -> dict[str, Any]:
    phases = [(Phase.SETUP.value, spec.setup)] if spec.setup.strip() else []
    return launch(
        ground,
        attempt=spec.attempt,
        fence=spec.fence,
        slot=slot,
        job_folder=ground.attempt_folder(spec.attempt) / "job",
        phases=[*phases, (Phase.RUN.value, spec.run)],
        environment=environment(spec, attachment, resumed=resumed),
        cores_milli=spec.resources.cores_milli,
        memory_mib=spec.resources.memory_mib,
        disk_mib=spec.resources.disk_mib,
        shm_mib=spec.resources.shm_mib,
        deadline_ms=deadline_ms,
        max_duration_ms=spec.max_duration_s * 1000,
        frozen_kill_ms=spec.frozen_kill_ms,
        stop_grace_ms=spec.stop_grace_ms,
        attachment=attachment,
        masks=tuple(spec.secrets.values()),
        hosts=spec.egress,
    )


def make_folder(folder: Path, uid: int | None) -> Path:
    """The attempt's folder (searchable, ours) with the job's own inside (the slot user's alone)."""
    folder.mkdir(mode=0o711)
    folder.chmod(0o711)
    job = folder / "job"
    job.mkdir(mode=0o700)
    if uid is not None:
        os.chown(job, uid, uid)
    return job


async def start_supervisor(folder: Path, order: dict[str, Any]) -> asyncio.subprocess.Process:
    """Called from the main thread's loop: with --own-jobs the supervisor dies with the thread that forked it."""
    path = folder / "launch.json"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(order, file)
    package = __package__ or "agent"
    with open(folder / "supervisor.log", "ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"{package}.supervisor",
            str(folder),
            cwd=str(Path(__file__).resolve().parent.parent),  # finds the package in a source tree, too
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={
                "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            },
        )


class SupervisorSilent(Exception):
    """The supervisor is gone, frozen, or too busy to answer in time."""


async def ask(folder: Path, **request: object) -> dict[str, Any]:
    """One request over the supervisor's socket. Reached through a descriptor of its folder: socket paths are short."""

    def call() -> dict[str, Any]:
        where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(SOCKET_S)
                connection.connect(f"/proc/self/fd/{where}/s")
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as answers:
                    line = answers.readline(1_000_000)
        finally:
            os.close(where)
        answer = json.loads(line)
        if not isinstance(answer, dict) or "error" in answer:
            raise SupervisorSilent(str(answer))
        return answer

    try:
        return await asyncio.to_thread(call)
    except (OSError, ValueError) as error:
        raise SupervisorSilent(str(error)) from error


def read_facts(folder: Path, name: str) -> dict[str, Any] | None:
    """exit.json or last.json; None when it isn't there or isn't whole."""
    try:
        facts = json.loads((folder / name).read_text())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None
