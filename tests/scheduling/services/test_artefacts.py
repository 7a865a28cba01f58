"""Stored outputs: resumed uploads, one published set, deletion, expiry."""

from datetime import timedelta
from hashlib import sha256

import pytest

from portal.kit.errors import InvalidInput, InvalidTransition, NotFound, TooLarge
from scheduling.models import Artefact
from scheduling.services import artefacts, pieces
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_running, an_output, place

S = timedelta(seconds=1)


def upload(work: Work, data: bytes, *, size: int = 4) -> str:
    """In parts of `size`; the hash of the whole."""
    whole = sha256(data).hexdigest()
    for start in range(0, max(1, len(data)), size):
        part = data[start : start + size]
        last = start + len(part) == len(data)
        stored = artefacts.upload(
            attempt=work.fresh(),
            name="result",
            offset=start,
            data=part,
            digest=sha256(part).hexdigest(),
            total=len(data),
            whole_digest=whole if last else None,
            now=THEN,
        )
        assert stored.complete is last
    return whole


@pytest.fixture
def work(ada: Person, sol: Person) -> Work:
    return a_running(ada, a_node(sol), outputs=(an_output(),))


@pytest.mark.parametrize("data", [b"", b"x", b"0123456789"])
def test_an_output_of_any_size_arrives_whole(work: Work, data: bytes) -> None:
    digest = upload(work, data)
    work.finish(THEN + S, outputs={"result": (len(data), digest)})
    row = Artefact.objects.get()
    assert (row.sha256, row.size_bytes, row.published) == (digest, len(data), True)
    assert b"".join(artefacts.content(artefact=row)) == data
    assert b"".join(artefacts.content(artefact=row, start=5)) == data[5:]


def test_a_complete_output_stays_as_it_is(work: Work) -> None:
    upload(work, b"0123")
    again = artefacts.upload(
        attempt=work.fresh(),
        name="result",
        offset=0,
        data=b"x",
        digest=sha256(b"x").hexdigest(),
        total=1,
        whole_digest=None,
        now=THEN,
    )
    assert again == pieces.Stored(4, complete=True)


def test_parts_have_limits(work: Work) -> None:
    with pytest.raises(TooLarge):
        artefacts.upload(
            attempt=work.fresh(),
            name="result",
            offset=0,
            data=b"0" * (pieces.CHUNK + 1),
            digest="",
            total=1,
            whole_digest=None,
            now=THEN,
        )
    with pytest.raises(InvalidInput):
        artefacts.upload(
            attempt=work.fresh(),
            name="result",
            offset=0,
            data=b"x",
            digest="0" * 64,
            total=1,
            whole_digest=None,
            now=THEN,
        )


def test_no_output_is_larger_than_the_disk_of_its_job(work: Work) -> None:
    """The node says how much will come; a store that believed a petabyte could be filled by one lease."""
    attempt = work.fresh()
    for total, refused in ((attempt.lease.disk_gib * 2**30, False), (attempt.lease.disk_gib * 2**30 + 2**21, True)):
        given = {"offset": 0, "data": b"x", "digest": sha256(b"x").hexdigest(), "total": total, "whole_digest": None}
        if refused:
            with pytest.raises(TooLarge):
                artefacts.upload(attempt=attempt, name="result", now=THEN, **given)
        else:
            assert artefacts.upload(attempt=attempt, name="result", now=THEN, **given).offset == 1


def test_the_next_result_of_a_name_takes_the_place_of_the_last(work: Work) -> None:
    digest = upload(work, b"first")
    work.finish(THEN + S, outputs={"result": (5, digest)})
    work.job.tasks.update(state="queued")
    again = Work(work.job, work.node, place(work.job, work.node, now=THEN + S))
    again.accept(THEN + S)
    assert (
        b"".join(
            artefacts.content(artefact=artefacts.resolve(organisation=work.job.organisation, url="artefact://result"))
        )
        == b"first"
    )
    digest = upload(again, b"second")
    with pytest.raises(Exception, match="attempt_one_accepted_result"):
        again.finish(THEN + 2 * S, outputs={"result": (6, digest)})  # a task has one accepted result, whatever happens


def test_names_are_resolved_within_the_organisation(work: Work, cleo: Person) -> None:
    digest = upload(work, b"data")
    work.finish(THEN + S, outputs={"result": (4, digest)})
    row = Artefact.objects.get()
    for url in ("artefact://result", f"artefact://{row.public_id}"):
        assert artefacts.resolve(organisation=row.organisation, url=url).id == row.id
        with pytest.raises(NotFound):
            artefacts.resolve(organisation=cleo.organisation, url=url)


def test_deletion_and_expiry_end_it_once(work: Work, ada: Person) -> None:
    digest = upload(work, b"data")
    work.finish(THEN + S, outputs={"result": (4, digest)})
    row = Artefact.objects.get()
    artefacts.delete(artefact=row, by=ada.id, now=THEN + S)
    with pytest.raises(NotFound):
        artefacts.content(artefact=Artefact.objects.get())
    with pytest.raises(InvalidTransition):
        artefacts.delete(artefact=Artefact.objects.get(), by=ada.id, now=THEN + S)
    assert artefacts.expire(now=THEN + timedelta(days=99)) == 0


def test_after_thirty_days_it_is_gone(work: Work) -> None:
    digest = upload(work, b"data")
    work.finish(THEN + S, outputs={"result": (4, digest)})
    assert artefacts.expire(now=THEN + timedelta(days=29)) == 0
    assert artefacts.expire(now=THEN + timedelta(days=31)) == 1
    assert Artefact.objects.get().state == "expired"
