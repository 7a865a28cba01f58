"""Every pair of (state, event) of the two machines of the market, and what they may never do."""

import re

import pytest

from marketplace.domain import enrolment, offer
from marketplace.models.nodes import NodeState
from marketplace.models.offers import OfferState
from portal.kit.errors import InvalidTransition

MACHINES = [enrolment, offer]


@pytest.mark.parametrize("machine", MACHINES)
def test_every_pair_is_in_the_table_or_refused(machine):
    for state in machine.State:
        for event in machine.Event:
            if (state, event) in machine.TABLE:
                after, effects = machine.step(state, event)
                assert after in machine.State
                assert all(effect in machine.Effect for effect in effects)
            else:
                with pytest.raises(InvalidTransition):
                    machine.step(state, event)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_story_shows_the_same_table(machine):
    """The table in the docstring, cell by cell."""
    rows = [row for row in machine.__doc__.splitlines() if row.startswith("|")]
    heads = [cell.strip() for cell in rows[0].strip("|").split("|")][1:]
    seen = 0
    for row in rows[2:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        event = machine.Event(cells[0].split()[0].strip("`"))
        for head, cell in zip(heads, cells[1:], strict=True):
            for name in re.findall(r"\w+", head):
                seen += 1
                pair = machine.State(name), event
                if cell == "✗":
                    assert pair not in machine.TABLE, pair
                    continue
                state, _dot, effects = cell.partition("·")
                assert machine.TABLE[pair] == (
                    machine.State(state.strip()),
                    tuple(machine.Effect(word.strip()) for word in effects.split(",") if word.strip()),
                ), pair
    assert seen == len(machine.State) * len(machine.Event)


@pytest.mark.parametrize("machine", MACHINES)
def test_ends_are_ends_and_all_states_can_be_reached(machine):
    after = {state for state, _effects in machine.TABLE.values()}
    first = next(iter(machine.State))
    assert after | {first} == set(machine.State)
    ends = set(machine.State) - {state for state, _event in machine.TABLE}
    assert ends == ({enrolment.State.RETIRED} if machine is enrolment else {offer.State.WITHDRAWN, offer.State.EXPIRED})


def test_rows_and_rules_have_the_same_states():
    assert [s.value for s in NodeState] == [s.value for s in enrolment.State]
    assert [s.value for s in OfferState] == [s.value for s in offer.State]
