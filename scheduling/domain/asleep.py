"""Questions that no node could answer with yes even if it were empty: only a change of offers can help, so until then nobody asks again.

A process remembers them between cycles; so 500 impossible tasks (P42) cost a look at their reason a second and no decision.
"""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any

MOST = 50_000
ASK_AGAIN = timedelta(seconds=3)
"""In a market where some offer changes every second they are asked again this often, not with every change."""


class Asleep:
    """Reasons by question. `offers`: whatever stays the same object as long as no offer changes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[object, datetime, dict[str, Any]]] = {}

    def reason(self, question: Hashable, offers: object, now: datetime) -> dict[str, Any] | None:
        """Why a question sleeps, or None if it is to be asked."""
        found = self._known.get(question)
        if found is None:
            return None
        seen, asked, reason = found
        return reason if seen is offers or now - asked < ASK_AGAIN else None

    def note(self, question: Hashable, reason: dict[str, Any], offers: object, now: datetime) -> None:
        """It sleeps from now on."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[question] = (offers, now, reason)
