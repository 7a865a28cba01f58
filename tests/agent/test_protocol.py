"""The wire: what goes out comes in the same, and every wrong field is named."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import protocol as wire
from agent.protocol import BadMessage, Message, Phase, Reason
from tests.agent.test_machine import SPEC
from tests.fakes import agent as fake

ATTEMPT = "att_0001"
SENDER = {"boot_id": "boot", "incarnation": 2}
SAMPLES: list[Message] = [
    wire.EnrollRequest("token-123", "host", "0.1.0", "boot", fake.with_cores(4000, cards=2)),
    wire.Enrolled("nod_0001", "secret-secret-secret", "n", "east", "east-1"),
    wire.InventoryReport(
        **SENDER,
        hardware=fake.HARDWARE,
        agent_version="1",
        runtime={"os": "x"},
        self_test=fake.self_test(),
        fingerprint=fake.fingerprint(),
    ),
    wire.InventoryAnswer("listed", (wire.Check("a", False, "b", "c", True),)),
    wire.BeginRun(**SENDER, kind=wire.RunKind.GEMM, expected=120.5, short=True),
    wire.RunOrder("run_0001", wire.RunKind.GEMM, "nonce", 4096, 8),
    wire.CommitRun(**SENDER, run="run_0001", root="0" * 64),
    wire.RunLeaves((3, 5), wire.RunResult(False, 0.0, "too_slow")),
    wire.ShowRun(**SENDER, run="run_0001", opened=(wire.OpenedLeaf(3, "aGk=", ("0" * 64, "1" * 64)),)),
    wire.RunResult(True, 118.25, ""),
    wire.SyncRequest(
        "boot", None, 1, 0, 20_000, (wire.HeldLease(ATTEMPT, 7, Phase.RUN, True),), True, wire.Load(1, 2, 3, 4)
    ),
    wire.SyncAnswer(
        3,
        100,
        (wire.Assignment(ATTEMPT, 7, 2000),),
        (wire.Renewal(ATTEMPT, 7, 15_000, 3_000, 13_000),),
        (wire.Cancel(ATTEMPT, 7, Reason.PREEMPTED, 5),),
        (wire.Fenced(ATTEMPT, 6),),
        (wire.Order("o", wire.OrderKind.DRAIN, "n", 5),),
        "secret-secret-secret",
    ),
    wire.AcceptRequest(**SENDER, fence=7),
    dataclasses.replace(
        SPEC,
        inputs=(
            wire.Input("/job/a", wire.Source.HTTPS, url="https://x/y", sha256="0" * 64, size=3),
            wire.Input("b", wire.Source.CONTENT, content="aGk=", unpack=True),
        ),
        outputs=(wire.Output("m", "/job/out/m", False, wire.FileKind.DIRECTORY),),
        envs={"A": "1"},
        secrets={"S": "x"},
        checkpoint=wire.CheckpointPlan("/job/ckpt", 60_000, (wire.StoredCheckpoint("ckp_0001", 3, "0" * 64),)),
        egress=("hub.example.org:443",),
    ),
    wire.PhaseReport(**SENDER, fence=7, seq=1, phase=Phase.SETUP, frozen=True, message="m"),
    wire.Stored("running", True),
    wire.Received(5, True),
    wire.UsageBatch(**SENDER, rows=(wire.UsageRow(ATTEMPT, 7, wire.Resource.CARD, 1, 5, 1000, 10),)),
    wire.MetricBatch(**SENDER, fence=7, samples=(wire.Sample(5, 1_000, 900, 1 << 20, 42),)),
    wire.UsageAnswer((wire.UsageResult(ATTEMPT, wire.Resource.CORE, 1, wire.UsageVerdict.STORED),)),
    wire.FinishReport(
        **SENDER,
        fence=7,
        seq=2,
        reason=Reason.FINISHED,
        started=True,
        age_ms=3,
        usage_seq=4,
        counters=(wire.Counter(wire.Resource.CORE, 1000, 5),),
        exit_code=0,
        outputs=(wire.UploadedOutput("m", 3, "0" * 64),),
    ),
    wire.DrainRequest(**SENDER, deadline_ms=5),
    wire.LinkReport(
        **SENDER,
        sequence=3,
        links=(wire.LinkSeen("west", 30_000, 50_000, 900),),
        beacon_host="203.0.113.7",
        beacon_port=7070,
        beacon_key="ab" * 16,
    ),
    wire.LinkPlan((wire.LinkTarget("west", "203.0.113.7", 7070, "ab" * 16),), 5_000),
    wire.Problem("GAP", "d", 409, 12, "running"),
]
BY_NAME = {type(sample).__name__: sample for sample in SAMPLES}


@pytest.mark.parametrize("sample", SAMPLES, ids=list(BY_NAME))
def test_round_trip(sample: Message) -> None:
    assert type(sample).from_wire(json.loads(json.dumps(sample.to_wire()))) == sample


def test_every_message_has_a_sample() -> None:
    top = {
        cls.__name__
        for cls in vars(wire).values()
        if inspect.isclass(cls)
        and issubclass(cls, Message)
        and dataclasses.is_dataclass(cls)
        and cls is not wire.FromAgent
    }
    inside = {part.__name__ for sample in SAMPLES for part in _parts(type(sample))}
    assert top - inside <= set(BY_NAME) <= top
    assert len(BY_NAME) == len(SAMPLES)


def _parts(cls: type) -> set[type]:
    """The messages that a message is made of, however deep."""
    own = {part for hint in typing.get_type_hints(cls).values() for part in _classes(hint)}
    return own.union(*(_parts(part) for part in own))


def _classes(hint: Any) -> list[type]:
    if isinstance(hint, type) and issubclass(hint, Message):
        return [hint]
    return [found for arg in typing.get_args(hint) for found in _classes(arg)]


@pytest.mark.parametrize(
    ("name", "change", "path", "problem"),
    [
        ("SyncRequest", {"seq": "1"}, "seq", "whole number"),
        ("SyncRequest", {"seq": True}, "seq", "whole number"),
        ("SyncRequest", {"seq": 0}, "seq", "from 1"),
        ("SyncRequest", {"seq": 2**70}, "seq", "from 1"),
        ("SyncRequest", {"acknowledges": 1}, "acknowledges", "below seq"),
        ("SyncRequest", {"extra": 1}, "extra", "unknown field"),
        ("SyncRequest", {"draining": 1}, "draining", "true or false"),
        ("SyncRequest", {"leases": {}}, "leases", "a list"),
        ("SyncRequest", {"leases": [5]}, "leases[0]", "an object"),
        ("SyncRequest", {"leases": [{"attempt": "att_1", "fence": 1}]}, "leases[0].phase", "is required"),
        ("SyncRequest", {"leases": [{"attempt": "att_1", "fence": 0, "phase": "run"}]}, "leases[0].fence", "from 1"),
        (
            "SyncRequest",
            {"leases": [{"attempt": "../..", "fence": 1, "phase": "run"}]},
            "leases[0].attempt",
            "wrong form",
        ),
        (
            "SyncRequest",
            {"leases": [{"attempt": "att_1", "fence": 1, "phase": "flying"}]},
            "leases[0].phase",
            "one of pulling",
        ),
        ("SyncRequest", {"leases": [{"attempt": "att_1", "fence": 1, "phase": "run"}] * 2}, "leases", "twice"),
        ("SyncRequest", {"leases": [{}] * 1001}, "leases", "more than 1000"),
        ("SyncRequest", {"boot_id": "a\0b"}, "boot_id", "NUL"),
        ("SyncRequest", {"boot_id": "a\ud800"}, "boot_id", "half a character"),
        ("InventoryReport", {"runtime": {"a": "\udfff"}}, "runtime.a", "half a character"),
        ("SyncRequest", {"boot_id": ""}, "boot_id", "from 1 to 64"),
        ("InventoryReport", {"runtime": []}, "runtime", "an object"),
        ("InventoryReport", {"runtime": {"a": 1}}, "runtime.a", "text"),
        ("InventoryReport", {"runtime": {str(i): "x" for i in range(301)}}, "runtime", "more than 300"),
        ("FinishReport", {"reason": "bored"}, "reason", "one of"),
        ("FinishReport", {"exit_code": 1.5}, "exit_code", "whole number"),
        (
            "FinishReport",
            {"outputs": [{"name": "../x", "size": 1, "sha256": "0" * 64}]},
            "outputs[0].name",
            "wrong form",
        ),
        ("FinishReport", {"outputs": [{"name": "x", "size": 1, "sha256": "XYZ"}]}, "outputs[0].sha256", "characters"),
        (
            "UsageBatch",
            {"rows": [{"attempt": "att_1", "fence": 1, "resource": "soul"}]},
            "rows[0].resource",
            "one of core",
        ),
        ("AssignmentSpec", {"outputs": [{"name": "a", "path": "/etc/x"}]}, "outputs[0].path", "below /job"),
        ("AssignmentSpec", {"outputs": [{"name": "a", "path": "/job/../x"}]}, "outputs[0].path", "below /job"),
        ("AssignmentSpec", {"outputs": [{"name": "a", "path": "x"}] * 2}, "outputs", "twice"),
        ("AssignmentSpec", {"inputs": [{"path": "x", "source": "https", "url": "ftp://x"}]}, "inputs[0].url", "https"),
        ("AssignmentSpec", {"inputs": [{"path": "/job", "source": "portal"}]}, "inputs[0].path", "below /job"),
        (
            "AssignmentSpec",
            {"checkpoint": {"path": "/etc", "interval_ms": 100}},
            "checkpoint.path",
            "below /job",
        ),
        ("AssignmentSpec", {"egress": ["hub.example.org"]}, "egress[0]", "wrong form"),
        ("LinkReport", {"beacon_key": "xy"}, "beacon_key", "32 hex digits"),
        ("LinkReport", {"links": [{"region": "west", "rtt_us": 5}] * 2}, "links", "a region twice"),
        ("MetricBatch", {"samples": [{"age_ms": -1}]}, "samples[0].age_ms", "from 0"),
        ("CommitRun", {"root": "0" * 63}, "root", "characters"),
        ("BeginRun", {"kind": "dance"}, "kind", "one of gemm"),
        ("BeginRun", {"expected": float("inf")}, "expected", "finite"),
        ("AssignmentSpec", {"envs": {"A B": "x"}}, "envs.A B", "allowed name"),
    ],
)
def test_bad_input_names_the_field(name: str, change: dict[str, Any], path: str, problem: str) -> None:
    data = {**BY_NAME[name].to_wire(), **change}
    with pytest.raises(BadMessage, match=problem) as caught:
        type(BY_NAME[name]).from_wire(data)
    assert caught.value.path == path


def test_numbers_must_be_finite() -> None:
    report = fake.fingerprint().to_wire()
    report["metrics"][0]["value"] = float("nan")
    with pytest.raises(BadMessage, match="finite"):
        wire.FingerprintReport.from_wire(report)


def test_the_working_directory_itself_comes_only_as_an_archive() -> None:
    whole = {"path": "/job", "source": "content", "content": "aGk=", "unpack": True}
    assert wire.Input.from_wire(whole).path == "/job"
    with pytest.raises(BadMessage, match="below /job"):
        wire.Input.from_wire({**whole, "unpack": False})


def test_a_body_that_is_no_object() -> None:
    for body in ([], "x", None, 5):
        with pytest.raises(BadMessage, match="message: must be an object"):
            wire.SyncRequest.from_wire(body)


def test_answers_are_read_tolerantly() -> None:
    """An older agent lives with a newer portal."""
    data = {**BY_NAME["SyncAnswer"].to_wire(), "weather": "fine"}
    data["renewals"][0]["colour"] = "green"
    assert wire.SyncAnswer.from_wire(data) == BY_NAME["SyncAnswer"]


def test_signing_in() -> None:
    header = wire.authorization("nod_0001", "a:b")
    assert wire.parse_authorization(header) == ("nod_0001", "a:b")
    for wrong in ("", "Bearer x", "Node nod_0001", "Node nod_0001:", "Node ../x:y", "node nod_0001:x"):
        assert wire.parse_authorization(wrong) is None


def test_paths() -> None:
    assert wire.log_path(ATTEMPT, wire.Stream.STDERR) == "/agent/v1/attempts/att_0001/logs/stderr"
    assert wire.output_path(ATTEMPT, "m") == "/agent/v1/attempts/att_0001/outputs/m"
    assert [path(ATTEMPT) for path in (wire.accept_path, wire.report_path, wire.metrics_path, wire.finish_path)] == [
        f"/agent/v1/attempts/att_0001/{name}" for name in ("accept", "report", "metrics", "finish")
    ]
    assert wire.checkpoint_path(ATTEMPT, "3") == "/agent/v1/attempts/att_0001/checkpoints/3"
    assert wire.stream_path("run_0001") == "/agent/v1/runs/run_0001/stream"
    assert wire.input_path(ATTEMPT, 3) == "/agent/v1/attempts/att_0001/inputs/3"
    assert [wire.inside_job(p) for p in ("/job/a/./b", "a//b", "/a", "/job", "/job/", "..", "a/../b")] == [
        "a/b",
        "a/b",
        None,
        None,
        None,
        None,
        None,
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(SAMPLES), st.data())
def test_garbage_is_a_bad_message_and_nothing_else(sample: Message, data: st.DataObject) -> None:
    body = sample.to_wire()
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(JSON)
    try:
        again = type(sample).from_wire(body)
    except BadMessage:
        return
    assert type(again).from_wire(again.to_wire()) == again
