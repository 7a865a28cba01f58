"""/agent/v1/runs: the runs of a fingerprint that the portal orders and times. See `marketplace.domain.challenge`.

The clock is read first thing in the door (a promise stops it) and last thing before an order leaves.
"""

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from agent import protocol as wire
from marketplace.domain.challenge import Kind, Opened, State
from marketplace.models import CheckedRun
from marketplace.services import challenges
from portal import clock
from scheduling.api.agent_door import answer, door, sign_in, spoken


@door("POST")
def begin(request: HttpRequest) -> HttpResponse:
    node, message = spoken(request, wire.BeginRun)
    row = challenges.begin(
        node=node, kind=Kind(message.kind.value), expected=message.expected, short=message.short, now=clock.now()
    )
    nonce = "" if row.kind == Kind.STREAM else row.nonce
    return answer(wire.RunOrder(row.public_id, message.kind, nonce, row.size, row.parts))


@door("POST")
def commit(request: HttpRequest) -> HttpResponse:
    now = clock.now()
    node, message = spoken(request, wire.CommitRun)
    row = challenges.commit(node=node, run=message.run, root=message.root, now=now)
    judged = None if row.state == State.COMMITTED else _result(row)
    return answer(wire.RunLeaves(() if judged else tuple(row.asked), judged))


@door("POST")
def show(request: HttpRequest) -> HttpResponse:
    node, message = spoken(request, wire.ShowRun)
    opened = [Opened(one.leaf, one.data, one.path) for one in message.opened]
    return answer(_result(challenges.show(node=node, run=message.run, opened=opened)))


@door("GET")
def stream(request: HttpRequest, run: str) -> StreamingHttpResponse:
    row, pieces = challenges.stream(node=sign_in(request), run=run)
    headers = {"Content-Length": str(row.size), "Cache-Control": "no-store"}
    return StreamingHttpResponse(pieces, content_type="application/octet-stream", headers=headers)


def _result(row: CheckedRun) -> wire.RunResult:
    return wire.RunResult(row.state == State.PASSED, float(row.measured), row.reason)
