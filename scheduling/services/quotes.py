"""Quotes: the points of the front for a spec, with what each costs at least, probably and at most, promised for ten minutes."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.selectors.offers import LiveRow
from portal.accounts.models import Organisation, Project
from portal.accounts.selectors import organisations
from portal.api.errors import finding_wire
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.money import micro_text
from scheduling.domain import explain
from scheduling.domain.demand import JobSpec
from scheduling.domain.placement import Decision, decide_in_order
from scheduling.domain.quote import QuoteEvent, QuoteState, advance
from scheduling.models import Quote
from scheduling.selectors import asking, predictions, snapshot
from scheduling.selectors.footprint import Electricity
from scheduling.selectors.snapshot import Market
from scheduling.services import specs

HOLDS_FOR = timedelta(minutes=10)


def make(*, actor_org: Organisation, project: Project | None, spec: Any, by: str, now: datetime) -> Quote:
    """Ask what `spec` would cost now. InvalidInput with all errors of the spec; a quote without points names the refusals and what would help."""
    parsed = specs.read(spec, tenant=actor_org, project=project, now=now, needs_price=False, may_ask=True)
    job = parsed.spec
    if job.task.num_nodes > 1:
        raise InvalidInput(
            [
                Finding(
                    "num_nodes",
                    "unsupported_field",
                    _("a quote is for one node: submit a job of several with max_price"),
                )
            ]
        )
    owner = organisations.project(actor_org, job.project)
    market = snapshot.load(now=now)
    question = asking.of_spec(
        job.task,
        organisation=actor_org,
        name=job.name,
        max_price_micro=job.max_price_micro,
        now=now,
        past_due=asking.is_past_due(actor_org),
        project_id=owner.id,
    )
    decision = decide_in_order(
        question.requests, question.policy, market.table, market.paths, tiers=market.tiers, explain=True
    )
    shown = job.outward()
    chosen = decision.row is not None
    reason: dict[str, Any] = {
        "warnings": [finding_wire(warning) for warning in parsed.warnings],
        "task_type": None if parsed.guess is None else parsed.guess.form(),
        "run_time": _foreseen(job, actor_org, owner),
    }
    if chosen:
        reason |= {"why": decision.why(), "alternatives": decision.alternatives()}
    else:
        reason |= {"helps": [h.form() for r in question.requests for h in explain.helps(r, market.table, market.paths)]}
    return Quote.objects.create(
        organisation=actor_org,
        project=owner,
        made_by=by,
        spec=shown,
        spec_digest=spec_digest(shown),
        rental=job.task.resources.rental,
        currency=actor_org.currency,
        points=points(decision, market, slack_s=job.task.placement.slack_s),
        pick=_index_of(decision) if chosen else None,
        reason=reason,
        seen=_seen(decision),
        refused=[tier.form() for tier in decision.tiers or ()],
        created_at=now,
        expires_at=now + HOLDS_FOR,
    )


def use(*, quote: Quote, now: datetime) -> Quote:
    """Mark a quote as used, once; Conflict `quote_expired` when it is over or used. The caller's transaction holds it."""
    locked = Quote.objects.select_for_update(no_key=True).get(id=quote.id)
    over = locked.expires_at <= now
    state = QuoteState.EXPIRED if over and locked.state == QuoteState.OPEN else QuoteState(locked.state)
    if state is not QuoteState.OPEN:
        used = state is QuoteState.USED
        detail = (
            _("This quote was used already. Get a new one.") if used else _("This quote has expired. Get a new one.")
        )
        raise Conflict(detail, code="quote_expired", state=state.value)
    updated = Quote.objects.filter(id=quote.id, state=state).update(state=advance(state, QuoteEvent.USED))
    if updated != 1:  # another got there first
        raise Conflict(_("This quote was used already. Get a new one."), code="quote_expired")
    locked.state = QuoteState.USED
    return locked


def expire(*, now: datetime) -> int:
    """Close quotes that are over; returns how many."""
    with transaction.atomic():
        open_ones = Quote.objects.filter(state=QuoteState.OPEN, expires_at__lte=now)
        return open_ones.update(state=advance(QuoteState.OPEN, QuoteEvent.LAPSED))


def points(decision: Decision, market: Market, *, slack_s: int = 0) -> list[dict[str, Any]]:
    """The shown points with the price versions behind them, and what each would emit."""
    made = decision.points() if decision.row is not None else []
    request = decision.problem.request
    rental = request.rental
    power = Electricity.at(market.now)
    return [
        {
            **point,
            "prices": prices_of(market.live[point["node"]], rental, point["card_model"]),
            "window": dict(market.live[point["node"]].window or {}) or None,
            "carbon": power.of_point(point, slack_s=slack_s),
        }
        for point in made
    ]


def prices_of(live: LiveRow, rental: str, model: str) -> dict[str, Any]:
    """Per resource: sku, price version, unit price; as answers and leases show them."""
    found: dict[str, Any] = {}
    for resource, of_model in (("core", ""), ("card", model)):
        row = live.price(resource, rental, of_model)
        if row is None or (resource == "card" and not model):
            continue
        version, micro, tiers = row
        found[resource] = {
            "sku": f"{resource}:{of_model or '-'}:{rental}",
            "price_version": version,
            "unit_price_micro": micro,
            "unit_price": micro_text(micro),
            "tiers": [{"up_to_h": upto, "price_micro": price} for upto, price in tiers],
        }
    return found


def spec_digest(shown: Mapping[str, Any]) -> str:
    """What makes two specs the same: all but the name, which may have been made up."""
    rest = {key: value for key, value in shown.items() if key != "name"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _foreseen(job: JobSpec, tenant: Organisation, project: Project) -> dict[str, Any] | None:
    """What past runs say about how long it takes; None where the spec says it itself."""
    if job.task.work_micro is not None:
        return None
    past = predictions.history(organisation_id=tenant.id, project_id=project.id)
    return past.run_time(job.task, name=job.name).form()


def _index_of(decision: Decision) -> int | None:
    return None if decision.position is None else decision.shown.index(decision.position)


def _seen(decision: Decision) -> dict[str, Any]:
    tiers = {tier.tier: {"seen": tier.seen, "kept": tier.kept} for tier in decision.tiers or ()}
    return {**tiers, "front": len(decision.front.rows), "looked_at": decision.looked_at}
