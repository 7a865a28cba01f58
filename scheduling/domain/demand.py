"""What a tenant asks for, as values: the outcome of reading a job spec, in whole numbers with units in their names.

:class:`JobSpec` holds what concerns the job, :class:`TaskSpec` what one task needs. Both have two JSON forms:

* ``form()`` / ``from_form()``: the machine's form, stored on Task (``Task.spec``) and read by the cycle and by the
  lease side;
* ``JobSpec.outward()``: the fields of the job spec with all defaults shown, stored on Job (``Job.spec``) and answered
  to people; it can be submitted again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from portal.kit.money import Money, micro_text
from scheduling.domain import spec_values as values

T = TypeVar("T")


class TaskType(StrEnum):
    TRAINING = "training"
    INFERENCE = "inference"
    DATA = "data"
    SIMULATION = "simulation"
    RENDER = "render"
    CUSTOM = "custom"


class Objective(StrEnum):
    COST = "cost"
    TIME = "time"
    GREEN = "green"
    TRANSFER = "transfer"


class Pick(StrEnum):
    ASK = "ask"
    KNEE = "knee"
    WEIGHTS = "weights"
    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    GREENEST = "greenest"


class Action(StrEnum):
    REPLACE = "replace"
    WAIT = "wait"
    STOP = "stop"


class LeaseClass(StrEnum):
    FAST = "fast"
    STANDARD = "standard"
    TOLERANT = "tolerant"


class Strategy(StrEnum):
    FAILOVER = "failover"
    EAGER_NEXT_REGION = "eager_next_region"
    NONE = "none"


@dataclass(frozen=True)
class Card:
    """One acceptable kind of card: by name, or (name "") by memory; `virtual` = only virtual cards, which no other
    name matches.
    """

    model: str
    count: int
    memory_min_mib: int = 0
    memory_max_mib: int | None = None
    virtual: bool = False


@dataclass(frozen=True)
class Input:
    """What the agent puts under /job before the job starts. Exactly one of `url`, `content` (text) and `archive`
    (base64 of a tar.gz) is set.
    """

    path: str
    url: str = ""
    content: str = ""
    archive: str = ""
    name: str = ""
    type: str = "FILE"
    size_bytes: int | None = None
    region: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class Output:
    """What is kept when the job ends."""

    name: str
    path: str
    type: str = "FILE"
    required: bool = True
    size_bytes: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """What is stored while the task runs, and found again by its next attempt. `path` lies under /job."""

    path: str
    interval_s: int = 600
    keep: int = 2


@dataclass(frozen=True)
class Resources:
    """What one node must give. `cards_ordered`: try the kinds in this order instead of freely."""

    cores_milli: int = 1_000
    memory_mib: int = 2_048
    disk_gib: int = 20
    cards: tuple[Card, ...] = ()
    cards_ordered: bool = False
    scu_micro: int | None = None
    region: str = "*"
    zone: str = "*"
    node: str = "*"
    use_spot: bool = False
    strategy: str = Strategy.FAILOVER
    max_restarts_on_errors: int = 0
    recover_on_exit_codes: tuple[int, ...] = ()

    @property
    def rental(self) -> str:
        return "spot" if self.use_spot else "fixed"


@dataclass(frozen=True)
class Placement:
    """Which place is good, and which is not allowed."""

    optimize: tuple[str, ...] = (Objective.COST, Objective.TIME, Objective.GREEN, Objective.TRANSFER)
    pick: str = Pick.KNEE
    weights_micro: Mapping[str, int] = field(default_factory=dict)
    min_green_ppm: int = 0
    min_reliability_ppm: int = 0
    max_latency_us: int | None = None
    latency_to: str = ""
    regions: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    verified: bool = True
    deadline: str = ""  # RFC 3339, or a duration from submission; "" = none
    slack_s: int = 0  # so long the start may wait for greener hours
    preset: str = ""  # whose fields are filled in; kept for its name alone


@dataclass(frozen=True)
class TaskSpec:
    """One task: what runs, what it needs, how it ends."""

    run: str
    setup: str = ""
    task_type: str = TaskType.CUSTOM
    work_micro: int | None = None  # SCU-hours
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    num_nodes: int = 1  # more than one: a gang, all in one zone or none
    max_duration_s: int = 86_400
    retry_on: tuple[str, ...] = ("no-capacity", "interruption")
    retry_for_s: int = 86_400
    on_disconnect: str = Action.REPLACE
    wait_for_s: int = 0
    lease_class: str = LeaseClass.STANDARD
    resources: Resources = Resources()
    placement: Placement = Placement()
    checkpoint: Checkpoint | None = None
    network_hosts: tuple[str, ...] = ()  # host:port that it may reach; () = no network

    def form(self) -> dict[str, Any]:
        """The machine's form as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "TaskSpec":
        """Back from :meth:`form`."""
        rest = dict(form)
        resources = dict(rest.pop("resources"))
        cards = tuple(Card(**card) for card in resources.pop("cards"))
        rest["resources"] = _build(Resources, {**resources, "cards": cards})
        rest["placement"] = _build(Placement, rest.pop("placement"))
        kept = rest.pop("checkpoint", None)
        rest["checkpoint"] = None if kept is None else Checkpoint(**kept)
        rest["inputs"] = tuple(Input(**item) for item in rest.pop("inputs"))
        rest["outputs"] = tuple(Output(**item) for item in rest.pop("outputs"))
        return _build(cls, rest)

    def with_inputs(self, inputs: tuple[Input, ...]) -> "TaskSpec":
        """The same task with other inputs (sizes and regions filled in)."""
        return replace(self, inputs=inputs)


