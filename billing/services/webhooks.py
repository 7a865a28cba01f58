"""What the rail tells us: each signed event once, row and effects in one transaction, from the object as it is now.

| what comes | answer | row |
|---|---|---|
| not signed, signed by another secret, or a time more than 300 s away | 400 | none |
| an event that was done | 200 | as it is |
| an event, and the rail can be asked | 200 | done, with its effects |
| an event, and the rail gives no answer | 503: the rail sends it again | none |
| an event that cannot be applied | 200 | dead, with the problem; operators are told |

The payload is not believed: it may be old, and events come in any order. It only says which object to fetch.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from billing.gateways import stripe as gateway
from billing.models import InboxState, WebhookInbox
from billing.services import disputes, mailing, payments, payments_settle, payouts, provider_accounts, refunds
from portal.kit.errors import IdlewildError

log = logging.getLogger("idlewild.billing")
Apply = Callable[[datetime], object]


def receive(*, body: bytes, signature: str, now: datetime) -> WebhookInbox:
    """Take an event in; the row. BadSignature (400) or, when the rail cannot be asked, Unavailable (503): nothing is kept then."""
    event = gateway.read_event(body=body, signature=signature, now=now)
    known = WebhookInbox.objects.filter(source="stripe", event_id=event["id"]).first()
    if known is not None:
        return known
    about = event.get("data", {}).get("object", {})
    apply, problem = None, ""
    try:
        apply = prepared(event["type"], about)  # asks the rail: before the transaction
    except gateway.RailRefused as refused:
        problem = refused.detail
    with transaction.atomic():
        row, new = WebhookInbox.objects.get_or_create(
            source="stripe",
            event_id=event["id"],
            defaults={"type": event["type"][:80], "about": str(about.get("id", ""))[:80], "received_at": now}
            | {"account": str(event.get("account") or "")[:80]},
        )
        if not new:  # its twin was faster
            return row
        row.state, row.problem = (InboxState.DEAD, problem[:500]) if problem else _applied(apply, now)
        if row.state == InboxState.DEAD:
            mailing.tell_operators(
                key=f"webhook:{row.event_id}",
                subject=f"Event {row.event_id} could not be applied · 事件处理失败",
                body=f"{row.type} about {row.about}: {row.problem}",
                now=now,
            )
        row.save(update_fields=["state", "problem"])
    return row


def _applied(apply: Apply | None, now: datetime) -> tuple[InboxState, str]:
    if apply is None:
        return InboxState.DONE, ""
    try:
        with transaction.atomic():
            apply(now)
    except IdlewildError as problem:
        log.exception("an event of the rail could not be applied")
        return InboxState.DEAD, f"{problem.code}: {problem.detail}"[:500]
    return InboxState.DONE, ""


def prepared(kind: str, about: Mapping[str, Any]) -> Apply | None:
    """Fetch what the event is about; what to do with it in the transaction, or None when it concerns nothing of ours."""
    wanted = str(about.get("id", ""))
    for start, prepare in PREPARE.items():
        if kind.startswith(start) and wanted:
            return prepare(wanted, about)
    return None


def _payment(wanted: str, about: Mapping[str, Any]) -> Apply:
    facts = gateway.payment(wanted)
    return lambda now: payments_settle.apply(facts=facts, now=now)


def _session(wanted: str, about: Mapping[str, Any]) -> Apply:
    facts = gateway.session(wanted)
    return lambda now: payments_settle.apply_session(facts=facts, now=now)


def _refund(wanted: str, about: Mapping[str, Any]) -> Apply:
    facts = gateway.refund(wanted)
    return lambda now: refunds.apply(facts=facts, now=now)


def _dispute(wanted: str, about: Mapping[str, Any]) -> Apply:
    facts = gateway.dispute(wanted)
    return lambda now: disputes.apply(facts=facts, now=now)


def _customer(wanted: str, about: Mapping[str, Any]) -> Apply:
    return lambda now: payments.note_card(customer=wanted, now=now)


def _account(wanted: str, about: Mapping[str, Any]) -> Apply:
    facts = gateway.account(wanted)
    return lambda now: provider_accounts.apply(facts=facts, now=now)


def _transfer(wanted: str, about: Mapping[str, Any]) -> Apply:
    facts = gateway.transfer(wanted)
    return lambda now: payouts.apply(facts=facts, now=now)


PREPARE: dict[str, Callable[[str, Mapping[str, Any]], Apply]] = {
    "payment_intent.": _payment,
    "checkout.session.": _session,
    "charge.dispute.": _dispute,
    "refund.": _refund,
    "customer.updated": _customer,
    "account.updated": _account,
    "transfer.": _transfer,
}
