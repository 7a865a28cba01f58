"""The wire between an agent and the portal: every message, code, header and path, and nothing else.

All messages are HTTPS JSON under `/agent/v1`, begun by the agent. This module is pure (no clock, no socket, no Django)
and is the only part of the agent that the server imports, so that both ends decode with the same rules:

    m = SyncRequest.from_wire(json.loads(body))     raises BadMessage(path, problem) that names the field
    body = json.dumps(m.to_wire())

Requests are read strictly: an unknown field is refused. Answers are read tolerantly, because within one wire version
fields are only added and an older agent must live with a newer portal. Only durations cross the wire (`*_ms`, `*_us`),
never a wall-clock time: an agent counts them on CLOCK_BOOTTIME **from sending the request** that was answered, the
server from receiving it. That is what makes the agent's deadline always earlier than the server's lapse.

    agent                                         portal
    POST enroll            EnrollRequest        → Enrolled         no sign-in; one-time token
    POST inventory         InventoryReport      → InventoryAnswer  at start, on change, when an order asked for it
    POST sync              SyncRequest          → SyncAnswer       held up to hold_ms; heartbeat and renewals
    POST attempts/A/accept AcceptRequest        → AssignmentSpec   nothing starts before this answer
    POST attempts/A/report PhaseReport          → Stored
    PUT  attempts/A/logs/stdout?offset=N        → Received         gzip body, offsets count plain bytes
    POST usage             UsageBatch           → UsageAnswer
    POST attempts/A/metrics MetricBatch         → Stored           shown only; lost ones are not sent again
    GET  attempts/A/inputs/N                    → bytes            Range allowed
    PUT  attempts/A/outputs/NAME?offset=N       → Received         raw body
    PUT  attempts/A/checkpoints/N?offset=N      → Received         raw body: a tar, while the job runs
    GET  attempts/A/checkpoints/C               → bytes            Range allowed; before the job starts
    POST attempts/A/finish FinishReport         → Stored           same body, same answer
    POST drain             DrainRequest         → Stored
    POST links             LinkReport           → LinkPlan         what links were measured; what to probe next

**Renewals are granted on acknowledgement.** `SyncRequest.acknowledges` is the `seq` of the last sync whose answer
arrived. While it is older than the last sync that was answered with renewals, the portal extends nothing and answers
at once without renewals; so if answers are lost one way the lease lapses, instead of being extended for ever over a
frozen job.

**Signing in.** `Authorization: Node nod_…:<node secret>` on everything but enroll; calls about one attempt after
`accept` also carry `Idlewild-Lease: <lease secret>`. Calls whose body is not JSON carry boot id, incarnation and fence
as headers. Each call carries `Idlewild-Wire: 1`; another version is answered 426.

| status | code | the agent |
|---|---|---|
| 410 | FENCED | kills the job now, sends nothing more about it, keeps the local record |
| 409 | TAKEN_BACK | (accept) drops the assignment |
| 409 | GAP | goes on at `offset` of the answer |
| 409 | SUPERSEDED | an older incarnation or a cloned node: stops |
| 413 | STREAM_FULL | stops sending this stream; the job goes on |
| 422 | MALFORMED | drops the message and reports a defect |
| 426 | WIRE_VERSION | finishes its jobs, takes no more |
| 401 | - | goes on until the deadlines |
| 429, 5xx, none | - | tries again (transport.py) |
"""

# ruff: noqa: UP045 - get_type_hints() evaluates these annotations, also on 3.9
from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, ClassVar, Optional, TypeVar, Union

VERSION = 1
BASE = "/agent/v1"

HEADER_WIRE = "Idlewild-Wire"
HEADER_LEASE = "Idlewild-Lease"
HEADER_BOOT = "Idlewild-Boot"
HEADER_INCARNATION = "Idlewild-Incarnation"
HEADER_FENCE = "Idlewild-Fence"
HEADER_SHA256 = "Idlewild-Sha256"  # of the plain bytes of this chunk
HEADER_TOTAL = "Idlewild-Total"  # outputs: size of the whole
HEADER_WHOLE_SHA256 = "Idlewild-Whole-Sha256"  # outputs: of the whole, on the last chunk
HEADER_AGE_MS = "Idlewild-Age-Ms"  # checkpoints: how long ago the agent began to read it

LOG_CHUNK = 256 * 1024
LOG_STREAM_MOST = 64 * 1024 * 1024
OUTPUT_CHUNK = 4 * 1024 * 1024
FINISH_RETRIED_FOR_MS = 24 * 3600 * 1000

STATUS_FENCED = 410
STATUS_CONFLICT = 409
STATUS_FULL = 413
STATUS_MALFORMED = 422
STATUS_WIRE_VERSION = 426

M = TypeVar("M", bound="Message")
Wire = dict[str, Any]


