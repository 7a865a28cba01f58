"""What every door of `/agent/v1` does before it asks a service: wire version, sign-in, rate, shape; and how it refuses.

The checks come in this order, and nothing is changed before the last of them: 426 wire version · 401 unknown node or
secret (one audit event) · 429 rate ·
400 no JSON · 422 MALFORMED (the field is named) · 409 SUPERSEDED (an older start of the agent, or a clone of the node).
"""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt

from agent import protocol as wire
from marketplace.models import Node
from marketplace.selectors import nodes as found
from marketplace.services import nodes as joining
from portal import clock, softstate
from portal.api import throttling
from portal.api.errors import MEDIA_TYPE, of_idlewild
from portal.kit.errors import (
    BadRequest,
    Finding,
    IdlewildError,
    InvalidInput,
    NotSignedIn,
    TooLarge,
    TooMany,
    UpgradeRequired,
)
from scheduling.services import nodes_sync

M = TypeVar("M", bound=wire.Message)
View = Callable[..., HttpResponseBase]
MOST_JSON = 8 * 1024 * 1024
AUDITED_PER_HOUR = 100
"""Refused sign-ins per address that are written down; a flood of them fills no table."""


def refusal(request: HttpRequest, error: IdlewildError) -> HttpResponse:
    """An error of ours as problem+json."""
    body, headers = of_idlewild(error, getattr(request, "request_id", ""))
    return JsonResponse(body, status=error.status, headers=headers, content_type=MEDIA_TYPE)


def door(method: str) -> Callable[[View], View]:
    """A synchronous door: one method, no CSRF (nodes carry no cookie), our errors as problem+json."""

    def decorate(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def open_door(request: HttpRequest, **named: Any) -> HttpResponseBase:
            if request.method != method:
                return HttpResponse(status=405, headers={"Allow": method})
            try:
                check_version(request)
                return view(request, **named)
            except IdlewildError as error:
                return refusal(request, error)

        return open_door

    return decorate


def check_version(request: HttpRequest) -> None:
    """One wire version until release 1.0."""
    if request.headers.get(wire.HEADER_WIRE) != str(wire.VERSION):
        raise UpgradeRequired(
            _("This portal speaks version %(version)s of the wire: update the agent.") % {"version": wire.VERSION},
            code=wire.Code.WIRE_VERSION.value,
        )


def pace(node: Node) -> bool:
    """Does this node sync faster than its limit? Then its answer waits a little; at three times the limit it is
    refused (429).

    News end a hold, so many of them in one second make many syncs: refusing the eleventh would only delay a start.
    """
    limit = settings.IDLEWILD_RATE_LIMITS["agent"]
    seen = softstate.count(f"rate:agent:{node.public_id}", seconds=limit["seconds"])
    if seen > 3 * limit["count"]:
        raise TooMany(
            _("Too many requests. Try again in %(wait)s seconds.") % {"wait": limit["seconds"]},
            retry_after=limit["seconds"],
        )
    return seen > limit["count"]


def sign_in(request: HttpRequest) -> Node:
    """The node that speaks; NotSignedIn for anything but its own secret."""
    pair = wire.parse_authorization(request.headers.get("Authorization", ""))
    node = found.by_secret(*pair) if pair else None
    if node is None:
        where = throttling.address(request)
        if pair and softstate.count(f"agent-refused:{where}", seconds=3600) <= AUDITED_PER_HOUR:
            joining.refuse_sign_in(public_id=pair[0], address=where, now=clock.now())
        raise NotSignedIn(_("Unknown node or secret: enroll the node again if its secret is lost."))
    return node


def read(request: HttpRequest, kind: type[M]) -> M:
    """The message in the body."""
    if len(request.body) > MOST_JSON:
        raise TooLarge(_("A message has at most 8 MiB."))
    try:
        data = json.loads(request.body)
    except (ValueError, RecursionError):
        raise BadRequest(_("The body is not JSON.")) from None
    try:
        return kind.from_wire(data)
    except wire.BadMessage as bad:
        raise malformed(bad.path, bad.problem) from None


def spoken(request: HttpRequest, kind: type[M]) -> tuple[Node, M]:
    """Node and message of a signed-in call whose body says which start of the agent speaks."""
    node = sign_in(request)
    message = read(request, kind)
    nodes_sync.check_speaker(node=node, boot_id=message.boot_id, given=message.incarnation)  # type: ignore[attr-defined]
    return node, message


def carried(request: HttpRequest) -> tuple[Node, int, str]:
    """Node, fence and lease secret of a call whose body is no JSON: boot id, incarnation and fence come as headers."""
    node = sign_in(request)
    boot_id = request.headers.get(wire.HEADER_BOOT, "")
    nodes_sync.check_speaker(node=node, boot_id=boot_id, given=whole(request, wire.HEADER_INCARNATION))
    return node, whole(request, wire.HEADER_FENCE), request.headers.get(wire.HEADER_LEASE, "")


def whole(request: HttpRequest, header: str) -> int:
    """A whole number in a header."""
    return number(header, request.headers.get(header, ""))


def number(name: str, text: str) -> int:
    """A non-negative whole number as text, or 422 that names it."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise malformed(name, _("must be a whole number"))
    return int(text)


def malformed(path: str, problem: str) -> InvalidInput:
    """422: the agent drops the message and reports a defect."""
    return InvalidInput([Finding(path, "malformed", problem)], code=wire.Code.MALFORMED.value)


def answer(message: wire.Message) -> HttpResponse:
    """A message as the body of a 200."""
    return JsonResponse(message.to_wire(), headers={"Cache-Control": "no-store"})
