"""What this machine's sandbox really does, shown with the real supervisor: the proof behind `isolation`.

Three cases. `full`: sandbox and control groups; serves any tenant. `bwrap`: sandbox, but limits and freezing only by signals;
`none`: a new session and nothing else; these two serve their provider's own organisation. **One failed or skipped check means
the lower case**, and each check names its fix. Runs at enrolment, at each start and daily; takes about three seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import clocks, folders
from .executors import cgroups
from .executors.found import find_bwrap
from .launching import Ground, SupervisorSilent, ask, launch, make_folder, read_facts, start_supervisor
from .protocol import Check, Isolation, Reason, SelfTest

TRIAL_S = 20.0
CORES_MILLI = 300
MEMORY_MIB = 48
SPIN_MS = 900

LOOK = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
say uid "$(id -u)"
say host "$(cat /proc/sys/kernel/hostname)"
say processes "$(ls /proc | grep -c '^[0-9]')"
say interfaces "$(grep -c ':' /proc/net/dev)"
for place in /root /sys /home /etc/passwd /var /run; do [ -e "$place" ] && say seen "$place"; done
for place in / /usr /etc /dev; do ( : > "$place/idlewild-probe" ) 2>/dev/null && say writable "$place"; done
( : > /job/probe ) && say job yes
( : > /tmp/probe ) && say tmp yes
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d ':' | while read -r key value; do say "$key" "$value"; done
env | while IFS='=' read -r key value; do say env "$key"; done
unshare -Ur true 2>/dev/null && say unshare yes
exit 0
"""
HOG = "head -c 400000000 /dev/zero | tail > /dev/null; echo survived"
MANY = "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all"
ESCAPE = "setsid sleep 60 & (setsid sh -c 'setsid sleep 60 & sleep 60' &) ; echo ready; sleep 60"
SPIN = "while :; do :; done"
ALLOWED_ENVIRONMENT = {"PATH", "HOME", "PWD", "IDLEWILD_ATTEMPT", "LC_CTYPE", "SHLVL", "_", "OLDPWD"}


@dataclass(frozen=True)
class Ended:
    facts: dict[str, Any]
    output: str

    @property
    def reason(self) -> str:
        return str(self.facts.get("reason", ""))