class BadMessage(ValueError):
    """A message that breaks the wire; `path` names the field (`leases[2].fence`), `problem` says what is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'message'}: {problem}")
        self.path = path
        self.problem = problem


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Code(str, Enum):
    """Codes of refusals that the agent acts upon (`code` of problem+json); it shows `detail` for all others."""

    FENCED = "FENCED"
    TAKEN_BACK = "TAKEN_BACK"
    GAP = "GAP"
    SUPERSEDED = "SUPERSEDED"
    STREAM_FULL = "STREAM_FULL"
    MALFORMED = "MALFORMED"
    WIRE_VERSION = "WIRE_VERSION"
    TOKEN_UNKNOWN = "TOKEN_UNKNOWN"  # noqa: S105 - a refusal's name, not a secret
    TOKEN_USED = "TOKEN_USED"  # noqa: S105
    TOKEN_EXPIRED = "TOKEN_EXPIRED"  # noqa: S105


class Phase(str, Enum):
    """Where an attempt is on its node. Leased: pulling staging restoring; running: setup run uploading; then ended."""

    PULLING = "pulling"
    STAGING = "staging"
    RESTORING = "restoring"
    SETUP = "setup"
    RUN = "run"
    UPLOADING = "uploading"
    ENDED = "ended"


class Resource(str, Enum):
    """What is metered: allocation in thousandths × unfrozen microseconds (network_byte: bytes)."""

    CORE = "core"
    CARD = "card"
    MEMORY_GIB = "memory_gib"
    STORAGE_GIB = "storage_gib"
    NETWORK_BYTE = "network_byte"


class Reason(str, Enum):
    """Why an attempt ended (contracts: reasons). A cancel names one and the agent's finish report gives it back."""

    FINISHED = "finished"
    EXIT_NONZERO = "exit_nonzero"
    SETUP_FAILED = "setup_failed"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    OUTPUT_MISSING = "output_missing"
    OUTPUT_REFUSED = "output_refused"
    INPUT_UNREADABLE = "input_unreadable"
    IMAGE_REFUSED = "image_refused"
    TIME_LIMIT = "time_limit"
    CANCELLED_BY_TENANT = "cancelled_by_tenant"
    BUDGET_EXHAUSTED = "budget_exhausted"
    BALANCE_EXHAUSTED = "balance_exhausted"
    ORGANISATION_SUSPENDED = "organisation_suspended"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    NODE_REBOOTED = "node_rebooted"
    NOT_ACCEPTED = "not_accepted"
    NODE_DRAINED = "node_drained"
    DEVICE_ERROR = "device_error"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    REPORT_FORGED = "report_forged"
    PLATFORM_FAULT = "platform_fault"
    UPLOAD_FAILED = "upload_failed"
    STOPPED_BY_OPERATOR = "stopped_by_operator"


class Isolation(str, Enum):
    """What the self-test proved: full = sandbox with cgroups, bwrap = sandbox of a plain user, none = neither."""

    FULL = "full"
    BWRAP = "bwrap"
    NONE = "none"


class OnDisconnect(str, Enum):
    """What the tenant wants when the node falls silent; the agent only sees it in the deadline it is given."""

    REPLACE = "replace"
    WAIT = "wait"
    STOP = "stop"


class Stream(str, Enum):
    STDOUT = "stdout"
    STDERR = "stderr"


class Source(str, Enum):
    """Where an input comes from: a https address, bytes in the message, or `GET attempts/A/inputs/N` on the portal."""

    HTTPS = "https"
    CONTENT = "content"
    PORTAL = "portal"


class FileKind(str, Enum):
    """A directory travels as a tar archive."""

    FILE = "FILE"
    DIRECTORY = "DIRECTORY"


class OrderKind(str, Enum):
    """What the portal asks of a node between jobs; answered by an InventoryReport.

    An order stands in every sync answer, under the same id, until it is served. A drain that is no longer named is over.
    """

    SELF_TEST = "self_test"
    FINGERPRINT = "fingerprint"
    INVENTORY = "inventory"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    RETIRE = "retire"


class UsageVerdict(str, Enum):
    STORED = "stored"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    QUARANTINED = "quarantined"
    REJECTED_STALE = "rejected_stale"


# ── fields ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ID = re.compile(r"[a-z]{3}_[0-9A-Za-z]{1,60}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OUTPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_HOST_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}:[1-9][0-9]{0,4}")
BIG = 2**62


@dataclass(frozen=True)
class Whole:
    """Limits of a whole number."""

    least: int = 0
    most: int = BIG


@dataclass(frozen=True)
class Text:
    """Limits of a text."""

    longest: int = 200
    shortest: int = 0
    pattern: Optional[re.Pattern[str]] = None


@dataclass(frozen=True)
class Items:
    """Limits of a list (its items carry their own) or of a map of texts."""

    most: int = 1000
    key_pattern: Optional[re.Pattern[str]] = None


