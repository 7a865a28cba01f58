"""Read a job spec: text or values in, a :class:`~scheduling.domain.demand.JobSpec` and warnings out, or **all** its
errors at once.

The rules are those of docs/placement.md ("The job spec"). What the outside world knows (regions, cards, secrets,
projects, stored artefacts, the currency)
comes in as :class:`Context`; so does the function that translates messages. Nothing is guessed: a field that is
documented but not carried out yet is
refused as `unsupported_field`, an unknown one as `unknown_field` with the nearest name.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from portal.kit.errors import Finding, InvalidInput
from scheduling.domain import presets, spec_document, spec_values
from scheduling.domain.demand import (
    Action,
    Card,
    Checkpoint,
    Input,
    JobSpec,
    LeaseClass,
    Objective,
    Output,
    Pick,
    Placement,
    Resources,
    Strategy,
    TaskSpec,
    TaskType,
)
from scheduling.domain.reasons import N_, RetryEvent
from scheduling.domain.spec_fields import IGNORED, SUPPORTED, UNSUPPORTED
from scheduling.domain.spec_values import GIB, MIB, Wrong
from scheduling.domain.task_kind import Guess, guess

T = TypeVar("T")
MOST_FINDINGS = 100
MOST_CARDS = 20
MOST_INPUTS = 1_000
MOST_ENV, MOST_ENVS, MOST_ENV_BYTES, MOST_SECRETS = 65_536, 500, 262_144, 20
"""A kernel starts no program with a variable above 128 KiB or all of them (secrets of 64 KiB too) above 2 MiB: such a job
would fail on one node after the other, and look like their fault.
"""
CHECKPOINT_EVERY_S, MOST_CHECKPOINTS = 600, 10
MOST_NODES = 16
MOST_DELAY_S = 366 * 86_400
"""The longest that a job may wait for anything: with the longest clock and interval of the database far away."""
NAME = re.compile(r"[a-z0-9-]{1,63}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,62}")
OUTPUT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
CARD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,79}")
PLACE = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_*.-]{0,79}")
SHA256 = re.compile(r"[0-9a-f]{64}")
HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?:[1-9][0-9]{0,4}")
MOST_HOSTS = 50
NETWORK_MODES = ("none", "allow", "open")
ARTEFACT = re.compile(r"artefact://[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
ARCHIVE = "data:application/gzip;base64,"
VIRTUAL = "virtual"
BUDGET_ACTIONS = ("stop", "hold")


@dataclass(frozen=True)
class Limits:
    """The most one job of an organisation may ask for."""

    cores_milli: int = 1_024_000
    memory_mib: int = 16 * 1024 * 1024
    disk_gib: int = 102_400
    cards: int = 64
    duration_s: int = 31 * 86_400
    checkpoint_least_s: int = 60


@dataclass(frozen=True)
class Context:
    """What the spec is read against. None = not known here, so not checked."""

    currency: str = "CNY"
    regions: Mapping[str, Collection[str]] | None = None  # region → its zones
    cards: Collection[str] | None = None
    secrets: Collection[str] | None = None
    projects: Collection[str] | None = None
    project: str = "default"
    new_name: str = "job"
    quoted: bool = False  # a quote stands behind: its prices are the cap
    needs_price: bool = True  # False while a quote is being made
    point_given: bool = False
    may_ask: bool = False  # a quote may be made for pick: ask
    artefact: Callable[[str], tuple[int, str] | None] | None = None  # name → (size, region)
    past_kinds: Callable[[str], Sequence[str]] | None = None  # name → task types its author gave before, newest first
    limits: Limits = Limits()
    now: datetime | None = None
    say: Callable[[str], str] = field(default=str)  # translates a message before its gaps are filled


@dataclass(frozen=True)
class Parsed:
    """A spec that can be carried out, and what its author should know."""

    spec: JobSpec
    warnings: tuple[Finding, ...]
    guess: Guess | None = None  # of the task type, when its author named none


def parse(text_or_data: object, *, context: Context) -> Parsed:
    """Read `text_or_data` (YAML or JSON text, or values). InvalidInput carries every finding (≤ 100, by path);
    BadRequest if the text is no document at all.
    """
    document = spec_document.read(text_or_data) if isinstance(text_or_data, str) else spec_document.of(text_or_data)
    reader = _Reader(document, context)
    spec = reader.job()
    if reader.errors or spec is None:
        findings = sorted(reader.errors, key=lambda f: (f.path, f.code))[:MOST_FINDINGS]
        raise InvalidInput(findings, code="bad_spec")
    warnings = tuple(sorted(reader.warnings, key=lambda f: (f.path, f.code))[:MOST_FINDINGS])
    return Parsed(spec, warnings, reader.guess)


class _Reader:
    """One pass over a document. Every method notes what is wrong and goes on with a harmless value, so that all
    errors are found.
    """

    def __init__(self, document: spec_document.Document, context: Context) -> None:
        self.document, self.context = document, context
        self.errors: list[Finding] = []
        self.warnings: list[Finding] = []
        self.guess: Guess | None = None
        for path, line, column in document.twice:
            self.errors.append(
                Finding(path, "duplicate_key", context.say(N_("the key stands here twice")), line=line, column=column)
            )

    # -- noting
    # ---------------------------------------------------------------------------------------------------------
    def wrong(self, path: str, code: str, message: str, hint: str = "", **gaps: object) -> None:
        line, column = self.document.place(path)
        self.errors.append(Finding(path, code, self.context.say(message).format(**gaps), hint, line, column))

    def warn(self, path: str, code: str, message: str, hint: str = "", **gaps: object) -> None:
        line, column = self.document.place(path)
        self.warnings.append(Finding(path, code, self.context.say(message).format(**gaps), hint, line, column))

    def read(self, path: str, value: object, default: T, reading: Callable[[object], T]) -> T:
        """`reading(value)`; the default if the value is absent or null, or wrong (which is noted)."""
        if value is None:
            return default
        try:
            return reading(value)
        except Wrong as problem:
            self.wrong(path, problem.code, problem.message, problem.hint, **problem.gaps)
            return default

    # -- shapes
    # ---------------------------------------------------------------------------------------------------------
    def mapping(self, path: str, value: object) -> dict[str, object]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong(path, "bad_type", N_("a map is expected"))
            return {}
        return value

    def section(self, path: str, value: object, names: str | None = None) -> dict[str, object]:
        """A map whose keys are known fields; `names` is the table's name where it differs from the path."""
        fields = self.mapping(path, value)
        table = path if names is None else names
        for key in fields:
            below = f"{path}.{key}" if path else key
            if key in SUPPORTED[table]:
                continue
            if key in IGNORED.get(table, ()):
                self.warn(below, "ignored_field", N_("this field has no effect here"))
            elif key in UNSUPPORTED.get(table, ()):
                self.wrong(below, "unsupported_field", N_("this version does not carry out {field} yet"), field=key)
            else:
                self.wrong(
                    below,
                    "unknown_field",
                    N_("there is no field {field}"),
                    self.nearest(key, _candidates(table, key)),
                    field=key,
                )
        return fields

    def items(self, path: str, value: object, most: int = 1_000) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong(path, "bad_type", N_("a list is expected"))
            return []
        if len(value) > most:
            self.wrong(path, "out_of_range", N_("at most {most} entries"), most=most)
        return value[:most]

    def text(self, path: str, value: object, default: str = "") -> str:
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(path, "bad_type", N_("text is expected"))
            return default
        if "\x00" in value:
            self.wrong(path, "bad_type", N_("text must not contain a null character"))
            return default
        if len(value) > spec_document.MOST_BYTES:
            self.wrong(path, "out_of_range", N_("at most {most} characters"), most=spec_document.MOST_BYTES)
            return default
        return value

    def flag(self, path: str, value: object, default: bool) -> bool:
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(path, "bad_type", N_("true or false is expected"))
            return default
        return value

    def choice(self, path: str, value: object, default: str, allowed: Collection[str]) -> str:
        word = self.text(path, value, default)
        if word in allowed:
            return word
        self.wrong(
            path,
            "bad_value",
            N_("{value} is not one of {allowed}"),
            self.nearest(word, allowed),
            value=word,
            allowed=", ".join(allowed),
        )
        return default

    def nearest(self, word: str, known: Collection[str]) -> str:
        """``did you mean X?`` or nothing. Past the findings that are shown nobody reads it, and comparing takes time."""
        if len(self.errors) + len(self.warnings) > MOST_FINDINGS:
            return ""
        lower = {name.lower(): name for name in known}
        near = get_close_matches(word.lower(), sorted(lower), n=1, cutoff=0.5)
        return self.context.say(N_("did you mean {name}?")).format(name=lower[near[0]]) if near else ""

    # -- the job
    # --------------------------------------------------------------------------------------------------------
    def job(self) -> JobSpec | None:
        value = self.document.value
        if value is None:
            value = {}
        if not isinstance(value, dict):
            self.wrong("", "bad_type", N_("a job spec is a map of fields"))
            return None
        fields = presets.expand(self.section("", value), carried_out=SUPPORTED)
        if "stages" in fields and "run" in fields:
            self.wrong("stages", "mixed_forms", N_("a spec is either flat (run) or has stages, not both"))
        name = self.text("name", fields.get("name"), self.context.new_name)
        if not NAME.fullmatch(name):
            self.wrong("name", "bad_name", N_("1 to 63 of a-z, 0-9 and -"))
        labels = self.labels("labels", fields.get("labels"))
        resources_map = self.mapping("resources", fields.get("resources"))
        labels |= self.labels("resources.labels", resources_map.get("labels"))
        budget, on_exceed = self.budget(fields.get("budget"))
        max_price = self.read("max_price", fields.get("max_price"), None, spec_values.price_micro)
        if fields.get("max_price") is None and self.context.needs_price and not self.context.quoted:
            self.wrong("max_price", "price_unbounded", N_("give max_price, or submit with a quote"))
        workdir = self.workdir(fields.get("workdir"))
        return JobSpec(
            name=name,
            project=self.project(fields.get("project")),
            currency=self.context.currency,
            task=self.task(fields, workdir, name),
            priority=self.read("priority", fields.get("priority"), 5, lambda v: spec_values.whole(v, 0, 9)),
            max_price_micro=max_price,
            budget_minor=budget,
            budget_on_exceed=on_exceed,
            labels=labels,
            workdir=workdir,
        )

    def project(self, value: object) -> str:
        slug = self.text("project", value, self.context.project)
        known = self.context.projects
        if known is not None and slug not in known:
            self.wrong(
                "project", "unknown_project", N_("there is no project {name}"), self.nearest(slug, known), name=slug
            )
        return slug

    def labels(self, path: str, value: object) -> dict[str, str]:
        labels: dict[str, str] = {}
        for key, item in self.mapping(path, value).items():
            if not LABEL.fullmatch(key):
                self.wrong(f"{path}.{key}", "bad_name", N_("a label's name has 1 to 63 letters, digits and _ . / -"))
            labels[key] = self.scalar_text(f"{path}.{key}", item)[:200]
        if len(labels) > 64:
            self.wrong(path, "out_of_range", N_("at most {most} entries"), most=64)
        return labels

    def scalar_text(self, path: str, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        return self.text(path, value)

    def budget(self, value: object) -> tuple[int | None, str]:
        if not isinstance(value, dict):
            return self.read("budget", value, None, self._money), BUDGET_ACTIONS[0]
        fields = self.section("budget", value)
        if fields.get("amount") is None:
            self.wrong("budget.amount", "field_required", N_("an amount is needed"))
        return (
            self.read("budget.amount", fields.get("amount"), None, self._money),
            self.choice("budget.on_exceed", fields.get("on_exceed"), BUDGET_ACTIONS[0], BUDGET_ACTIONS),
        )

    def _money(self, value: object) -> int | None:
        return spec_values.money_minor(value, self.context.currency)

    def workdir(self, value: object) -> str:
        source = self.text("workdir", value)
        if source and not source.startswith((ARCHIVE, "artefact://")):
            self.wrong(
                "workdir",
                "workdir_not_packed",
                N_("the folder stands on your machine"),
                N_("submit with the command idlewild run, which packs it"),
            )
        return source

    # -- the task
    # -------------------------------------------------------------------------------------------------------
    def kind(self, fields: dict[str, object], name: str, run: str) -> str:
        """What its author says; else a guess, which the answer shows with its reason."""
        if fields.get("task_type") is not None:
            return self.choice("task_type", fields.get("task_type"), TaskType.CUSTOM, _values(TaskType))
        image = self.mapping("resources", fields.get("resources")).get("image_id")
        setup = fields.get("setup")
        past = self.context.past_kinds(name) if self.context.past_kinds and fields.get("name") else ()
        self.guess = guess(
            image=image if isinstance(image, str) else "",
            run=run,
            setup=setup if isinstance(setup, str) else "",
            past=past,
        )
        return self.guess.kind

    def task(self, fields: dict[str, object], workdir: str, name: str) -> TaskSpec:
        run = self.text("run", fields.get("run"))
        if not run.strip() and "stages" not in fields:
            self.wrong("run", "field_required", N_("run says what the job does"))
        retry = self.section("retry", fields.get("retry"))
        events = self.words("retry.on_events", retry.get("on_events"), ("no-capacity", "interruption"), RetryEvent)
        action, wait_for, lease = self.on_disconnect(fields.get("on_disconnect"))
        limit = self.context.limits.duration_s
        duration = self.read("max_duration", fields.get("max_duration"), min(86_400, limit), spec_values.duration_s)
        self.limit("max_duration", duration, limit, "s")
        return TaskSpec(
            run=run,
            setup=self.text("setup", fields.get("setup")),
            task_type=self.kind(fields, name, run),
            work_micro=self.read("work", fields.get("work"), None, spec_values.positive_micro),
            envs=self.envs(fields.get("envs")),
            secrets=self.secrets(fields.get("secrets")),
            inputs=self.inputs(fields.get("inputs"), workdir),
            outputs=self.outputs(fields.get("outputs")),
            num_nodes=self.read("num_nodes", fields.get("num_nodes"), 1, lambda v: spec_values.whole(v, 1, MOST_NODES)),
            max_duration_s=duration,
            retry_on=events,
            retry_for_s=self.delay("retry.duration", retry.get("duration"), 86_400),
            on_disconnect=action,
            wait_for_s=wait_for,
            lease_class=lease,
            resources=self.resources(fields.get("resources"), events),
            placement=self.placement(fields.get("placement")),
            checkpoint=self.checkpoint(fields.get("checkpoint")),
            network_hosts=self.network(fields.get("network")),
        )

    def words(self, path: str, value: object, default: tuple[str, ...], kind: type[StrEnum]) -> tuple[str, ...]:
        if value is None:
            return default
        words = [
            self.choice(f"{path}.{i}", item, "", _values(kind)) for i, item in enumerate(self.items(path, value, 20))
        ]
        if len(set(words)) != len(words):
            self.wrong(path, "bad_value", N_("an entry stands here twice"))
        return tuple(word for word in words if word)

    def delay(self, path: str, value: object, default: int) -> int:
        return self.read(path, value, default, lambda v: spec_values.duration_s(v, most=MOST_DELAY_S))

    def limit(self, path: str, value: int, most: int, unit: str) -> None:
        if value > most:
            self.wrong(path, "above_limit", N_("the organisation's limit is {most} {unit}"), most=most, unit=unit)

    def envs(self, value: object) -> dict[str, str]:
        envs: dict[str, str] = {}
        for name, item in self.mapping("envs", value).items():
            path = f"envs.{name}"
            if not ENV_NAME.fullmatch(name):
                self.wrong(path, "bad_name", N_("a variable's name has letters, digits and _"))
            elif item is None:
                self.wrong(path, "env_missing", N_("no value was given for {name}"), f"--env {name}=…", name=name)
            else:
                envs[name] = self.scalar_text(path, item)
                if len(envs[name].encode()) > MOST_ENV:
                    self.wrong(path, "out_of_range", N_("at most {most} characters"), most=MOST_ENV)
        if len(envs) > MOST_ENVS:
            self.wrong("envs", "out_of_range", N_("at most {most} entries"), most=MOST_ENVS)
        elif sum(len(name) + len(text.encode()) for name, text in envs.items()) > MOST_ENV_BYTES:
            hint = self.context.say(N_("put data into inputs"))
            self.wrong("envs", "out_of_range", N_("at most {most} characters"), hint, most=MOST_ENV_BYTES)
        return envs

    def secrets(self, value: object) -> tuple[str, ...]:
        names = []
        for name, item in self.mapping("secrets", value).items():
            path, known = f"secrets.{name}", self.context.secrets
            if not ENV_NAME.fullmatch(name):
                self.wrong(path, "bad_name", N_("a variable's name has letters, digits and _"))
            elif item is not None:
                self.wrong(
                    path,
                    "unsupported_field",
                    N_("a spec names secrets, it does not hold them"),
                    f"idlewild secret set {name}, then {name}: null",
                )
            elif known is not None and name not in known:
                self.wrong(
                    path, "secret_missing", N_("no secret {name} is stored"), f"idlewild secret set {name}", name=name
                )
            names.append(name)
        if len(names) > MOST_SECRETS:
            self.wrong("secrets", "out_of_range", N_("at most {most} entries"), most=MOST_SECRETS)
        return tuple(names)

    # -- data
    # -----------------------------------------------------------------------------------------------------------
    def inputs(self, value: object, workdir: str) -> tuple[Input, ...]:
        found: list[Input] = []
        if workdir.startswith(ARCHIVE):
            found.append(
                Input(
                    path="/job",
                    archive=workdir.removeprefix(ARCHIVE),
                    type="DIRECTORY",
                    size_bytes=len(workdir) * 3 // 4,
                )
            )
        elif workdir:
            found.append(self.stored("workdir", Input(path="/job", url=workdir, type="DIRECTORY")))
        taken = {"/job"} if found else set()
        for i, item in enumerate(self.items("inputs", value, MOST_INPUTS - len(found))):
            path = f"inputs.{i}"
            one = self.input(path, self.section(path, item, "inputs"))
            if one.path in taken:
                self.wrong(f"{path}.path", "duplicate_path", N_("two inputs go to {place}"), place=one.path)
            taken.add(one.path)
            found.append(one)
        return tuple(found)

    def input(self, path: str, fields: dict[str, object]) -> Input:
        url, content = self.text(f"{path}.url", fields.get("url")), self.text(f"{path}.content", fields.get("content"))
        if url and content:
            self.wrong(path, "exclusive_fields", N_("either url or content"))
        elif not url and fields.get("content") is None:
            self.wrong(f"{path}.url", "field_required", N_("url or content is needed"))
        one = Input(
            path=self.inside(f"{path}.path", fields.get("path")),
            url=self.url(f"{path}.url", url),
            content=content,
            name=self.text(f"{path}.name", fields.get("name")),
            type=self.choice(f"{path}.type", fields.get("type"), "FILE", ("FILE", "DIRECTORY")),
            size_bytes=self.read(
                f"{path}.size_bytes", fields.get("size_bytes"), None, lambda v: spec_values.whole(v, 0, 2**53)
            ),
            region=self.region(f"{path}.region", fields.get("region")),
            sha256=self.digest(f"{path}.sha256", fields.get("sha256")),
        )
        if one.type == "DIRECTORY" and not url.startswith("artefact://"):
            self.wrong(f"{path}.type", "unsupported_field", N_("this version takes folders only from artefacts"))
        return self.stored(path, one)

    def stored(self, path: str, one: Input) -> Input:
        """Fill in size and region of an artefact; warn where a size is not known."""
        if one.url.startswith("artefact://") and self.context.artefact is not None:
            known = self.context.artefact(one.url.removeprefix("artefact://"))
            if known is None:
                self.wrong(path, "artefact_missing", N_("there is no stored artefact {name}"), name=one.url)
                return one
            return Input(**{**one.__dict__, "size_bytes": known[0], "region": one.region or known[1]})
        if one.url and one.size_bytes is None:
            self.warn(f"{path}.size_bytes", "size_unknown", N_("without a size its transfer is counted as 0"))
        return one

    def url(self, path: str, url: str) -> str:
        scheme = url.partition("://")[0]
        if scheme in ("s3", "stage"):
            self.wrong(
                path, "unsupported_field", N_("this version does not carry out {field} yet"), field=f"{scheme}://"
            )
        elif url and scheme == "artefact" and not ARTEFACT.fullmatch(url):
            self.wrong(path, "bad_url", N_("an artefact is named artefact://NAME"))
        elif url and (scheme not in ("https", "artefact") or len(url) > 4_000 or any(c.isspace() for c in url)):
            self.wrong(path, "bad_url", N_("an address begins with https:// or artefact://"))
        return url

    def inside(self, path: str, value: object) -> str:
        """A path under /job, without ``..``, made absolute."""
        if value is None:
            self.wrong(path, "field_required", N_("a path is needed"))
            return "/job"
        text = self.text(path, value)
        full = text if text.startswith("/") else f"/job/{text}"
        parts = [part for part in full.split("/") if part not in ("", ".")]
        if not parts or parts[0] != "job" or len(parts) < 2 or ".." in parts or len(full) > 500:
            self.wrong(path, "path_outside_work", N_("the path must lie under /job"), "/job/…")
        return "/" + "/".join(parts)

    def digest(self, path: str, value: object) -> str:
        text = self.text(path, value).lower()
        if text and not SHA256.fullmatch(text):
            self.wrong(path, "bad_value", N_("a SHA-256 has 64 hexadecimal digits"))
        return text

    def outputs(self, value: object) -> tuple[Output, ...]:
        found: list[Output] = []
        names: set[str] = set()
        for i, item in enumerate(self.items("outputs", value)):
            path = f"outputs.{i}"
            fields = self.section(path, item, "outputs")
            place = self.inside(f"{path}.path", fields.get("path"))
            name = self.text(
                f"{path}.name",
                fields.get("name"),
                re.sub(r"[^A-Za-z0-9._-]", "-", place.rpartition("/")[2]).lstrip("._-") or f"out-{i}",
            )
            if not OUTPUT_NAME.fullmatch(name):
                self.wrong(f"{path}.name", "bad_name", N_("1 to 120 letters, digits and . _ -"))
            if name in names:
                self.wrong(f"{path}.name", "duplicate_name", N_("two outputs are called {name}"), name=name)
            names.add(name)
            found.append(
                Output(
                    name=name,
                    path=place,
                    type=self.choice(f"{path}.type", fields.get("type"), "FILE", ("FILE", "DIRECTORY")),
                    required=self.flag(f"{path}.required", fields.get("required"), True),
                    size_bytes=self.read(
                        f"{path}.size_bytes", fields.get("size_bytes"), None, lambda v: spec_values.whole(v, 0, 2**53)
                    ),
                )
            )
        return tuple(found)

    def on_disconnect(self, value: object) -> tuple[str, int, str]:
        fields = self.section("on_disconnect", value)
        action = self.choice("on_disconnect.action", fields.get("action"), Action.REPLACE, _values(Action))
        waits = action == Action.WAIT
        wait_for = self.delay("on_disconnect.for", fields.get("for"), 0)
        if waits and fields.get("for") is None:
            self.wrong("on_disconnect.for", "field_required", N_("say for how long to wait"), "for: 10m")
        if not waits and fields.get("for") is not None:
            self.wrong("on_disconnect.for", "exclusive_fields", N_("only with action: wait"))
        usual = LeaseClass.TOLERANT if waits else LeaseClass.STANDARD
        lease = self.choice("on_disconnect.lease", fields.get("lease"), usual, _values(LeaseClass))
        if waits and lease != LeaseClass.TOLERANT:
            self.wrong("on_disconnect.lease", "exclusive_fields", N_("action: wait needs lease: tolerant"))
        return action, wait_for if waits else 0, lease

    def network(self, value: object) -> tuple[str, ...]:
        """The hosts that a job may reach; none without `mode: allow`."""
        fields = self.section("network", value)
        mode = self.choice("network.mode", fields.get("mode"), "none", NETWORK_MODES)
        if mode == "open":
            self.wrong(
                "network.mode",
                "unsupported_field",
                N_("this version does not carry out {field} yet"),
                field="network.mode",
            )
        hosts = [
            self.host(f"network.hosts.{place}", item)
            for place, item in enumerate(self.items("network.hosts", fields.get("hosts"), MOST_HOSTS))
        ]
        if mode == "none" and hosts:
            self.wrong("network.hosts", "exclusive_fields", N_("only with mode: allow"))
        if mode == "allow" and not hosts:
            self.wrong(
                "network.hosts",
                "field_required",
                N_("name the hosts that it may reach"),
                'hosts: ["hub.example.org:443"]',
            )
        return tuple(dict.fromkeys(hosts)) if mode == "allow" else ()

    def host(self, path: str, value: object) -> str:
        text = self.text(path, value).lower()
        port = text.rpartition(":")[2]
        if not HOST.fullmatch(text) or int(port) > 65_535:
            self.wrong(path, "bad_value", N_("{value} is not host:port"), "hub.example.org:443", value=text)
        return text

    def checkpoint(self, value: object) -> Checkpoint | None:
        """What to store while it runs, how often, and how many to keep."""
        if value is None:
            return None
        fields = self.section("checkpoint", value)
        least = self.context.limits.checkpoint_least_s
        return Checkpoint(
            path=self.inside("checkpoint.path", fields.get("path")),
            interval_s=self.read(
                "checkpoint.interval",
                fields.get("interval"),
                CHECKPOINT_EVERY_S,
                lambda v: spec_values.duration_s(v, least=least, most=MOST_DELAY_S),
            ),
            keep=self.read(
                "checkpoint.keep", fields.get("keep"), 2, lambda v: spec_values.whole(v, 1, MOST_CHECKPOINTS)
            ),
        )

    # -- what it needs
    # --------------------------------------------------------------------------------------------------
    def resources(self, value: object, events: tuple[str, ...]) -> Resources:
        fields = self.section("resources", value)
        limits = self.context.limits
        if fields.get("image_id") is not None:
            self.wrong(
                "resources.image_id",
                "unsupported_field",
                N_("this version does not carry out {field} yet"),
                field="image_id",
            )
        cores = self.read("resources.cpus", fields.get("cpus"), 1_000, spec_values.cores_milli)
        memory = self.read(
            "resources.memory",
            fields.get("memory"),
            max(256, cores * 2_048 // 1_000),
            lambda v: spec_values.size(v, MIB),
        )
        disk = self.read("resources.disk_size", fields.get("disk_size"), 20, lambda v: spec_values.size(v, GIB))
        self.limit("resources.cpus", cores, limits.cores_milli, "milli-cores")
        self.limit("resources.memory", memory, limits.memory_mib, "MiB")
        self.limit("resources.disk_size", disk, limits.disk_gib, "GiB")
        cards, ordered = self.cards(fields.get("accelerators"))
        region, zone, node = self.infra(fields.get("infra"))
        recovery = self.section("resources.job_recovery", fields.get("job_recovery"))
        usual = 3 if RetryEvent.ERROR in events else 0
        here = "resources.job_recovery"
        codes = self.items(f"{here}.recover_on_exit_codes", recovery.get("recover_on_exit_codes"), 255)
        return Resources(
            cores_milli=cores,
            memory_mib=memory,
            disk_gib=disk,
            cards=cards,
            cards_ordered=ordered,
            scu_micro=self.read("resources.scu", fields.get("scu"), None, spec_values.positive_micro),
            region=region,
            zone=zone,
            node=node,
            use_spot=self.flag("resources.use_spot", fields.get("use_spot"), False),
            strategy=self.choice(f"{here}.strategy", recovery.get("strategy"), Strategy.FAILOVER, _values(Strategy)),
            max_restarts_on_errors=self.read(
                f"{here}.max_restarts_on_errors",
                recovery.get("max_restarts_on_errors"),
                usual,
                lambda v: spec_values.whole(v, 0, 1_000),
            ),
            recover_on_exit_codes=tuple(
                self.read(f"{here}.recover_on_exit_codes.{i}", code, 0, lambda v: spec_values.whole(v, 1, 255))
                for i, code in enumerate(codes)
            ),
        )

    def cards(self, value: object) -> tuple[tuple[Card, ...], bool]:
        path = "resources.accelerators"
        if value is None:
            return (), False
        pairs: list[tuple[str, str, object]] = []
        if isinstance(value, str):
            pairs.append((path, *_name_count(value)))
        elif isinstance(value, dict):
            if len(value) > MOST_CARDS:
                self.wrong(path, "out_of_range", N_("at most {most} entries"), most=MOST_CARDS)
            pairs += [
                (f"{path}.{name}", name, 1 if count is None else count)
                for name, count in list(value.items())[:MOST_CARDS]
            ]
        else:
            pairs += [
                (f"{path}.{i}", *_name_count(self.text(f"{path}.{i}", item)))
                for i, item in enumerate(self.items(path, value, MOST_CARDS))
            ]
        cards = [card for card in (self.card(*pair) for pair in pairs) if card]
        for card in cards:
            self.limit(path, card.count, self.context.limits.cards, "cards")
        return tuple(cards), isinstance(value, list)

    def card(self, path: str, name: str, count: object) -> Card | None:
        many = self.read(path, count, 1, spec_values.card_count)
        if name == VIRTUAL:
            return Card(VIRTUAL, many, virtual=True)
        memory = self.read(path, name, None, lambda v: spec_values.card_memory_mib(str(v)))
        if memory:
            return Card("", many, memory[0], memory[1])
        if not CARD_NAME.fullmatch(name):
            self.wrong(path, "bad_value", N_("{value} is not the name of a card"), "A100-80GB:1", value=name)
            return None
        known = self.context.cards
        if known is not None and name not in known:
            self.warn(path, "unknown_card", N_("no node has a card {name} now"), self.nearest(name, known), name=name)
        return Card(name, many)

    def infra(self, value: object) -> tuple[str, str, str]:
        text = self.text("resources.infra", value, "*")
        parts = text.split("/")
        if len(parts) > 3 or not all(PLACE.fullmatch(part) for part in parts):
            self.wrong("resources.infra", "bad_value", N_("{value} is not region/zone/node"), "east/*/*", value=text)
            return "*", "*", "*"
        region, zone, node = (*parts, "*", "*")[:3]
        self.place("resources.infra", region, zone)
        return region, zone, node

    def place(self, path: str, region: str, zone: str = "*") -> None:
        known = self.context.regions
        if known is None or region == "*":
            return
        if region not in known:
            self.wrong(
                path, "unknown_region", N_("there is no region {name}"), self.nearest(region, known), name=region
            )
        elif zone != "*" and zone not in known[region]:
            self.wrong(
                path,
                "unknown_zone",
                N_("there is no zone {name}"),
                self.nearest(zone, known[region]),
                name=f"{region}/{zone}",
            )

    def region(self, path: str, value: object) -> str:
        name = self.text(path, value)
        if name:
            self.place(path, name)
        return name

    # -- where it should run
    # --------------------------------------------------------------------------------------------
    def placement(self, value: object) -> Placement:
        fields = self.section("placement", value)
        optimize = self.words("placement.optimize", fields.get("optimize"), _values(Objective), Objective)
        if not optimize:
            self.wrong("placement.optimize", "out_of_range", N_("at least one objective"))
        pick = self.choice("placement.pick", fields.get("pick"), Pick.KNEE, _values(Pick))
        if pick == Pick.ASK and not (self.context.point_given or self.context.may_ask):
            self.wrong(
                "placement.pick",
                "choice_required",
                N_("pick: ask needs the point that was chosen"),
                "quote, then point",
            )
        latency = self.read("placement.max_latency_ms", fields.get("max_latency_ms"), None, spec_values.positive_micro)
        if latency is not None and not fields.get("latency_to"):
            self.wrong("placement.latency_to", "field_required", N_("say from which region the delay counts"))
        regions = self.places("placement.regions", fields.get("regions"))
        avoid = self.places("placement.avoid", fields.get("avoid"))
        if regions and all(region in avoid for region in regions):
            self.wrong("placement.regions", "empty_region_set", N_("no region is left after avoid"))
        return Placement(
            optimize=optimize,
            pick=pick,
            weights_micro=self.weights(fields.get("weights"), pick),
            min_green_ppm=self.read("placement.min_green", fields.get("min_green"), 0, spec_values.share_ppm),
            min_reliability_ppm=self.read(
                "placement.min_reliability", fields.get("min_reliability"), 0, spec_values.share_ppm
            ),
            max_latency_us=None if latency is None else max(1, latency // 1_000),
            latency_to=self.region("placement.latency_to", fields.get("latency_to")),
            regions=regions,
            avoid=avoid,
            verified=self.flag("placement.verified", fields.get("verified"), True),
            deadline=self.deadline(fields.get("deadline")),
            slack_s=self.slack(fields, pick, optimize),
            preset=self.preset(fields.get("preset"), regions),
        )

    def preset(self, value: object, regions: tuple[str, ...]) -> str:
        if value is None:
            return ""
        name = self.choice("placement.preset", value, "", _values(presets.Preset))
        if name == presets.Preset.RESIDENT and not regions:
            self.wrong(
                "placement.regions",
                "field_required",
                N_("say in which regions the data may be: here, or by the inputs' region"),
            )
        return name

    def weights(self, value: object, pick: str) -> dict[str, int]:
        weights = {
            name: self.read(f"placement.weights.{name}", item, 0, spec_values.weight_micro)
            for name, item in self.mapping("placement.weights", value).items()
        }
        for name in weights:
            if name not in _values(Objective):
                self.wrong(
                    f"placement.weights.{name}",
                    "unknown_field",
                    N_("there is no objective {name}"),
                    self.nearest(name, _values(Objective)),
                    name=name,
                )
        if value is not None and pick != Pick.WEIGHTS:
            self.wrong("placement.weights", "exclusive_fields", N_("only with pick: weights"))
        elif pick == Pick.WEIGHTS and not any(weights.values()):
            self.wrong(
                "placement.weights",
                "bad_weights",
                N_("at least one weight above 0 is needed"),
                "weights: {cost: 0.7, time: 0.3}",
            )
        return weights

    def places(self, path: str, value: object) -> tuple[str, ...]:
        """Regions; for `avoid` also region/zone, region/zone/node and provider:NAME."""
        found = []
        for i, item in enumerate(self.items(path, value, 200)):
            below, text = f"{path}.{i}", self.text(f"{path}.{i}", item)
            parts = text.split("/")
            wide = path.endswith("avoid")
            if wide and text.startswith("provider:") and len(text) > len("provider:"):
                found.append(text)
            elif len(parts) > (3 if wide else 1) or not all(PLACE.fullmatch(part) and part != "*" for part in parts):
                self.wrong(below, "bad_value", N_("{value} is not a place"), value=text)
            else:
                self.place(below, *parts[:2])
                found.append(text)
        return tuple(found)

    def slack(self, fields: Mapping[str, object], pick: str, optimize: tuple[str, ...]) -> int:
        slack = self.delay("placement.slack", fields.get("slack"), 0)
        weights = self.mapping("placement.weights", fields.get("weights"))
        counts = [name for name in optimize if name in (Objective.GREEN, Objective.COST)]
        if pick == Pick.WEIGHTS:
            counts = [name for name in (Objective.GREEN, Objective.COST) if weights.get(name)]
        if slack and (pick == Pick.FASTEST or not counts) and pick not in (Pick.CHEAPEST, Pick.GREENEST):
            self.wrong(
                "placement.slack",
                "exclusive_fields",
                N_("the start waits for greener or cheaper hours, so green or cost must count"),
                "pick: greenest",
            )
        return slack

    def deadline(self, value: object) -> str:
        text = self.text("placement.deadline", value)
        if not text:
            return ""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return spec_values.duration_text(self.delay("placement.deadline", text, 1))
        if moment.tzinfo is None:
            self.wrong("placement.deadline", "bad_value", N_("a time needs its zone"), "2026-11-30T18:00:00Z")
        elif not 2000 <= moment.year <= 9000:
            self.wrong("placement.deadline", "out_of_range", N_("no usable time"))
        elif self.context.now is not None and moment <= self.context.now:
            self.wrong("placement.deadline", "out_of_range", N_("the time has passed"))
        return text


def _values(kind: type[StrEnum]) -> tuple[str, ...]:
    return tuple(str(member.value) for member in kind)


def _candidates(table: str, key: str) -> tuple[str, ...]:
    """Names to compare an unknown key with; SkyPilot's and everyday words are known too."""
    return SUPPORTED[table] + UNSUPPORTED.get(table, ())


def _name_count(text: str) -> tuple[str, object]:
    name, colon, count = text.strip().rpartition(":")
    return (name.strip(), count.strip()) if colon else (text.strip(), 1)
