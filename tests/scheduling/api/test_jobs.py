"""Quotes, jobs and what is below them by REST: shapes, strangers, roles, wrong input, repetition."""

import json
from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from portal import clock
from scheduling.models import Job, PlacementDecision, Quote
from scheduling.services import cycle
from tests.cast import Person, a_member
from tests.factories.market import a_link, a_node
from tests.scheduling.services.works import heard, spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(sol: Person) -> Any:
    made = a_node(sol, gpus=1, now=clock.now() - timedelta(hours=1))
    heard(now=clock.now() + timedelta(minutes=10))  # however slow the machine that tests
    return made


def submitted(who: APIClient, **changes: Any) -> Any:
    return who.post("/api/v1/jobs", {"spec": spec(**changes)}).json()


def test_from_quote_to_job_to_place(ada: Person, node: Any) -> None:
    program = ada.program()
    made = program.post("/api/v1/quotes", {"spec": spec()})
    assert made.status_code == 201
    quote = made.json()
    (point,) = quote["points"]
    assert made.headers["Location"] == f"/api/v1/quotes/{quote['id']}"
    assert point["cost"] == {
        name: {"amount": text, "currency": "CNY"}
        for name, text in (("low", "0.00"), ("expected", "0.10"), ("high", "0.10"))
    }
    assert point["node"] == {"id": node.public_id, "name": node.name}
    assert point["price_per_hour"] == {"amount": "0.10", "currency": "CNY"}
    assert (quote["pick"], quote["rental"], quote["state"]) == (0, "fixed", "open")
    assert quote["reason"]["text"] == "No other node that fitted was better in anything."
    assert program.get(f"/api/v1/quotes/{quote['id']}").json() == quote
    answer = program.post("/api/v1/jobs", {"spec": spec(), "quote": quote["id"], "point": 0})
    assert answer.status_code == 201
    job = answer.json()
    assert (job["state"], job["rental"], job["cap"]["high"], job["budget"]) == (
        "queued", "fixed", {"amount": "0.10", "currency": "CNY"}, {"amount": "0.10", "currency": "CNY", "on_exceed": "stop"},
    )  # fmt: skip
    cycle.run(now=clock.now())
    here = f"/api/v1/jobs/{job['id']}"
    shown = program.get(here)
    assert (shown.json()["state"], shown.json()["tasks"]) == ("running", {"count": 1, "ended": 0})
    assert shown.headers["ETag"]
    assert [t["state"] for t in program.get(f"{here}/tasks").json()["items"]] == ["placed"]
    (attempt,) = program.get(f"{here}/attempts").json()["items"]
    assert (attempt["state"], attempt["lease"]["prices"]["core"]["unit_price"], attempt["node"]["id"]) == (
        "assigned",
        "0.10",
        node.public_id,
    )
    events = program.get(f"{here}/events").json()["items"]
    assert [e["type"] for e in events] == ["job.running", "attempt.assigned", "job.queued"]
    assert [e["type"] for e in program.get(f"{here}/events?since=2").json()["items"]] == ["job.running"]
    assert program.get(f"{here}/cost").json() == {
        "job": job["id"], "final": False, "total": {"amount": "0.00", "currency": "CNY"}, "lines": [],
        "budget": {"amount": "0.10", "currency": "CNY", "on_exceed": "stop"},
    }  # fmt: skip
    (decision,) = program.get(f"{here}/decisions").json()["items"]
    assert (decision["id"], decision["front_only"]) == (attempt["decision"], 1)
    told = program.get(f"{here}/explain").json()
    assert told["placed"]["point"]["node"] == node.public_id
    assert told["placed"]["front_only"] == 1
    assert program.get("/api/v1/jobs?state=running&project=&q=job").json()["items"][0]["id"] == job["id"]


