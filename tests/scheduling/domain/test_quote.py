"""The quote machine: every pair of state and event."""

import pytest

from portal.kit.errors import InvalidTransition
from scheduling.domain.quote import QuoteEvent, QuoteState, advance

TABLE = {
    (QuoteState.OPEN, QuoteEvent.USED): QuoteState.USED,
    (QuoteState.OPEN, QuoteEvent.LAPSED): QuoteState.EXPIRED,
}


@pytest.mark.parametrize("state", QuoteState)
@pytest.mark.parametrize("event", QuoteEvent)
def test_every_pair(state: QuoteState, event: QuoteEvent) -> None:
    if (state, event) in TABLE:
        assert advance(state, event) is TABLE[state, event]
    else:
        with pytest.raises(InvalidTransition):
            advance(state, event)
