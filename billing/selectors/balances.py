"""What a tenant owes, has reserved, and may still spend; what the ledger says in total."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Sum

from billing.domain import holds as rules
from billing.domain.grants import Allowance, Hours
from billing.domain.holds import Exposure, Spend
from billing.domain.invoicing import InvoiceState
from billing.domain.ledger import AccountKind
from billing.models import Account, Entry, Hold, Invoice
from billing.selectors import estimates, grants, periods, taxes, terms
from portal.accounts.models import Organisation, OrganisationState
from portal.kit.errors import Conflict
from portal.kit.money import PPM, Exact, Money

USED = """
SELECT h.job_ref, h.resource, h.sku, h.unit_price_micro, h.discount_ppm, h.tiers::text, h.price_version_ref, sum(h.qty_us),
    h.provider_ref, max(h.bucket_at), max(h.project_ref), max(h.department)
FROM billing_usagehour h LEFT JOIN billing_attemptending e ON e.attempt_ref = h.attempt_ref AND NOT e.billed
WHERE h.organisation_id = %s AND h.currency = %s AND h.bucket_at >= %s AND h.bucket_at < %s AND e.attempt_ref IS NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7, 9 ORDER BY 3, 7, 1, 2, 4, 5, 6, 9
"""


@dataclass(frozen=True, slots=True)
class Balance:
    """A tenant's standing in its currency."""

    mode: str
    wallet: Money
    limit: Money
    owed: Money
    used: Money
    held: Money
    available: Money
    credit: Money
    past_due: bool

    def wire(self) -> dict[str, Any]:
        """The JSON form. `used` is not final until its month is closed."""
        return {
            "mode": self.mode,
            "wallet": self.wallet.wire(),
            "credit_limit": self.limit.wire(),
            "owed": self.owed.wire(),
            "used": self.used.wire(),
            "held": self.held.wire(),
            "available": self.available.wire(),
            "credit": self.credit.wire(),
            "past_due": self.past_due,
        }


def may_spend(*, organisation_id: int, amount: Money) -> Spend:
    """Whether the tenant may commit `amount` more. An answer, not a promise: ``holds.reserve`` asks again under a lock."""
    tenant = Organisation.objects.get(id=organisation_id)
    same_currency(tenant, amount)
    return rules.decide(exposure(tenant), amount)


def may_resume(organisation_id: int, *, reference: str, hour_micro: int, length: timedelta) -> Spend:
    """Whether a job can go on for `length` at `hour_micro`; what it holds beyond what it used is its own already."""
    tenant = Organisation.objects.get(id=organisation_id)
    now, code = exposure(tenant), tenant.currency
    own = max(0, now.holds_minor.get(reference, 0) - now.used_minor.get(reference, 0))
    needed = rules.ahead(hour_micro, length, code, taxes.rate_ppm(organisation_id))
    there = Money(now.available_minor + own, code)
    refused = rules.RefusedBy.NOTHING if needed <= there else rules.RefusedBy.BALANCE
    return Spend(needed <= there, needed, there, refused)


def same_currency(tenant: Organisation, amount: Money) -> None:
    """A limit is in the tenant's own currency: another one is a Conflict, never converted."""
    if amount.currency != tenant.currency:
        raise Conflict(
            f"this organisation pays in {tenant.currency}, not in {amount.currency}", code="currency_differs"
        )


def balance(*, organisation_id: int) -> Balance:
    """The tenant's standing, for its page and the API."""
    tenant = Organisation.objects.get(id=organisation_id)
    now, code = exposure(tenant), tenant.currency
    return Balance(
        mode=terms.of(tenant).mode,
        wallet=Money(of(tenant.public_id, AccountKind.WALLET, code), code),
        limit=Money(now.limit_minor, code),
        owed=Money(max(0, now.owed_minor), code),
        used=Money(sum(now.used_minor.values()), code),
        held=Money(sum(now.holds_minor.values()), code),
        available=Money(now.available_minor, code),
        credit=Money(of(tenant.public_id, AccountKind.CREDIT, code), code),
        past_due=now.past_due,
    )


def limit(tenant: Organisation) -> Money:
    """The tenant's credit limit: its own, else the default in its currency."""
    if tenant.credit_limit_minor is not None:
        return Money(tenant.credit_limit_minor, tenant.currency)
    return Exact(Fraction(settings.IDLEWILD_CREDIT_LIMIT), tenant.currency).to_money()


