"""Webhooks: endpoints of an organisation, events for them, and their sending until they are received.

An event is written inside the transaction of what happened (`emit`), so it is told if and only if that happened. The
sender (`deliver`, every second on a queue of its own, and at once after a commit) claims what is due by moving its date,
sends outside of any transaction, side by side, and writes down how it went: at least once, in no order; `sequence` grows per
object. A slow receiver delays its own deliveries only: of one endpoint at most `PER_ENDPOINT` are under way at once.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from portal import clock, ids, vault
from portal.accounts.gateways import webhooks as gateway
from portal.accounts.models import Membership, Organisation, Role, WebhookDelivery, WebhookEndpoint, WebhookEvent
from portal.accounts.services import shapes
from portal.audit.services import note
from portal.kit import webhooks as rules
from portal.kit.errors import Conflict, Finding
from portal.outbox.services import put

MOST_ENDPOINTS = 20
BATCH, LOOK_AT, PER_ENDPOINT, SIDE_BY_SIDE = 60, 1_000, 5, 20
CLAIMED_FOR = timedelta(seconds=60)
"""A sender that died is followed after so long; far more than one try may take."""
KEPT_FOR = timedelta(days=30)
TRIES_SHOWN = 20


@dataclass(frozen=True)
class Made:
    """An endpoint, and the secret that is never shown again."""

    endpoint: WebhookEndpoint
    secret: str


# --- endpoints
# -------------------------------------------------------------------------------------------------------
def create(
    *, organisation: Organisation, url: str, types: Sequence[str], by: str, now: datetime, description: str = ""
) -> Made:
    """A new endpoint; InvalidInput names what is wrong with its address or types."""
    _check(url, types)
    secret = f"whsec_{ids.token(40)}"
    with transaction.atomic():
        Organisation.objects.select_for_update(no_key=True).get(id=organisation.id)
        mine = WebhookEndpoint.objects.filter(organisation=organisation)
        if mine.count() >= MOST_ENDPOINTS:
            raise Conflict(_("An organisation has at most %(n)s endpoints.") % {"n": MOST_ENDPOINTS}, code="too_many")
        if mine.filter(url=url).exists():
            raise Conflict(_("There is an endpoint of this address already."), code="webhook_exists")
        made = WebhookEndpoint(
            organisation=organisation,
            url=url,
            types=sorted(set(types)),
            description=description.strip()[:120],
            created_by=by,
            created_at=now,
        )
        made.sealed = vault.encrypt(secret, about=_about(made))
        made.save()
        _note(made, "webhook.create", by, now, {"url": url, "types": made.types})
    return Made(made, secret)


def change(*, endpoint: WebhookEndpoint, by: str, now: datetime, **values: Any) -> WebhookEndpoint:
    """`url`, `types`, `description`, `enabled`. Enabling again forgives the failures of before."""
    with transaction.atomic():
        row = WebhookEndpoint.objects.select_for_update(no_key=True).get(id=endpoint.id)
        changed = {name: value for name, value in values.items() if getattr(row, name) != value}
        _check(changed.get("url", row.url), changed.get("types", row.types))
        if (
            "url" in changed
            and WebhookEndpoint.objects.filter(organisation=row.organisation, url=changed["url"]).exists()
        ):
            raise Conflict(_("There is an endpoint of this address already."), code="webhook_exists")
        for name, value in changed.items():
            setattr(row, name, value)
        if changed.get("enabled"):
            row.failing_since = None
        row.save()
        if changed:
            _note(row, "webhook.change", by, now, {"fields": sorted(changed)})
    return row


def rotate(*, endpoint: WebhookEndpoint, by: str, now: datetime) -> Made:
    """A new secret; the old one signs too for a day."""
    secret = f"whsec_{ids.token(40)}"
    with transaction.atomic():
        row = WebhookEndpoint.objects.select_for_update(no_key=True).get(id=endpoint.id)
        row.sealed_before, row.before_until = row.sealed, now + rules.SECRET_OVERLAP
        row.sealed = vault.encrypt(secret, about=_about(row))
        row.save()
        _note(row, "webhook.rotate", by, now)
    return Made(row, secret)


def delete(*, endpoint: WebhookEndpoint, by: str, now: datetime) -> None:
    """It and its deliveries go."""
    with transaction.atomic():
        _note(endpoint, "webhook.delete", by, now, {"url": endpoint.url})
        WebhookEndpoint.objects.filter(id=endpoint.id).delete()


def test(*, endpoint: WebhookEndpoint, by: str, now: datetime) -> WebhookDelivery:
    """Send ``endpoint.test`` to it, whatever types it wants."""
    with transaction.atomic():
        row = _event(endpoint.organisation_id, "endpoint.test", endpoint.public_id, None, {"by": by}, now)
        delivery = WebhookDelivery.objects.create(endpoint=endpoint, event=row, due_at=now, created_at=now)
        transaction.on_commit(_nudge, robust=True)
    return delivery


def resend(*, delivery: WebhookDelivery, by: str, now: datetime) -> WebhookDelivery:
    """Send it again, with all its tries, whether it was received or not. Conflict while it is due anyway."""
    with transaction.atomic():
        updated = (
            WebhookDelivery.objects.filter(id=delivery.id)
            .exclude(state="due")
            .update(state="due", tries=0, due_at=now, ended_at=None)
        )
        if updated != 1:
            raise Conflict(_("It is still being sent."), code="webhook_due")
        _note(delivery.endpoint, "webhook.resend", by, now, {"delivery": delivery.public_id})
        transaction.on_commit(_nudge, robust=True)
    delivery.refresh_from_db()
    return delivery


# --- events
# ----------------------------------------------------------------------------------------------------------
def emit(
    *,
    organisation_id: int,
    type: str,
    subject: str,
    data: Mapping[str, Any],
    now: datetime,
    sequence: int | None = None,
) -> WebhookEvent | None:
    """Tell an organisation's endpoints, in the running transaction. None when none of them wants it.

    `sequence` grows per subject; without it the next number of the subject is taken (its row must be locked). The same
    (subject, type, sequence) again is no second event.
    """
    wanted = [
        endpoint
        for endpoint in WebhookEndpoint.objects.filter(organisation_id=organisation_id, enabled=True).order_by("id")
        if not endpoint.types or type in endpoint.types
    ]
    if not wanted:
        return None
    row = _event(organisation_id, type, subject, sequence, data, now)
    WebhookDelivery.objects.bulk_create(
        [WebhookDelivery(endpoint=endpoint, event=row, due_at=now, created_at=now) for endpoint in wanted],
        ignore_conflicts=True,
    )
    transaction.on_commit(_nudge, robust=True)
    return row


def listening() -> frozenset[int]:
    """The organisations that have an endpoint: one small question instead of one per event."""
    return frozenset(WebhookEndpoint.objects.filter(enabled=True).values_list("organisation_id", flat=True))


def _event(
    organisation_id: int, type: str, subject: str, sequence: int | None, data: Mapping[str, Any], now: datetime
) -> WebhookEvent:
    if sequence is None:
        last = WebhookEvent.objects.filter(subject=subject).aggregate(last=Max("sequence"))["last"]
        sequence = (last or 0) + 1
    row, _made = WebhookEvent.objects.get_or_create(
        subject=subject,
        type=type,
        sequence=sequence,
        defaults={
            "public_id": ids.public_id("evt", at=now),
            "organisation_id": organisation_id,
            "data": dict(data),
            "created_at": now,
        },
    )
    return row


def body_of(event: WebhookEvent) -> bytes:
    """The same bytes at every try."""
    shown = {
        "id": event.public_id,
        "type": event.type,
        "created": event.created_at.isoformat().replace("+00:00", "Z"),
        "sequence": event.sequence,
        "data": event.data,
    }
    return json.dumps(shown, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


# --- sending
# ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Try:
    delivery: WebhookDelivery
    url: str
    body: bytes
    secrets: tuple[str, ...]


def deliver(*, now: datetime) -> int:
    """Send what is due; returns how many were received."""
    tries = _claim(now)
    if not tries:
        return 0
    outcomes = asyncio.run(_send_all(tries, now))
    for one, outcome in zip(tries, outcomes, strict=True):
        _write_down(one.delivery, outcome, max(now, clock.now()))
    return sum(outcome.received for outcome in outcomes)


def _claim(now: datetime) -> list[_Try]:
    with transaction.atomic():
        due = list(
            WebhookDelivery.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("endpoint", "event")
            .filter(state="due", due_at__lte=now, endpoint__enabled=True)
            .order_by("due_at", "id")[:LOOK_AT]
        )
        taken: list[WebhookDelivery] = []
        per: Counter[int] = Counter()
        for row in due:
            per[row.endpoint_id] += 1
            if per[row.endpoint_id] <= PER_ENDPOINT and len(taken) < BATCH:
                taken.append(row)
        WebhookDelivery.objects.filter(id__in=[row.id for row in taken]).update(due_at=now + CLAIMED_FOR)
    return [_Try(row, row.endpoint.url, body_of(row.event), _secrets(row.endpoint, now)) for row in taken]


def _secrets(endpoint: WebhookEndpoint, now: datetime) -> tuple[str, ...]:
    sealed = [endpoint.sealed]
    if endpoint.sealed_before and endpoint.before_until is not None and endpoint.before_until > now:
        sealed.append(endpoint.sealed_before)
    return tuple(vault.decrypt(one, about=_about(endpoint)) for one in sealed)


async def _send_all(tries: Sequence[_Try], now: datetime) -> list[gateway.Outcome]:
    side_by_side = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one_by_turn(one: _Try) -> gateway.Outcome:
        async with side_by_side:
            return await _send(one, now)

    return await asyncio.gather(*(one_by_turn(one) for one in tries))


async def _send(one: _Try, now: datetime) -> gateway.Outcome:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Idlewild-Webhooks/1",
        "Idlewild-Event": one.delivery.event.public_id,
        "Idlewild-Attempt": str(len(one.delivery.log) + 1),
        "Idlewild-Signature": rules.signature(one.secrets, one.body, at=int(now.timestamp())),
    }
    return await gateway.send(one.url, one.body, headers, private=settings.IDLEWILD_PRIVATE_WEBHOOKS)


def _write_down(delivery: WebhookDelivery, outcome: gateway.Outcome, now: datetime) -> None:
    tried = {"at": now.isoformat(), "status": outcome.status, "error": outcome.error, "ms": outcome.ms}
    tries = delivery.tries + 1
    again = None if outcome.received else rules.next_try(tries=tries, now=now)
    state = "delivered" if outcome.received else "due" if again is not None else "failed"
    with transaction.atomic():
        endpoint = WebhookEndpoint.objects.select_for_update(no_key=True).filter(id=delivery.endpoint_id).first()
        updated = WebhookDelivery.objects.filter(id=delivery.id, state="due", tries=delivery.tries).update(
            state=state,
            tries=tries,
            due_at=again or now,
            ended_at=None if state == "due" else now,
            log=[*delivery.log, tried][-TRIES_SHOWN:],
        )
        if updated != 1 or endpoint is None:  # deleted, or sent by another meanwhile
            return
        if outcome.received:
            if endpoint.failing_since is not None:
                WebhookEndpoint.objects.filter(id=endpoint.id).update(failing_since=None)
        elif endpoint.failing_since is None:
            WebhookEndpoint.objects.filter(id=endpoint.id).update(failing_since=now)
        elif endpoint.enabled and now - endpoint.failing_since >= rules.DISABLED_AFTER:
            _disable(endpoint, now)


def _disable(endpoint: WebhookEndpoint, now: datetime) -> None:
    WebhookEndpoint.objects.filter(id=endpoint.id).update(enabled=False)
    WebhookDelivery.objects.filter(endpoint=endpoint, state="due").update(state="failed", ended_at=now)
    _note(endpoint, "webhook.disabled", "system", now, {"failing_since": str(endpoint.failing_since)})
    admins = Membership.objects.filter(organisation=endpoint.organisation, role__in=[Role.OWNER, Role.ADMIN])
    to = sorted(set(admins.values_list("user__email", flat=True)))
    body = _(
        "Nothing sent to %(url)s was received for five days, so it gets nothing more. "
        "Mend it, then enable it again in the settings."
    )
    put(
        topic="mail",
        key=f"webhook-disabled.{endpoint.public_id}.{now:%Y%m%d%H%M}",
        payload={"to": to, "subject": _("A webhook is switched off"), "body": body % {"url": endpoint.url}},
        now=now,
    )


def expire(*, now: datetime) -> int:
    """Forget events of more than 30 days ago."""
    return WebhookEvent.objects.filter(created_at__lt=now - KEPT_FOR).delete()[0]


def reseal() -> int:
    """All secrets under the vault's first key; returns how many were changed."""
    count = 0
    for row in WebhookEndpoint.objects.order_by("id"):
        fresh = vault.rotate(row.sealed, about=_about(row))
        before = vault.rotate(row.sealed_before, about=_about(row)) if row.sealed_before else ""
        if (fresh, before) != (row.sealed, row.sealed_before):
            WebhookEndpoint.objects.filter(id=row.id).update(sealed=fresh, sealed_before=before)
            count += 1
    return count


