"""The provider's command: enroll, up, down, status, self-test.

idlewild-agent enroll TOKEN --url https://portal.example.org --up     one line makes this machine a node
idlewild-agent status | down [--deadline 30m] | up | self-test
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import logging
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import clocks, probe, probes, selftest
from . import protocol as wire
from .config import VERSION, Config, Identity, default_state, load_identity, save_identity
from .devices.found import Devices
from .runner import Runner
from .service import install
from .transport import Portal, Refused, Unreachable

ENROLL_TRIES = 5
LEAST_CORES_MILLI = 100
UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

# What to do about a refused token, beside the portal's own sentence.
TOKEN_FIXES = {
    wire.Code.TOKEN_USED.value: "each token enrolls one node: make another on the portal's page Nodes",
    wire.Code.TOKEN_EXPIRED.value: "make a new token on the portal's page Nodes",
    wire.Code.TOKEN_UNKNOWN.value: "check that the token was pasted whole and that --url names the right portal",
}


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fail(text: str, code: int = 1) -> NoReturn:
    sys.stderr.write(f"idlewild-agent: {text}\n")
    raise SystemExit(code)


def _cores(text: str) -> int:
    """`0.5` → 500 thousandths; without floats, as everything that is metered."""
    found = re.fullmatch(r"(\d{1,5})(?:\.(\d{1,3}))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cores, for example 4 or 0.5")
    milli = int(found[1]) * 1000 + int((found[2] or "0").ljust(3, "0"))
    if milli < LEAST_CORES_MILLI:
        raise argparse.ArgumentTypeError("a node sells at least 0.1 cores")
    return milli


def _listen(text: str) -> str:
    try:
        if text:
            probes.address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.:_-]{0,255}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no address")
    return text


def _duration_ms(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration, for example 90s, 10m or 2h")
    return int(found[1]) * UNIT_MS[found[2]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="idlewild-agent", description="Offers this machine's idle time on Idlewild.")
    parser.add_argument("--version", action="version", version=f"idlewild-agent {VERSION}, wire {wire.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    enroll = commands.add_parser("enroll", aliases=["enrol"], help="make this machine a node, with a one-time token")
    enroll.add_argument("token")
    enroll.add_argument("--url", default=os.environ.get("IDLEWILD_URL", ""), help="address of the portal")
    enroll.add_argument("--up", action="store_true", help="and start working")
    enroll.add_argument("--no-service", action="store_true", help="with --up: run here instead of as a system service")
    up = commands.add_parser("up", help="work until stopped")
    down = commands.add_parser("down", help="take no more jobs, end when the running ones have ended")
    down.add_argument("--deadline", type=_duration_ms, default="30m", help="stop jobs that still run then (30m)")
    down.add_argument("--no-wait", action="store_true")
    status = commands.add_parser("status", help="what the agent does now")
    status.add_argument("--json", action="store_true")
    test = commands.add_parser("self-test", help="show what this machine's sandbox really does")
    test.add_argument("--json", action="store_true")
    for command in (enroll, up, test):
        command.add_argument("--executor", choices=("sandbox", "process"), default="sandbox")
        command.add_argument("--cores", type=_cores, default=None, help="share of this machine for sale (all)")
        command.add_argument("--slot-uid-base", type=int, default=20001, help="jobs run as the 100 user ids from here")
        command.add_argument("--own-jobs", action="store_true", help="stop the jobs with the agent")
        command.add_argument("--short-suite", action="store_true", help="benchmark for 3 s instead of a minute")
        command.add_argument(
            "--probe-listen",
            type=_listen,
            default="",
            metavar="HOST:PORT",
            help="answer link probes of other regions here (UDP and TCP)",
        )
        command.add_argument(
            "--probe-address", type=_host, default="", metavar="ADDRESS", help="where other regions reach it"
        )
    for command in (enroll, up, down, status, test):
        command.add_argument(
            "--state-dir", type=Path, default=None, help=f"where it keeps its things ({default_state()})"
        )
    return parser


def _config(wanted: argparse.Namespace) -> Config:
    state = (wanted.state_dir or default_state()).absolute()
    return Config(
        state=state,
        executor=getattr(wanted, "executor", "sandbox"),
        cores_milli=getattr(wanted, "cores", None),
        slot_uid_base=getattr(wanted, "slot_uid_base", 20001),
        own_jobs=getattr(wanted, "own_jobs", False),
        short_suite=getattr(wanted, "short_suite", False),
        probe_listen=getattr(wanted, "probe_listen", ""),
        probe_address=getattr(wanted, "probe_address", ""),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = _parser().parse_args(arguments)
    config = _config(wanted)
    try:
        if wanted.command in ("enroll", "enrol"):
            _enroll(config, wanted)
        elif wanted.command == "up":
            raise SystemExit(_up(config))
        elif wanted.command == "down":
            _down(config, wanted)
        elif wanted.command == "status":
            _status(config, wanted)
        else:
            _self_test(config, wanted)
    except (ValueError, PermissionError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


# ── enroll ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _portal_url(text: str) -> str:
    url = text.rstrip("/")
    if not re.fullmatch(r"https?://[^/\s]+(?:/\S*)?", url):
        fail(f"--url must be the portal's address, for example https://market.example.org (got {text!r})", 2)
    return url


def _enroll(config: Config, wanted: argparse.Namespace) -> None:
    if load_identity(config.identity_file) is not None:
        fail(
            f"this machine is enrolled already ({config.identity_file}): start it with `up`, or use another --state-dir"
        )
    url = _portal_url(wanted.url)
    config.state.mkdir(parents=True, exist_ok=True)
    hardware = probe.hardware(config.cores_milli, config.state, Devices().probe())
    request = wire.EnrollRequest(
        token=wanted.token,
        hostname=hardware.hostname or "node",
        agent_version=VERSION,
        boot_id=clocks.boot_id(),
        hardware=hardware,
    )
    wire.EnrollRequest.from_wire(request.to_wire())  # a token of impossible form needs no portal to be refused
    answer = asyncio.run(_ask_to_enroll(url, request))
    identity = Identity(url, answer.node, answer.secret, answer.name, answer.region, answer.zone)
    save_identity(config.identity_file, identity)
    say(f"enrolled as {answer.node} {answer.name} ({answer.region}/{answer.zone}) at {url}")
    if not wanted.up:
        say("start working with: idlewild-agent up" + (f" --state-dir {config.state}" if wanted.state_dir else ""))
        return
    if not wanted.no_service and install(config, say):
        return
    raise SystemExit(_up(config))


async def _ask_to_enroll(url: str, request: wire.EnrollRequest) -> wire.Enrolled:
    portal = Portal(url)
    try:
        for attempt in range(ENROLL_TRIES):
            try:
                return await portal.post(wire.ENROLL, request, wire.Enrolled)
            except Unreachable as error:
                if attempt == ENROLL_TRIES - 1:
                    fail(f"{url} does not answer ({error}): check the address and this machine's network")
                await asyncio.sleep(error.retry_after_s or 1.0)
            except Refused as error:
                fix = TOKEN_FIXES.get(error.problem.code, "")
                said = error.problem.detail or f"the portal answered {error.status}"
                fail(f"{said}{' - ' if fix else ''}{fix}")
        raise AssertionError("the last try ends the loop")
    finally:
        await portal.close()


# ── up ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _only_one(config: Config) -> int:
    """A lock for life on the state folder: two agents with one identity would take each other's leases."""
    config.state.mkdir(parents=True, exist_ok=True)
    handle = os.open(config.state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"an agent is running already in {config.state} (idlewild-agent status)")
    return handle


