"""What the vendor's service does with each request: payments, refunds, disputes, accounts, transfers, payouts.

Functions take the books and the checked parameters and answer with an object. They refuse what the real service refuses: a declined card, a refund
beyond its charge, a transfer beyond the balance, a reversal beyond what the destination has, an amount that the currency cannot take.
"""

from typing import Any

from tests.fakes.stripe_twin import amounts, vendor
from tests.fakes.stripe_twin.books import DAY, PLATFORM, Books, Refused

GOOD, DECLINED, ASKS, SLOW = "4242424242424242", "4000000000000002", "4000002500003155", "4000000000000077"
"""Card numbers: succeeds · is declined · asks its owner first (3-D Secure) · stays in processing."""
TOKENS = {"pm_card_visa": GOOD, "pm_card_chargeDeclined": DECLINED, "pm_card_authenticationRequired": ASKS}
Params = dict[str, Any]
Object = dict[str, Any]


def _amount(amount: int, currency: str, param: str = "amount") -> None:
    wrong = amounts.problem(amount, currency)
    if wrong:
        raise Refused(400, wrong[0], wrong[1], param=param)


# --- customers and cards -------------------------------------------------------------------------------------------------
def customer(books: Books, given: Params) -> Object:
    kept = {name: given[name] for name in ("email", "name", "description", "phone") if name in given}
    made = books.make("customer", "cus", **kept, metadata=given.get("metadata", {}), balance=0, delinquent=False)
    made["invoice_settings"] = {
        "default_payment_method": None,
        "custom_fields": None,
        "footer": None,
        "rendering_options": None,
    }
    books.tell("customer.created", made)
    return made


def change_customer(books: Books, wanted: str, given: Params) -> Object:
    made = books.get(wanted, "customer")
    made["metadata"] |= given.get("metadata", {})
    for name in ("email", "name", "description"):
        made[name] = given.get(name, made[name])
    made["invoice_settings"] |= given.get("invoice_settings", {})
    books.tell("customer.updated", made)
    return made


def payment_method(books: Books, given: Params, number: str = "") -> Object:
    number = number or str(given.get("card", {}).get("number", "")) or GOOD
    card = {
        "brand": "visa",
        "last4": number[-4:],
        "exp_month": 12,
        "exp_year": 2040,
        "country": "US",
        "funding": "credit",
    }
    made = books.make("payment_method", "pm", type=given.get("type", "card"), card=card, metadata={})
    made["customer"] = None
    books.cards[made["id"]] = number
    return made


def attach(books: Books, wanted: str, given: Params) -> Object:
    made = _method(books, wanted)
    books.get(given["customer"], "customer")
    made["customer"] = given["customer"]
    books.tell("payment_method.attached", made)
    return made


def _method(books: Books, wanted: str) -> Object:
    if wanted in TOKENS:
        return payment_method(books, {"type": "card"}, TOKENS[wanted])
    return books.get(wanted, "payment_method")


def setup_intent(books: Books, given: Params) -> Object:
    made = books.make(
        "setup_intent", "seti", customer=given.get("customer"), metadata=given.get("metadata", {}), status="requires_payment_method",
        usage=given.get("usage", "off_session"), payment_method_types=given.get("payment_method_types", ["card"]),
    )  # fmt: skip
    books.tell("setup_intent.created", made)
    if given.get("confirm") or given.get("payment_method"):
        return confirm_setup(books, made["id"], given)
    return made


def confirm_setup(books: Books, wanted: str, given: Params) -> Object:
    made = books.get(wanted, "setup_intent")
    method = _method(books, given.get("payment_method") or made["payment_method"] or "")
    if books.cards[method["id"]] == DECLINED:
        raise Refused(
            402, "card_declined", "Your card was declined.", kind="card_error", decline_code="generic_decline"
        )
    method["customer"] = made["customer"]
    made |= {"payment_method": method["id"], "status": "succeeded"}
    books.tell("setup_intent.succeeded", made)
    return made