ID_FORM = Text(64, 5, _ID)
SHA256_FORM = Text(64, 64, _SHA256)


class Message:
    """Base of all messages: decoding by the dataclass's own types and the limits annotated on them."""

    STRICT: ClassVar[bool] = True

    def to_wire(self) -> Wire:
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_wire(cls: type[M], data: object) -> M:
        return _read_message(cls, data, "", cls.STRICT)

    def check(self, path: str) -> None:
        """Rules over several fields; raises BadMessage."""


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Message):
        return value.to_wire()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_SHAPES: dict[type, tuple[dict[str, Any], dict[str, Any]]] = {}  # decoding reads the type hints once per class


def _shape(cls: type[Message]) -> tuple[dict[str, Any], dict[str, Any]]:
    if cls not in _SHAPES:
        fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        _SHAPES[cls] = (typing.get_type_hints(cls, include_extras=True), fields)
    return _SHAPES[cls]


def _read_message(cls: type[M], data: object, path: str, strict: bool) -> M:
    if not isinstance(data, Mapping):
        raise BadMessage(path, "must be an object")
    hints, fields = _shape(cls)
    if strict:
        for name in data:
            if name not in fields:
                raise BadMessage(_at(path, str(name)), "unknown field")
    values: dict[str, Any] = {}
    for name, spec in fields.items():
        if name in data:
            values[name] = _read(hints[name], data[name], _at(path, name), None, strict)
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise BadMessage(_at(path, name), "is required")
    message = cls(**values)
    message.check(path)
    return message


def _read(kind: Any, value: object, path: str, limits: Any, strict: bool) -> Any:
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin is Annotated:
        return _read(arguments[0], value, path, arguments[1], strict)
    if origin is Union:  # Optional
        return None if value is None else _read(arguments[0], value, path, limits, strict)
    if origin is tuple:
        return _read_list(arguments[0], value, path, limits, strict)
    if origin is not None:
        return _read_map(value, path, limits or Items())
    if issubclass(kind, Message):
        return _read_message(kind, value, path, strict)
    if issubclass(kind, Enum):
        return _read_word(kind, value, path)
    if kind is int:
        return _read_whole(value, path, limits or Whole())
    if kind is str:
        return _read_text(value, path, limits or Text())
    if kind is bool:
        if not isinstance(value, bool):
            raise BadMessage(path, "must be true or false")
        return value
    return _read_number(value, path)


def _read_list(kind: Any, value: object, path: str, limits: Any, strict: bool) -> tuple[Any, ...]:
    items = limits if isinstance(limits, Items) else Items()
    if not isinstance(value, list):
        raise BadMessage(path, "must be a list")
    if len(value) > items.most:
        raise BadMessage(path, f"has more than {items.most} items")
    return tuple(_read(kind, item, f"{path}[{i}]", None, strict) for i, item in enumerate(value))


def _read_map(value: object, path: str, limits: Items) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise BadMessage(path, "must be an object")
    if len(value) > limits.most:
        raise BadMessage(path, f"has more than {limits.most} items")
    for key, item in value.items():
        if not isinstance(key, str) or (limits.key_pattern is not None and not limits.key_pattern.fullmatch(key)):
            raise BadMessage(_at(path, str(key)), "is not an allowed name")
        _read_text(item, _at(path, key), Text(1_048_576))
    return dict(value)


