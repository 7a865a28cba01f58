"""Every day: what the rail holds for us is what our ledger says it holds. A difference is written down, looked at again, and told.

The rail's own movements that need nobody's decision are booked on the way: money between it and our bank, fees that belong to no charge. What no posting of
ours names is listed beside the difference, so a person sees what to look for.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from billing.domain import rail
from billing.domain.ledger import AccountKind
from billing.domain.rail import RAIL, BalanceEntry
from billing.gateways import stripe as gateway
from billing.models import Account, Payment, Payout, Reconciliation, Refund, Reversal, Txn
from billing.services import ledger, mailing
from portal.kit.money import CURRENCIES, Money
from portal.outbox.services import put

log = logging.getLogger("idlewild.billing")
AGAIN_AFTER = timedelta(minutes=15)
LOOK_BACK = timedelta(days=3)
FIRST = datetime(2011, 1, 1, tzinfo=UTC)
BANK = frozenset({"payout", "payout_failure", "payout_cancel", "topup", "topup_reversal"})
FEES = frozenset({"stripe_fee", "stripe_fx_fee", "network_cost"})
MOST_UNKNOWN = 50


def run(*, now: datetime, again: bool = False) -> list[Reconciliation]:
    """Compare now; a row per currency. A difference is compared again after a quarter of an hour (an event may be on its way), then told to operators."""
    if not gateway.configured():
        return []
    entries = list(gateway.movements(since=_since(now)))
    held = gateway.balance()
    with transaction.atomic():
        for entry in entries:
            _book(entry, now)
        unknown = [entry for entry in entries if not _known(entry)]
        ours = dict(
            Account.objects.filter(owner=RAIL, kind=AccountKind.CASH.value).values_list("currency", "balance_minor")
        )
        rows = []
        for code in sorted({code for code in held if code in CURRENCIES} | set(ours)):
            there, said = held.get(code, 0), -ours.get(code, 0)
            mine = [_words(entry) for entry in unknown if entry.net.currency == code][:MOST_UNKNOWN]
            rows.append(
                Reconciliation.objects.create(
                    at=now, currency=code, rail_minor=there, ledger_minor=said, drift_minor=there - said, unknown=mine
                )
            )
        wrong = [row for row in rows if row.drift_minor]
        if wrong and not again:
            put(topic="stripe.reconcile", key=f"again:{now.isoformat()}", payload={}, now=now, due_at=now + AGAIN_AFTER)
        elif wrong:
            _tell(wrong, now)
    return rows


def perform_again(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """The second look at a difference."""
    run(now=now, again=True)


def _since(now: datetime) -> datetime:
    """From some days before the last comparison; the first one looks at all that ever moved."""
    last = Reconciliation.objects.order_by("-at").values_list("at", flat=True).first()
    return min(last, now) - LOOK_BACK if last is not None else FIRST


def _book(entry: BalanceEntry, now: datetime) -> None:
    """Movements of the rail that follow from no deed of ours."""
    if entry.kind in BANK:
        posting = rail.paid_out(amount=-entry.net)
        ledger.post(
            kind="rail_payout", key=f"rail_payout:{entry.id}", posting=posting, reference=entry.source[:80], now=now
        )
    elif entry.kind in FEES:
        ledger.post(
            kind="rail_fee", key=f"fee:{entry.id}", posting=rail.fee(amount=-entry.net), reference=entry.id, now=now
        )


def _known(entry: BalanceEntry) -> bool:
    """Whether a posting of ours stands for this movement."""
    source = entry.source
    if Txn.objects.filter(
        idem_key__in=[f"rail_payout:{entry.id}", f"fee:{entry.id}", f"dispute:{entry.id}", f"unmatched:{source}"]
    ).exists():
        return True
    if entry.kind == "charge":
        return Payment.objects.filter(charge=source).exists()
    if entry.kind in ("refund", "refund_failure"):
        return Refund.objects.filter(rail_id=source).exists()
    if entry.kind == "transfer":
        return Payout.objects.filter(transfer=source).exists()
    return Reversal.objects.filter(rail_id=source).exists()


def _words(entry: BalanceEntry) -> dict[str, str]:
    return {
        "id": entry.id,
        "kind": entry.kind,
        "source": entry.source,
        "net": entry.net.text(),
        "at": entry.at.isoformat(),
    }


def _tell(rows: list[Reconciliation], now: datetime) -> None:
    lines = [
        f"{row.currency}: rail {Money(row.rail_minor, row.currency).text()}, ledger {Money(row.ledger_minor, row.currency).text()}, "
        f"difference {Money(row.drift_minor, row.currency).text()}; movements that we do not know: {len(row.unknown)}"
        for row in rows
    ]
    log.error("the payment rail and the ledger differ: %s", "; ".join(lines))
    mailing.tell_operators(
        key=f"drift:{now.date().isoformat()}",
        subject="The payment rail and the ledger differ · 支付通道与总账不符",
        body="\n".join([*lines, "", "See Operate → Payment rail."]),
        now=now,
    )
