"""/jobs/{id}/checkpoints, and the door by which agents bring and fetch them."""

from hashlib import sha256

import pytest
from django.test import Client

from agent import protocol as wire
from scheduling.domain.demand import Checkpoint as Wanted
from tests.cast import Person, a_member
from tests.factories.market import a_node
from tests.factories.running import Work, a_running
from tests.scheduling.services.test_checkpoints import store

DATA = b"state of the job"


@pytest.fixture
def work(ben: Person, sol: Person) -> Work:
    return a_running(ben, a_node(sol), checkpoint=Wanted("/job/ckpt", 60, 2))


def test_they_are_listed_and_strangers_see_nothing(work: Work, ada: Person, ben: Person, cleo: Person) -> None:
    row = store(work, DATA, 1)
    path = f"/api/v1/jobs/{work.job.public_id}/checkpoints"
    [shown] = ben.web().get(path).json()["items"]
    assert (shown["id"], shown["size_bytes"], shown["region"]) == (row.public_id, len(DATA), "east")
    assert cleo.web().get(path).status_code == 404
    assert a_member(ada, "bill@example.org", "billing").web().get(path).status_code == 403


def headers(work: Work, data: bytes, **more: str) -> dict[str, str]:
    node = work.node
    node.refresh_from_db()
    return {
        wire.HEADER_WIRE: "1",
        "Authorization": wire.authorization(node.public_id, "node-secret-of-the-tests"),
        wire.HEADER_LEASE: work.secret,
        wire.HEADER_BOOT: node.boot_id,
        wire.HEADER_INCARNATION: str(node.incarnation),
        wire.HEADER_FENCE: str(work.attempt.fence),
        wire.HEADER_SHA256: sha256(data).hexdigest(),
        wire.HEADER_TOTAL: str(len(data)),
        wire.HEADER_WHOLE_SHA256: sha256(data).hexdigest(),
        wire.HEADER_AGE_MS: "1500",
        **more,
    }


def test_an_agent_brings_one_and_the_same_attempt_may_fetch_it(work: Work, client: Client) -> None:
    path = wire.checkpoint_path(work.name, "12")

    def put(**more: str) -> tuple[int, dict[str, object]]:
        answer = client.generic(
            "PUT",
            f"{path}?offset=0",
            DATA,
            content_type="application/octet-stream",
            headers=headers(work, DATA, **more),
        )
        return answer.status_code, answer.json()

    assert put(**{wire.HEADER_FENCE: "9"})[0] == 410
    assert put(**{wire.HEADER_LEASE: "guessed"})[0] == 404
    assert put(**{wire.HEADER_AGE_MS: "soon"})[0] == 422
    assert put() == (200, {"offset": len(DATA), "complete": True})
    kept = work.task.checkpoints.get()
    asked = headers(work, b"", Range="bytes=6-")
    answer = client.get(wire.checkpoint_path(work.name, kept.public_id), headers=asked)
    assert (answer.status_code, b"".join(answer.streaming_content)) == (206, DATA[6:])
    assert client.get(wire.checkpoint_path(work.name, "chk_other"), headers=asked).status_code == 404
    assert client.post(path, headers=asked).status_code == 405
    assert work.fresh().resumed_from == kept.public_id