def _read_word(kind: type[Enum], value: object, path: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(str(member.value) for member in kind)
        raise BadMessage(path, f"must be one of {words}") from None


def _read_number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e300 < value < 1e300:
        raise BadMessage(path, "must be a finite number")
    return float(value)


def _read_whole(value: object, path: str, limits: Whole) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadMessage(path, "must be a whole number")
    if not limits.least <= value <= limits.most:
        raise BadMessage(path, f"must be from {limits.least} to {limits.most}")
    return value


_HALF = re.compile("[\ud800-\udfff]")  # an escape of JSON can name one; no UTF-8, so no database, can hold it


def _read_text(value: object, path: str, limits: Text) -> str:
    if not isinstance(value, str):
        raise BadMessage(path, "must be text")
    if not limits.shortest <= len(value) <= limits.longest:
        raise BadMessage(path, f"must have from {limits.shortest} to {limits.longest} characters")
    if "\0" in value:
        raise BadMessage(path, "contains a NUL")
    if _HALF.search(value):
        raise BadMessage(path, "contains half a character (a lone surrogate)")
    if limits.pattern is not None and not limits.pattern.fullmatch(value):
        raise BadMessage(path, "has a wrong form")
    return value


class _Answer(Message):
    STRICT = False


# ── what a node is ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class DeviceInfo(Message):
    """A card as its plug-in found it; `id` is stable on the node and is what an assignment names."""

    id: Annotated[str, Text(100, 1)]
    kind: Annotated[str, Text(40, 1)]  # plug-in: nvidia, virtual
    model: Annotated[str, Text(100, 1)]
    memory_mib: Annotated[int, Whole()]
    driver: Annotated[str, Text(100)] = ""
    virtual: bool = False


@dataclass(frozen=True)
class Hardware(Message):
    """The share that this agent sells (`cores_milli`, `memory_mib`, `disk_gib`) and the machine around it."""

    cores_milli: Annotated[int, Whole(100, 10_000_000)]
    memory_mib: Annotated[int, Whole(1)]
    disk_gib: Annotated[int, Whole(0)]
    arch: Annotated[str, Text(40, 1)]  # x86_64, aarch64
    machine_cores: Annotated[int, Whole(1, 10_000)]
    cpu_model: Annotated[str, Text(200)] = ""
    hostname: Annotated[str, Text(255)] = ""
    system: Annotated[str, Text(200)] = ""  # distribution
    kernel: Annotated[str, Text(200)] = ""
    devices: Annotated[tuple[DeviceInfo, ...], Items(64)] = ()


@dataclass(frozen=True)
class Check(Message):
    """One check of the self-test; a failed one names its fix. `skipped` counts as not passed."""

    name: Annotated[str, Text(60, 1)]
    ok: bool
    detail: Annotated[str, Text(500)] = ""
    fix: Annotated[str, Text(500)] = ""
    skipped: bool = False


@dataclass(frozen=True)
class SelfTest(Message):
    isolation: Isolation
    executor: Annotated[str, Text(40, 1)]  # bwrap, process
    cgroups: Annotated[str, Text(20, 1)]  # v2, v1, hybrid, none
    checks: Annotated[tuple[Check, ...], Items(60)]
    note: Annotated[str, Text(500)] = ""


@dataclass(frozen=True)
class Metric(Message):
    """One operator of the fingerprint suite: the median of its clean iterations and their spread."""

    name: Annotated[str, Text(60, 1)]  # gemm_1024, conv_8, block_1, copy, triad, rtt_server
    unit: Annotated[str, Text(20, 1)]  # gflops, gb_s, ms
    value: float
    p95: float
    p99: float
    cv_ppm: Annotated[int, Whole()]
    clean_ppm: Annotated[int, Whole(0, 1_000_000)]
    passes: Annotated[int, Whole(1, 1000)]
    p50_ms: float = 0.0  # how long one iteration takes; 0 = not told
    p95_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True)
class FingerprintReport(Message):
    """A run of the benchmark suite. `short`: one pass without CV limit; `unstable` ones are kept out by the portal."""

    suite: Annotated[str, Text(40, 1)]  # cpu-1
    short: bool
    stable: bool
    took_ms: Annotated[int, Whole()]
    hardware_hash: Annotated[str, SHA256_FORM]
    threads: Annotated[int, Whole(1, 10_000)]
    kernel_library: Annotated[str, Text(200)] = ""  # BLAS
    versions: Annotated[Mapping[str, str], Items(50)] = field(default_factory=dict)
    metrics: Annotated[tuple[Metric, ...], Items(60)] = ()
    nonce: Annotated[str, Text(200)] = ""
    runs: Annotated[tuple[str, ...], Items(60)] = ()  # passed runs of this measurement, which the portal timed


class RunKind(str, Enum):
    """What the portal orders and times itself; see docs/scu.md."""

    GEMM = "gemm"
    MEMORY = "memory"
    STREAM = "stream"


@dataclass(frozen=True)
class Load(Message):
    """Soft state of a node, for heartbeats and pages only."""

    cpu_ppm: Annotated[int, Whole(0, 1_000_000_000)]
    memory_used_mib: Annotated[int, Whole()]
    disk_free_gib: Annotated[int, Whole()]
    attempts: Annotated[int, Whole(0, 10_000)]


# ── enrolment ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class EnrollRequest(Message):
    token: Annotated[str, Text(200, 8)]
    hostname: Annotated[str, Text(255, 1)]
    agent_version: Annotated[str, Text(40, 1)]
    boot_id: Annotated[str, Text(64, 1)]
    hardware: Hardware


@dataclass(frozen=True)
class Enrolled(_Answer):
    node: Annotated[str, ID_FORM]
    secret: Annotated[str, Text(200, 16)]
    name: Annotated[str, Text(100)] = ""
    region: Annotated[str, Text(100)] = ""
    zone: Annotated[str, Text(100)] = ""


@dataclass(frozen=True)
class FromAgent(Message):
    """What each signed-in message says about its sender: which boot of the machine, which start of the agent."""

    boot_id: Annotated[str, Text(64, 1)]
    incarnation: Annotated[int, Whole(1)]


