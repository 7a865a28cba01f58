"""Who gets a provider's money: an account at the rail, filled in on the rail's own pages; here is only what it still wants and whether it can be paid."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from billing.domain.rail import AccountFacts
from billing.gateways import stripe as gateway
from billing.gateways.stripe import RailRefused
from billing.models import HostedPage, PageKind, PageState, ProviderAccount, RailCall
from billing.services import mailing, rail_calls
from billing.services.rail_calls import Step
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.outbox.services import put


def start(*, organisation: Organisation, by: str, now: datetime, language: str = "en") -> HostedPage:
    """A page on which the provider says who it is and where its money goes."""
    if not gateway.configured():
        raise gateway.NoRail(_("No payout service is set up here: ask the operator."))
    with transaction.atomic():
        page = HostedPage.objects.create(
            organisation=organisation, kind=PageKind.ONBOARDING, by=by, created_at=now, language=language
        )
        _promise(page, now)
        note(actor=by, deed="payout.onboard", target=organisation.public_id, organisation_id=organisation.id, now=now)
        return page


def look(*, organisation: Organisation, now: datetime) -> None:
    """Ask the rail how far the provider is (it came back from the form)."""
    found = ProviderAccount.objects.filter(organisation=organisation).first()
    if found is not None:
        put(
            topic="stripe.account_look",
            key=f"{found.rail_id}:{int(now.timestamp()) // 5}",
            payload={"account": found.rail_id},
            now=now,
        )


def perform_look(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    apply(facts=gateway.account(payload["account"]), now=now)


def apply(*, facts: AccountFacts, now: datetime) -> ProviderAccount | None:
    """Bring our account to what the rail says; None when it is none of ours."""
    with transaction.atomic():
        found = ProviderAccount.objects.select_for_update().filter(rail_id=facts.id).first()
        if found is None:
            return None
        was = found.payouts_enabled
        found.details_submitted, found.payouts_enabled = facts.details_submitted, facts.payouts_enabled
        found.due, found.disabled_reason, found.looked_at = list(facts.due), facts.disabled_reason[:80], now
        found.save()
        if was != found.payouts_enabled:
            note(
                actor="rail",
                deed="payout.enabled" if found.payouts_enabled else "payout.disabled",
                target=facts.id,
                organisation_id=found.organisation_id,
                now=now,
                data={"due": found.due, "reason": found.disabled_reason},
            )
        return found


def perform_account(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Make the provider's account; then the pages that waited for it are promised."""

    def step(call: RailCall) -> Step[AccountFacts]:
        provider = Organisation.objects.get(public_id=call.reference)

        def done(facts: AccountFacts) -> str:
            ProviderAccount.objects.get_or_create(
                organisation=provider, defaults={"rail_id": facts.id, "created_at": now, "looked_at": now}
            )
            apply(facts=facts, now=now)
            for page in HostedPage.objects.filter(
                organisation=provider, kind=PageKind.ONBOARDING, state=PageState.WAITING
            ):
                _promise(page, now)
            return facts.id

        people = mailing.people(provider.id)
        return Step(
            create=lambda made: gateway.create_account(
                reference=provider.public_id,
                name=provider.name,
                email=people[0] if people else "",
                country="",
                key=made,
            ),
            find=lambda since: gateway.find_account(reference=provider.public_id, since=since),
            done=done,
            refused=lambda refused: _fail(provider, refused),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def perform_link(key: str, payload: Mapping[str, Any], *, now: datetime) -> None:
    """Make the address of the form; it is good once, for minutes."""

    def step(call: RailCall) -> Step[tuple[str, datetime | None]]:
        page = HostedPage.objects.select_related("organisation").get(public_id=call.reference)
        account = ProviderAccount.objects.get(organisation=page.organisation)
        back = f"{settings.IDLEWILD_BASE_URL}/provide/payouts"

        def done(made: tuple[str, datetime | None]) -> str:
            page.url, page.expires_at, page.state = made[0], made[1], PageState.READY
            page.save(update_fields=["url", "expires_at", "state"])
            return ""

        return Step(
            create=lambda made: gateway.create_account_link(
                account=account.rail_id, return_url=f"{back}?back=form", refresh_url=f"{back}?back=again", key=made
            ),
            find=lambda since: None,  # another link does no harm
            done=done,
            refused=lambda refused: _fail(page.organisation, refused),
        )

    rail_calls.perform(payload=payload, step_of=step, now=now)


def _promise(page: HostedPage, now: datetime) -> None:
    if ProviderAccount.objects.filter(organisation=page.organisation).exists():
        rail_calls.promise(kind="account_link", reference=page.public_id, now=now)
    else:
        rail_calls.promise(kind="account", reference=page.organisation.public_id, now=now)


def _fail(provider: Organisation, refused: RailRefused) -> None:
    pages = HostedPage.objects.filter(organisation=provider, kind=PageKind.ONBOARDING)
    for page in pages.filter(state=PageState.WAITING):
        page.state, page.message = PageState.FAILED, refused.detail[:500]
        page.save(update_fields=["state", "message"])
