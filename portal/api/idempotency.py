"""``Idempotency-Key``: the same request again is not a second deed.

::

    class Jobs(APIView):
        @idempotent
        def post(self, request): …

| the key was seen | answer |
|---|---|
| never | the deed; its answer is stored with it, in one transaction |
| with the same request | the stored answer, ``Idempotent-Replayed: true`` |
| with another body, method or address | 409 ``idempotency_mismatch`` |
| and its first request still runs | 409 ``idempotency_busy``, Retry-After |

The key is claimed by a row of its own (committed at once, so that a twin sees it), then the deed and the stored answer
commit together: a process that dies in between leaves a claim without a deed, which the next request takes over after a
minute. A refused request (4xx) did nothing, so its claim is dropped and the key may be used again. The header is
optional: without it each request is a deed of its own.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from rest_framework.response import Response

from portal import clock, vault
from portal.api.models import IdempotencyKey, IdempotencyState
from portal.kit.errors import Conflict, Finding, InvalidInput

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEEP = timedelta(days=30)
ABANDONED = timedelta(minutes=1)
"""A claim this old whose deed never ended belonged to a process that died."""
_SHAPE = re.compile(r"[\x21-\x7e]{1,200}")


def idempotent(method: Callable[..., Response]) -> Callable[..., Response]:
    """Decorator of a DRF `post`; the actor's organisation owns the key."""

    @functools.wraps(method)
    def guarded(view: Any, request: Any, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get(HEADER)
        if key is None:
            return method(view, request, *args, **kwargs)
        if not _SHAPE.fullmatch(key):
            raise InvalidInput([Finding(HEADER, "bad_key", _("1 to 200 visible ASCII characters"), "a UUID is fine")])
        actor = getattr(request, "actor", None)
        deed = functools.partial(method, view, request, *args, **kwargs)
        sealed = getattr(view, "answers_with_secret", False)
        return _once(_owner(actor), key, _digest(request), sealed, clock.now(), deed)

    guarded.is_idempotent = True  # type: ignore[attr-defined]  # the schema and test_house ask
    return guarded


def _owner(actor: Any) -> int:
    """The organisation's id; a person who has none keeps keys of their own (below zero)."""
    if actor is None:
        return 0
    return actor.organisation.id if actor.organisation is not None else -int(actor.user.id)


def _digest(request: Any) -> str:
    """Of method, path and the parsed body: spacing and order of fields do not make another request."""
    body = json.dumps(request.data, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()


def _once(owner: int, key: str, digest: str, sealed: bool, now: datetime, deed: Callable[[], Response]) -> Response:
    claimed, row = _claim(owner, key, digest, now)
    if not claimed:
        return _replay(row, digest)
    try:
        with transaction.atomic():
            answer = deed()
            if answer.status_code < 400:
                _keep(row, answer, sealed)
    except BaseException:
        IdempotencyKey.objects.filter(id=row.id, state=IdempotencyState.BUSY, started_at=row.started_at).delete()
        raise
    if answer.status_code >= 400:
        IdempotencyKey.objects.filter(id=row.id, state=IdempotencyState.BUSY, started_at=row.started_at).delete()
    return answer


def _claim(owner: int, key: str, digest: str, now: datetime) -> tuple[bool, IdempotencyKey]:
    """(mine, row): the row is new and ours, or an abandoned or outlived one taken over, or another's."""
    row, created = IdempotencyKey.objects.get_or_create(
        organisation_id=owner, key=key, defaults={"digest": digest, "started_at": now}
    )
    if created:
        return True, row
    outlived = row.started_at < now - KEEP
    abandoned = row.state == IdempotencyState.BUSY and row.started_at < now - ABANDONED and row.digest == digest
    if not outlived and not abandoned:
        return False, row
    taken = IdempotencyKey.objects.filter(id=row.id, state=row.state, started_at=row.started_at).update(
        state=IdempotencyState.BUSY, started_at=now, digest=digest, status=None, body=None
    )
    row.refresh_from_db()
    return taken == 1, row  # 0: a twin took it over first


def _replay(row: IdempotencyKey, digest: str) -> Response:
    if row.digest != digest:
        raise Conflict(
            _("This Idempotency-Key was used for another request. Use a new key for a new request."),
            code="idempotency_mismatch",
        )
    if row.state == IdempotencyState.BUSY:
        raise Conflict(_("The first request with this key is still running."), code="idempotency_busy", retry_after=1)
    headers = {REPLAYED: "true"}
    if row.location:
        headers["Location"] = row.location
    body = row.body
    if isinstance(body, dict) and set(body) == {"sealed"}:
        body = json.loads(vault.decrypt(body["sealed"], about=_about(row)))
    return Response(body, status=row.status, headers=headers)


def _about(row: IdempotencyKey) -> str:
    return f"idempotency:{row.organisation_id}:{row.key}"


def _keep(row: IdempotencyKey, answer: Response, sealed: bool) -> None:
    """Store the answer beside the deed."""
    body = json.loads(json.dumps(answer.data, default=str))
    if sealed:
        body = {"sealed": vault.encrypt(json.dumps(body), about=_about(row))}
    updated = IdempotencyKey.objects.filter(id=row.id, state=IdempotencyState.BUSY, started_at=row.started_at).update(
        state=IdempotencyState.DONE, status=answer.status_code, body=body, location=answer.headers.get("Location", "")
    )
    if updated != 1:  # this claim was thought abandoned and taken over: the other one's deed counts
        raise Conflict(_("The first request with this key is still running."), code="idempotency_busy", retry_after=1)


def expire(*, now: datetime) -> int:
    """Delete what is older than 30 days; returns the number."""
    return IdempotencyKey.objects.filter(started_at__lt=now - KEEP).delete()[0]
