"""Which function performs a topic. Handlers register in ``apps.py: ready()`` of the app that owns them, so no floor
imports a higher one.
"""

from collections.abc import Callable, Mapping
from typing import Any

Handler = Callable[[str, Mapping[str, Any]], None]
_handlers: dict[str, Handler] = {}


def handler(topic: str) -> Callable[[Handler], Handler]:
    """Decorator: `function(key, payload)` performs `topic`; it must be safe to repeat. One handler per topic."""

    def register(function: Handler) -> Handler:
        known = _handlers.setdefault(topic, function)
        if known is not function:
            raise ValueError(f"topic {topic} has a handler already")
        return function

    return register


def handler_of(topic: str) -> Handler | None:
    """The registered handler, or None."""
    return _handlers.get(topic)


def topics() -> frozenset[str]:
    """All topics that somebody performs."""
    return frozenset(_handlers)
