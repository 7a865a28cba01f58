"""A job spec is read whole: all errors at once, each with its code, place and hint; amounts are never floats; defaults are shown."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.kit.errors import BadRequest, Finding, InvalidInput, TooLarge
from scheduling.domain import spec_document
from scheduling.domain.demand import TaskSpec
from scheduling.domain.spec import Context, Limits, Parsed, parse
from scheduling.domain.spec_fields import SUPPORTED, UNSUPPORTED, schema

CONTEXT = Context(
    currency="USD",
    regions={"east": ("a", "b"), "west": ("a",)},
    cards=("A100-80GB", "H100"),
    secrets=("HUB_TOKEN",),
    projects=("vision", "default"),
    artefact=lambda name: (1_000, "west") if name == "receptor" else None,
    now=datetime(2026, 11, 30, tzinfo=UTC),
)

FULL = """
name: moss-classifier
project: vision
priority: 7
task_type: training
work: 1.5
max_price: 3.20
budget: {amount: 30, on_exceed: hold}
labels: {team: moss, run: 7, fast: true}
resources:
  accelerators: {A100-80GB: 1, H100: 1}
  cpus: 8+
  memory: 64+
  disk_size: 500GB
  infra: east/a
  use_spot: true
  labels: {more: yes}
  job_recovery: {max_restarts_on_errors: 1, recover_on_exit_codes: [75]}
envs: {EPOCHS: "40", RATE: 3.20}
secrets: {HUB_TOKEN: null}
network: {mode: none}
inputs:
  - {url: "https://example.org/tiles.tar", path: /job/tiles.tar, size_bytes: 50000000000, region: east}
  - {url: "artefact://receptor", path: r.pdb}
  - {content: "a: 1", path: /job/conf.yaml, name: conf}
outputs: [{name: weights, path: /job/out/best.pt, required: false}, {path: logs, type: DIRECTORY}]
setup: tar -xf tiles.tar
run: |
  python train.py
on_disconnect: {action: wait, for: 10m}
retry: {on_events: [interruption, error], duration: 12h}
max_duration: 8h
placement:
  {optimize: [cost, time, green], pick: weights, weights: {cost: 0.7, time: 0.3}, min_green: 0.5, max_latency_ms: 20, latency_to: west,
   regions: [east], avoid: [west/a, "provider:Sol"], verified: false, deadline: 6h}
