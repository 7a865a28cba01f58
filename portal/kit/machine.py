"""A state machine is a table; this file turns the crank.

The table maps ``(state, event)`` to ``(new state, effects)``. An unknown pair is
:class:`~portal.kit.errors.InvalidTransition` and changes nothing
(rule 6). Effects are plain values that a service performs (rule 7). The pattern follows h11's ``_state.py``: rules
first, then tables, no ifs.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from portal.kit.errors import InvalidTransition

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)
F = TypeVar("F", bound=StrEnum)


def step(table: Mapping[tuple[S, E], tuple[S, tuple[F, ...]]], state: S, event: E) -> tuple[S, tuple[F, ...]]:
    """The next state and the effects of `event` in `state`; InvalidTransition (409) when the table has no such pair."""
    try:
        return table[state, event]
    except KeyError:
        raise InvalidTransition(f"{event.value} is not possible while {state.value}") from None