@dataclass(frozen=True)
class InventoryReport(FromAgent):
    """What the node has and has proved. None = not measured in this report (the portal keeps the previous one)."""

    hardware: Hardware
    agent_version: Annotated[str, Text(40, 1)]
    runtime: Annotated[Optional[Mapping[str, str]], Items(300)] = None  # python 3.11.2, gcc 12.2, os debian 12 …
    self_test: Optional[SelfTest] = None
    fingerprint: Optional[FingerprintReport] = None


@dataclass(frozen=True)
class InventoryAnswer(_Answer):
    """`state` of the enrolment (probing, listed …) and what is missing for the next one, as checks with their fixes."""

    state: Annotated[str, Text(40, 1)]
    missing: Annotated[tuple[Check, ...], Items(60)] = ()


# ── checked runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class BeginRun(FromAgent):
    """Ready and idle: give me a run. `expected` (GFLOPS, GB/s) only sets how long it takes."""

    kind: RunKind
    expected: float
    short: bool = False


@dataclass(frozen=True)
class RunOrder(_Answer):
    """The portal's clock runs from here. A stream has no nonce: its bytes are fetched from :func:`stream_path`."""

    run: Annotated[str, ID_FORM]
    kind: RunKind
    nonce: Annotated[str, Text(200)]
    size: Annotated[int, Whole(1)]
    parts: Annotated[int, Whole(1)]


@dataclass(frozen=True)
class CommitRun(FromAgent):
    """The result is complete: the root of the tree over it (stream: SHA-256 of its bytes). The clock stops."""

    run: Annotated[str, ID_FORM]
    root: Annotated[str, SHA256_FORM]


@dataclass(frozen=True)
class RunResult(_Answer):
    """`measured` in GFLOPS or GB/s, by the portal's clock."""

    passed: bool
    measured: float = 0.0
    reason: Annotated[str, Text(60)] = ""


@dataclass(frozen=True)
class RunLeaves(_Answer):
    """Which leaves to show; none for a stream, which is judged at once (`result`)."""

    leaves: Annotated[tuple[int, ...], Items(60)] = ()
    result: Optional[RunResult] = None


@dataclass(frozen=True)
class OpenedLeaf(Message):
    leaf: Annotated[int, Whole()]
    data: Annotated[str, Text(200_000)]  # base64
    path: Annotated[tuple[str, ...], Items(40)] = ()  # neighbours, from the leaf up


@dataclass(frozen=True)
class ShowRun(FromAgent):
    run: Annotated[str, ID_FORM]
    opened: Annotated[tuple[OpenedLeaf, ...], Items(60)] = ()


# ── sync ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class HeldLease(Message):
    attempt: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]
    phase: Phase
    frozen: bool = False


@dataclass(frozen=True)
class SyncRequest(Message):
    """The heartbeat. `incarnation` None = the first sync of this start; the answer gives the number to use then.

    `seq` counts the syncs of one incarnation from 1, `acknowledges` is the last one whose answer arrived (0: none),
    `hold_ms` the longest that the portal may wait before answering.
    """

    boot_id: Annotated[str, Text(64, 1)]
    incarnation: Annotated[Optional[int], Whole(1)]
    seq: Annotated[int, Whole(1)]
    acknowledges: Annotated[int, Whole(0)]
    hold_ms: Annotated[int, Whole(0, 60_000)]
    leases: Annotated[tuple[HeldLease, ...], Items(1000)] = ()
    draining: bool = False
    load: Optional[Load] = None

    def check(self, path: str) -> None:
        if self.acknowledges >= self.seq:
            raise BadMessage(_at(path, "acknowledges"), "must be below seq")
        if len({lease.attempt for lease in self.leases}) != len(self.leases):
            raise BadMessage(_at(path, "leases"), "names an attempt twice")


@dataclass(frozen=True)
class Assignment(Message):
    """An offer of work: POST accept within `accept_ms` or it is given to another node."""

    attempt: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]
    accept_ms: Annotated[int, Whole(1)]


@dataclass(frozen=True)
class Renewal(Message):
    """A lease extended; `deadline_ms` counts from the sending of the sync that this answers."""

    attempt: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]
    ttl_ms: Annotated[int, Whole(1)]
    renew_ms: Annotated[int, Whole(1)]
    deadline_ms: Annotated[int, Whole(1)]


@dataclass(frozen=True)
class Cancel(Message):
    """Stop this attempt: TERM, at most `grace_ms`, kill; then finish with this reason. Repeated until finished."""

    attempt: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]
    reason: Reason
    grace_ms: Annotated[int, Whole(0, 600_000)] = 30_000


@dataclass(frozen=True)
class Fenced(Message):
    """This attempt is no longer yours: kill it, say nothing more about it."""

    attempt: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]


@dataclass(frozen=True)
class Order(Message):
    id: Annotated[str, Text(64, 1)]  # carried out once for as long as it stands
    kind: OrderKind
    nonce: Annotated[str, Text(200)] = ""
    deadline_ms: Annotated[Optional[int], Whole(0)] = None  # drain: jobs still running then are stopped
    soak_s: Annotated[int, Whole(0, 3600)] = 0  # fingerprint: so long under load, to see what stays of the speed


