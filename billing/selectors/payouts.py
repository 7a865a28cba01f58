"""Payouts as their provider may see them: what is collected, what was sent, what each is made of; and how far its account is."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, Sum
from django.utils.translation import gettext as _

from billing.domain import payout as rules
from billing.domain.ledger import AccountKind
from billing.domain.payout import OPEN, KycState, PayoutState
from billing.domain.statement import iso
from billing.models import Payout, PayoutPart, ProviderAccount
from billing.selectors import balances
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.money import Money

GONE = (PayoutState.PAID, PayoutState.SENT)


@dataclass(frozen=True, slots=True)
class Standing:
    """A provider's money in one currency. ``earned`` = all shares of issued invoices less what was taken back."""

    waiting: Money
    available: Money
    reserved: Money
    paid: Money
    owed_back: Money

    @property
    def earned(self) -> Money:
        return self.waiting + self.available + self.reserved + self.paid - self.owed_back

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        names = ("earned", "waiting", "available", "reserved", "paid", "owed_back")
        return {name: getattr(self, name).wire() for name in names}


def standing(provider: Organisation, currency: str) -> Standing:
    """What the ledger holds for a provider, and what the rail has sent it for good."""

    def held(kind: AccountKind) -> Money:
        return Money(balances.of(provider.public_id, kind, currency), currency)

    sent = Payout.objects.filter(organisation=provider, currency=currency, state=PayoutState.PAID)
    sums = sent.aggregate(out=Sum("amount_minor"), back=Sum("reversed_minor"))
    return Standing(
        waiting=held(AccountKind.ACCRUED),
        available=held(AccountKind.AVAILABLE),
        reserved=held(AccountKind.RESERVED),
        paid=Money((sums["out"] or 0) - (sums["back"] or 0), currency),
        owed_back=-held(AccountKind.PROVIDER_RECEIVABLE),
    )


def for_organisation(*, organisation_id: int) -> QuerySet[Payout]:
    """The provider's payouts, newest first; the first may still be collecting."""
    return Payout.objects.filter(organisation_id=organisation_id).select_related("organisation").order_by("-id")


def collecting(*, organisation_id: int) -> list[Payout]:
    """What is collected and not sent yet, per currency."""
    return list(for_organisation(organisation_id=organisation_id).filter(state__in=OPEN, amount_minor__gt=0))


def one(*, organisation_id: int, public_id: str) -> Payout:
    """That payout of that provider; NotFound for a foreign one."""
    found = for_organisation(organisation_id=organisation_id).filter(public_id=public_id).first()
    if found is None:
        raise NotFound(_("There is no such payout that you can see."))
    return found


def parts(payout: Payout) -> list[PayoutPart]:
    """What a payout is made of, oldest first; it adds up to its amount."""
    return list(PayoutPart.objects.filter(payout=payout).select_related("invoice", "invoice__period").order_by("id"))


def account(*, organisation_id: int) -> ProviderAccount | None:
    """The provider's account at the rail, if it began one."""
    return ProviderAccount.objects.filter(organisation_id=organisation_id).first()


def kyc(found: ProviderAccount | None) -> KycState:
    """How far a provider is with proving who it is."""
    if found is None:
        return KycState.NONE
    return rules.kyc(
        account=True,
        submitted=found.details_submitted,
        enabled=found.payouts_enabled,
        due=found.due,
        disabled_reason=found.disabled_reason,
    )


def wire(payout: Payout, of: list[PayoutPart] | None = None) -> dict[str, Any]:
    """The JSON form; with its parts when they are given. A tenant's name is never in it."""
    body: dict[str, Any] = {
        "id": payout.public_id,
        "state": payout.state,
        "reason": payout.reason or None,
        "amount": Money(payout.amount_minor, payout.currency).wire(),
        "taken_back": Money(payout.reversed_minor, payout.currency).wire(),
        "transfer": payout.transfer or None,
        "failure": payout.failure or None,
        "created_at": iso(payout.created_at),
        "sent_at": iso(payout.sent_at) if payout.sent_at else None,
    }
    if of is not None:
        body["parts"] = [
            {
                "kind": part.kind,
                "month": part.invoice.period.month if part.invoice is not None else None,
                "amount": Money(part.amount_minor, payout.currency).wire(),
                "at": iso(part.at),
            }
            for part in of
        ]
    return body
