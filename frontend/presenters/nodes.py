"""Nodes as rows and figures: contact, hardware, free capacity, onboarding checks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from frontend.presenters import figures, words
from frontend.presenters.topics import node_topic
from marketplace.domain.fingerprint import profile_of
from marketplace.domain.scu import WEIGHTS, scu

SUSPECT_MS = 15_000
"""Silent beyond what is normal for longer than this: called silent."""
UNITS = {"gflops": "GFLOPS", "tflops": "TFLOPS", "gb_s": "GB/s", "mb_s": "MB/s", "ms": "ms", "share": ""}
CHECK_ORDER = ("connected", "hardware", "isolation", "fingerprint")


@dataclass(frozen=True, slots=True)
class Contact:
    """Whether a node is heard, and when it last was."""

    state: str
    heard_at: datetime | None


def contact(node: Any, ages_ms: Mapping[str, int], now: datetime) -> Contact:
    capacity = capacity_of(node)
    heard_at = capacity.last_sync_at if capacity else None
    age = ages_ms.get(node.public_id)
    if node.state in ("invited", "retired"):
        return Contact("unknown", heard_at)
    if age is None:
        return Contact("silent" if heard_at else "unknown", heard_at)
    if age == 0:
        return Contact("online", now)
    return Contact("suspect" if age < SUSPECT_MS else "silent", heard_at)


def capacity_of(node: Any) -> Any | None:
    """The capacity row of scheduling, once the node was listed."""
    try:
        return node.capacity
    except ObjectDoesNotExist:
        return None


def hardware(node: Any, devices: Iterable[Any]) -> str:
    """4 cores · 2 × A100-80GB · 16 GiB."""
    if not node.cores_milli:
        return _("not read yet")
    count = node.cores_milli // 1000
    parts = [ngettext("%(n)s core", "%(n)s cores", count) % {"n": figures.cores(node.cores_milli)}]
    kinds: dict[str, int] = {}
    for device in devices:
        if device.present:
            kinds[device.model] = kinds.get(device.model, 0) + 1
    parts += [f"{number} × {model}" for model, number in sorted(kinds.items())]
    parts.append(figures.mebibytes(node.memory_mib))
    return " · ".join(parts)


def row(node: Any, ages_ms: Mapping[str, int], now: datetime, *, link: bool = True) -> dict[str, Any]:
    """A line of the node table."""
    devices = list(node.devices.all())
    heard = contact(node, ages_ms, now)
    capacity = capacity_of(node)
    return {
        "public_id": node.public_id,
        "name": node.name,
        "href": _href(node) if link else "",
        "organisation": node.organisation.name,
        "state": node.state,
        "contact": heard.state,
        "heard_at": heard.heard_at,
        "place": place(node),
        "hardware": hardware(node, devices),
        "virtual": any(device.virtual for device in devices),
        "free_cores": figures.cores(capacity.free_cores_milli) if capacity else figures.UNKNOWN,
        "free_cards": figures.number(capacity.free_cards) if capacity else figures.UNKNOWN,
        "isolation": node.isolation if node.executor else "",
    }


def _href(node: Any) -> str:
    name = "console:onboarding_node" if node.state == "invited" else "console:node"
    return reverse(name, args=[node.public_id])


def place(node: Any) -> str:
    return f"{node.zone.region.name} · {node.zone.name}"


def now(node: Any) -> dict[str, Any]:
    """What is in use at this moment."""
    capacity = capacity_of(node)
    if capacity is None:
        return {"used_cores": figures.UNKNOWN, "used_cards": figures.UNKNOWN, "cards": 0, "running": None}
    return {
        "used_cores": figures.cores(capacity.total_cores_milli - capacity.free_cores_milli),
        "used_cards": figures.number(capacity.total_cards - capacity.free_cards),
        "cards": capacity.total_cards,
        "running": node.attempts.filter(ended_at=None).count(),
    }


def checks(node: Any) -> list[dict[str, Any]]:
    """The onboarding checks in their order; the first one that still waits pulses."""
    known = {check["name"]: check for check in node.checks or []}
    found: list[dict[str, Any]] = []
    pulsing = False
    for name in (*CHECK_ORDER, *(name for name in known if name not in CHECK_ORDER)):
        check = known.get(name, {})
        state = check.get("state", "waiting")
        word = words.word("check", state)
        following = state == "waiting" and not pulsing
        pulsing = pulsing or following
        found.append(
            {
                "name": words.word("check_name", name).text,
                "state": state,
                "tone": word.tone,
                "icon": word.icon,
                "detail": _said(check.get("detail", "")),
                "fix": _said(check.get("fix", "")) if state == "failed" else "",
                "next": following,
            }
        )
    return found


def _said(sentence: str) -> str:
    """A stored sentence (English, as it was written down) in the reader's language, where the catalogue has it."""
    return _(sentence) if sentence else ""


CHECKED = {"gemm": "checked_gemm", "memory": "checked_memory", "stream": "stream_server"}
REFUSED = {
    "not_checked": gettext_lazy("The portal has not timed it itself: update the agent."),
    "claim_above_measured": gettext_lazy("It claims more than the portal measured."),
    "report_forged": gettext_lazy("It is above what the maker says the card can do."),
    "unreadable": gettext_lazy("Its figures cannot be read."),
}


def fingerprint(print_: Any) -> dict[str, Any]:
    """One measurement: every operator with its percentiles, what the portal timed itself first; SCU by kind of work."""
    metrics = print_.metrics or {}
    checked = metrics.get("checked") or {}
    timed = {CHECKED[kind]: value for kind, value in checked.items() if kind in CHECKED}
    rows = [operator(name, row, timed.get(name)) for name, row in metrics.get("operators", {}).items()]
    profile = profile_of(metrics, "cpu")
    units = [(words.word("task_type", kind).text, scu(profile, kind)) for kind in WEIGHTS]
    return {
        "measured_at": print_.measured_at,
        "suite": print_.suite,
        "short": print_.short,
        "state": print_.state,
        "reason": str(REFUSED.get(print_.reason, print_.reason)),
        "valid_until": print_.valid_until,
        "timed": bool(timed),
        "operators": sorted(rows, key=lambda row: (not row["checked"], row["name"])),
        "scu": [(name, figures.significant(value)) for name, value in units if value],
    }


def operator(name: str, row: Mapping[str, Any], timed: str | None) -> dict[str, Any]:
    """One operator: median and the slow tails of its speed, and how long an iteration takes."""
    unit = UNITS.get(row["unit"], row["unit"])
    waits = row.get("ms") or []
    return {
        "name": name,
        "checked": timed is not None,
        "value": f"{figures.significant(float(row['value']))} {unit}",
        "tails": [figures.significant(float(row[p])) for p in ("p95", "p99")],
        "ms": [figures.significant(float(each)) for each in waits] if any(float(each) for each in waits) else [],
        "portal": f"{figures.significant(float(timed))} {unit}" if timed else "",
    }


def programs(node: Any) -> list[tuple[str, str]]:
    """What a job finds in the node's system tree."""
    try:
        runtime = node.inventory.runtime
    except ObjectDoesNotExist:
        return []
    listed = runtime.get("programs", runtime) if isinstance(runtime, dict) else {}
    return sorted((str(name), str(version)) for name, version in listed.items() if not isinstance(version, dict | list))


def topic(node: Any) -> str:
    return node_topic(node.public_id)