@dataclass(frozen=True)
class SyncAnswer(_Answer):
    """Everything the portal has to say. `next_sync_ms` 0 = at once (the next one will be held)."""

    incarnation: Annotated[int, Whole(1)]
    next_sync_ms: Annotated[int, Whole(0, 600_000)] = 0
    assignments: Annotated[tuple[Assignment, ...], Items(1000)] = ()
    renewals: Annotated[tuple[Renewal, ...], Items(1000)] = ()
    cancels: Annotated[tuple[Cancel, ...], Items(1000)] = ()
    fenced: Annotated[tuple[Fenced, ...], Items(1000)] = ()
    orders: Annotated[tuple[Order, ...], Items(20)] = ()
    node_secret: Annotated[Optional[str], Text(200, 16)] = None  # rotated: use this from now on


# ── links between regions ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LinkSeen(Message):
    """The way to a region as this node measured it; `mbps` None = not measured."""

    region: Annotated[str, Text(63, 1)]
    rtt_us: Annotated[int, Whole(1, 60_000_000)]
    loss_ppm: Annotated[int, Whole(0, 1_000_000)] = 0
    mbps: Annotated[Optional[int], Whole(1, 100_000_000)] = None


@dataclass(frozen=True)
class LinkReport(FromAgent):
    """What a node knows of links, and where it answers probes itself (`beacon_port` None = nowhere).

    `sequence` counts the reports of one incarnation. `beacon_host` "" = the address this comes from.
    """

    sequence: Annotated[int, Whole(1)]
    links: Annotated[tuple[LinkSeen, ...], Items(500)] = ()
    beacon_host: Annotated[str, Text(255)] = ""
    beacon_port: Annotated[Optional[int], Whole(1, 65_535)] = None
    beacon_key: Annotated[str, Text(64)] = ""

    def check(self, path: str) -> None:
        if self.beacon_port is not None and not re.fullmatch(r"[0-9a-f]{32}", self.beacon_key):
            raise BadMessage(_at(path, "beacon_key"), "must be 32 hex digits")
        if len({link.region for link in self.links}) != len(self.links):
            raise BadMessage(_at(path, "links"), "names a region twice")


@dataclass(frozen=True)
class LinkTarget(_Answer):
    """A beacon of another region and the key that it answers to."""

    region: Annotated[str, Text(63, 1)]
    host: Annotated[str, Text(255, 1)]
    port: Annotated[int, Whole(1, 65_535)]
    key: Annotated[str, Text(64, 32)]


@dataclass(frozen=True)
class LinkPlan(_Answer):
    """What to probe until the next report, and when that is due."""

    targets: Annotated[tuple[LinkTarget, ...], Items(1000)] = ()
    period_ms: Annotated[int, Whole(500, 600_000)] = 60_000


# ── an attempt ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class AcceptRequest(FromAgent):
    fence: Annotated[int, Whole(1)]


WORKDIR = ("/job", "/job/")


def inside_job(path: str) -> Optional[str]:
    """The path below the sandbox's `/job`, without the prefix; None when it would leave it."""
    if path.startswith("/job/"):
        path = path[5:]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or not parts or ".." in parts:
        return None
    return "/".join(parts)


def _check_inside(path: str, at: str) -> None:
    if inside_job(path) is None:
        raise BadMessage(at, "must lie below /job")


@dataclass(frozen=True)
class Input(Message):
    """`url` with https, `content` (base64) with content, neither with portal. `unpack`: a tar, opened at `path`."""

    path: Annotated[str, Text(1000, 1)]
    source: Source
    url: Annotated[str, Text(4000)] = ""
    content: Annotated[str, Text(2_000_000)] = ""
    sha256: Annotated[Optional[str], SHA256_FORM] = None
    size: Annotated[Optional[int], Whole()] = None
    kind: FileKind = FileKind.FILE
    unpack: bool = False
    executable: bool = False

    def check(self, path: str) -> None:
        if not (self.unpack and self.path in WORKDIR):  # the working directory itself comes as an archive
            _check_inside(self.path, _at(path, "path"))
        if self.source is Source.HTTPS and not self.url.startswith(("https://", "http://")):
            raise BadMessage(_at(path, "url"), "must be a https address")


@dataclass(frozen=True)
class Output(Message):
    name: Annotated[str, Text(128, 1, _OUTPUT_NAME)]
    path: Annotated[str, Text(1000, 1)]
    required: bool = True
    kind: FileKind = FileKind.FILE

    def check(self, path: str) -> None:
        _check_inside(self.path, _at(path, "path"))


@dataclass(frozen=True)
class StoredCheckpoint(Message):
    """A checkpoint of an earlier attempt; its bytes are a tar to be opened where `path` has its place."""

    id: Annotated[str, ID_FORM]
    size: Annotated[int, Whole()]
    sha256: Annotated[str, SHA256_FORM]