# --- payments ----------------------------------------------------------------------------------------------------------------
def payment_intent(books: Books, given: Params) -> Object:
    _amount(given["amount"], given["currency"])
    if given.get("customer"):
        books.get(given["customer"], "customer")
    kept = {
        name: given[name]
        for name in ("customer", "description", "transfer_group", "receipt_email", "setup_future_usage")
        if name in given
    }
    made = books.make(
        "payment_intent", "pi", amount=given["amount"], currency=given["currency"], metadata=dict(given.get("metadata", {})),
        status="requires_payment_method", payment_method_types=given.get("payment_method_types", ["card"]), amount_received=0, amount_capturable=0,
        capture_method=given.get("capture_method", "automatic"), **kept,
    )  # fmt: skip
    made["client_secret"] = made["id"] + "_secret_twin"
    books.tell("payment_intent.created", made)
    if given.get("payment_method"):
        made |= {"payment_method": _method(books, given["payment_method"])["id"], "status": "requires_confirmation"}
    if given.get("confirm"):
        return confirm(books, made["id"], given)
    return made


def confirm(books: Books, wanted: str, given: Params, *, answered: bool = False) -> Object:
    """Take the money. `answered`: the owner of the card has said yes."""
    made = books.get(wanted, "payment_intent")
    if made["status"] not in ("requires_payment_method", "requires_confirmation", "requires_action"):
        raise Refused(
            400,
            "payment_intent_unexpected_state",
            f"This PaymentIntent's status is {made['status']}.",
            payment_intent=dict(made),
        )
    if given.get("payment_method"):
        made["payment_method"] = _method(books, given["payment_method"])["id"]
    if not made["payment_method"]:
        raise Refused(400, "parameter_missing", "A payment method is needed to confirm.", param="payment_method")
    number = books.cards[made["payment_method"]]
    if number == DECLINED:
        _decline(books, made, "card_declined", "Your card was declined.", "generic_decline")
    if number == ASKS and not answered:
        if given.get("off_session"):
            _decline(
                books, made, "authentication_required", "Your card needs its owner's answer.", "authentication_required"
            )
        made |= {
            "status": "requires_action",
            "next_action": {"type": "redirect_to_url", "redirect_to_url": {"url": "", "return_url": ""}},
        }
        books.tell("payment_intent.requires_action", made)
        return made
    if number == SLOW:
        made["status"] = "processing"
        books.tell("payment_intent.processing", made)
        return made
    return take(books, made)


def _decline(books: Books, made: Object, code: str, message: str, decline_code: str) -> None:
    charge = _charge(books, made, paid=False, failure_code=code, failure_message=message)
    error = {
        "type": "card_error",
        "code": code,
        "message": message,
        "decline_code": decline_code,
        "charge": charge["id"],
    }
    made |= {"status": "requires_payment_method", "last_payment_error": error, "latest_charge": charge["id"]}
    books.tell("payment_intent.payment_failed", made)
    raise Refused(
        402, code, message, kind="card_error", decline_code=decline_code, charge=charge["id"], payment_intent=dict(made)
    )


def take(books: Books, made: Object) -> Object:
    """The intent succeeds: a charge, its fee, the balance."""
    charge = _charge(books, made, paid=True)
    fee = amounts.fee(made["amount"], books.fee_ppm, books.fee_fixed)
    entry = books.transaction(
        "charge", made["amount"], made["currency"], charge["id"], fee=fee, days=books.pending_days
    )
    charge["balance_transaction"] = entry["id"]
    made |= {
        "status": "succeeded", "latest_charge": charge["id"], "amount_received": made["amount"], "next_action": None, "last_payment_error": None,
    }  # fmt: skip
    if made["setup_future_usage"] and made["customer"]:
        books.get(made["payment_method"], "payment_method")["customer"] = made["customer"]
    books.tell("charge.succeeded", charge)
    books.tell("payment_intent.succeeded", made)
    return made


def _charge(books: Books, intent: Object, *, paid: bool, **failure: Any) -> Object:
    return books.make(
        "charge", "ch", amount=intent["amount"], currency=intent["currency"], payment_intent=intent["id"], customer=intent["customer"],
        metadata=dict(intent["metadata"]), paid=paid, captured=paid, status="succeeded" if paid else "failed",
        amount_captured=intent["amount"] if paid else 0, amount_refunded=0, refunded=False, disputed=False,
        payment_method=intent["payment_method"], transfer_group=intent["transfer_group"], **failure,
    )  # fmt: skip


