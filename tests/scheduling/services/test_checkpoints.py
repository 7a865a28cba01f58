"""Checkpoints: stored under the fence, kept as the job wants, found by the next attempt, gone a day after the job."""

from datetime import timedelta
from hashlib import sha256

import pytest
from django.core.files.storage import default_storage

from portal.kit.errors import Conflict, InvalidInput, NotFound, TooLarge
from scheduling.domain.demand import Checkpoint as Wanted
from scheduling.models import Checkpoint, Job
from scheduling.services import checkpoints, jobs
from scheduling.services.pieces import Part
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_running, place

S, DAY = timedelta(seconds=1), timedelta(days=1)


def store(work: Work, data: bytes, number: int, *, size: int = 4) -> Checkpoint:
    """In parts of `size`; begun two seconds before the first one came."""
    whole = sha256(data).hexdigest()
    for start in range(0, len(data), size):
        part = data[start : start + size]
        checkpoints.upload(
            attempt=work.fresh(),
            number=number,
            part=Part(start, part, sha256(part).hexdigest(), len(data), whole),
            age=2 * S,
            now=THEN + number * S,
        )
    return Checkpoint.objects.get(attempt=work.attempt, number=number)


@pytest.fixture
def work(ada: Person, sol: Person) -> Work:
    return a_running(ada, a_node(sol), checkpoint=Wanted("/job/ckpt", 60, 2))


def test_the_newest_two_are_kept_whole_with_their_time(work: Work) -> None:
    for number in (1, 2, 3):
        row = store(work, b"state of %d" % number, number)
        assert (row.complete, row.taken_at, row.completed_at) == (True, THEN + (number - 2) * S, THEN + number * S)
    kept = checkpoints.offered(task=work.task)
    assert [row.number for row in kept] == [3, 2]
    assert b"".join(checkpoints.content(checkpoint=kept[0], start=6)) == b"of 3"
    assert len(_objects(work)) == 2 * 3


def _objects(work: Work) -> list[str]:
    top = f"checkpoints/{work.name}"
    folders, _ = default_storage.listdir(top)
    return [name for folder in folders for name in default_storage.listdir(f"{top}/{folder}")[1]]


def test_another_hash_of_the_whole_begins_again(work: Work) -> None:
    data = b"abc"
    part = Part(0, data, sha256(data).hexdigest(), 3, "0" * 64)
    stored = checkpoints.upload(attempt=work.fresh(), number=1, part=part, age=S, now=THEN)
    assert (stored.offset, stored.complete) == (0, False)
    assert store(work, data, 1).complete
    assert checkpoints.offered(task=work.task) != []


def test_a_gap_says_where_to_go_on(work: Work) -> None:
    late = Part(4, b"x", sha256(b"x").hexdigest(), 5, "0" * 64)
    with pytest.raises(Conflict) as refused:
        checkpoints.upload(attempt=work.fresh(), number=1, part=late, age=S, now=THEN)
    assert refused.value.extra["offset"] == 0


def test_refused(work: Work, ada: Person, sol: Person) -> None:
    plain = a_running(ada, a_node(sol))
    part = Part(0, b"x", sha256(b"x").hexdigest(), 1, sha256(b"x").hexdigest())
    with pytest.raises(NotFound, match="no checkpoints") as unknown:
        checkpoints.upload(attempt=plain.fresh(), number=1, part=part, age=S, now=THEN)
    assert unknown.value.code == "checkpoint_unknown"
    huge = Part(0, b"x", sha256(b"x").hexdigest(), 2 * 1024**3, None)
    with pytest.raises(TooLarge):
        checkpoints.upload(attempt=work.fresh(), number=1, part=huge, age=S, now=THEN)
    with pytest.raises(InvalidInput):
        checkpoints.upload(attempt=work.fresh(), number=1, part=Part(0, b"x", "0" * 64, 1, None), age=S, now=THEN)
    assert Checkpoint.objects.count() == 0


def test_the_next_attempt_elsewhere_is_told_and_given_it(work: Work, sol: Person) -> None:
    row = store(work, b"state", 1)
    work.finish(THEN + 9 * S, reason="node_drained")
    again = Work(work.job, a_node(sol, region="west"), work.attempt)
    again.attempt = place(work.job, again.node, now=THEN + 10 * S)
    told = again.accept(THEN + 10 * S)
    assert [one.public_id for one in told.checkpoints] == [row.public_id]
    given = checkpoints.hand_over(attempt=again.fresh(), checkpoint=row.public_id)
    assert b"".join(checkpoints.content(checkpoint=given)) == b"state"
    assert again.fresh().resumed_from == row.public_id
    checkpoints.hand_over(attempt=again.fresh(), checkpoint=row.public_id)  # a download that is gone on with


def test_nobody_is_given_anothers(work: Work, ada: Person, sol: Person) -> None:
    row = store(work, b"state", 1)
    other = a_running(ada, a_node(sol), checkpoint=Wanted("/job/ckpt", 60, 2))
    with pytest.raises(NotFound) as gone:
        checkpoints.hand_over(attempt=other.fresh(), checkpoint=row.public_id)
    assert gone.value.code == "checkpoint_gone"


def test_gone_a_day_after_the_job_and_not_before(work: Work, ada: Person) -> None:
    store(work, b"state", 1)
    work.finish(THEN + S, reason="exit_nonzero", exit_code=3)
    job = Job.objects.get(id=work.job.id)
    assert job.state == "failed"
    assert checkpoints.expire(now=THEN + DAY) == 0
    jobs.retry(job=job, by=ada.id, now=THEN + DAY)  # the tenant tries again: still there
    assert checkpoints.expire(now=THEN + 9 * DAY) == 0
    assert len(checkpoints.offered(task=work.task)) == 1
    jobs.cancel(job=Job.objects.get(id=job.id), by=ada.id, now=THEN + 9 * DAY)
    assert checkpoints.expire(now=THEN + 10 * DAY) == 0
    assert checkpoints.expire(now=THEN + 10 * DAY + S) == 1
    assert _objects(work) == []