@dataclass(frozen=True)
class CheckpointPlan(Message):
    """What to store while the job runs, and what to begin with: `kept`, newest first (empty: from the beginning)."""

    path: Annotated[str, Text(1000, 1)]
    interval_ms: Annotated[int, Whole(100)]
    kept: Annotated[tuple[StoredCheckpoint, ...], Items(20)] = ()

    def check(self, path: str) -> None:
        _check_inside(self.path, _at(path, "path"))


@dataclass(frozen=True)
class Resources(Message):
    """What the attempt is allocated, and metered by."""

    cores_milli: Annotated[int, Whole(1, 10_000_000)]
    memory_mib: Annotated[int, Whole(1)]
    disk_mib: Annotated[int, Whole(1)]
    shm_mib: Annotated[int, Whole(0)] = 64
    devices: tuple[Annotated[str, Text(100, 1)], ...] = ()


@dataclass(frozen=True)
class AssignmentSpec(_Answer):
    """The answer of accept: all that is needed to run, and the lease's first term (counted from sending the accept)."""

    attempt: Annotated[str, ID_FORM]
    task: Annotated[str, ID_FORM]
    job: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]
    lease_secret: Annotated[str, Text(200, 16)]
    lease_class: Annotated[str, Text(40, 1)]
    ttl_ms: Annotated[int, Whole(1)]
    renew_ms: Annotated[int, Whole(1)]
    deadline_ms: Annotated[int, Whole(1)]
    frozen_kill_ms: Annotated[int, Whole(0)]
    run: Annotated[str, Text(1_048_576, 1)]
    resources: Resources
    max_duration_s: Annotated[int, Whole(1)]
    usage_every_ms: Annotated[int, Whole(100)]
    action: OnDisconnect = OnDisconnect.REPLACE
    name: Annotated[str, Text(100)] = ""
    task_name: Annotated[str, Text(100)] = "main"
    region: Annotated[str, Text(100)] = ""
    setup: Annotated[str, Text(1_048_576)] = ""
    envs: Annotated[Mapping[str, str], Items(1000, _ENV_NAME)] = field(default_factory=dict)
    secrets: Annotated[Mapping[str, str], Items(1000, _ENV_NAME)] = field(default_factory=dict)
    inputs: Annotated[tuple[Input, ...], Items(1000)] = ()
    outputs: Annotated[tuple[Output, ...], Items(1000)] = ()
    stop_grace_ms: Annotated[int, Whole(0, 600_000)] = 30_000
    checkpoint: Optional[CheckpointPlan] = None
    egress: Annotated[tuple[Annotated[str, Text(300, 3, _HOST_PORT)], ...], Items(100)] = ()  # host:port it may reach

    def check(self, path: str) -> None:
        names = [output.name for output in self.outputs]
        if len(set(names)) != len(names):
            raise BadMessage(_at(path, "outputs"), "names an output twice")


@dataclass(frozen=True)
class PhaseReport(FromAgent):
    """`seq` grows per attempt; a repeated (attempt, seq) gets its stored answer."""

    fence: Annotated[int, Whole(1)]
    seq: Annotated[int, Whole(1)]
    phase: Phase
    frozen: bool = False
    message: Annotated[str, Text(500)] = ""


@dataclass(frozen=True)
class Stored(_Answer):
    """Received and kept. `state`: the attempt's (drain: the node's) state now; `repeated`: it was known already."""

    state: Annotated[str, Text(40)] = ""
    repeated: bool = False


@dataclass(frozen=True)
class Received(_Answer):
    """Answer of log and output chunks: the next offset wanted; `complete`: the output is whole, its hash right."""

    offset: Annotated[int, Whole()]
    complete: bool = False


@dataclass(frozen=True)
class UsageRow(Message):
    """One cumulative counter as of `age_ms` before sending; key (attempt, resource, seq)."""

    attempt: Annotated[str, ID_FORM]
    fence: Annotated[int, Whole(1)]
    resource: Resource
    seq: Annotated[int, Whole(1)]
    age_ms: Annotated[int, Whole()]
    count_milli: Annotated[int, Whole()]
    qty_us: Annotated[int, Whole()]


@dataclass(frozen=True)
class UsageBatch(FromAgent):
    rows: Annotated[tuple[UsageRow, ...], Items(1000)]


@dataclass(frozen=True)
class Sample(Message):
    """What a running job had used `age_ms` before sending: cumulative, but for the memory of that moment. Shown only."""

    age_ms: Annotated[int, Whole()]
    ran_us: Annotated[int, Whole()]
    cpu_us: Annotated[int, Whole()]
    memory_bytes: Annotated[int, Whole()]
    network_bytes: Annotated[int, Whole()] = 0


