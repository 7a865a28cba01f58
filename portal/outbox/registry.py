"""Which function performs a topic. Handlers register in ``apps.py: ready()`` of the app that owns them, so no floor
imports a higher one.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

Handler = Callable[..., None]
Together = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], None]
_handlers: dict[str, Handler] = {}
_together: dict[str, Together] = {}


def handler(topic: str) -> Callable[[Handler], Handler]:
    """Decorator: `function(key, payload)` performs `topic`; it must be safe to repeat. One handler per topic.

    A function that also takes `now` is given the relay's.
    """

    def register(function: Handler) -> Handler:
        known = _handlers.setdefault(topic, function)
        if known is not function:
            raise ValueError(f"topic {topic} has a handler already")
        return function

    return register


def together(topic: str) -> Callable[[Together], Together]:
    """Decorator: `function([(key, payload), …])` performs all that is due of `topic` at once (wake-ups, nudges); it must be safe to repeat."""

    def register(function: Together) -> Together:
        known = _together.setdefault(topic, function)
        if known is not function or topic in _handlers:
            raise ValueError(f"topic {topic} has a handler already")
        return function

    return register


def performed_together() -> Mapping[str, Together]:
    """The topics whose messages are performed at once, and by whom."""
    return _together


def handler_of(topic: str) -> Handler | None:
    """The registered handler, or None."""
    return _handlers.get(topic)


def perform(topic: str, key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Do what was promised; KeyError if nobody performs that topic."""
    function = _handlers[topic]
    if "now" in inspect.signature(function).parameters:
        function(key, payload, now=now)
    else:
        function(key, payload)


def topics() -> frozenset[str]:
    """All topics that somebody performs."""
    return frozenset(_handlers) | frozenset(_together)