def test_a_spec_may_be_yaml_text_and_amounts_never_pass_through_floats(ada: Person, node: Any) -> None:
    program = ada.program()
    answer = program.post("/api/v1/jobs", {"spec": "run: echo hi\nmax_price: 3.20\n"})
    assert answer.json()["max_price"] == {"amount": "3.20", "currency": "CNY"}
    raw = '{"spec": {"run": "x", "max_price": 0.1000010, "envs": {"A": 3.20}}}'
    answer = program.post("/api/v1/jobs", raw, content_type="application/json")
    assert answer.json()["max_price"]["amount"] == "0.100001"
    assert answer.json()["spec"]["envs"] == {"A": "3.20"}
    raw = '{"spec": {"run": "x", "max_price": 0.1000001}}'
    refused = program.post("/api/v1/jobs", raw, content_type="application/json")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "bad_amount"


def test_all_errors_of_a_spec_come_with_line_and_column(ada: Person) -> None:
    answer = ada.program().post("/api/v1/jobs", {"spec": "run: x\nresources:\n  cpu: 8\nmax_price: -1\n"})
    assert answer.status_code == 422
    body = answer.json()
    assert body["code"] == "bad_spec"
    assert [(e["path"], e["code"], e["line"]) for e in body["errors"]] == [
        ("max_price", "bad_amount", 4),
        ("resources.cpu", "unknown_field", 3),
    ]
    assert Job.objects.count() == 0


BAD: list[tuple[str, str, Any, int, str]] = [
    ("post", "/api/v1/quotes", {}, 422, "invalid_input"),
    ("post", "/api/v1/quotes", {"spec": 7}, 422, "bad_spec"),
    ("post", "/api/v1/quotes", {"spec": {"run": "x"}, "more": 1}, 422, "invalid_input"),
    ("post", "/api/v1/quotes", {"spec": "a: ["}, 400, "unparseable"),
    ("post", "/api/v1/jobs", {}, 422, "invalid_input"),
    ("post", "/api/v1/jobs", {"spec": {"run": "x"}}, 422, "bad_spec"),
    ("post", "/api/v1/jobs", {"spec": {"run": "x", "max_price": 1}, "point": 0}, 422, "invalid_input"),
    ("post", "/api/v1/jobs", {"spec": {"run": "x", "max_price": 1}, "point": "two"}, 422, "invalid_input"),
    ("post", "/api/v1/jobs", {"quote": "quo_nothing"}, 404, "quote_not_found"),
    ("post", "/api/v1/jobs", {"spec": {"run": "x", "max_price": 1, "placement": {"pick": "ask"}}}, 422, "bad_spec"),
    ("post", "/api/v1/jobs", {"spec": {"run": "x", "max_price": "1000", "max_duration": "24h"}}, 402, "spending_refused"),
    ("get", "/api/v1/jobs?state=burning", None, 422, "invalid_input"),
    ("get", "/api/v1/jobs?label=x", None, 422, "invalid_input"),
    ("get", "/api/v1/jobs?since=yesterday", None, 422, "invalid_input"),
    ("get", "/api/v1/jobs?colour=red", None, 422, "invalid_input"),
    ("get", "/api/v1/jobs?limit=0", None, 422, "invalid_input"),
    ("get", "/api/v1/jobs?cursor=!", None, 400, "bad_cursor"),
    ("get", "/api/v1/jobs/job_nothing", None, 404, "job_not_found"),
    ("get", "/api/v1/quotes/quo_nothing", None, 404, "quote_not_found"),
    ("get", "/api/v1/links?colour=red", None, 422, "invalid_input"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), BAD)
def test_wrong_input_is_answered_and_changes_nothing(
    ada: Person, method: str, path: str, body: Any, status: int, code: str
) -> None:
    answer = getattr(ada.program(), method)(path, body)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.json()
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert Job.objects.count() == 0
    assert Quote.objects.count() == 0


@pytest.mark.parametrize("raw", ["{", '{"spec": NaN}', '{"spec": {"max_price": Infinity}}', b"\xff\xfe", "[" * 10_000])
def test_what_is_no_json_is_400(ada: Person, raw: Any) -> None:
    answer = ada.program().post("/api/v1/jobs", raw, content_type="application/json")
    assert answer.status_code == 400
    assert Job.objects.count() == 0


