"""Address → parameters of the vendor's types → rule: the whole interface that the twin serves, in one table."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import stripe.params as shapes
from stripe.params import billing_portal as portal_shapes
from stripe.params import checkout as checkout_shapes

from tests.fakes.stripe_twin import rules
from tests.fakes.stripe_twin.books import PLATFORM, Books, Refused

SEARCH_LAG = 60
"""Seconds until the vendor's search finds what was just made."""


@dataclass(frozen=True)
class Call:
    """A request that was read: parts of the address, checked parameters, the connected account it speaks for, our own address."""

    books: Books
    ids: tuple[str, ...]
    given: dict[str, Any]
    owner: str
    base: str


Deed = Callable[[Call], Any]


@dataclass(frozen=True)
class Route:
    method: str
    path: re.Pattern[str]
    shape: Any
    deed: Deed


def _list(kind: str, *filters: str) -> Deed:
    """The newest first, filtered by equal fields and by time, a page at a time."""

    def deed(call: Call) -> dict[str, Any]:
        rows = call.books.all(kind)
        for name in filters:
            if name in call.given:
                rows = [row for row in rows if row.get(name) == call.given[name]]
        rows = _in_time(rows, call.given.get("created"))
        return page(rows, call.given, f"/v1/{kind}s")

    return deed


def _in_time(rows: list[dict[str, Any]], asked: Any) -> list[dict[str, Any]]:
    tests = {"gte": int.__ge__, "gt": int.__gt__, "lte": int.__le__, "lt": int.__lt__}
    for name, bound in (asked or {}).items():
        rows = [row for row in rows if tests[name](row["created"], int(bound))]
    return rows


def page(rows: list[dict[str, Any]], given: dict[str, Any], url: str) -> dict[str, Any]:
    if given.get("starting_after"):
        at = [row["id"] for row in rows].index(given["starting_after"])
        rows = rows[at + 1 :]
    most = int(given.get("limit", 10))
    return {"object": "list", "url": url, "has_more": len(rows) > most, "data": rows[:most]}


def _search(kind: str) -> Deed:
    """By metadata, as ``metadata['key']:'value'`` joined with AND; what was made in the last minute is not found yet."""

    def deed(call: Call) -> dict[str, Any]:
        wanted = re.findall(r"metadata\['([^']+)'\]:'([^']*)'", call.given["query"])
        if not wanted:
            raise Refused(400, "parameter_invalid", "We could not parse your search query.", param="query")
        late = call.books.clock.now() - SEARCH_LAG
        rows = [
            row
            for row in call.books.all(kind)
            if row["created"] <= late and all(row["metadata"].get(key) == value for key, value in wanted)
        ]
        return {
            "object": "search_result",
            "url": f"/v1/{kind}s/search",
            "has_more": False,
            "next_page": None,
            "data": rows,
        }

    return deed


def _get(kind: str) -> Deed:
    return lambda call: call.books.get(call.ids[0], kind)


def _reversals(call: Call) -> dict[str, Any]:
    sent = call.books.get(call.ids[0], "transfer")
    return page(sent["reversals"]["data"], call.given, sent["reversals"]["url"])


def _hook(call: Call) -> dict[str, Any]:
    made = call.books.make(
        "webhook_endpoint", "we", url=call.given["url"], enabled_events=call.given["enabled_events"], status="enabled",
        secret="whsec_" + call.books.id("twin"), metadata={},
    )  # fmt: skip
    return made


def _unhook(call: Call) -> dict[str, Any]:
    call.books.get(call.ids[0], "webhook_endpoint")
    del call.books.objects[call.ids[0]]
    return {"id": call.ids[0], "object": "webhook_endpoint", "deleted": True}


def _account(call: Call) -> dict[str, Any]:
    return call.books.get(call.ids[0], "account")


def _route(method: str, path: str, shape: Any, deed: Deed) -> Route:
    return Route(method, re.compile("/v1/" + path.replace("{}", "([A-Za-z0-9_]+)")), shape, deed)


def _b(rule: Callable[..., Any], ids: int = 0) -> Deed:
    """A rule of (books, [id,] parameters)."""
    return lambda call: rule(call.books, *call.ids[:ids], call.given)


