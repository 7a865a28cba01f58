"""How an issued invoice is paid from what the tenant paid before: from what its jobs kept, then from the wallet.

When a job ends, what it used stays in the hold account (`Hold.funded_minor`) until its month is invoiced. At that invoice

1. each hold gives what its job used in the month, and a hold that keeps nothing more for later gives all;
2. what that is more than the invoice goes back to the wallet, what it is less comes from the wallet, as far as it has it;
3. the rest stays open on the invoice: late reports, corrections of older months.

Σ `funded_minor` = balance of the hold account, always; it is proved in the tests after every step.
"""

from datetime import datetime

from billing.domain import ledger as rules
from billing.domain.holds import HoldState
from billing.domain.ledger import AccountKind
from billing.models import Hold, Invoice
from billing.selectors import balances
from billing.services import ledger, wallets


def settle(*, invoice: Invoice, now: datetime) -> int:
    """What of an invoice that is being issued the tenant's own money pays, in minor units. Runs in the issuing transaction."""
    tenant, code = invoice.organisation, invoice.currency
    if code != tenant.currency or invoice.demo:
        return 0
    wallets.lock(tenant)
    kept = _taken_from_holds(invoice)
    wallet = balances.of(tenant.public_id, AccountKind.WALLET, code)
    if not kept and not (wallet and invoice.payable_minor):
        return 0
    paid = min(invoice.payable_minor, kept + wallet)
    posting = rules.from_wallet(tenant=tenant.public_id, currency=code, hold_minor=kept, wallet_minor=paid - kept)
    ledger.post(
        kind="prepaid", key=f"prepaid:{invoice.public_id}", posting=posting, reference=invoice.public_id, now=now
    )
    return paid


def _taken_from_holds(invoice: Invoice) -> int:
    """What the tenant's holds give for the month of `invoice`; each is written down with what is left of it."""
    holds = list(
        Hold.objects.select_for_update().filter(organisation=invoice.organisation, funded_minor__gt=0).order_by("id")
    )
    if not holds:
        return 0
    tenant, code = invoice.organisation, invoice.currency
    before = balances.used_by_job(organisation_id=tenant.id, currency=code)
    after = balances.used_by_job(organisation_id=tenant.id, currency=code, since=invoice.period.ends_at)
    total = 0
    for hold in holds:
        later = after.get(hold.reference, 0)
        if hold.state == HoldState.ACTIVE:
            part = min(hold.funded_minor, max(0, before.get(hold.reference, 0) - later))
            amount = max(hold.amount_minor - part, 0)
        else:
            part = hold.funded_minor - min(hold.funded_minor, later)
            amount = hold.amount_minor
        total += part
        Hold.objects.filter(id=hold.id).update(funded_minor=hold.funded_minor - part, amount_minor=amount)
    return total
