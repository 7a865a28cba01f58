"""Stored outputs: uploaded in parts under a lease, published with the result, downloaded, expired after 30 days.

An upload belongs to its attempt until the finish is accepted under the fence; publishing is then a pointer:
`published` on these rows, in that very
transaction. So an old attempt can neither overwrite nor mix its files with those of the winner.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput, NotFound, TooLarge
from scheduling.domain.artefact import ArtefactEvent, ArtefactState, Piece, place, step
from scheduling.domain.demand import TaskSpec
from scheduling.gateways import objects
from scheduling.models import Artefact, Attempt
from scheduling.services import live

SCHEME = "artefact://"
CHUNK = 4 * 1024 * 1024
MOST = 1024**4
GIB, SLACK = 1024**3, 1024**2
"""The job's disk, and what a tar lays around it: no node may fill our store with more than its lease has room for."""
KEPT_FOR = timedelta(days=30)
EXPIRE_BATCH = 200


@dataclass(frozen=True)
class Stored:
    """The offset wanted next; `complete`: the output is whole and its hash right."""

    offset: int
    complete: bool


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
    if len(data) > CHUNK:
        raise TooLarge(_("A part has at most 4 MiB."))
    if total > attempt.lease.disk_gib * GIB + SLACK:
        raise TooLarge(_("An output is at most as large as the disk of its job."))
    if sha256(data).hexdigest() != digest:
        raise _bad("sha256", _("the hash is not that of the bytes"))
    with transaction.atomic():
        row = _row(attempt, name, now)
        if row.complete:
            return Stored(row.size_bytes, complete=True)
        end = sum(length for _, length, _ in row.parts)
        found = place(
            offset=offset,
            length=len(data),
            digest=digest,
            end=end,
            known={part[0]: part[2] for part in row.parts},
            most=MOST,
        )
        if found in (Piece.CONFLICT, Piece.GAP):
            raise Conflict(_("Go on at the offset given."), code="GAP", offset=end)
        if found is Piece.FULL or offset + len(data) > total:
            raise _bad("total", _("the output is longer than announced"))
        if found is Piece.APPEND and data:
            objects.put(objects.part_name(row.object_name, offset, digest), data)
            row.parts = [*row.parts, [offset, len(data), digest]]
            end += len(data)
        if end == total and whole_digest:
            if _hash(row) != whole_digest:
                _drop(row)
                Artefact.objects.filter(id=row.id).update(parts=[])
                return Stored(0, complete=False)
            row.complete, row.sha256 = True, whole_digest
        row.size_bytes = end
        row.save(update_fields=["parts", "size_bytes", "complete", "sha256"])
    return Stored(end, row.complete)


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
    return _pieces(artefact, start)


def _pieces(artefact: Artefact, start: int) -> Iterator[bytes]:
    for offset, length, digest in artefact.parts:
        if offset + length > start:
            yield from objects.pieces(objects.part_name(artefact.object_name, offset, digest), max(0, start - offset))


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
    _drop(artefact)


def expire(*, now: datetime) -> int:
    """End what is past its date, a batch per call; returns how many."""
    due = list(Artefact.objects.filter(state=ArtefactState.STORED, expires_at__lte=now).order_by("id")[:EXPIRE_BATCH])
    for row in due:
        _end(row, ArtefactEvent.EXPIRE)
        _drop(row)
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


def _hash(row: Artefact) -> str:
    whole = sha256()
    for offset, _length, digest in row.parts:
        for piece in objects.pieces(objects.part_name(row.object_name, offset, digest)):
            whole.update(piece)
    return whole.hexdigest()


def _drop(row: Artefact) -> None:
    for offset, _length, digest in row.parts:
        objects.delete(objects.part_name(row.object_name, offset, digest))


def _end(row: Artefact, event: ArtefactEvent) -> None:
    state = step(ArtefactState(row.state), event)
    if Artefact.objects.filter(id=row.id, state=row.state).update(state=state, published=False) != 1:
        raise Conflict(_("The output has changed meanwhile."), code="artefact_moved")
    row.state = state


def _bad(path: str, message: str) -> InvalidInput:
    return InvalidInput([Finding(path, "bad_part", message)], code="MALFORMED")