@dataclass(frozen=True)
class MetricBatch(FromAgent):
    fence: Annotated[int, Whole(1)]
    samples: Annotated[tuple[Sample, ...], Items(100)]


@dataclass(frozen=True)
class UsageResult(Message):
    attempt: Annotated[str, ID_FORM]
    resource: Resource
    seq: Annotated[int, Whole(1)]
    verdict: UsageVerdict


@dataclass(frozen=True)
class UsageAnswer(_Answer):
    """One verdict per row, in order. Any verdict settles the row: it is not sent again."""

    results: Annotated[tuple[UsageResult, ...], Items(1000)]


@dataclass(frozen=True)
class Counter(Message):
    """A final cumulative counter, under the report's `usage_seq`."""

    resource: Resource
    count_milli: Annotated[int, Whole()]
    qty_us: Annotated[int, Whole()]


@dataclass(frozen=True)
class UploadedOutput(Message):
    name: Annotated[str, Text(128, 1, _OUTPUT_NAME)]
    size: Annotated[int, Whole()]
    sha256: Annotated[str, SHA256_FORM]


@dataclass(frozen=True)
class FinishReport(FromAgent):
    """The end of an attempt. `age_ms`: since the job's last process ended. `started` False: no process ever ran.

    Repeated until answered, for 24 h: "the same body" means all but `age_ms`, `boot_id` and `incarnation`, which
    change with the try (the agent may have been restarted in between).
    """

    fence: Annotated[int, Whole(1)]
    seq: Annotated[int, Whole(1)]
    reason: Reason
    started: bool
    age_ms: Annotated[int, Whole()]
    usage_seq: Annotated[int, Whole(1)]
    counters: Annotated[tuple[Counter, ...], Items(10)]
    exit_code: Annotated[Optional[int], Whole(-1000, 1000)] = None
    message: Annotated[str, Text(2000)] = ""
    ran_us: Annotated[int, Whole()] = 0  # unfrozen
    frozen_us: Annotated[int, Whole()] = 0
    cpu_us: Annotated[int, Whole()] = 0
    mem_peak_bytes: Annotated[int, Whole()] = 0
    stdout_bytes: Annotated[int, Whole()] = 0
    stderr_bytes: Annotated[int, Whole()] = 0
    outputs: Annotated[tuple[UploadedOutput, ...], Items(1000)] = ()


@dataclass(frozen=True)
class DrainRequest(FromAgent):
    """The provider's `down`: no new assignments; what runs after `deadline_ms` is stopped (node_drained)."""

    deadline_ms: Annotated[int, Whole()]


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Problem(_Answer):
    """problem+json as far as an agent reads it."""

    code: Annotated[str, Text(100)] = ""
    detail: Annotated[str, Text(4000)] = ""
    status: Annotated[int, Whole()] = 0
    offset: Annotated[Optional[int], Whole()] = None  # GAP
    state: Annotated[str, Text(40)] = ""


# ── paths ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

ENROLL = f"{BASE}/enroll"
INVENTORY = f"{BASE}/inventory"
SYNC = f"{BASE}/sync"
USAGE = f"{BASE}/usage"
DRAIN = f"{BASE}/drain"
LINKS = f"{BASE}/links"
BEGIN_RUN = f"{BASE}/runs/begin"
COMMIT_RUN = f"{BASE}/runs/commit"
SHOW_RUN = f"{BASE}/runs/show"


def stream_path(run: str) -> str:
    return f"{BASE}/runs/{run}/stream"


def accept_path(attempt: str) -> str:
    return f"{BASE}/attempts/{attempt}/accept"


def report_path(attempt: str) -> str:
    return f"{BASE}/attempts/{attempt}/report"


def metrics_path(attempt: str) -> str:
    return f"{BASE}/attempts/{attempt}/metrics"


def finish_path(attempt: str) -> str:
    return f"{BASE}/attempts/{attempt}/finish"


def log_path(attempt: str, stream: Stream) -> str:
    return f"{BASE}/attempts/{attempt}/logs/{stream.value}"


def input_path(attempt: str, index: int) -> str:
    return f"{BASE}/attempts/{attempt}/inputs/{index}"


def output_path(attempt: str, name: str) -> str:
    return f"{BASE}/attempts/{attempt}/outputs/{name}"


def checkpoint_path(attempt: str, name: str) -> str:
    """`name`: the agent's own number of a new one, or the id of a stored one."""
    return f"{BASE}/attempts/{attempt}/checkpoints/{name}"


def authorization(node: str, secret: str) -> str:
    return f"Node {node}:{secret}"


def parse_authorization(header: str) -> Optional[tuple[str, str]]:
    """(node id, secret) of an Authorization header, or None."""
    scheme, _, rest = header.partition(" ")
    node, _, secret = rest.strip().partition(":")
    if scheme != "Node" or not _ID.fullmatch(node) or not secret:
        return None
    return node, secret
