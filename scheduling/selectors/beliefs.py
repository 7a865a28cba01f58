"""What is believed of the links between regions, from the soft store; without it nothing is believed.

Written by `scheduling.services.links` (every period, and at once on urgent news) through `scheduling.gateways.linkstore`.
"""

import json

from portal import softstate
from scheduling.domain.linkstate import Belief

NAME = "links:beliefs"

# KEYS: one hash. Answers it whole.
_ALL = softstate.Script("return redis.call('HGETALL', KEYS[1])")


def everything() -> dict[tuple[str, str], Belief]:
    """(source region, target region) → belief; empty without a store. What another version wrote is left out."""
    try:
        flat: list[str] = _ALL(keys=[NAME])
    except softstate.SoftstateDown:
        return {}
    made = {}
    for name, text in zip(flat[::2], flat[1::2], strict=True):
        source, _, target = name.partition("→")
        try:
            made[source, target] = Belief.from_form(json.loads(text))
        except (ValueError, TypeError):
            continue
    return made