def cancel(books: Books, wanted: str, given: Params) -> Object:
    made = books.get(wanted, "payment_intent")
    if made["status"] in ("succeeded", "canceled", "processing"):
        raise Refused(
            400, "payment_intent_unexpected_state", f"A PaymentIntent that is {made['status']} cannot be cancelled."
        )
    made |= {
        "status": "canceled",
        "canceled_at": books.clock.now(),
        "cancellation_reason": given.get("cancellation_reason"),
    }
    books.tell("payment_intent.canceled", made)
    return made


# --- hosted checkout -----------------------------------------------------------------------------------------------------------
def checkout(books: Books, given: Params, base: str) -> Object:
    mode = given.get("mode", "payment")
    customer_id = given.get("customer")
    if customer_id:
        books.get(customer_id, "customer")
    rows, total, currency = given.get("line_items", []), 0, given.get("currency")
    for row in rows:
        price = row["price_data"]
        total += price["unit_amount"] * row.get("quantity", 1)
        currency = price["currency"]
    if mode == "payment":
        if not rows:
            raise Refused(400, "parameter_missing", "Missing required param: line_items.", param="line_items")
        _amount(total, currency, "line_items[0][price_data][unit_amount]")
    if mode == "setup" and not (currency or given.get("payment_method_types")):
        raise Refused(400, "parameter_missing", "Missing required param: currency.", param="currency")
    expires = given.get("expires_at", books.clock.now() + DAY)
    if not books.clock.now() + 1_790 <= expires <= books.clock.now() + DAY + 60:
        raise Refused(
            400,
            "parameter_invalid",
            "The `expires_at` timestamp must be 30 minutes to 24 hours from now.",
            param="expires_at",
        )
    made = books.make(
        "checkout.session", "cs", mode=mode, status="open", payment_status="unpaid" if mode == "payment" else "no_payment_required",
        amount_total=total, amount_subtotal=total, currency=currency, customer=customer_id, metadata=dict(given.get("metadata", {})),
        success_url=given.get("success_url"), cancel_url=given.get("cancel_url"), expires_at=expires, locale=given.get("locale"),
        client_reference_id=given.get("client_reference_id"), payment_method_types=given.get("payment_method_types", ["card"]), ui_mode="hosted_page",
    )  # fmt: skip
    made["url"] = f"{base}/c/pay/{made['id']}"
    books.notes[made["id"]] = {
        "intent": given.get("payment_intent_data", {}),
        "setup": given.get("setup_intent_data", {}),
        "rows": rows,
    }
    return made


def fulfil(books: Books, wanted: str, number: str, *, answered: bool = False) -> Object:
    """The visitor of the hosted page pressed pay; Refused when the card is declined, and the page stays open."""
    made = books.get(wanted, "checkout.session")
    if made["status"] == "open" and made["expires_at"] <= books.clock.now():
        expire_session(books, wanted)
    if made["status"] != "open":
        raise Refused(400, "session_over", f"This page is {made['status']}.")
    notes = books.notes[wanted]
    method = payment_method(books, {"type": "card"}, number)
    if made["mode"] == "setup":
        intent = setup_intent(
            books,
            {
                "customer": made["customer"],
                "payment_method": method["id"],
                "metadata": notes["setup"].get("metadata", {}),
            },
        )
        made |= {"setup_intent": intent["id"], "status": "complete"}
        books.tell("checkout.session.completed", made)
        return made
    if made["payment_intent"] is None:
        intent = payment_intent(
            books,
            {
                "amount": made["amount_total"],
                "currency": made["currency"],
                "customer": made["customer"],
                **notes["intent"],
            },
        )
        made["payment_intent"] = intent["id"]
    intent = confirm(books, made["payment_intent"], {"payment_method": method["id"]}, answered=answered)
    if intent["status"] == "requires_action":
        return made
    made |= {"status": "complete", "payment_status": "paid" if intent["status"] == "succeeded" else "unpaid"}
    books.tell("checkout.session.completed", made)
    return made