def _up(config: Config) -> int:
    identity = load_identity(config.identity_file)
    if identity is None:
        fail(f"this machine is not enrolled ({config.identity_file} is missing): idlewild-agent enroll TOKEN --url URL")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    lock = _only_one(config)
    try:
        return asyncio.run(_run(config, identity))
    finally:
        os.close(lock)


async def _run(config: Config, identity: Identity) -> int:
    return await Runner(config, identity).run()


# ── talking to the running agent ──────────────────────────────────────────────────────────────────────────────────────


def _ask(config: Config, request: dict[str, Any]) -> dict[str, Any] | None:
    """None: no agent is running there."""
    try:
        where = os.open(config.state, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(15)
            connection.connect(f"/proc/self/fd/{where}/{config.control_socket.name}")
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline(1_000_000)
    except (ConnectionError, FileNotFoundError):
        return None  # not there, or just ending
    finally:
        os.close(where)
    if not line:
        return None  # it ended before it could answer
    answer = json.loads(line)
    if not isinstance(answer, dict) or "error" in answer:
        fail(f"the agent answered: {answer}")
    return dict(answer)


def _down(config: Config, wanted: argparse.Namespace) -> None:
    deadline_ms = wanted.deadline if isinstance(wanted.deadline, int) else _duration_ms(wanted.deadline)
    answer = _ask(config, {"do": "down", "deadline_ms": deadline_ms})
    if answer is None:
        fail(f"no agent is running in {config.state}")
    say(f"draining; {len(answer['attempts'])} running")
    while not wanted.no_wait and _ask(config, {"do": "status"}) is not None:
        time.sleep(0.3)
    if not wanted.no_wait:
        say("stopped")


def _status(config: Config, wanted: argparse.Namespace) -> None:
    answer = _ask(config, {"do": "status"})
    if answer is None:
        identity = load_identity(config.identity_file)
        fail(f"not running{f' (enrolled as {identity.node})' if identity else ', not enrolled'}", 3)
    if wanted.json:
        say(json.dumps(answer))
        return
    say(f"{answer['node']} {answer['name']} at {answer['url']}: " + ("connected" if answer["connected"] else "offline"))
    say(f"enrolment {answer['enrolment'] or 'unknown'}, isolation {answer['isolation']} ({answer['executor']})")
    for name in answer["failed_checks"]:
        say(f"  failed check: {name} (idlewild-agent self-test)")
    for attempt in answer["attempts"]:
        ran_s = attempt["ran_us"] // 1_000_000
        say(f"  {attempt['attempt']} fence {attempt['fence']}: {attempt['state']} {attempt['phase']}, ran {ran_s} s")
    if answer["draining"]:
        say("draining: takes no more jobs")


def _self_test(config: Config, wanted: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="idlewild-self-test-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        ground, result = asyncio.run(
            selftest.settle(
                node=f"selftest-{os.getpid()}",
                folder=folder / "attempts",
                slot_uid_base=config.slot_uid_base,
                own_jobs=True,
                executor=config.executor,
                secrets=[config.identity_file],
                tools=folder / "tools",
            )
        )
        if ground.layout is not None:
            ground.layout.remove()
    say(selftest.to_json(result) if wanted.json else selftest.to_text(result))
    raise SystemExit(0 if result.isolation is wire.Isolation.FULL else 1)
