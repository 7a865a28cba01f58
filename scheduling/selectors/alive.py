"""Which nodes are heard: soft state, where missing means unknown, never dead.

`scheduling.gateways.alive` writes these keys with each sync.
"""

from collections.abc import Sequence
from typing import Any

from portal import softstate


def ages_ms(nodes: Sequence[str], *, now_ms: int) -> dict[str, int]:
    """How long each known node has been silent beyond what is normal (0 = not at all); the others are unknown."""
    known = softstate.get_many([f"alive:{node}" for node in nodes])
    return {name.removeprefix("alive:"): max(0, now_ms - int(until)) for name, until in known.items()}


def loads(nodes: Sequence[str]) -> dict[str, Any]:
    """The last load that each node told; the others are unknown."""
    known = softstate.get_many([f"load:{node}" for node in nodes])
    return {name.removeprefix("load:"): load for name, load in known.items()}