class Trials:
    """Small jobs under the real supervisor, in slots of their own at the end of this agent's range."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.count = 0

    async def start(self, script: str, *, deadline_ms: int = 60_000, pids: int = 256) -> tuple[Path, Any]:
        self.count += 1
        name = f"selftest-{os.getpid()}-{self.count}"
        folder = self.ground.attempt_folder(name)
        slot = 90 + self.count
        job = make_folder(folder, self.ground.uid(slot))
        order = launch(
            self.ground,
            attempt=name,
            fence=1,
            slot=slot,
            job_folder=job,
            phases=[("run", script)],
            environment={"PATH": "/usr/bin:/bin", "HOME": "/job", "IDLEWILD_ATTEMPT": name},
            cores_milli=CORES_MILLI,
            memory_mib=MEMORY_MIB if self.ground.layout else 4096,
            disk_mib=64,
            shm_mib=16,
            deadline_ms=clocks.boot_ms() + deadline_ms,
            max_duration_ms=60_000,
            frozen_kill_ms=60_000,
            stop_grace_ms=0,
            pids=pids,
        )
        order["own_jobs"] = True
        return folder, await start_supervisor(folder, order)

    async def finish(self, folder: Path, process: Any) -> Ended:
        try:
            await asyncio.wait_for(process.wait(), TRIAL_S)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
        facts = read_facts(folder, "exit.json") or {}
        try:
            output = (folder / "stdout.log").read_text(errors="replace")
        except OSError:
            output = ""
        log = folder / "supervisor.log"
        if not facts:
            facts = {"message": log.read_text(errors="replace")[-300:] if log.exists() else ""}
        folders.remove(folder)
        return Ended(facts, output)

    async def run(self, script: str, *, pids: int = 256) -> Ended:
        return await self.finish(*await self.start(script, pids=pids))


def _facts(output: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in output.splitlines():
        key, _, value = line.partition("=")
        found.setdefault(key, []).append(value.strip())
    return found


async def _look(trials: Trials) -> list[Check]:
    ended = await trials.run(LOOK)
    seen = _facts(ended.output)
    started = ended.reason == Reason.FINISHED.value
    checks = [
        Check(
            "sandbox_starts",
            started,
            str(ended.facts.get("message", ""))[:500],
            "" if started else "allow unprivileged user namespaces (sysctl user.max_user_namespaces > 0)",
        )
    ]
    if not started:
        return checks

    def one(key: str) -> str:
        return seen.get(key, [""])[0]

    def add(name: str, ok: bool, detail: str, fix: str) -> None:
        checks.append(Check(name, ok, detail[:500], "" if ok else fix))

    uid_ok = one("uid") not in ("0", "") and (not trials.ground.drops_uid or int(one("uid")) >= 1000)
    add("own_user", uid_ok, f"uid {one('uid')}", "start the agent as root, so that each job gets a uid of its own")
    add("own_processes", int(one("processes") or 99) <= 8, f"{one('processes')} seen", "update bubblewrap")
    add("no_network", one("interfaces") == "1", f"{one('interfaces')} interfaces", "allow network namespaces")
    places = seen.get("seen", [])
    add("no_foreign_files", not places, " ".join(places) or "none seen", "update bubblewrap")
    writable = seen.get("writable", [])
    add("read_only_system", not writable, " ".join(writable) or "read-only", "update bubblewrap to 0.8 or later")
    add(
        "job_folder",
        one("job") == "yes" and one("tmp") == "yes",
        "/job and /tmp",
        "let the slot's user reach the folder",
    )
    powerless = int(one("CapEff") or "1", 16) == 0 and int(one("CapBnd") or "1", 16) == 0 and one("NoNewPrivs") == "1"
    add("no_privileges", powerless, f"CapEff {one('CapEff')}", "update bubblewrap")
    add("system_call_filter", one("Seccomp") == "2", f"Seccomp {one('Seccomp')}", "a kernel with CONFIG_SECCOMP_FILTER")
    add("no_new_namespaces", "unshare" not in seen, "unshare refused", "update bubblewrap to 0.8 or later")
    extra = sorted(set(seen.get("env", [])) - ALLOWED_ENVIRONMENT)
    add("clean_environment", not extra, " ".join(extra) or "clean", "update bubblewrap")
    add("hostname", one("host") == "job", one("host"), "allow UTS namespaces")
    return checks


async def _memory(trials: Trials) -> Check:
    ended = await trials.run(HOG)
    ok = ended.reason == Reason.OUT_OF_MEMORY.value and "survived" not in ended.output
    return Check("memory_limit", ok, ended.reason, "" if ok else "enable the memory controller")


async def _pids(trials: Trials) -> Check:
    ended = await trials.run(MANY, pids=20)
    ok = ended.reason != "" and "all" not in ended.output
    return Check("process_limit", ok, ended.reason, "" if ok else "enable the pids controller")


async def _kill(trials: Trials) -> Check:
    folder, process = await trials.start(ESCAPE)
    started = await _until(folder, lambda facts: facts["stdout_bytes"] > 0)
    group = (started or {}).get("group", {})
    before = clocks.boot_ms()
    try:
        await ask(folder, do="stop", reason=Reason.STOPPED_BY_OPERATOR.value, grace_ms=0)
    except SupervisorSilent:
        pass  # shows in the result
    ended = await trials.finish(folder, process)
    took = clocks.boot_ms() - before
    left = cgroups.from_json(group).pids() if group and group.get("kind") != "tree" else []
    ok = bool(started) and ended.reason == Reason.STOPPED_BY_OPERATOR.value and not left and took < 2000
    return Check("kill_reaches_all", ok, f"{took} ms", "" if ok else "enable cgroup v2 or the freezer controller")


async def _until(folder: Path, wanted: Any, seconds: float = 5.0) -> dict[str, Any] | None:
    until = clocks.boot_ms() + int(seconds * 1000)
    while clocks.boot_ms() < until:
        try:
            facts = await ask(folder, do="status")
        except SupervisorSilent:
            facts = {}
        if facts and wanted(facts):
            return facts
        await asyncio.sleep(0.03)
    return None


async def _freeze(trials: Trials) -> list[Check]:
    """One spinning job: its CPU is capped, counted, and stands still from the deadline on.

    On a busy machine the deadline may come before the job has begun; then there is nothing to see, and it gets longer.
    """
    checks: list[Check] = []
    for slack_ms in (300, 1_500, 6_000):
        checks = await _freeze_once(trials, slack_ms)
        if all(check.ok for check in checks):
            break
    return checks


async def _freeze_once(trials: Trials, slack_ms: int) -> list[Check]:
    folder, process = await trials.start(SPIN, deadline_ms=SPIN_MS + slack_ms)
    frozen = await _until(folder, lambda facts: facts["frozen"], seconds=(SPIN_MS + slack_ms) / 1000 + 5)
    later: dict[str, Any] | None = None
    if frozen:
        await asyncio.sleep(0.2)
        later = await _until(folder, lambda facts: True)
    try:
        await ask(folder, do="stop", reason=Reason.STOPPED_BY_OPERATOR.value, grace_ms=0)
    except SupervisorSilent:
        pass
    ended = await trials.finish(folder, process)
    still = bool(frozen and later and later["ran_us"] == frozen["ran_us"])
    checks = [
        Check("freeze_at_deadline", still, "stands still" if still else "went on", "" if still else "see the log")
    ]
    if trials.ground.layout is None:
        return checks
    cpu, ran = int(ended.facts.get("cpu_us", 0)), max(1, int(ended.facts.get("ran_us", 1)))
    counted = cpu > 20_000
    checks.append(Check("cpu_counted", counted, f"{cpu} us", "" if counted else "enable the cpu controller"))
    capped = counted and cpu * 1000 // ran <= CORES_MILLI * 3 // 2
    detail = f"{cpu * 1000 // ran} of {CORES_MILLI} thousandths"
    checks.append(Check("cpu_limit", capped, detail, "" if capped else "enable CFS bandwidth (CONFIG_CFS_BANDWIDTH)"))
    return checks


def _neighbours(ground: Ground, secrets: list[Path]) -> Check:
    """A slot's user can read neither another slot's folder nor the agent's own files."""
    name = f"selftest-{os.getpid()}-files"
    uid, other = ground.uid(98), ground.uid(99)
    if uid is None or other is None:
        return Check("files_apart", False, "one user for all", "start the agent as root", skipped=True)
    folder = ground.attempt_folder(name)
    job = make_folder(folder, other)
    try:
        for target in [job, *[secret for secret in secrets if secret.exists()]]:
            answer = subprocess.run(
                ["/bin/cat" if target.is_file() else "/bin/ls", str(target)],
                user=uid,
                group=uid,
                extra_groups=[],
                capture_output=True,
                check=False,
                cwd="/",
            )
            if answer.returncode == 0:
                return Check("files_apart", False, f"{target.name} can be read", "chmod the state folder to 0700")
    except (OSError, subprocess.SubprocessError) as error:
        return Check("files_apart", False, str(error)[:500], "let the slot's user reach the folder")
    finally:
        folders.remove(folder)
    return Check("files_apart", True, "unreadable")


