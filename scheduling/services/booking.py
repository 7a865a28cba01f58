"""Turn one decision into an attempt with a lease: the only place that takes capacity.

One short transaction: the task is locked (another worker's is skipped), capacity is taken by ``UPDATE … WHERE free >= x`` under
the offer's state and the price versions that were decided on, then attempt, lease and decision are written. What another took
first is an answer, not an error. A trigger on the lease stands behind all this.

The lease's price snapshot::

    {"currency": "CNY", "rental": "fixed", "items": {"core": {"sku", "price_version", "unit_price_micro", "tiers"}, "card": {…}},
     "discount_ppm": n, "transfer": {"link": "a→b", "bytes": n, "price_micro_per_gb": n}, "window": null}
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from billing.selectors import terms
from marketplace.domain import scu
from marketplace.models import Offer, PriceVersion
from marketplace.models.offers import OfferState
from marketplace.selectors.offers import LiveRow
from portal.outbox.services import put
from scheduling.domain import placement
from scheduling.domain.attempt import AttemptState
from scheduling.domain.columns import Row
from scheduling.domain.demand import TaskSpec
from scheduling.domain.fairness import Held
from scheduling.domain.filters import card_count
from scheduling.domain.job import TaskEvent, TaskState
from scheduling.domain.lease import LeaseState
from scheduling.domain.placement import Decision
from scheduling.models import Attempt, Lease, NodeState, PlacementDecision, Task
from scheduling.selectors import snapshot
from scheduling.selectors.snapshot import Market
from scheduling.services import leases, live, outcomes, quotes


class Outcome(StrEnum):
    BOOKED = "booked"
    NOT_MINE = "not_mine"  # another worker has the task, or it moved on
    TAKEN = "taken"  # the place was taken, closed or repriced meanwhile


@dataclass(frozen=True)
class Booked:
    """What became of a decision."""

    outcome: Outcome
    attempt: Attempt | None = None


class _Gone(Exception):
    """The place is not as it was decided on: roll back."""


def take(*, node_id: int, needs: Held) -> bool:
    """Take capacity of a node if it is open and all of it is free; False changes nothing."""
    updated = NodeState.objects.filter(
        node_id=node_id,
        open=True,
        kept_for="",
        free_cores_milli__gte=needs.cores_milli,
        free_memory_mib__gte=needs.memory_mib,
        free_disk_gib__gte=needs.disk_gib,
        free_cards__gte=needs.cards,
    ).update(
        free_cores_milli=F("free_cores_milli") - needs.cores_milli,
        free_memory_mib=F("free_memory_mib") - needs.memory_mib,
        free_disk_gib=F("free_disk_gib") - needs.disk_gib,
        free_cards=F("free_cards") - needs.cards,
    )
    return updated == 1  # 0: another got there first


def book(*, task: Task, decision: Decision, market: Market, now: datetime) -> Booked:
    """Place `task` as decided, or say why not."""
    row = decision.problem.table.rows[decision.place]
    needs = needed(decision)
    try:
        with transaction.atomic():
            mine = (
                Task.objects.select_for_update(skip_locked=True, no_key=True)
                .filter(id=task.id, state=TaskState.QUEUED, fence=task.fence)
                .first()
            )
            if mine is None:
                return Booked(Outcome.NOT_MINE)
            offer = market.live[row.node]
            if not take(node_id=offer.node_id, needs=needs) or not _as_decided(offer, now):
                raise _Gone
            attempt = _write(mine, decision, offer, row, needs, now)
            put(topic="agent.wake", key=attempt.public_id, payload={"node": row.node}, now=now)
            live.wake(row.node)
            live.changed(f"node.{row.node}")
    except (_Gone, IntegrityError):  # IntegrityError: the trigger of the lease saw what the row did not say
        return Booked(Outcome.TAKEN)
    return Booked(Outcome.BOOKED, attempt)


def needed(decision: Decision) -> Held:
    """What the chosen row must give."""
    request = decision.problem.request
    cards = int(card_count(request, decision.problem.table, slice(decision.place, decision.place + 1))[0])
    return Held(request.cores_milli, request.memory_mib, request.disk_gib, cards)


def _as_decided(offer: LiveRow, now: datetime) -> bool:
    """Is the offer still for sale, under the very price versions that were decided on?"""
    versions = [version for version, _, _ in offer.prices.values()]
    current = PriceVersion.objects.filter(public_id__in=versions, valid_from__lte=now).filter(
        Q(valid_until=None) | Q(valid_until__gt=now)
    )
    return Offer.objects.filter(id=offer.offer_id, state=OfferState.PUBLISHED).exists() and current.count() == len(
        versions
    )


def _write(task: Task, decision: Decision, offer: LiveRow, row: Row, needs: Held, now: datetime) -> Attempt:
    spec = TaskSpec.from_form(task.spec)
    fence = task.fence + 1
    outcomes.move(task=task, event=TaskEvent.PLACED, now=now, fence=fence, not_before=None)
    attempt = Attempt.objects.create(
        task=task,
        node_id=offer.node_id,
        number=fence,
        fence=fence,
        state=AttemptState.ASSIGNED,
        isolation=row.isolation,
        assigned_at=now,
    )
    devices = _devices(offer, row, needs.cards)
    accept_by = now + timedelta(milliseconds=leases.times(spec.lease_class).accept_ms)
    Lease.objects.create(
        attempt=attempt,
        node_id=offer.node_id,
        fence=fence,
        state=LeaseState.PENDING,
        lease_class=spec.lease_class,
        action=spec.on_disconnect,
        grace_ms=spec.wait_for_s * 1_000,
        cores_milli=needs.cores_milli,
        memory_mib=needs.memory_mib,
        disk_gib=needs.disk_gib,
        cards=needs.cards,
        card_model=row.card_model if needs.cards else "",
        devices=devices,
        prices=price_snapshot(decision, offer, row, needs, discount_ppm=terms.discount_ppm(task.job.organisation)),
        created_at=now,
        accept_by=accept_by,
        expires_at=accept_by,
    )
    _remember(task, attempt, decision, now)
    event = outcomes.Event(
        "attempt.assigned",
        attempt=attempt.public_id,
        task=task.public_id,
        data={"node": row.node, "name": row.name, "region": row.region, "zone": row.zone, "fence": fence},
    )
    outcomes.settle(job_id=task.job_id, now=now, happened=[event])
    return attempt


def _devices(offer: LiveRow, row: Row, count: int) -> list[str]:
    if not count:
        return []
    free = snapshot.devices_free(row=offer, model=row.card_model, virtual=row.virtual)
    if len(free) < count:
        raise _Gone
    return free[:count]


def price_snapshot(
    decision: Decision, offer: LiveRow, row: Row, needs: Held, *, discount_ppm: int = 0
) -> dict[str, Any]:
    """The prices that this lease keeps to its end, and the tenant's discount off them."""
    request = decision.problem.request
    prices = quotes.prices_of(offer, request.rental, row.card_model if needs.cards else "")
    items = {
        resource: {key: item[key] for key in ("sku", "price_version", "unit_price_micro", "tiers")}
        for resource, item in prices.items()
    }
    return {
        "currency": offer.currency,
        "rental": request.rental,
        "items": items,
        "discount_ppm": discount_ppm,
        "transfer": _transfer(decision, row),
        "window": dict(offer.window) if offer.window else None,
    }


