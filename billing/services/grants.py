"""Giving: credit in money from the platform, resource-hours from an organisation that provides nodes; and what becomes of it."""

from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from billing.domain import grants as rules
from billing.domain import ledger as entries
from billing.domain.ledger import PLATFORM, AccountKind
from billing.models import CreditGrant, CreditUse, HourGrant, Invoice
from billing.selectors import balances, grants
from billing.services import ledger, wallets
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.money import Money


def give_credit(
    *,
    organisation_id: int,
    amount: Money,
    reason: str,
    reference: str,
    by: str,
    now: datetime,
    priority: int = 50,
    expires_at: datetime | None = None,
) -> CreditGrant:
    """Credit for the invoices to come: ``promo_cost −x, credit +x``. The same `reference` again is the same grant."""
    if amount.minor <= 0:
        raise InvalidInput([Finding("amount", "bad_amount", "a grant is above 0")])
    _check(priority, expires_at, now)
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        balances.same_currency(tenant, amount)
        wallets.lock(tenant)
        known = CreditGrant.objects.filter(reference=reference).first()
        if known is not None:
            if (known.organisation_id, known.amount_minor, known.currency) != (
                tenant.id,
                amount.minor,
                amount.currency,
            ):
                raise Conflict(_("This reference was used for another grant."), code="reference_used")
            return known
        grant = CreditGrant.objects.create(
            organisation=tenant, currency=amount.currency, amount_minor=amount.minor, left_minor=amount.minor, priority=priority,
            expires_at=expires_at, reason=reason[:200], reference=reference, given_by=by, created_at=now,
        )  # fmt: skip
        _move(grant, amount.minor, given=True, now=now)
        note(
            actor=by, deed="credit.give", target=grant.public_id, organisation_id=tenant.id,
            data={"amount": amount.text(), "currency": amount.currency, "reason": reason}, now=now,
        )  # fmt: skip
    return grant


def give_hours(
    *,
    organisation_id: int,
    giver_id: int,
    resource: str,
    qty_us: int,
    reason: str,
    by: str,
    now: datetime,
    priority: int = 50,
    starts_at: datetime | None = None,
    expires_at: datetime | None = None,
) -> HourGrant:
    """Resource-hours on the giver's own nodes, spent before money; `qty_us` in resource-microseconds."""
    if resource not in {"core", "card"} or qty_us <= 0:
        raise InvalidInput([Finding("hours", "bad_amount", "hours above 0 of core or card")])
    starts = starts_at or now
    _check(priority, expires_at, starts)
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        giver = Organisation.objects.get(id=giver_id)
        wallets.lock(tenant)
        grant = HourGrant.objects.create(
            organisation=tenant, giver=giver, resource=resource, qty_us=qty_us, priority=priority, starts_at=starts,
            expires_at=expires_at, reason=reason[:200], given_by=by, created_at=now,
        )  # fmt: skip
        note(
            actor=by, deed="hours.give", target=grant.public_id, organisation_id=giver.id,
            data={"to": tenant.public_id, "resource": resource, "qty_us": qty_us, "reason": reason}, now=now,
        )  # fmt: skip
    return grant


def note_use(*, invoice: Invoice, now: datetime) -> None:
    """Which grants the credit of an invoice came from; runs in the issuing transaction."""
    open_now = grants.open_credits(invoice.organisation_id, invoice.currency)
    for ref, part in rules.use(open_now, invoice.credit_used_minor, now=now):
        if ref == rules.OWED_BACK:
            continue
        grant = CreditGrant.objects.select_for_update().get(public_id=ref)
        left = grant.left_minor - part
        CreditGrant.objects.filter(id=grant.id).update(left_minor=left, ended_at=None if left else now)
        CreditUse.objects.create(grant=grant, invoice=invoice, amount_minor=part, at=now)


def expire(*, now: datetime, organisation_id: int | None = None) -> int:
    """Take back what is left of credits whose time is over; returns how many."""
    late = CreditGrant.objects.filter(left_minor__gt=0, expires_at__lte=now)
    if organisation_id is not None:
        late = late.filter(organisation_id=organisation_id)
    ended = 0
    for grant_id, tenant_id in list(late.order_by("organisation_id", "id").values_list("id", "organisation_id")):
        with transaction.atomic():
            wallets.lock(Organisation.objects.get(id=tenant_id))
            grant = CreditGrant.objects.select_for_update().get(id=grant_id)
            if grant.left_minor == 0:  # an invoice got there first
                continue
            _move(grant, grant.left_minor, given=False, now=now)
            CreditGrant.objects.filter(id=grant.id).update(left_minor=0, ended_at=now)
            ended += 1
    return ended


def _move(grant: CreditGrant, amount_minor: int, *, given: bool, now: datetime) -> None:
    cost, credit = (PLATFORM, AccountKind.PROMO_COST), (grant.organisation.public_id, AccountKind.CREDIT)
    posting = entries.moved(
        grant.currency, amount_minor=amount_minor, out_of=cost if given else credit, into=credit if given else cost
    )
    kind = "grant" if given else "expiry"
    ledger.post(kind=kind, key=f"{kind}:{grant.public_id}", posting=posting, reference=grant.public_id, now=now)


def _check(priority: int, expires_at: datetime | None, start: datetime) -> None:
    wrong = []
    if not 0 <= priority <= 100:
        wrong.append(Finding("priority", "out_of_range", "0 (first) to 100 (last)"))
    if expires_at is not None and expires_at <= start:
        wrong.append(Finding("expires_at", "out_of_range", "a grant ends after it begins"))
    if wrong:
        raise InvalidInput(wrong)
