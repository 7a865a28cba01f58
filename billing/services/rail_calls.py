"""How the rail is asked: promised in the deciding transaction, performed by the outbox, once, whatever happens in between.

| what came back | what is done |
|---|---|
| an answer | its id is saved; the next step may be promised |
| a refusal | it stays so: the caller decides what that means |
| nothing, 409, 429 | the same call again, under the same key (the rail answers a known key from memory) |
| a 500 | the rail would replay it: we look for the object by our id, and only if it is not there ask again under a new key |
| the call is older than 23 h | as after a 500: the rail forgets keys after 24 h |

The new key is committed before it is used, so a crash in between asks under the same one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from billing.domain.rail import KEY_LIFE
from billing.gateways.stripe import RailRefused, RailUnsure
from billing.models import CallState, RailCall
from portal.outbox.services import put

Made = TypeVar("Made")
LOOK_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Step(Generic[Made]):
    """One kind of call: how to ask, how to look for what was made, and what to do with either end."""

    create: Callable[[str], Made]
    find: Callable[[datetime], Made | None]
    done: Callable[[Made], str]
    """Saves the answer; returns the rail's id."""
    refused: Callable[[RailRefused], None]


def promise(*, kind: str, reference: str, now: datetime, number: int = 1) -> RailCall:
    """Promise a call in the running transaction; again is the same promise, unless the last one was refused: then it is a new one."""
    last = RailCall.objects.filter(kind=kind, reference=reference).order_by("-number").first()
    if last is not None:
        number = max(number, last.number + (last.state == CallState.REFUSED))
    call, _ = RailCall.objects.get_or_create(
        kind=kind,
        reference=reference,
        number=number,
        defaults={"key": f"{kind}:{reference}:{number}", "created_at": now},
    )
    put(topic=f"stripe.{kind}", key=call.key, payload={"call": call.id}, now=now)
    return call


def perform(*, payload: Mapping[str, Any], step_of: Callable[[RailCall], Step[Any]], now: datetime) -> None:
    """Make a promised call; runs in the relay's transaction. What may be tried again is raised."""
    call = RailCall.objects.select_for_update().get(id=payload["call"])
    if call.state not in (CallState.DUE, CallState.UNSURE):  # answered already, or replaced by a later number
        return
    step = step_of(call)
    if call.state == CallState.UNSURE or now - call.created_at > KEY_LIFE:
        found = step.find(call.created_at)
        if found is None:
            _replace(call, now)
        else:
            _end(call, CallState.DONE, now, rail_id=step.done(found))
        return
    try:
        made = step.create(call.key)
    except RailRefused as refused:
        _end(call, CallState.REFUSED, now, failure=refused.reason, message=refused.detail)
        step.refused(refused)
    except RailUnsure as broken:
        _end(call, CallState.UNSURE, now, message=str(broken)[:500])
        put(
            topic=f"stripe.{call.kind}",
            key=f"{call.key}:look",
            payload={"call": call.id},
            now=now,
            due_at=now + LOOK_AFTER,
        )
    else:
        _end(call, CallState.DONE, now, rail_id=step.done(made))


def _replace(call: RailCall, now: datetime) -> None:
    """It is not there: a new number, with a key of its own, in its own transaction."""
    _end(call, CallState.REPLACED, now)
    promise(kind=call.kind, reference=call.reference, number=call.number + 1, now=now)


def _end(call: RailCall, state: CallState, now: datetime, **values: str) -> None:
    call.state, call.answered_at = state, now
    for name, value in values.items():
        setattr(call, name, value)
    call.save()