async def run(ground: Ground, secrets: list[Path]) -> SelfTest:
    """All checks that apply to this ground; `isolation` is the case they prove."""
    trials = Trials(ground)
    if ground.executor != "bwrap":
        return SelfTest(Isolation.NONE, ground.executor, "none", (await _freeze_plain(trials),), note="no sandbox")
    looked = await _look(trials)
    if not looked[0].ok:
        return SelfTest(Isolation.NONE, "bwrap", "none", tuple(looked))
    checks = list(looked)
    checks.append(await asyncio.to_thread(_neighbours, ground, secrets))
    if ground.layout is not None:
        checks.extend(await asyncio.gather(_memory(trials), _pids(trials), _kill(trials)))
    else:
        checks.append(await _kill(trials))
    checks.extend(await _freeze(trials))
    passed = all(check.ok for check in checks)
    kind = ground.layout.kind if ground.layout else "none"
    if ground.layout is not None:
        isolation = Isolation.FULL if passed else Isolation.BWRAP
    else:
        needed = [check for check in checks if not check.skipped]
        isolation = Isolation.BWRAP if all(check.ok for check in needed) else Isolation.NONE
    return SelfTest(isolation, "bwrap", kind, tuple(checks))


async def _freeze_plain(trials: Trials) -> Check:
    return (await _freeze(trials))[0]


def lay(
    *, node: str, folder: Path, slot_uid_base: int, own_jobs: bool, executor: str, tools: Path
) -> tuple[Ground, list[str]]:
    """The best ground this machine seems to have, unproved, and why it isn't better."""
    layout, why_no_groups = cgroups.detect(node)
    bwrap, why_no_bwrap = ("", "not wanted") if executor == "process" else find_bwrap(tools)
    ground = Ground(
        node=node,
        executor="bwrap" if bwrap else "process",
        bwrap=bwrap,
        layout=layout if bwrap else None,
        folder=folder,
        slot_uid_base=slot_uid_base,
        own_jobs=own_jobs,
    )
    folder.mkdir(parents=True, exist_ok=True)
    if ground.layout is not None:
        ground.layout.prepare()
    return ground, [note for note in (why_no_groups, why_no_bwrap) if note]


async def settle(
    *, node: str, folder: Path, slot_uid_base: int, own_jobs: bool, executor: str, secrets: list[Path], tools: Path
) -> tuple[Ground, SelfTest]:
    """The best case this machine proves: try the sandbox with groups, then without, then a bare process."""
    ground, notes = lay(
        node=node, folder=folder, slot_uid_base=slot_uid_base, own_jobs=own_jobs, executor=executor, tools=tools
    )
    result = await run(ground, secrets)
    if result.isolation is Isolation.NONE and ground.executor == "bwrap":
        failed = "; ".join(f"{check.name}: {check.detail}" for check in result.checks if not check.ok)
        notes.append(failed)
        bare = await run(_bare(ground), secrets)
        result = SelfTest(Isolation.NONE, "process", "none", (*result.checks, *bare.checks))
        ground = _bare(ground)
    note = "; ".join([result.note, *notes] if result.note else notes)[:500]
    return ground, SelfTest(result.isolation, result.executor, result.cgroups, result.checks, note)


def _bare(ground: Ground) -> Ground:
    return Ground(ground.node, "process", "", None, ground.folder, ground.slot_uid_base, ground.own_jobs)


def to_text(result: SelfTest) -> str:
    """For the terminal."""
    lines = [f"isolation: {result.isolation.value} ({result.executor}, cgroups {result.cgroups})"]
    for check in result.checks:
        mark = "ok  " if check.ok else ("skip" if check.skipped else "FAIL")
        lines.append(f"  {mark} {check.name}: {check.detail}" + (f"  fix: {check.fix}" if check.fix else ""))
    if result.note:
        lines.append(f"  note: {result.note}")
    return "\n".join(lines)


def to_json(result: SelfTest) -> str:
    return json.dumps(result.to_wire())
