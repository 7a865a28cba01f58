"""Jobs and quotes as JSON: one function per thing."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from portal.kit.money import Money, micro_text
from scheduling.domain.reasons import ENDED, EndReason
from scheduling.domain.spec_values import micro_short
from scheduling.models import Attempt, Job, JobEvent, Lease, Quote, Task
from scheduling.selectors import explain

Shown = dict[str, Any]


def amount(micro: int | None, currency: str) -> Shown | None:
    """Micro-currency as ``{"amount", "currency"}``, up to six decimals."""
    return None if micro is None else {"amount": micro_text(micro), "currency": currency}


def quote(row: Quote, *, state: str = "") -> Shown:
    """A quote with its points, its choice and everything that was refused."""
    why = row.reason.get("why", {})
    chosen = row.points[row.pick] if row.pick is not None else None
    return {
        "id": row.public_id,
        "state": state or str(row.state),
        "project": row.project.slug,
        "rental": row.rental,
        "currency": row.currency,
        "points": [point(one) for one in row.points],
        "pick": row.pick,
        "reason": {**why, "text": explain.why_text(why, chosen) if chosen else ""},
        "alternatives": row.reason.get("alternatives", []),
        "warnings": row.reason.get("warnings", []),
        "helps": row.reason.get("helps", []),
        "task_type": row.reason.get("task_type"),
        "run_time": row.reason.get("run_time"),
        "seen": row.seen,
        "tiers": row.refused,
        "refused": [
            {**refusal, "tier": tier["tier"], "text": explain.refusal_text(refusal)}
            for tier in row.refused
            for refusal in tier["refused"]
        ],
        "spec": row.spec,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }


def point(row: Mapping[str, Any]) -> Shown:
    """One point: where, what it costs, how long, how green, what is moved."""
    code = row["currency"]
    green = None if row["green_ppm"] is None else micro_short(row["green_ppm"])
    return {
        "index": row["index"],
        "node": {"id": row["node"], "name": row["name"]},
        "offer": row["offer"],
        "region": row["region"],
        "zone": row["zone"],
        "provider": row["provider_name"],
        "isolation": row["isolation"],
        "virtual": row["virtual"],
        "card_model": row["card_model"],
        "cards": row["cards"],
        "rental": row["rental"],
        "price_per_hour": {"amount": row["price_per_hour"], "currency": code},
        "cost": {name: {"amount": text, "currency": code} for name, text in row["cost"].items()},
        "values": {
            "cost": row["cost"]["expected"],
            "time_s": row["time_s"],
            "green": green,
            "transfer": micro_text(row["transfer_micro"]),
        },
        "time_s": row["time_s"],
        "expected_s": row["expected_s"],
        "green_ratio": green,
        "scu": row["scu"],
        "transfer": {
            "bytes": sum(line["bytes"] for line in row["transfer"]),
            "cost": amount(row["transfer_micro"], code),
            "lines": [
                {
                    "link": line["link"],
                    "bytes": line["bytes"],
                    "price_per_gb": amount(line["price_micro_per_gb"], code),
                    "cost": amount(line["micro"], code),
                }
                for line in row["transfer"]
            ],
        },
        "prices": row.get("prices", {}),
        "window": row.get("window"),
        "carbon": row.get("carbon"),
        "roles": row["roles"],
    }


def job(row: Job, *, spec: bool = True) -> Shown:
    """A job; in lists without its spec."""
    budget = None
    if row.budget_minor is not None:
        budget = {**Money(row.budget_minor, row.currency).wire(), "on_exceed": row.budget_on_exceed}
    tasks = list(row.tasks.all())
    return {
        "id": row.public_id,
        "name": row.name,
        "project": row.project.slug,
        "state": str(row.state),
        "reason": row.reason,
        "priority": row.priority,
        "labels": row.labels,
        "rental": row.rental,
        "currency": row.currency,
        "max_price": amount(row.max_price_micro, row.currency),
        "budget": budget,
        "quote": row.quote.public_id if row.quote else None,
        "point": row.point,
        "cap": cap(row),
        "waiting": next((one.waiting for one in tasks if one.state == "queued" and one.waiting), None),
        "attempt": next((_live(attempt) for one in tasks for attempt in one.live_attempts), None),
        "tasks": {"count": len(tasks), "ended": sum(one.ended_at is not None for one in tasks)},
        "submitted_by": row.submitted_by,
        "cancel_requested_at": row.cancel_requested_at,
        "created_at": row.created_at,
        "ended_at": row.ended_at,
        **({"spec": row.spec} if spec else {}),
    }


def _live(row: Attempt) -> Shown:
    """Where the job stands now: a silent node shows here, while the job itself is still `running`."""
    return {
        "id": row.public_id,
        "state": str(row.state),
        "phase": row.phase,
        "node": {"id": row.node.public_id, "name": row.node.name},
    }


def cap(row: Job) -> Shown:
    """What binds the job: price per hour, prices and window of the chosen point, its most."""
    if row.quote is None or row.point is None:
        return {"price_per_hour": amount(row.max_price_micro, row.currency), "high": None, "prices": {}, "window": None}
    chosen = row.quote.points[row.point]
    return {
        "price_per_hour": {"amount": chosen["price_per_hour"], "currency": row.currency},
        "high": {"amount": chosen["cost"]["high"], "currency": row.currency},
        "prices": chosen.get("prices", {}),
        "window": chosen.get("window"),
    }


def task(row: Task) -> Shown:
    """A task."""
    return {
        "id": row.public_id,
        "name": row.name,
        "index": row.index,
        "state": str(row.state),
        "fence": row.fence,
        "reason": row.reason,
        "text": _(ENDED[EndReason(row.reason)].text) if row.reason else "",
        "waiting": row.waiting,
        "waiting_since": row.waiting_since,
        "not_before": row.not_before,
        "excluded_nodes": row.excluded_nodes,
        "retries_asked": row.retries_asked,
        "queued_at": row.queued_at,
        "ended_at": row.ended_at,
    }


def attempt(row: Attempt) -> Shown:
    """An attempt with its node, its lease and how it ended."""
    zone = row.node.zone
    return {
        **explain.attempt_line(row),
        "id": row.public_id,
        "task": row.task.public_id,
        "task_name": row.task.name,
        "node": {"id": row.node.public_id, "name": row.node.name},
        "region": zone.region.slug,
        "zone": zone.slug,
        "provider": row.node.organisation.name,
        "phase": row.phase,
        "resumed_from": row.resumed_from or None,
        "frozen": row.frozen,
        "network_bytes": row.stats.get("network_bytes"),
        "isolation": row.isolation,
        "actor": row.actor,
        "displaced_by": row.displaced_by or None,
        "decision": row.decision.public_id if hasattr(row, "decision") else None,
        "assigned_at": row.assigned_at,
        "accepted_at": row.accepted_at,
        "started_at": row.started_at,
        "proven_until": row.proven_until,
        "ended_at": row.ended_at,
        "lease": lease(row.lease) if hasattr(row, "lease") else None,
    }


def lease(row: Lease) -> Shown:
    """The place that an attempt holds, and the prices it keeps."""
    return {
        "id": row.public_id,
        "state": str(row.state),
        "class": row.lease_class,
        "action": row.action,
        "cores": micro_short(row.cores_milli * 1_000),
        "memory_mib": row.memory_mib,
        "disk_gib": row.disk_gib,
        "cards": row.cards,
        "card_model": row.card_model,
        "rental": row.prices.get("rental"),
        "currency": row.prices.get("currency"),
        "prices": {
            name: {**item, "unit_price": micro_text(item["unit_price_micro"])}
            for name, item in row.prices.get("items", {}).items()
        },
        "transfer": row.prices.get("transfer"),
        "window": row.prices.get("window"),
    }


def event(row: JobEvent) -> Shown:
    """Something that happened."""
    return {
        "id": row.public_id,
        "sequence": row.sequence,
        "type": row.type,
        "task": row.task or None,
        "attempt": row.attempt or None,
        "data": row.data,
        "created_at": row.created_at,
    }
