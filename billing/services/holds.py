"""Reserve, then settle: money that a job may cost is kept before it is placed.

The tenant's receivable account is locked first and read then, so twenty submits at once stay within the limit, the wallet and every budget. A postpaid
hold only counts against the credit limit; a prepaid one moves its money from the wallet into the hold account, where it stays until the month of its
usage is invoiced (`services.prepaid`).

A tenant without money that was given resource-hours holds hours instead: then its job is placed on the nodes of those who gave them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from billing.domain import grants as hour_rules
from billing.domain import holds as rules
from billing.domain import ledger as entries
from billing.domain.holds import HoldEvent, HoldState, RefusedBy, Spend
from billing.domain.ledger import AccountKind
from billing.models import Hold
from billing.selectors import balances, budgets, grants, taxes, terms
from billing.services import ledger, wallets
from portal.accounts.models import Organisation
from portal.kit.errors import Conflict, NotFound, SpendingRefused
from portal.kit.money import Money

SENTENCES = {
    RefusedBy.CREDIT_LIMIT: "this needs {needed} and {available} {currency} of the credit limit are left: cancel other work or ask for more",
    RefusedBy.BALANCE: "this needs {needed} and {available} {currency} of the balance are free: top up, or cancel other work",
    RefusedBy.BUDGET: "this needs {needed} and {available} {currency} of the budget {budget} are left this month: raise it, or wait",
    RefusedBy.PAST_DUE: "an invoice is past due: pay it, then try again",
    RefusedBy.SUSPENDED: "the organisation is suspended: ask the operator",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job belongs to, and the resource-hours it uses in the time that it holds money for (resource → microseconds)."""

    project_ref: str = ""
    department: str = ""
    hours: Mapping[str, int] | None = None


def reserve(
    *,
    organisation_id: int,
    reference: str,
    amount: Money,
    now: datetime,
    expires_at: datetime | None = None,
    needs: Needs | None = None,
) -> Hold:
    """Keep `amount` for `reference` (a job's public id). The same reference again sets its hold to the new amount.

    SpendingRefused (402) names what stands against it: limit, balance, a budget, a past-due invoice.
    """
    if amount.minor < 0:
        raise Conflict("a hold is not negative", code="bad_amount")
    with transaction.atomic():
        tenant = Organisation.objects.get(id=organisation_id)
        balances.same_currency(tenant, amount)
        wallets.lock(tenant)
        held = Hold.objects.select_for_update().filter(reference=reference, state=HoldState.ACTIVE).first()
        if held is not None and held.organisation_id != organisation_id:
            raise NotFound("there is no such hold")
        owner = needs or Needs()
        more = Money(amount.minor - (held.amount_minor if held else 0), amount.currency)
        spend = rules.decide(balances.exposure(tenant), more)
        hours: list[str] = []
        if not spend.allowed and more.minor > 0:
            hours = _hours_instead(tenant, spend, owner, reference, now)
            if not hours:
                raise refusal(spend)
        elif more.minor > 0:
            _within_budgets(tenant, reference, amount, owner, now)
        if held is None:
            held = Hold(organisation=tenant, reference=reference, currency=amount.currency, created_at=now)
            held.project_ref, held.department = owner.project_ref, owner.department
        held.amount_minor, held.expires_at = (0 if hours else amount.minor), expires_at
        held.hours, held.givers = (dict(owner.hours or {}), hours) if hours else ({}, [])
        held.save()
        if terms.is_prepaid(tenant.id) or held.funded_minor:
            _fund(held, tenant, min(held.amount_minor, held.funded_minor + _in_wallet(tenant)), now)
        return held


def renew(*, reference: str, hour_micro: int, left: timedelta, hours: Mapping[str, int], now: datetime) -> bool:
    """A running job's prepaid hold reaches further; False when even the next minutes cannot be paid for: stop it.

    `hour_micro`: what its attempts cost an hour, net; `left`: of its longest time; `hours`: resource-hours of the minutes to come, for tenants who were
    given some. Nothing happens for a postpaid tenant, whose jobs stay within the limit that they were admitted under.
    """
    with transaction.atomic():
        held = Hold.objects.filter(reference=reference, state=HoldState.ACTIVE).select_related("organisation").first()
        if held is None or not terms.is_prepaid(held.organisation_id):
            return True
        tenant = held.organisation
        wallets.lock(tenant)
        held = Hold.objects.select_for_update().get(id=held.id)
        if held.hours and _covered(tenant, hours, now):
            return True
        exposure = balances.exposure(tenant)
        code, tax_ppm = held.currency, taxes.rate_ppm(tenant.id)
        renewal = rules.renew(
            used=Money(exposure.used_minor.get(reference, 0), code), held=Money(held.amount_minor, code),
            free=Money(exposure.available_minor, code), hour_micro=hour_micro, left=left, tax_ppm=tax_ppm,
        )  # fmt: skip
        if renewal.amount.minor > held.amount_minor:
            held.amount_minor = renewal.amount.minor
            held.save(update_fields=["amount_minor"])
            _fund(held, tenant, min(held.amount_minor, held.funded_minor + _in_wallet(tenant)), now)
        return not renewal.stop