def settle_slow(books: Books, intent_id: str, *, well: bool = True) -> Object:
    """What stayed in processing ends."""
    intent = books.get(intent_id, "payment_intent")
    if well:
        return take(books, intent)
    charge = _charge(books, intent, paid=False, failure_code="payment_failed", failure_message="The bank said no.")
    intent |= {
        "status": "requires_payment_method", "latest_charge": charge["id"],
        "last_payment_error": {"type": "card_error", "code": "payment_failed", "message": "The bank said no."},
    }  # fmt: skip
    books.tell("payment_intent.payment_failed", intent)
    return intent


def expire_session(books: Books, wanted: str) -> Object:
    made = books.get(wanted, "checkout.session")
    if made["status"] != "open":
        raise Refused(400, "session_over", f"Only open sessions can be expired; this one is {made['status']}.")
    made |= {"status": "expired", "url": None}
    books.tell("checkout.session.expired", made)
    return made


def portal(books: Books, given: Params, base: str) -> Object:
    if not given.get("customer"):
        raise Refused(400, "parameter_missing", "Missing required param: customer.", param="customer")
    books.get(given["customer"], "customer")
    made = books.make(
        "billing_portal.session", "bps", customer=given["customer"], return_url=given.get("return_url"), configuration="bpc_twin",
        locale=given.get("locale"),
    )  # fmt: skip
    made["url"] = f"{base}/p/session/{made['id']}"
    return made


# --- refunds and disputes ---------------------------------------------------------------------------------------------------------
def refund(books: Books, given: Params) -> Object:
    intent = books.get(given["payment_intent"], "payment_intent") if given.get("payment_intent") else None
    charge_id = given.get("charge") or (intent and intent["latest_charge"])
    if not charge_id:
        raise Refused(
            400,
            "parameter_missing",
            "One of the following params should be provided for this request: payment_intent or charge.",
        )
    charge = books.get(charge_id, "charge")
    left = charge["amount"] - charge["amount_refunded"]
    amount = given.get("amount", left)
    if not charge["paid"]:
        raise Refused(400, "charge_not_refundable", "This charge was not paid.")
    if charge["disputed"]:
        raise Refused(400, "charge_disputed", "A disputed charge cannot be refunded.")
    if charge["refunded"]:
        raise Refused(400, "charge_already_refunded", f"Charge {charge_id} has already been refunded.")
    if not 0 < amount <= left:
        raise Refused(
            400,
            "invalid_amount",
            f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left}).",
            param="amount",
        )
    made = books.make(
        "refund", "re", amount=amount, currency=charge["currency"], charge=charge_id, payment_intent=charge["payment_intent"],
        metadata=dict(given.get("metadata", {})), reason=given.get("reason"), status="succeeded",
    )  # fmt: skip
    made["balance_transaction"] = books.transaction("refund", -amount, charge["currency"], made["id"])["id"]
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount"]
    books.tell("refund.created", made)
    books.tell("charge.refunded", charge)
    return made


def fail_refund(books: Books, wanted: str) -> Object:
    """The bank sends a refund back."""
    made = books.get(wanted, "refund")
    made |= {"status": "failed", "failure_reason": "lost_or_stolen_card"}
    made["failure_balance_transaction"] = books.transaction(
        "refund_failure", made["amount"], made["currency"], made["id"]
    )["id"]
    charge = books.get(made["charge"], "charge")
    charge |= {"amount_refunded": charge["amount_refunded"] - made["amount"], "refunded": False}
    books.tell("refund.failed", made)
    return made


def dispute(books: Books, charge_id: str, amount: int | None = None, reason: str = "fraudulent") -> Object:
    """The card's owner goes to the bank: the money is taken back with a fee."""
    charge = books.get(charge_id, "charge")
    amount = charge["amount"] - charge["amount_refunded"] if amount is None else amount
    made = books.make(
        "dispute", "dp", amount=amount, currency=charge["currency"], charge=charge_id, payment_intent=charge["payment_intent"], reason=reason,
        status="needs_response", is_charge_refundable=False, evidence_details={"due_by": books.clock.now() + 7 * DAY, "has_evidence": False},
    )  # fmt: skip
    entry = books.transaction("adjustment", -amount, charge["currency"], made["id"], fee=books.dispute_fee)
    made["balance_transactions"] = [entry]
    charge["disputed"] = True
    books.tell("charge.dispute.created", made)
    books.tell("charge.dispute.funds_withdrawn", made)
    return made


