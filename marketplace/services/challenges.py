"""Runs that the portal orders and times: begun, promised, shown, judged. The rules are :mod:`marketplace.domain.challenge`.

Each step is one call of the node. The moments that count are those at which the portal gave the nonce away and at which the
promise came in; both are the door's, so that judging costs the node nothing.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from marketplace.domain import challenge as rules
from marketplace.domain.challenge import Checked, Kind, Opened, State
from marketplace.models import CheckedRun, Node
from portal import ids, softstate
from portal.kit.errors import Conflict, NotFound, TooMany

PER_HOUR = 60
"""Runs that a node may begin in an hour: one measurement takes seven."""
GOOD_FOR = timedelta(hours=1)
"""So long a passed run may stand in a report."""
PIECE = 256 * 1024


def begin(*, node: Node, kind: Kind, expected: float, short: bool, now: datetime) -> CheckedRun:
    """A run for a node that is ready. TooMany beyond sixty an hour."""
    if softstate.count(f"runs:{node.public_id}", seconds=3600) > PER_HOUR:
        raise TooMany(_("Too many requests. Try again in %(wait)s seconds.") % {"wait": 3600}, retry_after=3600)
    draw = (ids.seed() % 1_000_000) / 1_000_000
    run = rules.plan(kind, nonce=ids.token(40), draw=draw, expected=expected, short=short)
    return CheckedRun.objects.create(
        node=node, kind=kind, nonce=run.nonce, size=run.size, parts=run.parts, short=short, begun_at=now
    )


def stream(*, node: Node, run: str) -> tuple[CheckedRun, Iterator[bytes]]:
    """The bytes of a stream run: only the portal can make them."""
    row = _mine(node, run, State.BEGUN)
    if row.kind != Kind.STREAM:
        raise Conflict(_("This run has no bytes to fetch."), code="state")
    return row, _pieces(row)


def commit(*, node: Node, run: str, root: str, now: datetime) -> CheckedRun:
    """The promise came at `now`: the clock stops. A stream is judged at once; else the row says which leaves to show."""
    row = _mine(node, run, State.BEGUN)
    took = max((now - row.begun_at).total_seconds(), 1e-6)
    order = _order(row)
    row.measured = repr(rules.work(order) / took)
    row.committed_at, row.root = now, root
    row.asked = list(rules.wanted(order, ids.seed()))
    row.state = State.COMMITTED
    if row.kind == Kind.STREAM:
        digest = hashlib.sha256()
        for piece in _pieces(row):
            digest.update(piece)
        _settle(row, "" if digest.hexdigest() == root else "wrong_result")
    return _write(row, State.BEGUN)


def show(*, node: Node, run: str, opened: Sequence[Opened]) -> CheckedRun:
    """Judge the leaves that were asked for; the row says passed, or failed and why."""
    row = _mine(node, run, State.COMMITTED)
    _settle(row, rules.check(_order(row), row.root, row.asked, opened))
    return _write(row, State.COMMITTED)


def passed(*, node: Node, runs: Sequence[str], short: bool, now: datetime) -> list[CheckedRun]:
    """Those of the named runs that count for a report of `node`: its own, passed, fresh, unused, of the same suite."""
    rows = CheckedRun.objects.filter(
        node=node, public_id__in=list(runs), state=State.PASSED, used_in=None, begun_at__gt=now - GOOD_FOR, short=short
    )
    return list(rows.order_by("id"))


def checked(rows: Sequence[CheckedRun]) -> list[Checked]:
    """As the rules want them."""
    return [Checked(row.kind, float(row.measured)) for row in rows]


def forget(*, now: datetime) -> int:
    """Runs that no fingerprint used, a day later; returns how many."""
    gone, _each = CheckedRun.objects.filter(used_in=None, begun_at__lt=now - timedelta(days=1)).delete()
    return gone


def _order(row: CheckedRun) -> rules.Run:
    return rules.Run(Kind(row.kind), row.nonce, row.size, row.parts)


def _pieces(row: CheckedRun) -> Iterator[bytes]:
    for index, at in enumerate(range(0, row.size, PIECE)):
        yield rules.piece(row.nonce, index, min(PIECE, row.size - at))


def _settle(row: CheckedRun, problem: str) -> None:
    row.state, row.reason = (State.FAILED if problem else State.PASSED), problem


def _mine(node: Node, run: str, state: State) -> CheckedRun:
    row = CheckedRun.objects.filter(node=node, public_id=run).first()
    if row is None:
        raise NotFound(_("There is no such run of yours."), code="run_not_found")
    if row.state != state:
        raise Conflict(_("This run is %(state)s.") % {"state": row.state}, code="state")
    return row


def _write(row: CheckedRun, before: State) -> CheckedRun:
    updated = CheckedRun.objects.filter(id=row.id, state=before).update(
        state=row.state,
        measured=row.measured,
        committed_at=row.committed_at,
        root=row.root,
        asked=row.asked,
        reason=row.reason,
    )
    if updated != 1:  # the same call came twice
        raise Conflict(_("This run is %(state)s.") % {"state": row.state}, code="state")
    return row