def release(*, reference: str, now: datetime) -> bool:
    """A job has ended: its hold ends. Of a prepaid one, what was used stays for the invoice; the rest is free again. True if there was a hold."""
    with transaction.atomic():
        held = _active(reference)
        if held is None:
            return False
        if not held.funded_minor:
            return _end(held, HoldEvent.RELEASED, now)
        tenant = held.organisation
        used = balances.used_by_job(organisation_id=tenant.id, currency=held.currency).get(reference, 0)
        kept = min(used, held.funded_minor)
        _fund(held, tenant, kept, now)
        return _end(held, HoldEvent.CAPTURED if kept else HoldEvent.RELEASED, now, captured_minor=kept)


def capture(*, reference: str, amount: Money, now: datetime) -> bool:
    """End a hold with what was really spent; the rest is free again. The money itself follows the invoice."""
    with transaction.atomic():
        held = _active(reference)
        if held is None:
            return False
        if held.funded_minor:
            _fund(held, held.organisation, min(amount.minor, held.funded_minor), now)
        return _end(held, HoldEvent.CAPTURED, now, captured_minor=amount.minor)


def expire_due(*, now: datetime) -> int:
    """End the holds whose time is over; returns how many."""
    ended = 0
    late = Hold.objects.filter(state=HoldState.ACTIVE, expires_at__lte=now).order_by("organisation_id", "id")
    for reference in list(late.values_list("reference", flat=True)):
        with transaction.atomic():
            held = _active(reference)
            if held is None or held.expires_at is None or held.expires_at > now:
                continue
            if held.funded_minor:
                _fund(held, held.organisation, 0, now)
            ended += _end(held, HoldEvent.LAPSED, now)
    return ended


def refusal(spend: Spend, **gaps: str) -> SpendingRefused:
    """The 402 of a refused spend: what is needed, what is there, what stands against it."""
    sentence = SENTENCES[spend.refused_by].format(
        needed=spend.needed.text(), available=spend.available.text(), currency=spend.needed.currency, **gaps
    )
    return SpendingRefused(
        sentence,
        needed=spend.needed.wire(),
        available=spend.available.wire(),
        refused_by=spend.refused_by.value,
        **gaps,
    )


def _active(reference: str) -> Hold | None:
    """The active hold of that name, locked behind its tenant's books."""
    found = Hold.objects.filter(reference=reference, state=HoldState.ACTIVE).select_related("organisation").first()
    if found is None:
        return None
    wallets.lock(found.organisation)
    locked = Hold.objects.select_for_update(of=("self",)).select_related("organisation")
    return locked.filter(id=found.id, state=HoldState.ACTIVE).first()


def _end(held: Hold, event: HoldEvent, now: datetime, **values: int) -> bool:
    ended = rules.advance(HoldState(held.state), event)
    updated = Hold.objects.filter(id=held.id, state=HoldState.ACTIVE).update(state=ended, ended_at=now, **values)
    return updated == 1


def _in_wallet(tenant: Organisation) -> int:
    return balances.of(tenant.public_id, AccountKind.WALLET, tenant.currency)


def _fund(held: Hold, tenant: Organisation, wanted: int, now: datetime) -> None:
    """Bring the money that lies in the hold account for this hold to `wanted`; the caller has locked the tenant's books."""
    difference = wanted - held.funded_minor
    if not difference:
        return
    wallet, hold = (tenant.public_id, AccountKind.WALLET), (tenant.public_id, AccountKind.HOLD)
    held.funded_minor, held.moves = wanted, held.moves + 1
    posting = entries.moved(
        held.currency, amount_minor=abs(difference), out_of=wallet if difference > 0 else hold, into=hold if difference > 0 else wallet
    )  # fmt: skip
    ledger.post(
        kind="hold", key=f"hold:{held.public_id}:{held.moves}", posting=posting, reference=held.reference, now=now
    )
    held.save(update_fields=["funded_minor", "moves"])


def _within_budgets(tenant: Organisation, reference: str, amount: Money, needs: Needs, now: datetime) -> None:
    """Every budget of the tenant that blocks has room for this job's hold, or SpendingRefused names the first that has not."""
    found = budgets.too_small(
        tenant, reference=reference, project_ref=needs.project_ref, department=needs.department, amount=amount, now=now
    )
    if found is not None:
        left = Money(found.left_minor, amount.currency)
        raise refusal(Spend(False, amount, left, RefusedBy.BUDGET), budget=found.name)


def _hours_instead(tenant: Organisation, spend: Spend, needs: Needs, reference: str, now: datetime) -> list[str]:
    """The givers whose hours cover the job, where only money is short; empty if none do."""
    if spend.refused_by not in {RefusedBy.BALANCE, RefusedBy.CREDIT_LIMIT} or not needs.hours:
        return []
    others = (
        Hold.objects.filter(organisation=tenant, state=HoldState.ACTIVE).exclude(hours={}).exclude(reference=reference)
    )
    return hour_rules.enough(
        grants.open_hours(tenant.id),
        others.values_list("hours", flat=True),
        dict(needs.hours),
        now=now,
        until=now + rules.MARGIN,
    )


def _covered(tenant: Organisation, hours: Mapping[str, int], now: datetime) -> bool:
    """Whether granted hours reach over the minutes to come, behind everything that is used and not invoiced yet."""
    left = balances.hours_left(tenant)
    return bool(hour_rules.enough(left, [], dict(hours), now=now, until=now + rules.MARGIN)) if hours else True