def close_dispute(books: Books, wanted: str, *, won: bool) -> Object:
    made = books.get(wanted, "dispute")
    if made["status"] in ("won", "lost"):
        raise Refused(400, "dispute_closed", "This dispute is closed.")
    made["status"] = "won" if won else "lost"
    if won:
        made["balance_transactions"].append(
            books.transaction("adjustment", made["amount"], made["currency"], made["id"], fee=-books.dispute_fee)
        )
        books.tell("charge.dispute.funds_reinstated", made)
    books.tell("charge.dispute.closed", made)
    return made


# --- providers ------------------------------------------------------------------------------------------------------------------------
def account(books: Books, given: Params) -> Object:
    made = books.make(
        "account", "acct", type=given.get("type", "none"), country=given.get("country", "US"), email=given.get("email"), charges_enabled=False,
        details_submitted=False, payouts_enabled=False, metadata=dict(given.get("metadata", {})),
        capabilities={name: "inactive" for name in given.get("capabilities", {})}, default_currency=given.get("default_currency", "usd"),
    )  # fmt: skip
    made["controller"] = {"type": "application"}
    made["requirements"] = _requirements(
        "requirements.past_due", due=["business_type", "external_account", "tos_acceptance.date"]
    )
    books.tell("account.updated", made, account=made["id"])
    return made


def _requirements(reason: str | None, due: list[str]) -> Object:
    return {
        "currently_due": due, "eventually_due": due, "past_due": due, "pending_verification": [], "errors": [], "alternatives": [],
        "disabled_reason": reason, "current_deadline": None,
    }  # fmt: skip


def change_account(books: Books, wanted: str, given: Params) -> Object:
    made = books.get(wanted, "account")
    made["metadata"] |= given.get("metadata", {})
    made["email"] = given.get("email", made["email"])
    books.tell("account.updated", made, account=wanted)
    return made


def verify_account(books: Books, wanted: str, *, outcome: str = "enabled") -> Object:
    """The provider filled in its form: ``enabled``, ``pending`` (being looked at), ``due`` (something is missing) or ``rejected``."""
    made = books.get(wanted, "account")
    made["details_submitted"] = outcome != "due"
    on = outcome == "enabled"
    made |= {
        "charges_enabled": on,
        "payouts_enabled": on,
        "capabilities": dict.fromkeys(made["capabilities"], "active" if on else "inactive"),
    }
    reason = {
        "enabled": None,
        "pending": "requirements.pending_verification",
        "due": "requirements.past_due",
        "rejected": "rejected.fraud",
    }[outcome]
    made["requirements"] = _requirements(reason, due=["individual.verification.document"] if outcome == "due" else [])
    books.tell("account.updated", made, account=wanted)
    return made


def account_link(books: Books, given: Params, base: str) -> Object:
    wanted = given["account"]
    books.get(wanted, "account")
    for name in ("refresh_url", "return_url"):
        if not given.get(name):
            raise Refused(400, "parameter_missing", f"Missing required param: {name}.", param=name)
    key = books.id("link")
    books.notes[key] = {"account": wanted, "return_url": given["return_url"], "refresh_url": given["refresh_url"]}
    now = books.clock.now()
    return vendor.blank(vendor.resource("account_link")) | {
        "created": now,
        "expires_at": now + 300,
        "url": f"{base}/onboard/{key}",
    }


