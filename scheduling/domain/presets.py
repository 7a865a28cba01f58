"""Scenarios of the field as named defaults (`placement.preset`): what a spec leaves open is filled in, what it says stays.

| preset | for | fills |
|---|---|---|
| inference | answers near the people who ask | fastest, at most 100 ms from `latency_to`, lease class fast |
| training | long runs on strong, well connected machines | time 0.4, cost 0.4, transfer 0.2 |
| night | batch on idle capacity | cost 0.7, green 0.3, interruptible price, a slack of twelve hours |
| docking | thousands of small independent tasks | greenest, interruptible price, errors tried again |
| render | frames on cards | cost 0.6, time 0.4 |
| resident | data that may not leave its region | only the regions of its inputs (or `regions`) |

An expanded spec is an ordinary spec: it is shown, quoted and stored with every field that was filled in, and the preset's name beside
it. A preset is no policy of its own: the same fields written out give the same decision.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class Preset(StrEnum):
    INFERENCE = "inference"
    TRAINING = "training"
    NIGHT = "night"
    DOCKING = "docking"
    RENDER = "render"
    RESIDENT = "resident"


VERSION: Final = "1"
SLACK = "slack"

FILLS: Final[Mapping[Preset, Mapping[str, Any]]] = {
    Preset.INFERENCE: {
        "task_type": "inference",
        "on_disconnect": {"lease": "fast"},
        "placement": {"optimize": ["time", "cost"], "pick": "fastest", "max_latency_ms": 100},
    },
    Preset.TRAINING: {
        "task_type": "training",
        "placement": {
            "optimize": ["time", "cost", "transfer"],
            "pick": "weights",
            "weights": {"time": "0.4", "cost": "0.4", "transfer": "0.2"},
        },
    },
    Preset.NIGHT: {
        "resources": {"use_spot": True},
        "placement": {
            "optimize": ["cost", "green"],
            "pick": "weights",
            "weights": {"cost": "0.7", "green": "0.3"},
            SLACK: "12h",
        },
    },
    Preset.DOCKING: {
        "task_type": "simulation",
        "resources": {"use_spot": True},
        "retry": {"on_events": ["no-capacity", "interruption", "error"]},
        "placement": {"optimize": ["green", "cost"], "pick": "greenest"},
    },
    Preset.RENDER: {
        "task_type": "render",
        "placement": {"optimize": ["cost", "time"], "pick": "weights", "weights": {"cost": "0.6", "time": "0.4"}},
    },
    Preset.RESIDENT: {"placement": {"optimize": ["cost", "time", "green"], "pick": "knee"}},
}
"""Preset → fields of a spec, as somebody would write them."""

PICKS: Final = ("pick", "weights", SLACK)
"""They belong together: who names one of the first two has said how to choose, and whether waiting for green hours can help."""


def expand(fields: Mapping[str, Any], *, carried_out: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """`fields` of a spec with what its preset fills in; unchanged without a known preset. Fields that this version does not carry
    out (`carried_out`: section → fields) are left out.
    """
    placement = fields.get("placement")
    name = placement.get("preset") if isinstance(placement, Mapping) else None
    if not isinstance(name, str) or name not in list(Preset):
        return dict(fields)
    fills = FILLS[Preset(name)]
    made = dict(fields)
    for key, fill in fills.items():
        if not isinstance(fill, Mapping):
            made.setdefault(key, fill)
            continue
        given = made.get(key)
        if given is not None and not isinstance(given, Mapping):
            continue  # of a wrong shape: the reader says so
        made[key] = _filled(given or {}, fill, carried_out.get(key, ()))
    if name == Preset.RESIDENT:
        made["placement"] = _resident(made)
    return made


def _filled(given: Mapping[str, Any], fill: Mapping[str, Any], carried_out: tuple[str, ...]) -> dict[str, Any]:
    chosen = any(given.get(key) is not None for key in PICKS[:2])
    more = {
        key: value
        for key, value in fill.items()
        if key in carried_out and given.get(key) is None and not (chosen and key in PICKS)
    }
    return {**given, **more}


def _resident(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Only where the data is: the regions of its inputs, unless regions are named."""
    placement = dict(fields["placement"])
    inputs = fields.get("inputs")
    if not placement.get("regions") and isinstance(inputs, list):
        regions = [one["region"] for one in inputs if isinstance(one, Mapping) and isinstance(one.get("region"), str)]
        placement["regions"] = list(dict.fromkeys(regions))
    return placement
