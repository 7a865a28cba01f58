"""The life of an offer (house §7).

| event ↓ state → | draft | published | paused | withdrawn, expired |
|---|---|---|---|---|
| publish | published · open | ✗ | ✗ | ✗ |
| pause | ✗ | paused · close | ✗ | ✗ |
| resume | ✗ | ✗ | published · open | ✗ |
| withdraw | withdrawn | withdrawn · close | withdrawn · close | ✗ |
| expire (`until` reached) | expired | expired · close | expired · close | ✗ |

✗ = `InvalidTransition`. No arrow touches running leases: they keep their price to the end.
"""

from enum import StrEnum

from portal.kit import machine


class State(StrEnum):
    DRAFT = "draft"
    PUBLISHED = "published"
    PAUSED = "paused"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class Event(StrEnum):
    PUBLISH = "publish"
    PAUSE = "pause"
    RESUME = "resume"
    WITHDRAW = "withdraw"
    EXPIRE = "expire"


class Effect(StrEnum):
    OPEN = "open"  # the next snapshot sees it
    CLOSE = "close"  # the next snapshot does not see it


TABLE: dict[tuple[State, Event], tuple[State, tuple[Effect, ...]]] = {
    (State.DRAFT, Event.PUBLISH): (State.PUBLISHED, (Effect.OPEN,)),
    (State.DRAFT, Event.WITHDRAW): (State.WITHDRAWN, ()),
    (State.DRAFT, Event.EXPIRE): (State.EXPIRED, ()),
    (State.PUBLISHED, Event.PAUSE): (State.PAUSED, (Effect.CLOSE,)),
    (State.PUBLISHED, Event.WITHDRAW): (State.WITHDRAWN, (Effect.CLOSE,)),
    (State.PUBLISHED, Event.EXPIRE): (State.EXPIRED, (Effect.CLOSE,)),
    (State.PAUSED, Event.RESUME): (State.PUBLISHED, (Effect.OPEN,)),
    (State.PAUSED, Event.WITHDRAW): (State.WITHDRAWN, (Effect.CLOSE,)),
    (State.PAUSED, Event.EXPIRE): (State.EXPIRED, (Effect.CLOSE,)),
}

OPEN_STATES = frozenset({State.DRAFT, State.PUBLISHED, State.PAUSED})


def step(state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
    """The next state and its effects; InvalidTransition for a pair that is not in the table."""
    return machine.step(TABLE, state, event)