def transfer(books: Books, given: Params) -> Object:
    destination = books.get(given["destination"], "account")
    if destination["capabilities"].get("transfers") != "active":
        raise Refused(
            400,
            "insufficient_capabilities_for_transfer",
            "Your destination account needs to have the transfers capability enabled.",
        )
    amount, currency = given.get("amount", 0), given["currency"]
    if amount <= 0:
        raise Refused(400, "parameter_invalid_integer", "Invalid positive integer", param="amount")
    source = given.get("source_transaction")
    if source:
        _source_covers(books, books.get(source, "charge"), amount, currency)
    elif amount > books.available(PLATFORM, currency):
        raise Refused(400, "balance_insufficient", f"You have insufficient available funds in your {currency} balance.")
    made = books.make(
        "transfer", "tr", amount=amount, currency=currency, destination=destination["id"], transfer_group=given.get("transfer_group"),
        source_transaction=source, metadata=dict(given.get("metadata", {})), description=given.get("description"), amount_reversed=0, reversed=False,
    )  # fmt: skip
    made["reversals"]["url"] = f"/v1/transfers/{made['id']}/reversals"
    made["balance_transaction"] = books.transaction("transfer", -amount, currency, made["id"])["id"]
    books.move(destination["id"], currency, amount)
    books.tell("transfer.created", made)
    return made


def _source_covers(books: Books, charge: Object, amount: int, currency: str) -> None:
    if charge["currency"] != currency:
        raise Refused(
            400,
            "parameter_invalid",
            "The currency of source_transaction's balance transaction differs.",
            param="currency",
        )
    used = sum(row["amount"] for row in books.all("transfer") if row["source_transaction"] == charge["id"])
    if not charge["paid"] or used + amount > charge["amount"]:
        raise Refused(
            400, "balance_insufficient", "The source_transaction does not have enough left.", param="source_transaction"
        )


def reversal(books: Books, wanted: str, given: Params) -> Object:
    sent = books.get(wanted, "transfer")
    left = sent["amount"] - sent["amount_reversed"]
    amount = given.get("amount", left)
    if not 0 < amount <= left:
        raise Refused(
            400,
            "invalid_amount",
            f"Reversal amount ({amount}) is greater than what is left of the transfer ({left}).",
            param="amount",
        )
    if amount > books.available(sent["destination"], sent["currency"]):
        raise Refused(
            400, "balance_insufficient", "The destination account does not have enough to reverse this transfer."
        )
    made = books.make(
        "transfer_reversal",
        "trr",
        amount=amount,
        currency=sent["currency"],
        transfer=wanted,
        metadata=dict(given.get("metadata", {})),
    )
    made["balance_transaction"] = books.transaction("transfer_refund", amount, sent["currency"], made["id"])["id"]
    books.move(sent["destination"], sent["currency"], -amount)
    sent["amount_reversed"] += amount
    sent["reversed"] = sent["amount_reversed"] == sent["amount"]
    sent["reversals"]["data"].insert(0, made)
    books.tell("transfer.reversed", sent)
    return made


def payout(books: Books, given: Params, owner: str = PLATFORM) -> Object:
    amount, currency = given["amount"], given["currency"]
    if amount > books.available(owner, currency):
        raise Refused(400, "balance_insufficient", "You have insufficient funds in your account for this payout.")
    made = books.make(
        "payout", "po", amount=amount, currency=currency, arrival_date=books.clock.now() + 2 * DAY, method="standard", status="pending",
        metadata=dict(given.get("metadata", {})), automatic=False, source_type="card", reconciliation_status="not_applicable",
    )  # fmt: skip
    made["balance_transaction"] = books.transaction("payout", -amount, currency, made["id"], owner=owner)["id"]
    books.tell("payout.created", made, account=owner)
    return made


def end_payout(books: Books, wanted: str, *, paid: bool = True, owner: str = PLATFORM) -> Object:
    made = books.get(wanted, "payout")
    made["status"] = "paid" if paid else "failed"
    if not paid:
        made |= {"failure_code": "account_closed", "failure_message": "The bank account is closed."}
        books.transaction("payout_failure", made["amount"], made["currency"], made["id"], owner=owner)
    books.tell(f"payout.{made['status']}", made, account=owner)
    return made


def balance(books: Books, owner: str = PLATFORM) -> Object:
    made = {"object": "balance", "livemode": False, "available": [], "pending": [], "connect_reserved": None, "instant_available": None,
            "issuing": None, "refund_and_dispute_prefunding": None}  # fmt: skip
    for whose, currency in sorted(books.balances):
        if whose == owner:
            free = books.available(owner, currency)
            made["available"].append({"amount": free, "currency": currency, "source_types": {"card": free}})
            made["pending"].append(
                {"amount": books.whole(owner, currency) - free, "currency": currency, "source_types": {}}
            )
    return made
