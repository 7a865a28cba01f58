"""Offers: published, repriced, paused, withdrawn. The states are in :mod:`marketplace.domain.offer`.

A price is never changed: repricing closes the running price version and opens another, so that what was sold keeps what
it was sold at. Nothing here touches running leases.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.domain import pricing
from marketplace.domain.offer import Event, State, step
from marketplace.models import Node, Offer, PriceVersion
from marketplace.models.nodes import NodeState
from portal import ids
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.outbox.services import put


def publish(*, node: Node, terms: Mapping[str, Any], by: str, now: datetime) -> Offer:
    """Put the node's capacity up for sale. It is found at once, and bookable while the node is listed."""
    read = _read(node, terms, now, complete=True)
    with transaction.atomic():
        row = (
            Node.objects.select_for_update(of=("self",), no_key=True)
            .select_related("organisation", "zone__region")
            .get(id=node.id)
        )
        if row.state in (NodeState.INVITED, NodeState.RETIRED):
            raise Conflict(_("This node is %(state)s: it cannot be offered.") % {"state": row.state}, code="state")
        if Offer.objects.filter(
            node=row, state__in=[s.value for s in (State.DRAFT, State.PUBLISHED, State.PAUSED)]
        ).exists():
            raise Conflict(_("This node has an offer: reprice it, or withdraw it first."), code="offer_exists")
        state, _effects = step(State.DRAFT, Event.PUBLISH)
        offer = Offer.objects.create(
            node=row,
            state=state,
            currency=read.currency,
            hours=[span.wire() for span in read.hours or ()],
            windows=[span.wire() for span in read.windows or ()],
            green_ratio_ppm=read.green_ratio_ppm,
            until=read.until,
            created_at=now,
            published_at=now,
        )
        if read.refuse_past_due is not None and read.refuse_past_due != row.refuse_past_due:
            row.refuse_past_due = read.refuse_past_due
            row.save(update_fields=["refuse_past_due"])
        _open_prices(offer, read.prices, by, now)
        _note(offer, by, "offer.publish", now, {"prices": _shown(read.prices)})
        _announce(offer, "published", now)
    return offer


def reprice(*, offer: Offer, terms: Mapping[str, Any], by: str, now: datetime, start: datetime | None = None) -> Offer:
    """Other prices from now, or from `start`.

    Also other windows, hours, green ratio or end. What is not named stays.
    """
    if "currency" in terms and terms["currency"] != offer.currency:
        wrong = Finding("currency", "unchangeable", _("withdraw this offer and publish another one"))
        raise InvalidInput([wrong])
    if start is not None and start < now:
        raise InvalidInput([Finding("from", "past", _("now or a time to come"))])
    read = _read(offer.node, {**terms, "currency": offer.currency}, now, complete=False)
    begin = start or now
    with transaction.atomic():
        row = _locked(offer)
        if row.state not in (State.PUBLISHED, State.PAUSED):
            raise Conflict(_("This offer is %(state)s.") % {"state": row.state}, code="state")
        if row.prices.filter(valid_until=None, valid_from__gt=now).exists() and read.prices:
            raise Conflict(_("A new price is waiting for its time already."), code="reprice_pending")
        _replace_prices(row, read.prices, by, begin)
        for field, value in _changes(read).items():
            setattr(row, field, value)
        row.version += 1
        row.save()
        if read.refuse_past_due is not None:
            Node.objects.filter(id=row.node_id).update(refuse_past_due=read.refuse_past_due)
        _note(row, by, "offer.reprice", now, {"prices": _shown(read.prices), "from": begin.isoformat()})
        _announce(row, "repriced", now)
    return row


def pause(*, offer: Offer, by: str, now: datetime) -> Offer:
    """Sell nothing new for now."""
    return _move(offer, Event.PAUSE, by, now)


def resume(*, offer: Offer, by: str, now: datetime) -> Offer:
    """Sell again."""
    return _move(offer, Event.RESUME, by, now)


def withdraw(*, offer: Offer, by: str, now: datetime) -> Offer:
    """End the offer for good; running leases go on at their price."""
    return _move(offer, Event.WITHDRAW, by, now)


def withdraw_all(*, node: Node, by: str, now: datetime) -> None:
    """A node retires: what it offered ends."""
    for offer in Offer.objects.filter(node=node, state__in=[State.DRAFT, State.PUBLISHED, State.PAUSED]):
        _move(offer, Event.WITHDRAW, by, now)


def expire(*, now: datetime) -> int:
    """Offers whose `until` has come end; returns how many."""
    over = Offer.objects.filter(until__lte=now, state__in=[State.DRAFT, State.PUBLISHED, State.PAUSED])
    for offer in (ended := list(over)):
        _move(offer, Event.EXPIRE, "system", now)
    return len(ended)