def exposure(tenant: Organisation) -> Exposure:
    """All that stands against the tenant's limit."""
    code = tenant.currency
    holds = Hold.objects.filter(organisation=tenant, state=rules.HoldState.ACTIVE, currency=code)
    prepaid = terms.is_prepaid(tenant.id)
    return Exposure(
        limit_minor=0 if prepaid else limit(tenant).minor,
        funds_minor=of(tenant.public_id, AccountKind.WALLET, code) + of(tenant.public_id, AccountKind.HOLD, code),
        prepaid=prepaid,
        owed_minor=-of(tenant.public_id, AccountKind.TENANT_RECEIVABLE, code)
        - of(tenant.public_id, AccountKind.CREDIT, code),
        used_minor=used_by_job(organisation_id=tenant.id, currency=code),
        holds_minor={hold.reference: hold.amount_minor for hold in holds},
        past_due=Invoice.objects.filter(organisation=tenant, state=InvoiceState.PAST_DUE).exists(),
        suspended=tenant.state == OrganisationState.SUSPENDED,
    )


def to_hold(tenant: Organisation, whole: Money, length: timedelta) -> Money:
    """What a job keeps before it is placed: its highest cost with tax; of a prepaid tenant only the first window of it."""
    kept = rules.taxed(whole, taxes.rate_ppm(tenant.id))
    return rules.windowed(kept, length) if terms.is_prepaid(tenant.id) else kept


def used_by_job(*, organisation_id: int, currency: str, since: datetime | None = None) -> dict[str, int]:
    """What each job used and no invoice has yet, tax included, in minor units (an estimate: rounded per job, not per line).

    `since`: a month that is being closed ends there; default: after the last closed one.
    """
    since = since or periods.open_since(organisation_id=organisation_id)
    return {job: minor for job, (_, _, minor) in used_between(organisation_id, currency, since, None).items()}


def used_between(
    organisation_id: int, currency: str, since: datetime | None, until: datetime | None
) -> dict[str, tuple[str, str, int]]:
    """Job → (project, department, minor units with tax) of what was used in ``[since, until)``; granted hours are taken off first."""
    given = grants.allowance(organisation_id)
    return _used(organisation_id, currency, since, until, given)


def hours_left(tenant: Organisation) -> list[Hours]:
    """Granted hours behind everything that was used and is not invoiced."""
    given = grants.allowance(tenant.id)
    _used(tenant.id, tenant.currency, periods.open_since(organisation_id=tenant.id), None, given)
    return given.open()


def _used(
    organisation_id: int, currency: str, since: datetime | None, until: datetime | None, given: Allowance
) -> dict[str, tuple[str, str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(USED, [organisation_id, currency, since or "-infinity", until or "infinity"])
        rows = cursor.fetchall()
    exact: dict[str, Exact] = {}
    owners: dict[str, tuple[str, str]] = {}
    places: dict[str, int] = {}
    for job, resource, sku, price, discount, tier_text, _, quantity, provider, at, project, department in rows:
        _, paid = given.cover(provider_ref=provider, resource=resource, at=at, qty_us=int(quantity))
        amount = estimates.amount(tier_text, price, resource, sku, paid, discount, currency, places)
        exact[job] = exact[job] + amount if job in exact else amount
        owners[job] = (project, department)
    taxed = PPM + taxes.rate_ppm(organisation_id)
    return {
        job: (*owners[job], Exact(amount.value * taxed / PPM, currency).to_money().minor)
        for job, amount in exact.items()
    }


def givers() -> dict[str, list[str]]:
    """Job → the organisations whose granted hours it holds: it may only run on their nodes, for nobody would pay elsewhere."""
    held = Hold.objects.filter(state=rules.HoldState.ACTIVE).exclude(givers=[])
    return dict(held.values_list("reference", "givers"))


def of(owner: str, kind: AccountKind, currency: str) -> int:
    """The balance of an account, 0 if it was never opened (credit-positive)."""
    found = (
        Account.objects.filter(owner=owner, kind=kind.value, currency=currency)
        .values_list("balance_minor", flat=True)
        .first()
    )
    return found or 0


def trial() -> Mapping[str, int]:
    """Σ of all entries per currency: always 0."""
    return {
        row["currency"]: row["total"]
        for row in Entry.objects.values("currency").annotate(total=Sum("amount_minor")).order_by("currency")
    }
