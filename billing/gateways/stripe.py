"""The payment rail: the one place that speaks to Stripe. Without a key there is no rail, and pages say so.

Every call answers with facts of ours (`billing.domain.rail`), or with one of three errors that say what may be done next:

=============  ===================================================  ==========================================================
error          what happened                                        next
=============  ===================================================  ==========================================================
RailRefused    the rail said no: a declined card, a wrong amount    it stays so; a new attempt needs a new key
RailBusy       no answer, or "later" (409, 429)                     the same call under the same key
RailUnsure     a 500: it may have happened, and the rail replays    look the object up; only if it is not there, a new attempt
               the 500 under this key                               under a new key
=============  ===================================================  ==========================================================
"""

import functools
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import stripe
from django.conf import settings

from billing.domain.rail import (
    AccountFacts,
    BalanceEntry,
    DisputeFacts,
    PaymentFacts,
    RefundFacts,
    SessionFacts,
    TransferFacts,
)
from portal.kit.errors import BadRequest, Conflict, Unavailable
from portal.kit.money import Money

TAG = "idlewild"
"""Metadata key under which every object carries our id, and `ATTEMPT` the key of its call."""
ATTEMPT = "attempt"
LOCALES = {"zh-hans": "zh", "en": "en"}
TOLERANCE = timedelta(seconds=300)
CHARGED = ["latest_charge.balance_transaction"]


class NoRail(Conflict):
    """No payment rail is configured: asking again changes nothing."""

    code = "no_payment_rail"


class RailRefused(Conflict):
    """The rail refused for good. `reason` is its own code (``card_declined``, ``balance_insufficient`` …)."""

    code = "rail_refused"

    def __init__(self, detail: str, reason: str) -> None:
        super().__init__(detail)
        self.reason = reason


class RailBusy(Unavailable):
    """The rail gave no answer, or asked to come back; nothing is known to have happened."""

    code = "rail_busy"


class RailUnsure(Exception):
    """The rail broke in the middle: the object may be there or not."""


class BadSignature(BadRequest):
    """A webhook that the rail did not sign, or not now."""

    code = "bad_signature"


def configured() -> bool:
    """Whether a key is set."""
    return bool(settings.STRIPE_SECRET_KEY)


def client() -> stripe.StripeClient:
    """The rail's client, or NoRail."""
    if not configured():
        raise NoRail(
            "no payment rail is set up here: pay by bank transfer, or ask the operator to set STRIPE_SECRET_KEY"
        )
    return _client(settings.STRIPE_SECRET_KEY, settings.IDLEWILD_STRIPE_API_BASE)


@functools.cache
def _client(key: str, base: str) -> stripe.StripeClient:
    """Retries are ours (the outbox), so the library makes none."""
    if base:
        return stripe.StripeClient(key, base_addresses={"api": base}, max_network_retries=0)
    return stripe.StripeClient(key, max_network_retries=0)


def _ask(call: Any, *given: Any) -> Any:
    """One call; the vendor's errors as ours. What is refused by a code we can't see as final is unsure."""
    try:
        return call(*given)
    except (stripe.APIConnectionError, stripe.RateLimitError) as error:
        raise RailBusy(f"the payment service gave no answer: {error}", retry_after=60) from error
    except stripe.CardError as error:
        raise RailRefused(error.user_message or str(error), error.code or "card_declined") from error
    except stripe.InvalidRequestError as error:
        if error.http_status == 409:
            raise RailBusy(str(error), retry_after=5) from error
        raise RailRefused(error.user_message or str(error), error.code or "invalid_request") from error
    except (stripe.AuthenticationError, stripe.PermissionError) as error:
        raise RailBusy(f"the payment service does not know our key: {error}", retry_after=600) from error
    except stripe.IdempotencyError as error:
        if error.http_status == 409:
            raise RailBusy(str(error), retry_after=5) from error
        raise RailUnsure(str(error)) from error
    except stripe.StripeError as error:
        if error.http_status == 409:
            raise RailBusy(str(error), retry_after=5) from error
        raise RailUnsure(str(error)) from error


def _once(key: str) -> dict[str, Any]:
    return {"idempotency_key": key}


def _tag(reference: str, key: str) -> dict[str, str]:
    return {TAG: reference, ATTEMPT: key}


