"""The demo market, filled through the services with a `now` of its own: places, people, last month, and four tokens.

`seed(now=…, password=…)` answers with the nodes to start, ``[{"token", "label", "region"}, …]``, in the order of
`TERMS`: the first one's region is where the main job's data lies. It may run again: what is there stays, and only nodes
that never joined get new tokens.

Everybody trades in one currency (CNY), so that all offers can be compared. The four nodes trade price against green
share, distance and transfer:

| node | region | price of a card-hour | green | data |
|---|---|---|---|---|
| harbour | asia-southeast1 | 24.00 | grid, 4 % | here: no transfer |
| monsoon | asia-south1 | 9.00, the cheapest | grid, 9 % | near |
| river | us-west1 | 15.00 | grid, 87 % | far |
| granite | europe-north1 | 30.00 | declared, 98 % | far |
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from billing.selectors.invoices import for_organisation
from marketplace.models import Node
from marketplace.services import nodes
from portal.accounts.models import Organisation, User
from portal.accounts.services import organisations, projects
from portal.accounts.services.sign_up import create_user, sign_up
from portal.demo import history, places

CURRENCY = "CNY"
ZONE = "Asia/Shanghai"
TENANT, PROVIDER, OPERATOR = "owner@example.org", "provider@example.org", "operator@example.org"
TOKENS_GOOD_FOR = timedelta(days=30)
CREDIT_MINOR = 5_000_00

TERMS: dict[str, dict[str, Any]] = {
    "asia-southeast1": {"prices": {"core": "3.20", "card": "24.00"}, "spot_factor": "0.6"},
    "asia-south1": {"prices": {"core": "2.00", "card": "9.00"}, "spot_factor": "0.5"},
    "us-west1": {"prices": {"core": "2.40", "card": "15.00"}, "spot_factor": "0.6"},
    "europe-north1": {
        "prices": {"core": "4.00", "card": "30.00"},
        "green_ratio": "0.98",
        "windows": [{"from": "23:00", "to": "06:00", "timezone": "Europe/Helsinki", "factor": "0.8"}],
    },
}
NAMES = {
    "asia-southeast1": "harbour-1",
    "asia-south1": "monsoon-1",
    "us-west1": "river-1",
    "europe-north1": "granite-1",
}
PROJECTS = (
    ("vision", "Moss vision", "Perception department"),
    ("climate", "Rain and rivers", "Earth systems department"),
    ("docking", "Docking sweeps", "Chemistry department"),
)


@dataclass(frozen=True)
class People:
    """Who is there: the tenant's owner and organisation, the provider's, the operator."""

    owner: User
    tenant: Organisation
    provider: Organisation
    operator: User


def seed(*, now: datetime, password: str) -> list[dict[str, str]]:
    """Fill the market; the tokens of the nodes that have not joined yet."""
    people = _people(password, now)
    zones = places.fill(currency=CURRENCY, now=now)
    made = _nodes(people.provider, zones, now)
    if not for_organisation(organisation_id=people.tenant.id).exists():
        known = {node.zone.region.slug: node for node in Node.objects.select_related("zone__region", "organisation")}
        with transaction.atomic():
            history.write(tenant=people.tenant, by=people.owner, nodes=known, now=now)
    return made


def _people(password: str, now: datetime) -> People:
    owner = User.objects.filter(email=TENANT).first()
    if owner is not None:
        tenant = Organisation.objects.get(slug="moss-research")
        provider = Organisation.objects.get(slug="aurora-computing")
        return People(owner, tenant, provider, User.objects.get(email=OPERATOR))
    with transaction.atomic():
        return _newcomers(password, now - timedelta(days=120))


def _newcomers(password: str, long_ago: datetime) -> People:
    operator = create_user(email=OPERATOR, password=password, name="Olu Operator", operator=True, now=long_ago)
    tenant_side = sign_up(
        email=TENANT,
        password=password,
        name="Ada Owner",
        organisation_name="Moss Research",
        slug="moss-research",
        currency=CURRENCY,
        period_timezone=ZONE,
        now=long_ago,
    )
    provider_side = sign_up(
        email=PROVIDER,
        password=password,
        name="Sol Provider",
        organisation_name="Aurora Computing",
        slug="aurora-computing",
        currency=CURRENCY,
        period_timezone=ZONE,
        now=long_ago,
    )
    organisations.verify_provider(
        organisation=provider_side.organisation, verified=True, by=operator.public_id, now=long_ago
    )
    _tree(tenant_side.user, tenant_side.organisation, operator, long_ago)
    return People(tenant_side.user, tenant_side.organisation, provider_side.organisation, operator)


def _tree(owner: User, tenant: Organisation, operator: User, now: datetime) -> None:
    """A group above the tenant, a sister beside it, and projects of departments."""
    group = organisations.create(
        owner=owner, name="Moss Group", slug="moss-group", currency=CURRENCY, period_timezone=ZONE, now=now
    )
    organisations.create(
        owner=owner,
        name="Moss Materials",
        slug="moss-materials",
        currency=CURRENCY,
        period_timezone=ZONE,
        parent=group,
        now=now,
    )
    organisations.set_parent(organisation=tenant, parent=group, by=owner.public_id, now=now)
    organisations.set_credit_limit(organisation=tenant, minor=CREDIT_MINOR, by=operator.public_id, now=now)
    for slug, name, department in PROJECTS:
        projects.create(organisation=tenant, slug=slug, name=name, department=department, by=owner.public_id, now=now)


def _nodes(provider: Organisation, zones: dict[str, Any], now: datetime) -> list[dict[str, str]]:
    """The four nodes in order, with a token for each that never joined. An unused older token is replaced."""
    made: list[dict[str, str]] = []
    for region, terms in TERMS.items():
        there = Node.objects.filter(organisation=provider, zone=zones[region]).exclude(state="retired").first()
        if there is not None and there.state != "invited":  # it has joined: its agent keeps its own identity
            made.append({"token": "", "label": there.name, "region": region})
            continue
        if there is not None:
            nodes.retire(node=there, by="system", now=now)
        invited = nodes.invite(
            organisation=provider,
            zone=zones[region],
            name=NAMES[region],
            terms=terms,
            by="system",
            keep=TOKENS_GOOD_FOR,
            now=now,
        )
        made.append({"token": invited.token, "label": NAMES[region], "region": region})
    return made
