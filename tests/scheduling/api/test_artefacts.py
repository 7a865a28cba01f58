"""/jobs/{id}/artefacts and /artefacts."""

from hashlib import sha256

import pytest

from scheduling.models import Artefact
from scheduling.services import artefacts
from tests.cast import THEN, Person, a_member
from tests.factories.market import a_node
from tests.factories.running import Work, a_running, an_output

DATA = b"forty-two"
DIGEST = sha256(DATA).hexdigest()


@pytest.fixture
def work(ben: Person, sol: Person) -> Work:
    work = a_running(ben, a_node(sol), outputs=(an_output("answer", "/job/an ser.txt"),))
    artefacts.upload(
        attempt=work.fresh(), name="answer", offset=0, data=DATA, digest=DIGEST, total=9, whole_digest=DIGEST, now=THEN
    )
    return work


def test_outputs_are_listed_downloaded_and_deleted(work: Work, ben: Person) -> None:
    path = f"/api/v1/jobs/{work.job.public_id}/artefacts"
    assert ben.web().get(path).json()["items"] == []  # not before the result is accepted
    work.finish(THEN, outputs={"answer": (9, DIGEST)})
    [row] = ben.web().get(path).json()["items"]
    assert (row["name"], row["size_bytes"], row["sha256"], row["job"]) == ("answer", 9, DIGEST, work.job.public_id)
    assert ben.web().get("/api/v1/artefacts").json()["items"] == [row]
    one = f"/api/v1/artefacts/{row['id']}"
    assert ben.web().get(one).json() == row
    content = ben.program().get(f"{one}/content")
    assert b"".join(content.streaming_content) == DATA
    assert (content["Content-Length"], content["Content-Disposition"]) == ("9", 'attachment; filename="an ser.txt"')
    assert ben.web().delete(one).json()["state"] == "deleted"
    assert ben.web().get(f"{one}/content").status_code == 404
    assert ben.web().delete(one).status_code == 409


def test_strangers_and_roles(work: Work, ada: Person, cleo: Person) -> None:
    work.finish(THEN, outputs={"answer": (9, DIGEST)})
    one = f"/api/v1/artefacts/{Artefact.objects.get().public_id}"
    for path in (one, f"{one}/content", f"/api/v1/jobs/{work.job.public_id}/artefacts"):
        assert cleo.web().get(path).status_code == 404
    assert cleo.web().delete(one).status_code == 404
    accountant = a_member(ada, "bill@example.org", "billing")
    assert accountant.web().get(one).status_code == 403
    viewer = a_member(ada, "vera@example.org", "viewer")
    assert (viewer.web().get(one).status_code, viewer.web().delete(one).status_code) == (200, 403)
    assert viewer.web().get("/api/v1/artefacts/art_nothing").status_code == 404
