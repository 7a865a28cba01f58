"""The fields of a job spec: which this version carries out, which it names but refuses, which it only warns about;
and the served JSON schema.

A field of the documentation that is not carried out yet answers `unsupported_field`, never silence; an unknown one
`unknown_field` with the nearest name.
"""

from collections.abc import Mapping
from typing import Any

from scheduling.domain.demand import Action, LeaseClass, Objective, Pick, Strategy, TaskType
from scheduling.domain.presets import Preset
from scheduling.domain.reasons import RetryEvent

JOB = ("name", "project", "priority", "max_price", "budget", "labels", "placement")
TASK = (
    "run",
    "setup",
    "task_type",
    "work",
    "resources",
    "envs",
    "secrets",
    "workdir",
    "inputs",
    "outputs",
    "network",
    "num_nodes",
    "max_duration",
    "retry",
    "on_disconnect",
    "checkpoint",
)
RESOURCES = (
    "cpus",
    "memory",
    "disk_size",
    "accelerators",
    "scu",
    "infra",
    "use_spot",
    "image_id",
    "labels",
    "job_recovery",
)
PLACEMENT = (
    "optimize",
    "pick",
    "weights",
    "min_green",
    "min_reliability",
    "max_latency_ms",
    "latency_to",
    "regions",
    "avoid",
    "verified",
    "deadline",
    "slack",
    "preset",
)
INPUT = ("url", "content", "path", "name", "description", "type", "size_bytes", "region", "sha256")
OUTPUT = ("path", "name", "description", "type", "size_bytes", "required")

SUPPORTED: dict[str, tuple[str, ...]] = {
    "": JOB + TASK,
    "budget": ("amount", "on_exceed"),
    "resources": RESOURCES,
    "resources.job_recovery": ("strategy", "max_restarts_on_errors", "recover_on_exit_codes"),
    "placement": PLACEMENT,
    "retry": ("on_events", "duration"),
    "on_disconnect": ("action", "for", "lease"),
    "network": ("mode", "hosts"),
    "checkpoint": ("path", "interval", "keep"),
    "inputs": INPUT,
    "outputs": OUTPUT,
}
UNSUPPORTED: dict[str, tuple[str, ...]] = {
    "": (
        "schedule",
        "stages",
        "needs",
        "array",
        "file_mounts",
        "service",
        "volumes",
        "config",
    ),
    "resources": ("shm_size", "ports", "any_of", "ordered", "instance_type"),
    "placement": ("max_regions",),
    "inputs": ("streamable",),
    "outputs": ("url", "path_prefix"),
}
IGNORED: dict[str, tuple[str, ...]] = {"resources": ("disk_tier", "network_tier", "accelerator_args", "autostop")}

_TEXT: dict[str, Any] = {"type": "string"}
_QUANTITY: dict[str, Any] = {"type": ["number", "string"]}
_DURATION: dict[str, Any] = {"type": "string", "pattern": "^[0-9]+[smhd]$"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}


def _one_of(kind: Any) -> dict[str, Any]:
    return {"type": "string", "enum": [str(member.value) for member in kind]}