def _transfer(decision: Decision, row: Row) -> dict[str, Any] | None:
    """What is moved between regions; several links are told as one at their mean price, so that the amount is the same."""
    lines = [line for line in decision.problem.paths.lines(decision.problem.request.data, row.region) if line["micro"]]
    if not lines:
        return None
    size, micro = sum(line["bytes"] for line in lines), sum(line["micro"] for line in lines)
    price = lines[0]["price_micro_per_gb"] if len(lines) == 1 else -(-micro * 10**9 // size)
    return {
        "link": ", ".join(line["link"] for line in lines),
        "bytes": size,
        "price_micro_per_gb": price,
        "lines": lines,
    }


def _remember(task: Task, attempt: Attempt, decision: Decision, now: datetime) -> PlacementDecision:
    inputs = decision.inputs()
    chosen = decision.chosen()
    return PlacementDecision.objects.create(
        task=task,
        attempt=attempt,
        decided_at=now,
        seed=0,  # no chance is involved: ties end in a total order
        versions={"policy": decision.problem.policy.version, "scu": scu.VERSION},
        inputs=inputs,
        digest=placement.digest(inputs),
        front={"size": len(decision.front.rows), "points": decision.points()},
        choice={**chosen, "why": decision.why()},
        alternatives=decision.alternatives(),
        seen={
            "looked_at": decision.looked_at,
            **{tier.tier: {"seen": tier.seen, "kept": tier.kept} for tier in decision.tiers or ()},
        },
        refused=[tier.form() for tier in decision.tiers or ()],
        transfer={"lines": chosen["transfer"], "micro": chosen["transfer_micro"]},
    )
