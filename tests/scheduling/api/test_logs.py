"""GET /jobs/{id}/logs."""

import gzip
from hashlib import sha256

from scheduling.services import logs
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_queued, a_running


def put(work: Work, data: bytes) -> None:
    logs.append(
        attempt=work.fresh(),
        stream="stdout",
        offset=0,
        packed=gzip.compress(data),
        digest=sha256(data).hexdigest(),
        now=THEN,
    )


def test_a_piece_of_a_log(ben: Person, sol: Person) -> None:
    work = a_running(ben, a_node(sol))
    put(work, b"hello\nworld\n")
    answer = ben.web().get(f"/api/v1/jobs/{work.job.public_id}/logs?offset=6")
    assert answer.json() == {
        "attempt": work.name, "stream": "stdout", "offset": 6, "next_offset": 12, "total": 12, "complete": False, "text": "world\n",
    }  # fmt: skip
    by_number = ben.program().get(f"/api/v1/jobs/{work.job.public_id}/logs?attempt=1&task=main&most=16")
    assert by_number.json()["text"] == "hello\nworld\n"


def test_before_anything_is_placed_there_is_nothing(ben: Person) -> None:
    job = a_queued(ben)
    answer = ben.web().get(f"/api/v1/jobs/{job.public_id}/logs").json()
    assert (answer["attempt"], answer["text"], answer["complete"]) == (None, "", False)


def test_strangers_and_bad_questions(ben: Person, cleo: Person, sol: Person) -> None:
    work = a_running(ben, a_node(sol))
    path = f"/api/v1/jobs/{work.job.public_id}/logs"
    assert cleo.web().get(path).status_code == 404
    for query, status in (
        ("stream=stdin", 422), ("offset=-1", 422), ("offset=x", 422), ("attempt=../x", 422), ("attempt=9", 404), ("task=other", 404),
        ("surprise=1", 422), ("most=1", 422),
    ):  # fmt: skip
        assert ben.web().get(f"{path}?{query}").status_code == status, query
