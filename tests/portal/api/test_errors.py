"""Every refusal is problem+json with a stable code, a request id and what to do."""

import pytest
from asgiref.sync import iscoroutinefunction
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404, HttpResponse
from django.test import RequestFactory
from rest_framework import exceptions

from portal.api.errors import problem_handler
from portal.api.manners import Manners
from portal.kit import errors
from portal.kit.errors import Finding, InvalidInput


class Request:
    request_id = "req-12345678"


def answer(error):
    return problem_handler(error, {"request": Request()})


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.BadRequest("x"), 400, "bad_request"),
        (errors.NotSignedIn("x"), 401, "not_signed_in"),
        (errors.SpendingRefused("x", needed="1"), 402, "spending_refused"),
        (errors.Forbidden("x"), 403, "forbidden"),
        (errors.NotFound("x"), 404, "not_found"),
        (errors.Conflict("x", code="quote_expired"), 409, "quote_expired"),
        (errors.StaleFence("x"), 410, "fenced"),
        (errors.PreconditionFailed("x"), 412, "precondition_failed"),
        (errors.TooLarge("x"), 413, "too_large"),
        (errors.TooMany("x", retry_after=3), 429, "rate_limited"),
        (errors.Unavailable("x", retry_after=3), 503, "unavailable"),
        (exceptions.ParseError("x"), 400, "bad_request"),
        (exceptions.NotAuthenticated(), 401, "not_signed_in"),
        (exceptions.PermissionDenied(), 403, "forbidden"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
        (exceptions.UnsupportedMediaType("x"), 415, "unsupported_media_type"),
        (exceptions.Throttled(5), 429, "rate_limited"),
        (Http404(), 404, "not_found"),
        (PermissionDenied(), 403, "forbidden"),
        (SuspiciousOperation(), 400, "bad_request"),
        (ValidationError("x"), 422, "invalid_input"),
    ],
)
def test_each_error_has_its_status_and_code(error, status, code):
    response = answer(error)
    body = response.data
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert set(body) >= {"type", "title", "status", "code", "detail", "request_id", "errors", "help"}
    assert body["request_id"] == "req-12345678"
    assert response.content_type == "application/problem+json"


def test_extras_of_an_error_stand_beside():
    assert answer(errors.SpendingRefused("x", needed="1.00", available="0.50")).data["needed"] == "1.00"
    response = answer(errors.TooMany("x", retry_after=3))
    assert response.headers["Retry-After"] == "3"
    assert "retry_after" not in response.data
    assert answer(exceptions.Throttled(5)).headers["Retry-After"] == "5"


def test_findings_are_listed_by_path():
    error = InvalidInput([Finding("a.b", "bad", "no", "yes"), Finding("c", "bad", "no", line=3, column=1)])
    assert answer(error).data["errors"] == [
        {"path": "a.b", "code": "bad", "message": "no", "hint": "yes"},
        {"path": "c", "code": "bad", "message": "no", "hint": "", "line": 3, "column": 1},
    ]


def test_a_serializers_errors_become_a_flat_list():
    detail = {
        "name": ["too short"],
        "items": [{}, {"price": ["no"]}],
        "non_field_errors": ["odd"],
        "tags": {"0": ["bad"]},
    }
    paths = {row["path"]: row["message"] for row in answer(exceptions.ValidationError(detail)).data["errors"]}
    assert paths == {"name": "too short", "items[1].price": "no", "": "odd", "tags.0": "bad"}


def test_an_unknown_error_is_left_to_django():
    assert answer(RuntimeError("x")) is None


def test_a_request_id_is_taken_if_plain_and_given_back(client, db):
    assert client.get("/healthz", headers={"X-Request-Id": "abc-12345"})["X-Request-Id"] == "abc-12345"
    for odd in ("short", "with space 123", "x" * 65, "ünïcode-long"):
        assert client.get("/healthz", headers={"X-Request-Id": odd})["X-Request-Id"] != odd


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/", "/api/v2/jobs"])
def test_an_unknown_address_is_a_problem_too(client, db, path):
    response = client.get(path)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    assert response.json()["request_id"] == response["X-Request-Id"]


@pytest.mark.parametrize("path", ["/api/v1/jobs/job_%00", "/api/v1/jobs?state=%00", "/agent/v1/attempts/%00/finish"])
def test_a_null_character_in_an_address_is_a_bad_request(ada, path):
    answer = ada.web().get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("path", ["/jobs/job_%00", "/jobs?q=%00", "/projects/%00", "/%00"])
def test_on_the_pages_too(ada, path):
    assert ada.browser().get(path).status_code == 400


def test_a_crash_says_that_nothing_was_changed(ada, settings, monkeypatch):
    from portal.accounts.api import organisations

    def crash(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(organisations.selectors, "for_user", crash)
    client = ada.web()
    client.raise_request_exception = False
    response = client.get("/api/v1/me")
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert b"secret detail" not in response.content


def test_the_interface_describes_itself(client, db):
    spec = client.get("/api/v1/openapi.json").json()
    operation = spec["paths"]["/api/v1/projects"]["post"]
    assert operation["responses"]["422"]["content"]["application/problem+json"]["schema"] == {
        "$ref": "#/components/schemas/Problem"
    }
    assert "Idempotency-Key" in {p["name"] for p in operation["parameters"]}
    assert "If-Match" in {p["name"] for p in spec["paths"]["/api/v1/projects/{slug}"]["patch"]["parameters"]}
    assert set(spec["components"]["securitySchemes"]) >= {"key", "session"}


async def test_a_held_request_passes_without_a_thread(async_client):
    """Under ASGI the middleware is awaited, not run in a thread."""
    response = await async_client.get("/api/v1/nothing")
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")

    async def view(request):
        return HttpResponse("well")

    manners = Manners(view)
    assert iscoroutinefunction(manners)
    answer = await manners(RequestFactory().get("/healthz"))
    assert answer["X-Request-Id"]
