"""Bodies that are JSON, and still nothing that a service could take."""

import io
import json

import pytest

from portal.api.parsers import PlainJSON
from portal.kit.errors import BadRequest, TooLarge


def parse(text: str):
    return PlainJSON().parse(io.BytesIO(text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000 + "]" * 50_000,
        '{"a": ' * 5_000 + "1" + "}" * 5_000,
        r'"\ud800"',
        r'{"a": [{"b": "x\udfff"}]}',
        r'{"\ud800": 1}',
        r'{"a\u0000": 1}',
    ],
    ids=["deep-list", "deep-map", "half", "half-below", "half-name", "null-name"],
)
def test_what_no_database_takes_is_a_bad_request(text):
    with pytest.raises(BadRequest):
        parse(text)


def test_a_body_has_a_most():
    with pytest.raises(TooLarge):
        parse(json.dumps("x" * 2 * 1024 * 1024))


def test_everything_else_passes():
    value = {"a": ["\U0001f600 漢字", None, 1.5, True, {"b": {}}], "": ""}
    assert parse(json.dumps(value)) == value


@pytest.mark.parametrize("path", ["/api-keys", "/quotes", "/jobs", "/nodes:invite", "/organisations"])
def test_every_door_reads_so(ada, path):
    client = ada.web()
    for body in ("[" * 50_000, r'{"\ud800": 1}', r'{"spec": {"a\u0000": 1}}'):
        answer = client.post(f"/api/v1{path}", data=body, content_type="application/json")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