def _object(where: str, properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    listed = {name: properties[name] for name in SUPPORTED[where]}
    return {
        "type": "object",
        "properties": listed,
        "additionalProperties": False,
        "x-unsupported": list(UNSUPPORTED.get(where, ())),
        "x-ignored": list(IGNORED.get(where, ())),
        **more,
    }


def schema() -> dict[str, Any]:
    """The job spec as a JSON schema; `x-unsupported` lists documented fields that this version refuses."""
    inputs = _object(
        "inputs",
        {
            "url": {
                "type": "string",
                "pattern": "^(https|artefact)://",
                "description": "https or artefact; or else content",
            },
            "content": _TEXT,
            "path": {"type": "string", "description": "under /job"},
            "name": _TEXT,
            "description": _TEXT,
            "type": {"type": "string", "enum": ["FILE", "DIRECTORY"], "default": "FILE"},
            "size_bytes": {
                "type": "integer",
                "minimum": 0,
                "description": "priced by size and region; without it counted as 0",
            },
            "region": _TEXT,
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        required=["path"],
    )
    outputs = _object(
        "outputs",
        {
            "path": _TEXT,
            "name": _TEXT,
            "description": _TEXT,
            "type": {"type": "string", "enum": ["FILE", "DIRECTORY"], "default": "FILE"},
            "size_bytes": {"type": "integer", "minimum": 0},
            "required": {"type": "boolean", "default": True},
        },
        required=["path"],
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Idlewild job spec (flat form)",
        **_object("", _top(inputs, outputs), required=["run"]),
    }


def _top(inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$"},
        "project": _TEXT,
        "priority": {"type": "integer", "minimum": 0, "maximum": 9, "default": 5},
        "max_price": {**_QUANTITY, "description": "most per hour and node; a job needs a quote or this"},
        "budget": {
            "anyOf": [
                _QUANTITY,
                _object("budget", {"amount": _QUANTITY, "on_exceed": {"enum": ["stop", "hold"], "default": "stop"}}),
            ]
        },
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "run": {"type": "string", "minLength": 1, "description": "/bin/sh -eu; /job is cwd and HOME"},
        "setup": _TEXT,
        "task_type": {
            **_one_of(TaskType),
            "description": "without it guessed from name, image and command; quotes say why",
        },
        "work": {**_QUANTITY, "description": "SCU-hours"},
        "envs": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
        "secrets": {
            "type": "object",
            "additionalProperties": {"type": "null"},
            "description": "names of stored secrets",
        },
        "workdir": {
            "type": "string",
            "description": "artefact://… or data:application/gzip;base64,… ; the command packs a local folder",
        },
        "inputs": {"type": "array", "items": inputs},
        "outputs": {"type": "array", "items": outputs},
        "network": _object(
            "network",
            {
                "mode": {"enum": ["none", "allow"], "default": "none"},
                "hosts": {**_TEXTS, "description": "host:port, reached through the proxy that https_proxy names"},
            },
        ),
        "num_nodes": {
            "type": "integer",
            "minimum": 1,
            "maximum": 16,
            "default": 1,
            "description": "a gang: so many nodes of one zone, all or none",
        },
        "max_duration": {**_DURATION, "default": "24h"},
        "retry": _object(
            "retry",
            {
                "on_events": {
                    "type": "array",
                    "items": _one_of(RetryEvent),
                    "default": ["no-capacity", "interruption"],
                },
                "duration": {**_DURATION, "default": "24h"},
            },
        ),
        "on_disconnect": _object(
            "on_disconnect",
            {
                "action": {**_one_of(Action), "default": "replace"},
                "for": _DURATION,
                "lease": {**_one_of(LeaseClass), "default": "standard"},
            },
        ),
        "checkpoint": _object(
            "checkpoint",
            {
                "path": {"type": "string", "description": "file or folder under /job that the job writes its state to"},
                "interval": {**_DURATION, "default": "10m", "description": "at least 1m"},
                "keep": {"type": "integer", "minimum": 1, "maximum": 10, "default": 2},
            },
            required=["path"],
        ),
        "resources": _object("resources", _resources()),
        "placement": _object("placement", _placement()),
    }


def _resources() -> dict[str, Any]:
    cards = {"description": "NAME:COUNT, 40GB..80GB:COUNT or virtual:COUNT; a map = any of, a list = in this order"}
    recovery = {
        "strategy": {**_one_of(Strategy), "default": "failover"},
        "max_restarts_on_errors": {"type": "integer", "minimum": 0, "default": 0},
        "recover_on_exit_codes": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 255}},
    }
    return {
        "cpus": {**_QUANTITY, "default": 1},
        "memory": {**_QUANTITY, "description": "GiB; default 2 per core"},
        "disk_size": {**_QUANTITY, "default": 20},
        "accelerators": {**cards, "type": ["string", "object", "array", "null"]},
        "scu": {**_QUANTITY, "description": "at least so many SCU for the task type"},
        "infra": {"type": "string", "default": "*", "description": "region/zone/node with *"},
        "use_spot": {"type": "boolean", "default": False},
        "image_id": {"type": "null"},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "job_recovery": _object("resources.job_recovery", recovery),
    }


def _placement() -> dict[str, Any]:
    return {
        "optimize": {"type": "array", "items": _one_of(Objective), "default": [str(o.value) for o in Objective]},
        "pick": {**_one_of(Pick), "default": "knee"},
        "weights": {"type": "object", "additionalProperties": _QUANTITY},
        "min_green": {**_QUANTITY, "default": 0},
        "min_reliability": {**_QUANTITY, "default": 0},
        "max_latency_ms": _QUANTITY,
        "latency_to": _TEXT,
        "regions": _TEXTS,
        "avoid": _TEXTS,
        "verified": {"type": "boolean", "default": True},
        "preset": {**_one_of(Preset), "description": "fills what is left open; quotes show it expanded"},
        "deadline": {"type": "string", "description": "latest end: a time (RFC 3339) or a duration"},
        "slack": {**_DURATION, "description": "so long the start may wait for greener or cheaper hours"},
    }