def _check(url: str, types: Sequence[str]) -> None:
    wrong = gateway.check(url, private=settings.IDLEWILD_PRIVATE_WEBHOOKS) if len(url) <= 500 else "too long"
    words = {
        "not an address": _("this is no address"),
        "an address begins with https://": _("an address begins with https://"),
        "no user or password in the address": _("no user or password in the address"),
        "too long": _("an address has at most 500 characters"),
    }
    shapes.refuse(
        [
            Finding("url", "bad_url", words[wrong]) if wrong else None,
            *(
                Finding(f"types[{place}]", "unknown_type", _("one of %(known)s") % {"known": ", ".join(rules.TYPES)})
                for place, kind in enumerate(types)
                if kind not in rules.TYPES
            ),
        ]
    )


def _about(endpoint: WebhookEndpoint) -> str:
    return f"webhook:{endpoint.public_id}"


def _note(endpoint: WebhookEndpoint, deed: str, by: str, now: datetime, data: Mapping[str, Any] | None = None) -> None:
    note(
        actor=by, deed=deed, target=endpoint.public_id, organisation_id=endpoint.organisation_id, data=data or {}, now=now
    )  # fmt: skip


def _nudge() -> None:
    current_app.send_task("portal.webhooks", queue="webhooks", ignore_result=True, retry=False, expires=5)