def complete_prices(*, node: Node, by: str, now: datetime) -> None:
    """A card of another model was put in: it costs what the node's other cards cost, until the provider reprices."""
    offer = Offer.objects.filter(node=node, state__in=[State.PUBLISHED, State.PAUSED]).first()
    if offer is None:
        return
    latest: dict[tuple[str, str], pricing.Price] = {}
    for version in offer.prices.filter(resource="card", valid_until=None).order_by("id"):
        latest["card", version.rental] = pricing.Price(version.unit_price_micro, pricing.tiers_of(version.tiers))
    _replace_prices(offer, latest, by, now)


# --- inside
# ------------------------------------------------------------------------------------------------------------
def _read(node: Node, terms: Mapping[str, Any], now: datetime, *, complete: bool) -> pricing.Terms:
    organisation = node.organisation
    return pricing.read_terms(
        terms,
        currency=organisation.currency,
        timezone=organisation.period_timezone,
        now=now,
        complete=complete,
    )


def _locked(offer: Offer) -> Offer:
    return (
        Offer.objects.select_for_update(of=("self",), no_key=True)
        .select_related("node__organisation", "node__zone__region")
        .get(id=offer.id)
    )


def _move(offer: Offer, event: Event, by: str, now: datetime) -> Offer:
    with transaction.atomic():
        row = _locked(offer)
        state, _effects = step(State(row.state), event)
        row.state = state
        row.version += 1
        row.save(update_fields=["state", "version"])
        if state in (State.WITHDRAWN, State.EXPIRED):
            row.prices.filter(valid_until=None, valid_from__lte=now).update(valid_until=now)
        _note(row, by, f"offer.{event.value}", now, {"state": state.value})
        _announce(row, state.value, now)
    return row


def _changes(read: pricing.Terms) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if read.hours is not None:
        changes["hours"] = [span.wire() for span in read.hours]
    if read.windows is not None:
        changes["windows"] = [span.wire() for span in read.windows]
    if read.green_given:
        changes["green_ratio_ppm"] = read.green_ratio_ppm
    if read.until_given:
        changes["until"] = read.until
    return changes


def _models(node: Node) -> list[str]:
    """The card models of a node, or none."""
    return sorted(set(node.devices.filter(present=True).values_list("model", flat=True)))


def _skus(node: Node, prices: Mapping[tuple[str, str], pricing.Price]) -> dict[str, tuple[str, str, pricing.Price]]:
    """sku → (resource, rental, price); a card price counts for every model that the node has."""
    skus: dict[str, tuple[str, str, pricing.Price]] = {}
    for (resource, rental), price in sorted(prices.items(), key=lambda item: item[0]):
        for model in _models(node) if resource == "card" else [""]:
            skus[pricing.sku(resource, model, rental)] = (resource, rental, price)
    return skus


def _open_prices(offer: Offer, prices: Mapping[tuple[str, str], pricing.Price], by: str, start: datetime) -> None:
    for sku, (resource, rental, price) in _skus(offer.node, prices).items():
        _open_one(offer, sku, resource, rental, price, by, start)


def _replace_prices(offer: Offer, prices: Mapping[tuple[str, str], pricing.Price], by: str, start: datetime) -> None:
    """Close what changes and open its successor; an equal price stays the same version."""
    running = {version.sku: version for version in offer.prices.filter(valid_until=None)}
    for sku, (resource, rental, price) in _skus(offer.node, prices).items():
        version = running.get(sku)
        if version and (version.unit_price_micro, version.tiers) == (price.micro, pricing.tiers_json(price.tiers)):
            continue
        if version:
            closed = PriceVersion.objects.filter(id=version.id, valid_until=None).update(valid_until=start)
            if closed != 1:  # another repricing got there first
                raise Conflict(_("The price was changed a moment ago: look again."), code="reprice_pending")
        _open_one(offer, sku, resource, rental, price, by, start)


def _open_one(
    offer: Offer, sku: str, resource: str, rental: str, price: pricing.Price, by: str, start: datetime
) -> None:
    PriceVersion.objects.create(
        offer=offer,
        sku=sku,
        resource=resource,
        rental=rental,
        unit_price_micro=price.micro,
        currency=offer.currency,
        tiers=pricing.tiers_json(price.tiers),
        zone=str(offer.node.zone),
        provider=offer.node.organisation.public_id,
        valid_from=start,
        created_by=by,
    )


def _shown(prices: Mapping[tuple[str, str], pricing.Price]) -> dict[str, int]:
    return {f"{resource}:{rental}": price.micro for (resource, rental), price in sorted(prices.items())}


def _note(offer: Offer, by: str, deed: str, now: datetime, data: Mapping[str, Any]) -> None:
    note(
        actor=by,
        deed=deed,
        target=offer.public_id,
        organisation_id=offer.node.organisation_id,
        data={"node": offer.node.public_id, **data},
        now=now,
    )


def _announce(offer: Offer, what: str, now: datetime) -> None:
    """What is for sale has changed.

    Tasks that wait may fit now, so a cycle is asked for (scheduling keeps the topic).
    """
    put(
        topic="cycle.wanted",
        key=f"offer:{offer.public_id}:{ids.token(12)}",
        payload={"offer": offer.public_id, "node": offer.node.public_id, "what": what},
        now=now,
    )