R = _route
ROUTES = [
    R("POST", "customers", shapes.CustomerCreateParams, _b(rules.customer)),
    R("GET", "customers", shapes.CustomerListParams, _list("customer", "email")),
    R("GET", "customers/search", shapes.CustomerSearchParams, _search("customer")),
    R("GET", "customers/{}", shapes.CustomerRetrieveParams, _get("customer")),
    R("POST", "customers/{}", shapes.CustomerUpdateParams, _b(rules.change_customer, 1)),
    R("GET", "customers/{}/payment_methods", shapes.CustomerPaymentMethodListParams,
      lambda call: page([m for m in call.books.all("payment_method") if m["customer"] == call.ids[0]], call.given, "/v1/payment_methods")),
    R("POST", "payment_methods", shapes.PaymentMethodCreateParams, _b(rules.payment_method)),
    R("GET", "payment_methods", shapes.PaymentMethodListParams, _list("payment_method", "customer", "type")),
    R("GET", "payment_methods/{}", shapes.PaymentMethodRetrieveParams, _get("payment_method")),
    R("POST", "payment_methods/{}/attach", shapes.PaymentMethodAttachParams, _b(rules.attach, 1)),
    R("POST", "setup_intents", shapes.SetupIntentCreateParams, _b(rules.setup_intent)),
    R("GET", "setup_intents/{}", shapes.SetupIntentRetrieveParams, _get("setup_intent")),
    R("POST", "setup_intents/{}/confirm", shapes.SetupIntentConfirmParams, _b(rules.confirm_setup, 1)),
    R("POST", "payment_intents", shapes.PaymentIntentCreateParams, _b(rules.payment_intent)),
    R("GET", "payment_intents", shapes.PaymentIntentListParams, _list("payment_intent", "customer")),
    R("GET", "payment_intents/search", shapes.PaymentIntentSearchParams, _search("payment_intent")),
    R("GET", "payment_intents/{}", shapes.PaymentIntentRetrieveParams, _get("payment_intent")),
    R("POST", "payment_intents/{}/confirm", shapes.PaymentIntentConfirmParams, _b(rules.confirm, 1)),
    R("POST", "payment_intents/{}/cancel", shapes.PaymentIntentCancelParams, _b(rules.cancel, 1)),
    R("GET", "charges", shapes.ChargeListParams, _list("charge", "customer", "payment_intent", "transfer_group")),
    R("GET", "charges/{}", shapes.ChargeRetrieveParams, _get("charge")),
    R("POST", "refunds", shapes.RefundCreateParams, _b(rules.refund)),
    R("GET", "refunds", shapes.RefundListParams, _list("refund", "charge", "payment_intent")),
    R("GET", "refunds/{}", shapes.RefundRetrieveParams, _get("refund")),
    R("POST", "checkout/sessions", checkout_shapes.SessionCreateParams, lambda call: rules.checkout(call.books, call.given, call.base)),
    R("GET", "checkout/sessions", checkout_shapes.SessionListParams, _list("checkout.session", "customer", "payment_intent", "status")),
    R("GET", "checkout/sessions/{}", checkout_shapes.SessionRetrieveParams, _get("checkout.session")),
    R("POST", "checkout/sessions/{}/expire", checkout_shapes.SessionExpireParams,
      lambda call: rules.expire_session(call.books, call.ids[0])),
    R("POST", "billing_portal/sessions", portal_shapes.SessionCreateParams, lambda call: rules.portal(call.books, call.given, call.base)),
    R("GET", "disputes", shapes.DisputeListParams, _list("dispute", "charge", "payment_intent")),
    R("GET", "disputes/{}", shapes.DisputeRetrieveParams, _get("dispute")),
    R("POST", "disputes/{}/close", shapes.DisputeCloseParams, lambda call: rules.close_dispute(call.books, call.ids[0], won=False)),
    R("POST", "accounts", shapes.AccountCreateParams, _b(rules.account)),
    R("GET", "accounts", shapes.AccountListParams, _list("account")),
    R("GET", "accounts/{}", shapes.AccountRetrieveParams, _account),
    R("POST", "accounts/{}", shapes.AccountUpdateParams, _b(rules.change_account, 1)),
    R("POST", "account_links", shapes.AccountLinkCreateParams, lambda call: rules.account_link(call.books, call.given, call.base)),
    R("POST", "transfers", shapes.TransferCreateParams, _b(rules.transfer)),
    R("GET", "transfers", shapes.TransferListParams, _list("transfer", "destination", "transfer_group")),
    R("GET", "transfers/{}", shapes.TransferRetrieveParams, _get("transfer")),
    R("POST", "transfers/{}/reversals", shapes.TransferReversalCreateParams, _b(rules.reversal, 1)),
    R("GET", "transfers/{}/reversals", shapes.TransferReversalListParams, _reversals),
    R("POST", "payouts", shapes.PayoutCreateParams, lambda call: rules.payout(call.books, call.given, call.owner)),
    R("GET", "payouts", shapes.PayoutListParams, _list("payout", "status")),
    R("GET", "payouts/{}", shapes.PayoutRetrieveParams, _get("payout")),
    R("GET", "balance", shapes.BalanceRetrieveParams, lambda call: rules.balance(call.books, call.owner)),
    R("GET", "balance_transactions", shapes.BalanceTransactionListParams, _list("balance_transaction", "type", "currency", "source")),
    R("GET", "balance_transactions/{}", shapes.BalanceTransactionRetrieveParams, _get("balance_transaction")),
    R("GET", "events", shapes.EventListParams, _list("event", "type")),
    R("GET", "events/{}", shapes.EventRetrieveParams, _get("event")),
    R("POST", "webhook_endpoints", shapes.WebhookEndpointCreateParams, _hook),
    R("GET", "webhook_endpoints", shapes.WebhookEndpointListParams, _list("webhook_endpoint")),
    R("DELETE", "webhook_endpoints/{}", shapes.WebhookEndpointDeleteParams, _unhook),
]  # fmt: skip


def find(method: str, path: str) -> tuple[Route, tuple[str, ...]]:
    """The route of an address and its ids; 404 for one that we do not serve."""
    for route in ROUTES:
        match = route.path.fullmatch(path)
        if match and route.method == method:
            return route, match.groups()
    raise Refused(404, "url_invalid", f"Unrecognized request URL ({method}: {path}).")


def owner_of(headers: Any) -> str:
    return headers.get("Stripe-Account") or PLATFORM
