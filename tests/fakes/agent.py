"""A node under the test's control: the real wire and the real machine, but no processes and no clock of its own.

    agent = FakeAgent(django_call(client))          or FakeAgent(http_call("http://127.0.0.1:8000"))
    agent.enroll(token); agent.sync(); agent.inventory()
    agent.sync()                  takes assignments: accepts, "stages" and "starts" them at once
    agent.pass_time(5_000)        its jobs run on for 5 s; what passes its deadline freezes
    agent.report_usage()          cumulative counters, as the real meter makes them
    agent.finish(attempt)         exit code 0, logs and outputs that the test has set

What it should *not* do by itself is put into `holds`: `agent.holds = {machine.Finish}` leaves finish reports in `agent.held`
until `agent.perform_held()`. `lost=True` sends a request whose answer never arrives. To play a dead node, stop calling it; to
play one that comes back, call it again: it still believes in its leases.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from agent import machine, meter
from agent import protocol as wire
from agent.machine import Attempt, Event, Instruction, State
from agent.protocol import Message, Phase, Reason, Stream

Call = Callable[[str, str, Mapping[str, str], bytes], tuple[int, bytes]]


class Refused(AssertionError):
    """The portal said no; tests read `status` and `problem`."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body[:500]!r}")
        self.status = status
        self.body = body

    @property
    def problem(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


def http_call(url: str, timeout_s: float = 30) -> Call:
    """To a live server."""

    def call(method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        response = httpx.request(method, url + path, headers=dict(headers), content=body, timeout=timeout_s)
        return response.status_code, response.content

    return call


def django_call(client: Any) -> Call:
    """To a `django.test.Client`."""

    def call(method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        kind = headers.get("Content-Type", "application/json")
        rest = {name: value for name, value in headers.items() if name != "Content-Type"}
        response = client.generic(method, path, body, content_type=kind, headers=rest)
        content = b"".join(response.streaming_content) if getattr(response, "streaming", False) else response.content
        return response.status_code, content

    return call


HARDWARE = wire.Hardware(
    cores_milli=4000,
    memory_mib=8192,
    disk_gib=100,
    arch="x86_64",
    machine_cores=4,
    cpu_model="Test CPU",
    hostname="fake",
    system="Debian",
    kernel="6.1",
)


def virtual_cards(count: int) -> tuple[wire.DeviceInfo, ...]:
    return tuple(
        wire.DeviceInfo(id=f"virtual-{i}", kind="virtual", model="virtual", memory_mib=0, virtual=True)
        for i in range(count)
    )


def self_test(isolation: wire.Isolation = wire.Isolation.FULL) -> wire.SelfTest:
    ok = isolation is wire.Isolation.FULL
    check = wire.Check("memory_limit", ok, "out_of_memory", "" if ok else "enable the memory controller")
    return wire.SelfTest(isolation, "bwrap" if isolation is not wire.Isolation.NONE else "process", "v2", (check,))


def fingerprint(gflops: float = 100.0, gb_s: float = 40.0, *, stable: bool = True) -> wire.FingerprintReport:
    units = {f"gemm_{n}": "gflops" for n in (256, 512, 1024, 2048)}
    units |= {f"{kind}_{n}": "gflops" for kind in ("conv", "block") for n in (1, 8, 32)}
    units |= {"copy": "gb_s", "triad": "gb_s"}
    metrics = tuple(
        wire.Metric(name, unit, gflops if unit == "gflops" else gb_s, 0.9, 0.8, 20_000, 1_000_000, 3)
        for name, unit in units.items()
    )
    return wire.FingerprintReport(
        suite="cpu-1",
        short=False,
        stable=stable,
        took_ms=36_000,
        hardware_hash=hashlib.sha256(b"fake").hexdigest(),
        threads=4,
        versions={"numpy": "2.4.6"},
        metrics=metrics,
    )


@dataclass
class FakeJob:
    """What the supervisor of a real agent would know."""

    attempt: Attempt
    spec: wire.AssignmentSpec | None = None
    clock: meter.RunClock = field(default_factory=meter.RunClock)
    usage_seq: int = 0
    report_seq: int = 0
    ended_ms: int = 0
    logs: dict[Stream, bytes] = field(default_factory=lambda: {Stream.STDOUT: b"", Stream.STDERR: b""})
    files: dict[str, bytes] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


class FakeAgent:
    def __init__(self, call: Call, node: str = "", secret: str = "", *, boot_id: str = "boot-1") -> None:
        self.call = call
        self.node = node
        self.secret = secret
        self.boot_id = boot_id
        self.incarnation: int | None = None
        self.now_ms = 1_000_000
        self.seq = 0
        self.acknowledged = 0
        self.jobs: dict[str, FakeJob] = {}
        self.hardware = HARDWARE
        self.draining = False
        self.holds: set[type[Any]] = set()
        self.held: list[tuple[str, Instruction]] = []
        self.instructions: list[tuple[str, Instruction]] = []
        self.answers: list[wire.SyncAnswer] = []

    # ── plain calls ───────────────────────────────────────────────────────────────────────────────────────────────────

    def headers(self, job: FakeJob | None = None) -> dict[str, str]:
        headers = {wire.HEADER_WIRE: str(wire.VERSION), "Content-Type": "application/json"}
        if self.node:
            headers["Authorization"] = wire.authorization(self.node, self.secret)
        if job is not None and job.spec is not None:
            headers[wire.HEADER_LEASE] = job.spec.lease_secret
        return headers

    def raw(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
        status, content = self.call(method, path, headers or self.headers(), body)
        if status >= 300:
            raise Refused(status, content)
        return content

    def post(self, path: str, message: Message | Mapping[str, Any], job: FakeJob | None = None) -> dict[str, Any]:
        """A mapping goes as it is, for bad input."""
        data = message.to_wire() if isinstance(message, Message) else dict(message)
        return dict(json.loads(self.raw("POST", path, json.dumps(data).encode(), self.headers(job))))

    def sender(self) -> dict[str, Any]:
        return {"boot_id": self.boot_id, "incarnation": self.incarnation or 1}

    # ── the node ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def enroll(self, token: str, hostname: str = "fake") -> wire.Enrolled:
        request = wire.EnrollRequest(token, hostname, "0.1.0", self.boot_id, self.hardware)
        answer = wire.Enrolled.from_wire(self.post(wire.ENROLL, request))
        self.node, self.secret = answer.node, answer.secret
        return answer

    def inventory(
        self,
        isolation: wire.Isolation = wire.Isolation.FULL,
        *,
        measured: wire.FingerprintReport | None = None,
        runtime: Mapping[str, str] | None = None,
    ) -> wire.InventoryAnswer:
        """Hardware, self-test and fingerprint: everything that turns the onboarding page green."""
        report = wire.InventoryReport(
            **self.sender(),
            hardware=self.hardware,
            agent_version="0.1.0",
            runtime=runtime or {"os": "debian 12", "python": "3.11.2"},
            self_test=self_test(isolation),
            fingerprint=measured or fingerprint(),
        )
        return wire.InventoryAnswer.from_wire(self.post(wire.INVENTORY, report))

    def restart(self) -> None:
        """The agent process starts anew on the same boot and adopts its jobs: the next sync asks for an incarnation."""
        self.incarnation, self.seq, self.acknowledged = None, 0, 0

    def sync(self, *, hold_ms: int = 0, lost: bool = False) -> wire.SyncAnswer:
        """One heartbeat. With `lost` the portal answers, but the agent never hears it."""
        self.seq += 1
        leases = tuple(
            wire.HeldLease(job.attempt.id, job.attempt.fence, job.attempt.phase, job.attempt.frozen)
            for job in self.jobs.values()
            if job.attempt.holds_lease
        )
        request = wire.SyncRequest(
            boot_id=self.boot_id,
            incarnation=self.incarnation,
            seq=self.seq,
            acknowledges=self.acknowledged,
            hold_ms=hold_ms,
            leases=leases,
            draining=self.draining,
        )
        sent_ms = self.now_ms
        answer = wire.SyncAnswer.from_wire(self.post(wire.SYNC, request))
        if lost:
            return answer
        self.answers.append(answer)
        self.acknowledged = self.seq
        self.incarnation = answer.incarnation
        if answer.node_secret is not None:
            self.secret = answer.node_secret
        known = {id: job.attempt for id, job in self.jobs.items()}
        facts = machine.read_sync(known, answer, sent_ms, self.now_ms)
        for attempt, event in facts.events:
            self.feed(attempt, event)
        for offer, instructions in facts.offers:
            self.jobs[offer.id] = FakeJob(offer)
            for instruction in instructions:
                self.perform(offer.id, instruction)
        return answer

    def drain(self, deadline_ms: int = 0) -> wire.Stored:
        self.draining = True
        request = wire.DrainRequest(**self.sender(), deadline_ms=deadline_ms)
        return wire.Stored.from_wire(self.post(wire.DRAIN, request))

    # ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pass_time(self, ms: int) -> None:
        """Jobs run on; each freezes at its own deadline, as its supervisor would do it."""
        target = self.now_ms + ms
        for job in self.jobs.values():
            deadline = job.attempt.deadline_ms
            if job.attempt.state in (State.RUNNING, State.STOPPING) and deadline <= target:
                self.now_ms = max(self.now_ms, deadline)
                job.clock.freeze(self.now_ms * 1000)
                self.feed(job.attempt.id, machine.Froze())
        self.now_ms = target

    # ── the machine ───────────────────────────────────────────────────────────────────────────────────────────────────

    def feed(self, attempt: str, event: Event) -> None:
        job = self.jobs[attempt]
        job.events.append(event)
        job.attempt, instructions = machine.step(job.attempt, event)
        for instruction in instructions:
            self.perform(attempt, instruction)

    def perform(self, attempt: str, instruction: Instruction) -> None:
        self.instructions.append((attempt, instruction))
        if type(instruction) in self.holds:
            self.held.append((attempt, instruction))
        else:
            self._act(attempt, instruction)

    def perform_held(self) -> None:
        held, self.held = self.held, []
        for attempt, instruction in held:
            self._act(attempt, instruction)

    def _act(self, attempt: str, instruction: Instruction) -> None:
        job = self.jobs[attempt]
        if isinstance(instruction, machine.Accept):
            self._accept(job)
        elif isinstance(instruction, machine.Stage):
            self.feed(attempt, machine.Staged(self.now_ms))
        elif isinstance(instruction, machine.Launch):
            job.clock.start(self.now_ms * 1000)
            self.feed(attempt, machine.Started(Phase.RUN))
        elif isinstance(instruction, machine.Renew):
            if job.attempt.frozen and instruction.deadline_ms > self.now_ms:
                job.clock.thaw(self.now_ms * 1000)
                self.feed(attempt, machine.Thawed())
        elif isinstance(instruction, machine.Stop):
            self._end(job, machine.Ended(instruction.reason, job.attempt.started))
        elif isinstance(instruction, machine.Kill):
            self._end(job, machine.Ended(Reason.PLATFORM_FAULT, job.attempt.started))
        elif isinstance(instruction, machine.Report):
            self.report(attempt, instruction.phase, frozen=instruction.frozen)
        elif isinstance(instruction, machine.Upload):
            outputs = tuple(self.upload(attempt, name, data) for name, data in job.files.items())
            self.feed(attempt, machine.Uploaded(outputs))
        elif isinstance(instruction, machine.Finish):
            self._deliver(job)

    def _end(self, job: FakeJob, event: machine.Ended) -> None:
        job.clock.end(self.now_ms * 1000)
        job.ended_ms = self.now_ms
        self.feed(job.attempt.id, event)

    def _refused(self, attempt: str, error: Refused, otherwise: Event) -> None:
        if error.status not in (wire.STATUS_FENCED, wire.STATUS_CONFLICT, wire.STATUS_MALFORMED):
            raise error
        self.feed(attempt, machine.FencedOff() if error.status == wire.STATUS_FENCED else otherwise)

    def _accept(self, job: FakeJob) -> None:
        request = wire.AcceptRequest(**self.sender(), fence=job.attempt.fence)
        sent_ms = self.now_ms
        try:
            spec = wire.AssignmentSpec.from_wire(self.post(wire.accept_path(job.attempt.id), request))
        except Refused as error:
            self._refused(job.attempt.id, error, machine.Refused(str(error)))
            return
        job.spec = spec
        self.feed(job.attempt.id, machine.Accepted(spec, sent_ms + spec.deadline_ms))

    # ── what a test makes a job do ────────────────────────────────────────────────────────────────────────────────────

    def report(self, attempt: str, phase: Phase, *, frozen: bool = False, seq: int | None = None) -> wire.Stored | None:
        job = self.jobs[attempt]
        job.report_seq = seq if seq is not None else job.report_seq + 1
        report = wire.PhaseReport(
            **self.sender(), fence=job.attempt.fence, seq=job.report_seq, phase=phase, frozen=frozen
        )
        try:
            return wire.Stored.from_wire(self.post(wire.report_path(attempt), report, job))
        except Refused as error:
            if error.status != wire.STATUS_FENCED:
                raise
            self.feed(attempt, machine.FencedOff())
            return None

    def ran_us(self, attempt: str) -> int:
        return self.jobs[attempt].clock.ran_us(self.now_ms * 1000)

    def usage_rows(self, attempt: str, *, times: int = 1, age_ms: int = 0) -> tuple[wire.UsageRow, ...]:
        """Rows under a new number; `times` 2 claims twice what was used."""
        job = self.jobs[attempt]
        assert job.spec is not None
        job.usage_seq += 1
        return tuple(
            wire.UsageRow(
                attempt, job.attempt.fence, c.resource, job.usage_seq, age_ms, c.count_milli, c.qty_us * times
            )
            for c in meter.counters(job.spec.resources, self.ran_us(attempt))
        )

    def report_usage(self, *attempts: str) -> wire.UsageAnswer:
        """Of the named attempts, or of all that have run."""
        ids = attempts or tuple(id for id, job in self.jobs.items() if job.attempt.started)
        rows = tuple(row for id in ids for row in self.usage_rows(id))
        return self.send_usage(rows)

    def send_usage(self, rows: tuple[wire.UsageRow, ...]) -> wire.UsageAnswer:
        return wire.UsageAnswer.from_wire(self.post(wire.USAGE, wire.UsageBatch(**self.sender(), rows=rows)))

    def write(
        self, attempt: str, text: str, stream: Stream = Stream.STDOUT, offset: int | None = None
    ) -> wire.Received:
        """The job prints; the next chunk of its log is sent."""
        job = self.jobs[attempt]
        data = text.encode()
        at = len(job.logs[stream]) if offset is None else offset
        headers = {
            **self.body_headers(job),
            "Content-Encoding": "gzip",
            wire.HEADER_SHA256: hashlib.sha256(data).hexdigest(),
        }
        path = f"{wire.log_path(attempt, stream)}?offset={at}"
        answer = wire.Received.from_wire(json.loads(self.raw("PUT", path, gzip.compress(data), headers)))
        if offset is None:
            job.logs[stream] += data
        return answer

    def body_headers(self, job: FakeJob) -> dict[str, str]:
        return {
            **self.headers(job),
            "Content-Type": "application/octet-stream",
            wire.HEADER_BOOT: self.boot_id,
            wire.HEADER_INCARNATION: str(self.incarnation or 1),
            wire.HEADER_FENCE: str(job.attempt.fence),
        }

    def upload(self, attempt: str, name: str, data: bytes, *, chunk: int = wire.OUTPUT_CHUNK) -> wire.UploadedOutput:
        job = self.jobs[attempt]
        whole = hashlib.sha256(data).hexdigest()
        offset = 0
        while True:
            piece = data[offset : offset + chunk]
            headers = {
                **self.body_headers(job),
                wire.HEADER_SHA256: hashlib.sha256(piece).hexdigest(),
                wire.HEADER_TOTAL: str(len(data)),
            }
            if offset + len(piece) == len(data):
                headers[wire.HEADER_WHOLE_SHA256] = whole
            path = f"{wire.output_path(attempt, name)}?offset={offset}"
            answer = wire.Received.from_wire(json.loads(self.raw("PUT", path, piece, headers)))
            offset = answer.offset
            if answer.complete:
                return wire.UploadedOutput(name, len(data), whole)

    def fetch_input(self, attempt: str, index: int) -> bytes:
        return self.raw("GET", wire.input_path(attempt, index), b"", self.body_headers(self.jobs[attempt]))

    def finish(
        self, attempt: str, reason: Reason = Reason.FINISHED, *, exit_code: int | None = 0, message: str = ""
    ) -> None:
        """The job's last process ends; outputs that the test put into `jobs[…].files` are uploaded on the way."""
        job = self.jobs[attempt]
        self._end(job, machine.Ended(reason, True, exit_code, message))

    def finish_report(self, attempt: str) -> wire.FinishReport:
        job = self.jobs[attempt]
        ran_us = job.clock.ran_us(self.now_ms * 1000) if job.attempt.started else 0
        counted = meter.counters(job.spec.resources, ran_us) if job.spec and job.attempt.started else ()
        return wire.FinishReport(
            **self.sender(),
            fence=job.attempt.fence,
            seq=job.report_seq + 1,
            reason=job.attempt.reason or Reason.PLATFORM_FAULT,
            started=job.attempt.started,
            age_ms=max(0, self.now_ms - job.ended_ms),
            usage_seq=job.usage_seq + 1,
            counters=counted,
            exit_code=job.attempt.exit_code,
            message=job.attempt.message,
            ran_us=ran_us,
            stdout_bytes=len(job.logs[Stream.STDOUT]),
            stderr_bytes=len(job.logs[Stream.STDERR]),
            outputs=job.attempt.outputs,
        )

    def send_finish(self, attempt: str, report: wire.FinishReport | None = None) -> wire.Stored:
        job = self.jobs[attempt]
        message = report or self.finish_report(attempt)
        return wire.Stored.from_wire(self.post(wire.finish_path(attempt), message, job))

    def _deliver(self, job: FakeJob) -> None:
        try:
            self.send_finish(job.attempt.id)
        except Refused as error:
            self._refused(job.attempt.id, error, machine.Undeliverable(str(error)))
            return
        self.feed(job.attempt.id, machine.Delivered())

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self, attempt: str) -> State:
        return self.jobs[attempt].attempt.state

    def only(self) -> str:
        """The one attempt at hand."""
        open_ = [id for id, job in self.jobs.items() if job.attempt.state is not State.DONE]
        assert len(open_) == 1, open_
        return open_[0]

    def forget(self) -> None:
        """The node was started anew: nothing of its jobs is left."""
        self.jobs.clear()
        self.boot_id += "'"
        self.restart()


def with_cores(cores_milli: int, cards: int = 0) -> wire.Hardware:
    return replace(HARDWARE, cores_milli=cores_milli, devices=virtual_cards(cards))