"""


def read(text: object, **changes: Any) -> Parsed:
    return parse(text, context=Context(**{**CONTEXT.__dict__, **changes}))


def errors(text: object, **changes: Any) -> list[Finding]:
    with pytest.raises(InvalidInput) as caught:
        read(text, **changes)
    return list(caught.value.errors)


def test_a_full_spec_is_read_in_whole_numbers() -> None:
    spec = read(FULL).spec
    task, needs, wish = spec.task, spec.task.resources, spec.task.placement
    assert (spec.name, spec.project, spec.priority, spec.max_price_micro) == ("moss-classifier", "vision", 7, 3_200_000)
    assert (spec.budget_minor, spec.budget_on_exceed) == (3_000, "hold")
    assert spec.labels == {"team": "moss", "run": "7", "fast": "true", "more": "yes"}
    assert (needs.cores_milli, needs.memory_mib, needs.disk_gib) == (8_000, 65_536, 466)
    assert [(card.model, card.count) for card in needs.cards] == [("A100-80GB", 1), ("H100", 1)]
    assert (needs.region, needs.zone, needs.node, needs.rental) == ("east", "a", "*", "spot")
    assert (needs.max_restarts_on_errors, needs.recover_on_exit_codes) == (1, (75,))
    assert task.envs == {"EPOCHS": "40", "RATE": "3.20"}, "a number stays the text that was written"
    assert task.secrets == ("HUB_TOKEN",)
    assert task.work_micro == 1_500_000
    assert [(i.path, i.size_bytes, i.region) for i in task.inputs] == [
        ("/job/tiles.tar", 50_000_000_000, "east"),
        ("/job/r.pdb", 1_000, "west"),
        ("/job/conf.yaml", None, ""),
    ]
    assert [(o.name, o.path, o.type, o.required) for o in task.outputs] == [
        ("weights", "/job/out/best.pt", "FILE", False),
        ("logs", "/job/logs", "DIRECTORY", True),
    ]
    assert (task.on_disconnect, task.wait_for_s, task.lease_class) == ("wait", 600, "tolerant")
    assert (task.retry_on, task.retry_for_s, task.max_duration_s) == (("interruption", "error"), 43_200, 28_800)
    assert (wish.pick, wish.weights_micro, wish.min_green_ppm) == (
        "weights",
        {"cost": 700_000, "time": 300_000},
        500_000,
    )
    assert (wish.max_latency_us, wish.latency_to, wish.deadline) == (20_000, "west", "6h")
    assert (wish.regions, wish.avoid, wish.verified) == (("east",), ("west/a", "provider:Sol"), False)


def test_the_shortest_spec_gets_the_documented_defaults() -> None:
    parsed = read("run: echo hi\nmax_price: 1", new_name="brisk-heron")
    spec, task = parsed.spec, parsed.spec.task
    assert (spec.name, spec.project, spec.priority, spec.budget_minor) == ("brisk-heron", "default", 5, None)
    assert (task.resources.cores_milli, task.resources.memory_mib, task.resources.disk_gib) == (1_000, 2_048, 20)
    assert (task.max_duration_s, task.retry_on, task.retry_for_s) == (86_400, ("no-capacity", "interruption"), 86_400)
    assert (task.on_disconnect, task.lease_class, task.task_type) == ("replace", "standard", "custom")
    assert task.placement.optimize == ("cost", "time", "green", "transfer")
    assert (task.placement.pick, task.placement.verified) == ("knee", True)
    assert parsed.warnings == ()
    assert read("run: x\nmax_price: 1\nresources: {cpus: 3}").spec.task.resources.memory_mib == 6_144
    assert read("run: x\nmax_price: 1\nretry: {on_events: [error]}").spec.task.resources.max_restarts_on_errors == 3


@pytest.mark.parametrize("text", [FULL, "run: echo\nmax_price: 0.10"])
def test_the_shown_spec_can_be_submitted_again_and_the_stored_form_read_back(text: str) -> None:
    spec = read(text).spec
    shown = json.loads(json.dumps(spec.outward()))
    assert read(shown).spec == spec
    assert TaskSpec.from_form(json.loads(json.dumps(spec.task.form()))) == spec.task


@pytest.mark.parametrize(
    ("accelerators", "shown"),
    [
        ("H100", "H100:1"), ("H100:2", "H100:2"), ("virtual:1", "virtual:1"), (["H100:1", "A100-80GB:2"], ["H100:1", "A100-80GB:2"]),
        ({"H100": 1, "A100-80GB": 2}, {"H100": 1, "A100-80GB": 2}), ("40GiB..80GiB:4", "40GiB..80GiB:4"), ("40GiB+:1", "40GiB+:1"),
        (None, None),
    ],
)  # fmt: skip
def test_cards_in_every_form(accelerators: Any, shown: Any) -> None:
    spec = read({"run": "x", "max_price": 1, "resources": {"accelerators": accelerators}}).spec
    assert spec.outward()["resources"]["accelerators"] == shown
    assert spec.task.resources.cards_ordered == isinstance(accelerators, list)


# contracts §1.6, row by row: text → (code, path, part of the hint)
BAD: list[tuple[str, str, str, str]] = [
    ("resources: {cpu: 8}", "unknown_field", "resources.cpu", "cpus"),
    ("resources: {cpus: 8..4}", "bad_range", "resources.cpus", "4..8"),
    ("resources: {memory: 8..4}", "bad_range", "resources.memory", "4..8"),
    ("resources: {memory: lots}", "bad_quantity", "resources.memory", "64"),
    ("resources: {cpus: lots}", "bad_quantity", "resources.cpus", ""),
    ("resources: {cpus: 0.25}", "bad_quantity", "resources.cpus", "0.2"),
    ("resources: {cpus: 0}", "out_of_range", "resources.cpus", ""),
    ("resources: {cpus: [1]}", "bad_type", "resources.cpus", ""),
    ("resources: {memory: 4XB}", "bad_quantity", "resources.memory", ""),
    ("resources: {memory: 0}", "out_of_range", "resources.memory", ""),
    ("resources: {cpus: ..4}", "bad_quantity", "resources.cpus", ""),
    ("resources: {accelerators: H100:0.5}", "card_fraction", "resources.accelerators", "1"),
    ("resources: {accelerators: {H100: 1.5}}", "card_fraction", "resources.accelerators.H100", "2"),
    ("resources: {accelerators: H100:0}", "out_of_range", "resources.accelerators", ""),
    ("resources: {accelerators: H100:many}", "bad_quantity", "resources.accelerators", ""),
    ("resources: {accelerators: '80GB..40GB:1'}", "bad_range", "resources.accelerators", ""),
    ("resources: {accelerators: '!:1'}", "bad_value", "resources.accelerators", "A100"),
    ("resources: {accelerators: 7}", "bad_type", "resources.accelerators", ""),
    ("resources: {infra: aws/us-east-1}", "unknown_region", "resources.infra", ""),
    ("resources: {infra: eas/a}", "unknown_region", "resources.infra", "east"),
    ("resources: {infra: east/c}", "unknown_zone", "resources.infra", ""),
    ("resources: {infra: a/b/c/d}", "bad_value", "resources.infra", ""),
    ("resources: {image_id: 'docker:x'}", "unsupported_field", "resources.image_id", ""),
    ("resources: {ports: [80]}", "unsupported_field", "resources.ports", ""),
    ("resources: {instance_type: p4}", "unsupported_field", "resources.instance_type", ""),
    ("resources: {use_spot: maybe}", "bad_type", "resources.use_spot", ""),
    ("resources: {job_recovery: {strategy: never}}", "bad_value", "resources.job_recovery.strategy", ""),
    ("resources: {job_recovery: {recover_on_exit_codes: [0]}}", "out_of_range", "resources.job_recovery.recover_on_exit_codes.0", ""),
    ("resources: []", "bad_type", "resources", ""),
    ("run: ''", "field_required", "run", ""),
    ("run: [a]", "bad_type", "run", ""),
    ('run: "a\\0b"', "bad_type", "run", ""),
    ("envs: {A: null}", "env_missing", "envs.A", "--env A="),
    ("envs: {A-B: 1}", "bad_name", "envs.A-B", ""),
    ("envs: {A: [1]}", "bad_type", "envs.A", ""),
    ("secrets: {OTHER: null}", "secret_missing", "secrets.OTHER", "secret set"),
    ("secrets: {HUB_TOKEN: abc}", "unsupported_field", "secrets.HUB_TOKEN", "secret set"),
    ("secrets: {1A: null}", "bad_name", "secrets.1A", ""),
    ("max_price: -1", "bad_amount", "max_price", ""),
    ("max_price: 0.1234567", "bad_amount", "max_price", "six decimals"),
    ("max_price: 1e12", "bad_amount", "max_price", ""),
    ("max_price: .nan", "bad_amount", "max_price", ""),
    ("max_price: NaN", "bad_amount", "max_price", ""),
    ("max_price: true", "bad_type", "max_price", ""),
    ("max_price: free", "bad_amount", "max_price", ""),
    ("budget: 30.123", "bad_amount", "budget", "2 decimal"),
    ("budget: 0", "bad_amount", "budget", ""),
    ("budget: {on_exceed: stop}", "field_required", "budget.amount", ""),
    ("budget: {amount: 3, on_exceed: cry}", "bad_value", "budget.on_exceed", ""),
    ("priority: 10", "out_of_range", "priority", ""),
    ("priority: high", "bad_type", "priority", ""),
    ("name: Moss Lab", "bad_name", "name", ""),
    ("project: visin", "unknown_project", "project", "vision"),
    ("labels: {' ': x}", "bad_name", "labels. ", ""),
    ("work: 0", "out_of_range", "work", ""),
    ("work: 0.0000001", "bad_quantity", "work", ""),
    ("work: -1", "out_of_range", "work", ""),
    ("task_type: trainin", "bad_value", "task_type", "training"),
    ("max_duration: 90", "bad_quantity", "max_duration", "90s"),
    ("max_duration: 0s", "out_of_range", "max_duration", ""),
    ("retry: {on_events: [weather]}", "bad_value", "retry.on_events.0", ""),
    ("retry: {on_events: [error, error]}", "bad_value", "retry.on_events", ""),
    ("on_disconnect: {action: wait}", "field_required", "on_disconnect.for", "10m"),
    ("on_disconnect: {action: stop, for: 10m}", "exclusive_fields", "on_disconnect.for", ""),
    ("on_disconnect: {action: wait, for: 10m, lease: fast}", "exclusive_fields", "on_disconnect.lease", ""),
    ("placement: {pick: weights}", "bad_weights", "placement.weights", "cost"),
    ("placement: {pick: weights, weights: {cost: 0}}", "bad_weights", "placement.weights", ""),
    ("placement: {pick: weights, weights: {cost: -1, time: 1}}", "out_of_range", "placement.weights.cost", ""),
    ("placement: {pick: weights, weights: {price: 1}}", "unknown_field", "placement.weights.price", ""),
    ("placement: {weights: {cost: 1}}", "exclusive_fields", "placement.weights", ""),
    ("placement: {min_reliability: 99}", "out_of_range", "placement.min_reliability", "did you mean 0.99?"),
    ("num_nodes: 17", "out_of_range", "num_nodes", ""),
    ("placement: {min_green: 60}", "out_of_range", "placement.min_green", "did you mean 0.6?"),
    ("placement: {min_green: 0.1234567}", "bad_quantity", "placement.min_green", ""),
    ("placement: {optimize: [beauty]}", "bad_value", "placement.optimize.0", ""),
    ("placement: {optimize: []}", "out_of_range", "placement.optimize", ""),
    ("placement: {regions: [east], avoid: [east]}", "empty_region_set", "placement.regions", ""),
    ("placement: {regions: [mars]}", "unknown_region", "placement.regions.0", ""),
    ("placement: {regions: [east/a]}", "bad_value", "placement.regions.0", ""),
    ("placement: {avoid: [east/zz]}", "unknown_zone", "placement.avoid.0", ""),
    ("placement: {pick: ask}", "choice_required", "placement.pick", "point"),
    ("placement: {max_latency_ms: 20}", "field_required", "placement.latency_to", ""),
    ("placement: {slack: 8h, pick: fastest}", "exclusive_fields", "placement.slack", "pick: greenest"),
    ("placement: {slack: soon}", "bad_quantity", "placement.slack", ""),
    ("placement: {deadline: soon}", "bad_quantity", "placement.deadline", ""),
    ("placement: {deadline: '2026-12-01T00:00:00'}", "bad_value", "placement.deadline", "Z"),
    ("placement: {deadline: '2026-11-01T00:00:00Z'}", "out_of_range", "placement.deadline", ""),
    ("inputs: [{url: 'https://a/b', path: /etc/x}]", "path_outside_work", "inputs.0.path", "/job"),
    ("inputs: [{url: 'https://a/b', path: ../x}]", "path_outside_work", "inputs.0.path", "/job"),
    ("inputs: [{url: 'https://a/b', path: /job}]", "path_outside_work", "inputs.0.path", "/job"),
    ("inputs: [{content: a, path: x}, {content: b, path: /job/x}]", "duplicate_path", "inputs.1.path", ""),
    ("inputs: [{path: x}]", "field_required", "inputs.0.url", ""),
    ("inputs: [{url: 'https://a/b'}]", "field_required", "inputs.0.path", ""),
    ("inputs: [{url: 'https://a/b', content: x, path: x}]", "exclusive_fields", "inputs.0", ""),
    ("inputs: [{url: 'http://a/b', path: x}]", "bad_url", "inputs.0.url", ""),
    ("inputs: [{url: 's3://a/b', path: x}]", "unsupported_field", "inputs.0.url", ""),
    ("inputs: [{url: 'artefact://!', path: x}]", "bad_url", "inputs.0.url", ""),
    ("inputs: [{url: 'artefact://gone', path: x}]", "artefact_missing", "inputs.0", ""),
    ("inputs: [{url: 'https://a/b', path: x, type: DIRECTORY}]", "unsupported_field", "inputs.0.type", ""),
    ("inputs: [{url: 'https://a/b', path: x, sha256: 12}]", "bad_type", "inputs.0.sha256", ""),
    ("inputs: [{url: 'https://a/b', path: x, sha256: zz}]", "bad_value", "inputs.0.sha256", ""),
    ("inputs: [{url: 'https://a/b', path: x, size_bytes: -1}]", "out_of_range", "inputs.0.size_bytes", ""),
    ("inputs: [{url: 'https://a/b', path: x, region: mars}]", "unknown_region", "inputs.0.region", ""),
    ("inputs: {}", "bad_type", "inputs", ""),
    ("outputs: [{path: /tmp/x}]", "path_outside_work", "outputs.0.path", ""),
    ("outputs: [{path: a/x}, {path: b/x}]", "duplicate_name", "outputs.1.name", ""),
    ("outputs: [{path: a, name: '/'}]", "bad_name", "outputs.0.name", ""),
    ("outputs: [{path: a, url: 's3://x/y'}]", "unsupported_field", "outputs.0.url", ""),
    ("workdir: ./here", "workdir_not_packed", "workdir", "idlewild run"),
    ("network: {mode: open}", "unsupported_field", "network.mode", ""),
    ("network: {hosts: ['a:1']}", "exclusive_fields", "network.hosts", ""),
    ("network: {mode: allow}", "field_required", "network.hosts", ""),
    ("network: {mode: allow, hosts: [hub.example.org]}", "bad_value", "network.hosts.0", ""),
    ("network: {mode: allow, hosts: ['https://a:443']}", "bad_value", "network.hosts.0", ""),
    ("network: {mode: allow, hosts: ['a:70000']}", "bad_value", "network.hosts.0", ""),
    ("network: {mode: bridge}", "bad_value", "network.mode", ""),
    ("run: y\nstages: {a: {run: x}}", "mixed_forms", "stages", ""),
    ("stages: {a: {run: x}}", "unsupported_field", "stages", ""),
    ("array: {count: 0}", "unsupported_field", "array", ""),
    ("array: {count: 2, matrix: {}}", "unsupported_field", "array", ""),
    ("checkpoint: {path: /etc/x}", "path_outside_work", "checkpoint.path", "/job/…"),
    ("checkpoint: {interval: 10m}", "field_required", "checkpoint.path", ""),
    ("checkpoint: {path: ckpt, interval: 30s}", "out_of_range", "checkpoint.interval", ""),
    ("checkpoint: {path: ckpt, keep: 0}", "out_of_range", "checkpoint.keep", ""),
    ("checkpoint: {path: ckpt, every: 1m}", "unknown_field", "checkpoint.every", ""),
    ("checkpoint: yes", "bad_type", "checkpoint", ""),
    ("needs: [prp]", "unsupported_field", "needs", ""),
    ("schedule: {cron: x}", "unsupported_field", "schedule", ""),
    ("file_mounts: {a: b}", "unsupported_field", "file_mounts", ""),
    ("prioritty: 3", "unknown_field", "prioritty", "priority"),
    ("name: a\nname: b", "duplicate_key", "name", ""),
    ("resources: {cpus: 2000}", "above_limit", "resources.cpus", ""),
    ("resources: {accelerators: H100:64}", "above_limit", "resources.accelerators", ""),
    ("max_duration: 400d", "above_limit", "max_duration", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "path", "hint"), BAD, ids=[f"{code}: {text[:50]}" for text, code, _, _ in BAD]
)
def test_a_wrong_value_is_answered_with_its_code_place_and_hint(text: str, code: str, path: str, hint: str) -> None:
    whole = text if "run:" in text.splitlines()[0] or text.startswith("run") else f"run: x\n{text}"
    if "max_price" not in whole:
        whole += "\nmax_price: 1"
    found = errors(whole, limits=Limits(cards=8))
    match = [f for f in found if (f.code, f.path) == (code, path)]
    assert match, found
    assert hint in match[0].hint
    assert match[0].message
    assert match[0].line is not None


def test_all_errors_come_at_once_with_line_and_column() -> None:
    found = errors("run: x\nresources:\n  cpu: 8\n  memory: lots\nmax_price: -1\n")
    assert [(f.path, f.code, f.line, f.column) for f in found] == [
        ("max_price", "bad_amount", 5, 1),
        ("resources.cpu", "unknown_field", 3, 3),
        ("resources.memory", "bad_quantity", 4, 3),
    ]


def test_at_most_a_hundred_are_told() -> None:
    assert len(errors("\n".join(f"x{i}: 1" for i in range(300)))) == 100


def test_a_price_bound_is_needed_unless_a_quote_gives_it() -> None:
    assert [f.code for f in errors("run: x")] == ["price_unbounded"]
    assert read("run: x", quoted=True).spec.max_price_micro is None
    assert read("run: x", needs_price=False).spec.max_price_micro is None


def test_asking_needs_the_point_that_was_chosen() -> None:
    text = "run: x\nmax_price: 1\nplacement: {pick: ask}"
    assert read(text, point_given=True).spec.task.placement.pick == "ask"
    assert read(text, may_ask=True).spec.task.placement.pick == "ask"


def test_what_is_only_worth_a_word_is_a_warning() -> None:
    warnings = read(
        "run: x\nmax_price: 1\nresources: {accelerators: H1OO:1, disk_tier: best}\ninputs: [{url: 'https://a/b', path: x}]"
    ).warnings
    assert [(w.code, w.path) for w in warnings] == [
        ("size_unknown", "inputs.0.size_bytes"),
        ("unknown_card", "resources.accelerators"),
        ("ignored_field", "resources.disk_tier"),
    ]
    assert "H100" in warnings[1].hint


def test_a_packed_folder_becomes_an_input_that_is_unpacked() -> None:
    spec = read({"run": "x", "max_price": 1, "workdir": "data:application/gzip;base64,QUJD"}).spec
    (one,) = spec.task.inputs
    assert (one.path, one.archive, one.type) == ("/job", "QUJD", "DIRECTORY")
    assert read(spec.outward()).spec == spec
    (stored,) = read({"run": "x", "max_price": 1, "workdir": "artefact://receptor"}).spec.task.inputs
    assert (stored.path, stored.size_bytes, stored.region) == ("/job", 1_000, "west")


def test_yaml_is_read_as_1_2_core_and_numbers_as_text() -> None:
    value = spec_document.read(
        "{a: yes, b: 22:00, c: 010, d: 3.20, e: null, f: true, g: '1', h: 0x1F, i: 1e3, j: -5}"
    ).value
    assert value == {
        "a": "yes", "b": "22:00", "c": 10, "d": "3.20", "e": None, "f": True, "g": "1", "h": "0x1F", "i": "1e3", "j": -5,
    }  # fmt: skip
    assert isinstance(value["d"], spec_document.NumberText)  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "a: [1", "a: b: c", "{a: &x 1, b: *y}", "--- 1\n--- 2", "a: !!python/object:os.system x", "a: !env X", "? [a]\n: b", "a: !!binary QQ==",
        "\ta: 1", "a: \x01", "[" * 100 + "]" * 100,
    ],
)  # fmt: skip
def test_what_is_no_document_is_answered_400(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(text)
    assert caught.value.code == "unparseable"


def test_a_bomb_of_aliases_is_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8)
    )
    with pytest.raises(BadRequest):
        read(bomb)


@pytest.mark.parametrize(
    "text", ["[" + "a," * 500_000 + "]", "".join(f"- &a{i} x\n" for i in range(60_000)), "[" * 500_000, "{a: " * 200_000]
)  # fmt: skip
def test_reading_stops_early(text: str) -> None:
    """Composing a megabyte of small values took a minute: what is too much is refused while it is read."""
    begun = time.process_time()
    with pytest.raises(BadRequest):
        read(text)
    assert time.process_time() - begun < 10


def test_values_without_a_text_are_counted_too() -> None:
    with pytest.raises(BadRequest):
        read({"run": "x", **{f"resourcs{i}": 1 for i in range(40_000)}})
    begun = time.process_time()
    with pytest.raises(InvalidInput) as caught:
        read({"run": "x", **{f"resourcs{i}": 1 for i in range(19_000)}})
    assert len(caught.value.errors) == 100
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "data",
    [{"run": "\ud800"}, {"run": "x", "envs": {"A": "\udfff"}}, {"run": "x", "\ud800": 1}, 'run: "\\ud800"', '"\\ud800": 1'],
)  # fmt: skip
def test_half_a_character_is_no_text(data: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        read(data)
    assert caught.value.code == "unparseable"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"budget": "1e999999999"}, "budget"),
        ({"max_price": "1e-999999999"}, "max_price"),
        ({"resources": {"cpus": "1e-999999999"}}, "resources.cpus"),  # was read as 0 cores
        ({"resources": {"cpus": "1e999999999"}}, "resources.cpus"),
        ({"work": "1e-999999999"}, "work"),
        ({"placement": {"min_green": "1e-999999999"}}, "placement.min_green"),
        ({"on_disconnect": {"action": "wait", "for": "999999999d"}}, "on_disconnect.for"),
        ({"retry": {"duration": "999999999d"}}, "retry.duration"),
        ({"placement": {"deadline": "999999999d"}}, "placement.deadline"),
        ({"placement": {"deadline": "9999-12-31T23:59:59-14:00"}}, "placement.deadline"),
        ({"placement": {"deadline": "0001-01-01T00:00:00+14:00"}}, "placement.deadline"),
        ({"resources": {"accelerators": {f"A{i}": 1 for i in range(21)}}}, "resources.accelerators"),
        ({"run": "x" * (2**20 + 1)}, "run"),
        ({"envs": {"A": "x" * 65_537}}, "envs.A"),  # no program starts with such an environment, on no node
        ({"envs": {f"A{i}": "x" * 60_000 for i in range(5)}}, "envs"),
        ({"envs": {f"A{i}": "x" for i in range(501)}}, "envs"),
        ({"secrets": {f"A{i}": None for i in range(21)}}, "secrets"),
        (
            {
                "workdir": "data:application/gzip;base64,AAAA",
                "inputs": [{"path": f"a{i}", "content": "x"} for i in range(1_000)],
            },
            "inputs",
        ),
    ],
)
def test_sizes_that_no_clock_and_no_sum_can_hold_are_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read({"run": "x", **fields})
    assert path in [finding.path for finding in caught.value.errors]


def test_a_megabyte_is_the_most() -> None:
    with pytest.raises(TooLarge) as caught:
        read("run: " + "x" * 1_048_576)
    assert caught.value.code == "spec_too_large"


@pytest.mark.parametrize("text", ["", "null", "[]", "7", '"run"', "~"])
def test_what_is_no_map_is_an_error_too(text: str) -> None:
    assert errors(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([name for names in SUPPORTED.values() for name in names] + ["x", "", "a.b"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=25,
    )
)
@settings(max_examples=400, deadline=None)
def test_whatever_comes_in_there_is_an_answer(data: object) -> None:
    try:
        parsed = read(data)
    except (InvalidInput, BadRequest):
        return
    assert read(json.loads(json.dumps(parsed.spec.outward()))).spec == parsed.spec


def test_messages_are_translated_before_their_gaps_are_filled() -> None:
    (found,) = errors(
        "run: x\nmax_price: 1\nzzz: 1",
        say=lambda text: "没有字段 {field}" if text == "there is no field {field}" else text,
    )
    assert found.message == "没有字段 zzz"


def test_the_schema_lists_what_is_carried_out_and_what_is_not() -> None:
    served = schema()
    assert set(served["properties"]) == set(SUPPORTED[""])
    assert served["x-unsupported"] == list(UNSUPPORTED[""])
    assert set(served["properties"]["resources"]["properties"]) == set(SUPPORTED["resources"])
    assert "slack" in served["properties"]["placement"]["properties"]
    assert json.loads(json.dumps(served)) == served