def test_more_than_a_megabyte_is_413(ada: Person) -> None:
    answer = ada.program().post("/api/v1/jobs", {"spec": "run: " + "x" * 1_200_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "spec_too_large")


def test_the_same_key_again_is_the_same_job(ada: Person, node: Any) -> None:
    program = ada.program()
    first = program.post("/api/v1/jobs", {"spec": spec()}, HTTP_IDEMPOTENCY_KEY="one")
    again = program.post("/api/v1/jobs", {"spec": spec()}, HTTP_IDEMPOTENCY_KEY="one")
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert again.json()["id"] == first.json()["id"]
    other = program.post("/api/v1/jobs", {"spec": spec(name="other")}, HTTP_IDEMPOTENCY_KEY="one")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")
    assert Job.objects.count() == 1


def test_an_old_quote_is_409(ada: Person, node: Any) -> None:
    program = ada.program()
    quote = program.post("/api/v1/quotes", {"spec": spec()}).json()["id"]
    Quote.objects.update(expires_at=clock.now())
    assert program.get(f"/api/v1/quotes/{quote}").json()["state"] == "expired"
    answer = program.post("/api/v1/jobs", {"spec": spec(), "quote": quote})
    assert (answer.status_code, answer.json()["code"]) == (409, "quote_expired")
    assert Job.objects.count() == 0


def test_cancel_is_idempotent_and_retry_needs_a_failure(ada: Person) -> None:
    program = ada.program()
    job = submitted(program)["id"]
    refused = program.post(f"/api/v1/jobs/{job}:retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_retry")
    for _ in range(2):
        answer = program.post(f"/api/v1/jobs/{job}:cancel")
        assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    wrong = program.post(f"/api/v1/jobs/{job}:cancel", {"why": "x"})
    assert wrong.status_code == 422
    told = program.get(f"/api/v1/jobs/{job}/explain").json()
    assert (told["ended"]["reason"], told["ended"]["fault"], told["ended"]["next"]) == (
        "cancelled_by_tenant",
        "tenant",
        "submit_again",
    )
    assert told["text"] == "Cancelled by a member. Cost so far: 0.00 CNY."
    failed = submitted(program, retry={"on_events": []})["id"]
    cycle.run(now=clock.now())
    assert program.get(f"/api/v1/jobs/{failed}").json()["state"] == "failed"
    assert program.post(f"/api/v1/jobs/{failed}:retry").json()["state"] == "queued"


def test_a_patch_needs_the_tag_that_was_shown(ada: Person) -> None:
    program = ada.program()
    job = submitted(program)["id"]
    here = f"/api/v1/jobs/{job}"
    tag = program.get(here).headers["ETag"]
    assert program.patch(here, {"priority": 9}).status_code == 412
    assert program.patch(here, {"priority": 9}, HTTP_IF_MATCH='"old"').status_code == 412
    done = program.patch(
        here,
        {"priority": 9, "max_price": "2.50", "budget": {"amount": "4", "on_exceed": "hold"}, "labels": {"a": "b"}},
        HTTP_IF_MATCH=tag,
    )
    assert done.status_code == 200
    assert (done.json()["priority"], done.json()["max_price"]["amount"], done.json()["budget"]["amount"]) == (
        9,
        "2.50",
        "4.00",
    )
    assert program.patch(here, {"priority": 1}, HTTP_IF_MATCH=tag).status_code == 412
    for bad in (
        {"priority": 10},
        {"max_price": "-1"},
        {"max_price": 1.5},
        {"max_price": "NaN"},
        {"max_price": "0.1234567"},
        {"budget": "-3"},
        {"state": "done"},
        {"max_price": None},
    ):
        raw = json.dumps(bad)
        answer = program.patch(here, raw, content_type="application/json", HTTP_IF_MATCH="*")
        assert answer.status_code == (200 if bad == {"max_price": 1.5} else 422), bad


LIST_PATHS = ("", "/tasks", "/attempts", "/events", "/cost", "/decisions", "/explain")


def test_a_stranger_sees_nothing_of_it(ada: Person, cleo: Person, node: Any) -> None:
    mine = submitted(ada.program())["id"]
    quote = ada.program().post("/api/v1/quotes", {"spec": spec()}).json()["id"]
    stranger = cleo.program()
    for path in LIST_PATHS:
        assert stranger.get(f"/api/v1/jobs/{mine}{path}").status_code == 404
    for deed in (":cancel", ":retry"):
        assert stranger.post(f"/api/v1/jobs/{mine}{deed}").status_code == 404
    assert stranger.patch(f"/api/v1/jobs/{mine}", {"priority": 1}, HTTP_IF_MATCH="*").status_code == 404
    assert stranger.get(f"/api/v1/quotes/{quote}").status_code == 404
    assert stranger.post("/api/v1/jobs", {"quote": quote}).status_code == 404
    assert stranger.get("/api/v1/jobs").json()["items"] == []
    assert Job.objects.get().state == "queued"
    anybody = APIClient()
    assert anybody.get("/api/v1/jobs").status_code == 401
    assert anybody.post("/api/v1/quotes", {"spec": spec()}).status_code == 401


def test_a_viewer_reads_and_does_nothing(ada: Person) -> None:
    mine = submitted(ada.program())["id"]
    viewer = a_member(ada, "vera@example.org", "viewer").program()
    for path in LIST_PATHS:
        assert viewer.get(f"/api/v1/jobs/{mine}{path}").status_code == 200
    for path, body in (
        ("/api/v1/quotes", {"spec": spec()}),
        ("/api/v1/jobs", {"spec": spec()}),
        (f"/api/v1/jobs/{mine}:cancel", {}),
        (f"/api/v1/jobs/{mine}:retry", {}),
    ):
        assert viewer.post(path, body).status_code == 403
    assert viewer.patch(f"/api/v1/jobs/{mine}", {"priority": 1}, HTTP_IF_MATCH="*").status_code == 403


def test_only_operators_replay_a_decision(ada: Person, staff: Person, node: Any) -> None:
    submitted(ada.program())
    cycle.run(now=clock.now())
    decision = PlacementDecision.objects.get()
    path = f"/api/v1/decisions/{decision.public_id}:replay"
    assert ada.program().post(path).status_code in (403, 404)
    answer = staff.web().post(path)
    assert answer.status_code == 200
    assert (answer.json()["same"], answer.json()["untouched"], answer.json()["again"]) == (True, True, node.public_id)
    assert staff.web().post("/api/v1/decisions/dec_nothing:replay").status_code == 404
    assert staff.web().post(path, {"x": 1}).status_code == 422


def test_links_and_the_schema_are_told(ada: Person) -> None:
    a_link("east", "west")
    a_link("west", "east", price=30_000)
    program = ada.program()
    assert len(program.get("/api/v1/links").json()["items"]) == 2
    (one,) = program.get("/api/v1/links?source=west").json()["items"]
    assert (one["rtt_ms"], one["price_per_gb"]) == ("20", {"amount": "0.03", "currency": "CNY"})
    served = APIClient().get("/api/v1/schema/job-spec.json")
    assert served.status_code == 200
    assert "max_price" in served.json()["properties"]


def test_jobs_are_paged_newest_first(ada: Person) -> None:
    program = ada.program()
    made = [submitted(program, name=f"job-{i}", labels={"n": str(i % 2)})["id"] for i in range(5)]
    page = program.get("/api/v1/jobs?limit=2").json()
    assert [row["id"] for row in page["items"]] == made[:2:-1]
    assert "spec" not in page["items"][0]
    rest = program.get(f"/api/v1/jobs?limit=2&cursor={page['next_cursor']}").json()
    assert [row["id"] for row in rest["items"]] == [made[2], made[1]]
    assert [row["id"] for row in program.get("/api/v1/jobs?label=n%3D1").json()["items"]] == [made[3], made[1]]
