"""How a node joins, works and leaves (house §7).

| event ↓ state → | invited | probing | listed | draining | retired |
|---|---|---|---|---|---|
| enrolled (token used) | probing | ✗ | ✗ | ✗ | ✗ |
| checks_passed | ✗ | listed · listed | listed | draining | ✗ |
| checks_failed | ✗ | probing | probing · unlisted | draining | ✗ |
| drain | ✗ | draining · draining | draining · draining | ✗ | ✗ |
| undrain | ✗ | ✗ | ✗ | probing · check | ✗ |
| retire | retired | retired · retired | retired · retired | retired · retired | ✗ |
| token_expired | retired | ✗ | ✗ | ✗ | ✗ |

✗ = `InvalidTransition`, nothing changes. *Listed* follows from the checks by itself; what is *published* is the
provider's act (or follows at once, if the token carries prices).
"""

from enum import StrEnum

from portal.kit import machine


class State(StrEnum):
    INVITED = "invited"
    PROBING = "probing"
    LISTED = "listed"
    DRAINING = "draining"
    RETIRED = "retired"


class Event(StrEnum):
    ENROLLED = "enrolled"
    CHECKS_PASSED = "checks_passed"
    CHECKS_FAILED = "checks_failed"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    RETIRE = "retire"
    TOKEN_EXPIRED = "token_expired"  # noqa: S105  # an event, not a password


class Effect(StrEnum):
    LISTED = "listed"  # publish the token's terms, open the capacity, tell the provider
    UNLISTED = "unlisted"  # close the capacity to new work
    DRAINING = "draining"  # close the capacity, order the agent to drain
    CHECK = "check"  # look at the checks again: may be listed at once
    RETIRED = "retired"  # withdraw the offer, close the capacity for good


TABLE: dict[tuple[State, Event], tuple[State, tuple[Effect, ...]]] = {
    (State.INVITED, Event.ENROLLED): (State.PROBING, ()),
    (State.INVITED, Event.RETIRE): (State.RETIRED, ()),
    (State.INVITED, Event.TOKEN_EXPIRED): (State.RETIRED, ()),
    (State.PROBING, Event.CHECKS_PASSED): (State.LISTED, (Effect.LISTED,)),
    (State.PROBING, Event.CHECKS_FAILED): (State.PROBING, ()),
    (State.PROBING, Event.DRAIN): (State.DRAINING, (Effect.DRAINING,)),
    (State.PROBING, Event.RETIRE): (State.RETIRED, (Effect.RETIRED,)),
    (State.LISTED, Event.CHECKS_PASSED): (State.LISTED, ()),
    (State.LISTED, Event.CHECKS_FAILED): (State.PROBING, (Effect.UNLISTED,)),
    (State.LISTED, Event.DRAIN): (State.DRAINING, (Effect.DRAINING,)),
    (State.LISTED, Event.RETIRE): (State.RETIRED, (Effect.RETIRED,)),
    (State.DRAINING, Event.CHECKS_PASSED): (State.DRAINING, ()),
    (State.DRAINING, Event.CHECKS_FAILED): (State.DRAINING, ()),
    (State.DRAINING, Event.UNDRAIN): (State.PROBING, (Effect.CHECK,)),
    (State.DRAINING, Event.RETIRE): (State.RETIRED, (Effect.RETIRED,)),
}


def step(state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
    """The next state and what is to be done; InvalidTransition for a pair that is not in the table."""
    return machine.step(TABLE, state, event)
