"""Stored outputs: uploaded in parts under a lease, published with the result, downloaded, expired after 30 days.

An upload belongs to its attempt until the finish is accepted under the fence; publishing is then a pointer:
`published` on these rows, in that very
transaction. So an old attempt can neither overwrite nor mix its files with those of the winner.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict, NotFound, TooLarge
from scheduling.domain.artefact import ArtefactEvent, ArtefactState, step
from scheduling.domain.demand import TaskSpec
from scheduling.gateways import objects
from scheduling.models import Artefact, Attempt
from scheduling.services import live, pieces
from scheduling.services.pieces import Part, Stored

SCHEME = "artefact://"
GIB, SLACK = 1024**3, 1024**2
"""The job's disk, and what a tar lays around it: no node may fill our store with more than its lease has room for."""
KEPT_FOR = timedelta(days=30)
EXPIRE_BATCH = 200


def upload(
    *,
    attempt: Attempt,
    name: str,
    offset: int,
    data: bytes,
    digest: str,
    total: int,
    whole_digest: str | None,
    now: datetime,
) -> Stored:
    """Store one part of an output. The part that completes it carries the hash of the whole; if that is wrong the
    upload starts again at 0.
    """
    part = Part(offset, data, digest, total, whole_digest)
    if part.total > attempt.lease.disk_gib * GIB + SLACK:
        raise TooLarge(_("An output is at most as large as the disk of its job."))
    pieces.check(part)
    with transaction.atomic():
        row = _row(attempt, name, now)
        taken = pieces.take(row, part)
        row.save(update_fields=["parts", "size_bytes", "complete", "sha256"])
    return taken


def publish(*, attempt: Attempt, names: Sequence[str], now: datetime) -> int:
    """Make these outputs the task's, in the running transaction; older ones of the same name give way."""
    task = attempt.task
    Artefact.objects.filter(task=task, name__in=names, published=True, state=ArtefactState.STORED).exclude(
        attempt=attempt
    ).update(published=False)
    count = Artefact.objects.filter(attempt=attempt, name__in=names, complete=True).update(
        published=True, expires_at=now + KEPT_FOR
    )
    if count != len(set(names)):
        raise Conflict(_("An output is not complete."), code="output_incomplete")
    return count


def resolve(*, organisation: Organisation, url: str) -> Artefact:
    """The stored output that ``artefact://NAME`` (or its id) names within an organisation; the newest of that name."""
    name = url.removeprefix(SCHEME)
    mine = Artefact.objects.filter(
        organisation=organisation, published=True, complete=True, state=ArtefactState.STORED
    ).order_by("-id")
    row = mine.filter(public_id=name).first() or mine.filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no stored output of this name."), code="artefact_missing")
    return row


def content(*, artefact: Artefact, start: int = 0) -> Iterator[bytes]:
    """The bytes of an artefact from `start` on; NotFound at once if it is no longer stored."""
    if artefact.state != ArtefactState.STORED:
        raise NotFound(_("This output is no longer stored."), code="artefact_gone")
    found: Iterator[bytes] = pieces.read(artefact, start)
    return found


def delete(*, artefact: Artefact, by: str, now: datetime) -> None:
    """Delete a stored output before its date."""
    with transaction.atomic():
        _end(artefact, ArtefactEvent.DELETE)
        note(
            actor=by,
            deed="artefact.delete",
            target=artefact.public_id,
            organisation_id=artefact.organisation_id,
            data={"name": artefact.name},
            now=now,
        )
        live.changed(f"job.{artefact.job.public_id}")
    pieces.drop(artefact)


def expire(*, now: datetime) -> int:
    """End what is past its date, a batch per call; returns how many."""
    due = list(Artefact.objects.filter(state=ArtefactState.STORED, expires_at__lte=now).order_by("id")[:EXPIRE_BATCH])
    for row in due:
        _end(row, ArtefactEvent.EXPIRE)
        pieces.drop(row)
    return len(due)


def _row(attempt: Attempt, name: str, now: datetime) -> Artefact:
    wanted = {output.name: output for output in TaskSpec.from_form(attempt.task.spec).outputs}.get(name)
    if wanted is None:
        raise NotFound(_("The job has no output of this name."), code="output_unknown")
    job = attempt.task.job
    row, _made = Artefact.objects.get_or_create(
        attempt=attempt,
        name=name,
        defaults={
            "organisation": job.organisation,
            "job": job,
            "task": attempt.task,
            "path": wanted.path,
            "kind": wanted.type,
            "region": attempt.node.zone.region.slug,
            "object_name": objects.artefact_name(attempt.public_id, name),
            "created_at": now,
            "expires_at": now + KEPT_FOR,
        },
    )
    locked: Artefact = Artefact.objects.select_for_update(no_key=True).get(id=row.id)
    return locked


def _end(row: Artefact, event: ArtefactEvent) -> None:
    state = step(ArtefactState(row.state), event)
    if Artefact.objects.filter(id=row.id, state=row.state).update(state=state, published=False) != 1:
        raise Conflict(_("The output has changed meanwhile."), code="artefact_moved")
    row.state = state