def _build(cls: type[T], named: Mapping[str, Any]) -> T:
    return cls(**{key: tuple(item) if isinstance(item, list) else item for key, item in named.items()})


@dataclass(frozen=True)
class JobSpec:
    """A whole job of one task named `main`."""

    name: str
    project: str
    currency: str
    task: TaskSpec
    priority: int = 5
    max_price_micro: int | None = None
    budget_minor: int | None = None
    budget_on_exceed: str = "stop"
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""

    def outward(self) -> dict[str, Any]:
        """The spec with all defaults shown, in the fields and units of the documentation."""
        task = self.task
        return {
            "name": self.name,
            "project": self.project,
            "priority": self.priority,
            "max_price": None if self.max_price_micro is None else micro_text(self.max_price_micro),
            "budget": None
            if self.budget_minor is None
            else {"amount": Money(self.budget_minor, self.currency).text(), "on_exceed": self.budget_on_exceed},
            "labels": dict(self.labels),
            "run": task.run,
            "setup": task.setup or None,
            "task_type": task.task_type,
            "work": None if task.work_micro is None else values.micro_short(task.work_micro),
            "envs": dict(task.envs),
            "secrets": dict.fromkeys(task.secrets),
            "workdir": self.workdir or None,
            "inputs": [_input(item) for item in task.inputs if not (item.archive and item.archive in self.workdir)],
            "outputs": [_kept(asdict(item), "name", "path", "type", "required", "size_bytes") for item in task.outputs],
            "num_nodes": task.num_nodes,
            "max_duration": values.duration_text(task.max_duration_s),
            "retry": {"on_events": list(task.retry_on), "duration": values.duration_text(task.retry_for_s)},
            "on_disconnect": {
                "action": task.on_disconnect,
                "lease": task.lease_class,
                **({"for": values.duration_text(task.wait_for_s)} if task.on_disconnect == Action.WAIT else {}),
            },
            "network": {"mode": "allow", "hosts": list(task.network_hosts)} if task.network_hosts else {"mode": "none"},
            "checkpoint": None
            if task.checkpoint is None
            else {
                "path": task.checkpoint.path,
                "interval": values.duration_text(task.checkpoint.interval_s),
                "keep": task.checkpoint.keep,
            },
            "resources": _resources(task.resources),
            "placement": _placement(task.placement),
        }


def _kept(item: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names if item[name] not in (None, "")}


def _input(item: Input) -> dict[str, Any]:
    return _kept(asdict(item), "path", "url", "content", "name", "type", "size_bytes", "region", "sha256")


def _resources(needs: Resources) -> dict[str, Any]:
    return {
        "cpus": values.micro_short(needs.cores_milli * 1_000),
        "memory": _memory(needs.memory_mib),
        "disk_size": f"{needs.disk_gib}GiB",
        "accelerators": _accelerators(needs),
        **({} if needs.scu_micro is None else {"scu": values.micro_short(needs.scu_micro)}),
        "infra": "/".join((needs.region, needs.zone, needs.node)),
        "use_spot": needs.use_spot,
        "job_recovery": {
            "strategy": needs.strategy,
            "max_restarts_on_errors": needs.max_restarts_on_errors,
            "recover_on_exit_codes": list(needs.recover_on_exit_codes),
        },
    }


def card_text(card: Card) -> str:
    """``H100:2``, ``virtual:1``, or ``40960MiB..81920MiB:4`` for a card asked for by its memory."""
    if card.virtual:
        return f"virtual:{card.count}"
    if card.model:
        return f"{card.model}:{card.count}"
    most = "+" if card.memory_max_mib is None else f"..{_memory(card.memory_max_mib)}"
    return f"{_memory(card.memory_min_mib)}{most}:{card.count}"


def _memory(mib: int) -> str:
    return f"{mib}MiB" if mib % 1_024 else f"{mib // 1_024}GiB"


def _accelerators(needs: Resources) -> Any:
    texts = [card_text(card) for card in needs.cards]
    if not texts:
        return None
    if len(texts) == 1:
        return texts[0]
    if needs.cards_ordered:
        return texts
    return {text.rpartition(":")[0]: int(text.rpartition(":")[2]) for text in texts}


def _placement(wish: Placement) -> dict[str, Any]:
    shown: dict[str, Any] = {"optimize": list(wish.optimize), "pick": wish.pick}
    if wish.weights_micro:
        shown["weights"] = {name: values.micro_short(micro) for name, micro in wish.weights_micro.items()}
    shown["min_green"] = values.micro_short(wish.min_green_ppm)
    if wish.min_reliability_ppm:
        shown["min_reliability"] = values.micro_short(wish.min_reliability_ppm)
    if wish.max_latency_us is not None:
        shown["max_latency_ms"] = values.micro_short(wish.max_latency_us * 1_000)
        shown["latency_to"] = wish.latency_to
    shown |= {"regions": list(wish.regions), "avoid": list(wish.avoid), "verified": wish.verified}
    if wish.deadline:
        shown["deadline"] = wish.deadline
    if wish.slack_s:
        shown["slack"] = values.duration_text(wish.slack_s)
    if wish.preset:
        shown["preset"] = wish.preset
    return shown