def _moment(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


# --- webhooks -----------------------------------------------------------------------------------------------------------------
def read_event(*, body: bytes, signature: str, now: datetime) -> dict[str, Any]:
    """The event of a signed body; BadSignature for a wrong secret, or a time more than 300 s away, in the past or in the future."""
    secret = settings.STRIPE_WEBHOOK_SECRET
    if not secret:
        raise NoRail("no webhook secret is set up here: set STRIPE_WEBHOOK_SECRET")
    try:
        stamps = [int(part[2:]) for part in signature.split(",") if part.startswith("t=")]
        text = body.decode()
        verified = len(stamps) == 1 and stripe.WebhookSignature.verify_header(text, signature, secret, None)
    except (ValueError, stripe.SignatureVerificationError):
        raise BadSignature("the signature is not the rail's: check the webhook secret") from None
    if not verified or abs(now.timestamp() - stamps[0]) > TOLERANCE.total_seconds():
        raise BadSignature("the signature is too old, or of the future: check both clocks")
    try:
        event = json.loads(text)
    except ValueError:
        raise BadRequest("the event is no JSON") from None
    if not isinstance(event, dict) or not isinstance(event.get("id"), str) or not isinstance(event.get("type"), str):
        raise BadRequest("the event has no id or no type")
    return event


# --- people and pages -------------------------------------------------------------------------------------------------------------
def create_customer(*, reference: str, name: str, email: str, key: str) -> str:
    """The id of a new customer."""
    given = {"name": name, "metadata": _tag(reference, key)} | ({"email": email} if email else {})
    return str(_ask(client().v1.customers.create, given, _once(key)).id)


def find_customer(*, reference: str, since: datetime) -> str | None:
    """The id of the customer that this call made, if it did."""
    return _found(client().v1.customers.list, {}, reference, since)


def create_checkout(
    *,
    reference: str,
    customer: str,
    amount: Money,
    title: str,
    success_url: str,
    cancel_url: str,
    language: str,
    save_card: bool,
    key: str,
) -> SessionFacts:
    """A hosted page on which `amount` is paid."""
    tags = _tag(reference, key)
    price = {"currency": amount.currency.lower(), "unit_amount": amount.minor, "product_data": {"name": title}}
    given: dict[str, Any] = {
        "mode": "payment",
        "customer": customer,
        "client_reference_id": reference,
        "line_items": [{"quantity": 1, "price_data": price}],
        "success_url": success_url,
        "cancel_url": cancel_url,
        "locale": LOCALES.get(language, "auto"),
        "metadata": tags,
        "payment_intent_data": {"metadata": tags, "description": title, "transfer_group": reference}
        | ({"setup_future_usage": "off_session"} if save_card else {}),
    }
    return _session(_ask(client().v1.checkout.sessions.create, given, _once(key)))


def find_checkout(*, reference: str, customer: str, since: datetime) -> SessionFacts | None:
    """The page that this call made, if it did."""
    found = _found_object(client().v1.checkout.sessions.list, {"customer": customer}, reference, since)
    return _session(found) if found else None


def session(wanted: str) -> SessionFacts:
    """That page as it is now."""
    return _session(_ask(client().v1.checkout.sessions.retrieve, wanted))


def expire_session(wanted: str) -> None:
    """Close a hosted page: nobody can pay on it any more. RailRefused when it was paid or is over."""
    _ask(client().v1.checkout.sessions.expire, wanted)


def create_portal(*, customer: str, return_url: str, language: str, key: str) -> str:
    """Address of the page on which a tenant minds its cards."""
    given = {"customer": customer, "return_url": return_url, "locale": LOCALES.get(language, "auto")}
    return str(_ask(client().v1.billing_portal.sessions.create, given, _once(key)).url)


def default_card(customer: str) -> tuple[str, str]:
    """(payment method, words for it) that a customer pays with by default; ("", "") if there is none."""
    found = _ask(client().v1.customers.retrieve, customer)
    wanted = _map(found.invoice_settings).get("default_payment_method")
    if not wanted:
        return "", ""
    method = _ask(client().v1.payment_methods.retrieve, wanted if isinstance(wanted, str) else wanted.id)
    card = _map(method.card)
    return str(method.id), f"{card.get('brand', method.type)} … {card.get('last4', '')}".strip()


# --- payments ------------------------------------------------------------------------------------------------------------------
def charge(*, reference: str, customer: str, method: str, amount: Money, title: str, key: str) -> PaymentFacts:
    """Take `amount` from a saved card now. RailRefused when it is declined or its owner would have to be asked."""
    given = {
        "amount": amount.minor,
        "currency": amount.currency.lower(),
        "customer": customer,
        "payment_method": method,
        "confirm": True,
        "off_session": True,
        "description": title,
        "transfer_group": reference,
        "metadata": _tag(reference, key),
        "expand": CHARGED,
    }
    return _payment(_ask(client().v1.payment_intents.create, given, _once(key)))


def find_charge(*, reference: str, customer: str, since: datetime) -> PaymentFacts | None:
    """The payment that this call made, if it did."""
    found = _found_object(client().v1.payment_intents.list, {"customer": customer}, reference, since)
    return payment(found.id) if found else None


def payment(intent: str) -> PaymentFacts:
    """That payment as it is now, with its charge and fee."""
    return _payment(_ask(client().v1.payment_intents.retrieve, intent, {"expand": CHARGED}))


def create_refund(*, reference: str, intent: str, amount: Money, key: str) -> RefundFacts:
    """Give a part of a payment back."""
    given = {"payment_intent": intent, "amount": amount.minor, "metadata": _tag(reference, key)}
    return _refund(_ask(client().v1.refunds.create, given, _once(key)))


def find_refund(*, reference: str, intent: str, since: datetime) -> RefundFacts | None:
    """The refund that this call made, if it did."""
    found = _found_object(client().v1.refunds.list, {"payment_intent": intent}, reference, since)
    return _refund(found) if found else None


def refund(wanted: str) -> RefundFacts:
    return _refund(_ask(client().v1.refunds.retrieve, wanted))


def dispute(wanted: str) -> DisputeFacts:
    """A dispute with every movement of money it made."""
    made = _ask(client().v1.disputes.retrieve, wanted)
    return DisputeFacts(
        id=made.id,
        intent=_id(made.payment_intent),
        charge=_id(made.charge),
        status=made.status,
        reason=made.reason,
        amount=_money(made.amount, made.currency),
        due_by=_moment(_map(made.evidence_details).get("due_by")),
        entries=tuple(_entry(row) for row in made.balance_transactions),
    )


# --- providers --------------------------------------------------------------------------------------------------------------------
def create_account(*, reference: str, name: str, email: str, country: str, key: str) -> AccountFacts:
    """An account for a provider, which it fills in on the rail's own pages."""
    given: dict[str, Any] = {
        "type": "express",
        "capabilities": {"transfers": {"requested": True}},
        "business_profile": {"name": name},
        "metadata": _tag(reference, key),
    }
    given |= {"country": country} if country else {}
    given |= {"email": email} if email else {}
    return _account(_ask(client().v1.accounts.create, given, _once(key)))


def find_account(*, reference: str, since: datetime) -> AccountFacts | None:
    """The account that this call made, if it did."""
    found = _found_object(client().v1.accounts.list, {}, reference, since)
    return _account(found) if found else None


def account(wanted: str) -> AccountFacts:
    return _account(_ask(client().v1.accounts.retrieve, wanted))


def create_account_link(*, account: str, return_url: str, refresh_url: str, key: str) -> tuple[str, datetime | None]:
    """(address, until when) of the page on which a provider fills in its account."""
    given = {"account": account, "type": "account_onboarding", "return_url": return_url, "refresh_url": refresh_url}
    made = _ask(client().v1.account_links.create, given, _once(key))
    return str(made.url), _moment(made.expires_at)


def create_transfer(
    *, reference: str, destination: str, amount: Money, group: str, source: str, key: str
) -> TransferFacts:
    """Send a provider its share. `source`: the one charge it comes from, if it is one."""
    given = {
        "amount": amount.minor,
        "currency": amount.currency.lower(),
        "destination": destination,
        "transfer_group": group,
        "metadata": _tag(reference, key),
    } | ({"source_transaction": source} if source else {})
    return _transfer(_ask(client().v1.transfers.create, given, _once(key)))


def find_transfer(*, reference: str, group: str, since: datetime) -> TransferFacts | None:
    """The transfer that this call made, if it did: by its group, as search lags."""
    found = _found_object(client().v1.transfers.list, {"transfer_group": group}, reference, since)
    return _transfer(found) if found else None


def transfer(wanted: str) -> TransferFacts:
    return _transfer(_ask(client().v1.transfers.retrieve, wanted))


def create_reversal(*, transfer: str, reference: str, amount: Money, key: str) -> str:
    """Take a part of a transfer back from the provider's balance; the id."""
    given = {"amount": amount.minor, "metadata": _tag(reference, key)}
    return str(_ask(client().v1.transfers.reversals.create, transfer, given, _once(key)).id)


def find_reversal(*, transfer: str, reference: str) -> str | None:
    """The reversal that this call made, if it did."""
    listing = _ask(client().v1.transfers.reversals.list, transfer, {"limit": 100})
    return next((str(row.id) for row in listing.auto_paging_iter() if _map(row.metadata).get(TAG) == reference), None)


# --- the balance --------------------------------------------------------------------------------------------------------------------
def balance() -> dict[str, int]:
    """What the rail holds for us per currency, available or not yet, in minor units."""
    found = _ask(client().v1.balance.retrieve)
    sums: dict[str, int] = {}
    for row in [*found.available, *found.pending]:
        sums[row.currency.upper()] = sums.get(row.currency.upper(), 0) + row.amount
    return sums


def movements(*, since: datetime) -> Iterator[BalanceEntry]:
    """Every movement of the rail's balance since then, newest first."""
    asked = {"created": {"gte": int(since.timestamp())}, "limit": 100}
    for row in _ask(client().v1.balance_transactions.list, asked).auto_paging_iter():
        yield _entry(row)


# --- reading ---------------------------------------------------------------------------------------------------------------------------
def _found_object(listing: Any, asked: Mapping[str, Any], reference: str, since: datetime) -> Any | None:
    """The object whose metadata names `reference`. Lists are exact at once, search lags by a minute; so it is a list that we ask."""
    given = {**asked, "limit": 100, "created": {"gte": int(since.timestamp()) - 300}}
    rows = _ask(listing, given).auto_paging_iter()
    return next((row for row in rows if _map(row.metadata).get(TAG) == reference), None)


def _found(listing: Any, asked: Mapping[str, Any], reference: str, since: datetime) -> str | None:
    found = _found_object(listing, asked, reference, since)
    return str(found.id) if found else None


def _map(value: Any) -> dict[str, Any]:
    """A nested object as a dict; an empty one for nothing."""
    return {} if value is None else dict(value.to_dict())


def _id(value: Any) -> str:
    """The id of what may be an id, an object or nothing."""
    return "" if value is None else str(getattr(value, "id", value))


def _money(minor: int, code: str) -> Money:
    return Money(int(minor), code.upper())


def _session(made: Any) -> SessionFacts:
    return SessionFacts(
        id=made.id,
        reference=_map(made.metadata).get(TAG, ""),
        status=made.status or "",
        url=made.url or "",
        expires_at=_moment(made.expires_at),
        intent=_id(made.payment_intent),
        setup=_id(made.setup_intent),
    )


def _payment(made: Any) -> PaymentFacts:
    charged = made.latest_charge
    entry = charged.balance_transaction if hasattr(charged, "balance_transaction") else None
    error = _map(made.last_payment_error)
    arrived = made.amount_received if made.status == "succeeded" else made.amount
    return PaymentFacts(
        id=made.id,
        reference=_map(made.metadata).get(TAG, ""),
        status=made.status,
        amount=_money(arrived, made.currency),
        charge=_id(charged) if made.status == "succeeded" else "",
        fee=_money(entry.fee, entry.currency) if entry is not None and hasattr(entry, "fee") else None,
        method=_id(made.payment_method),
        failure=error.get("code") or "",
        message=error.get("message") or "",
    )


def _refund(made: Any) -> RefundFacts:
    return RefundFacts(
        id=made.id,
        reference=_map(made.metadata).get(TAG, ""),
        status=made.status or "",
        amount=_money(made.amount, made.currency),
        charge=_id(made.charge),
        failure=getattr(made, "failure_reason", None) or "",
    )


def _account(made: Any) -> AccountFacts:
    wanted = _map(made.requirements)
    due = [*(wanted.get("currently_due") or []), *(wanted.get("past_due") or [])]
    return AccountFacts(
        id=made.id,
        reference=_map(made.metadata).get(TAG, ""),
        details_submitted=bool(made.details_submitted),
        payouts_enabled=bool(made.payouts_enabled),
        due=tuple(dict.fromkeys(due)),
        disabled_reason=wanted.get("disabled_reason") or "",
    )


def _transfer(made: Any) -> TransferFacts:
    return TransferFacts(
        id=made.id,
        reference=_map(made.metadata).get(TAG, ""),
        amount=_money(made.amount, made.currency),
        destination=_id(made.destination),
        reversed=_money(made.amount_reversed, made.currency),
    )


def _entry(row: Any) -> BalanceEntry:
    return BalanceEntry(
        id=row.id,
        kind=row.type,
        source=_id(row.source),
        amount=_money(row.amount, row.currency),
        fee=_money(row.fee, row.currency),
        net=_money(row.net, row.currency),
        at=datetime.fromtimestamp(row.created, UTC),
    )
