"""The main menu: groups by what people come for, without what their role cannot open."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from portal.accounts.actors import Actor
from portal.accounts.permissions import may


@dataclass(frozen=True, slots=True)
class Item:
    text: str
    href: str
    icon: str
    current: bool


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    items: list[Item]


def entries(actor: Actor) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """Group → (words, page, icon, deed); the deed "" is open to every member."""
    groups = [
        (
            _("Compute"),
            [
                (_("Home"), "home", "home", ""),
                (_("Market"), "market", "market", "work.read"),
                (_("Capacity"), "capacity", "globe", "work.read"),
                (_("Jobs"), "jobs", "job", "work.read"),
                (_("Usage"), "usage", "usage", "money.read"),
                (_("Invoices"), "invoices", "invoice", "money.read"),
                (_("Payments"), "payments", "card", "money.read"),
                (_("Wallet"), "wallet", "coin", "money.read"),
                (_("Budgets"), "budgets", "gauge", "money.read"),
            ],
        ),
        (
            _("Provide"),
            [
                (_("Add a node"), "onboarding", "plug", "nodes.run"),
                (_("Nodes"), "nodes", "node", "work.read"),
                (_("Offers"), "offers", "offer", "work.read"),
                (_("Earnings"), "earnings", "coin", "money.read"),
                (_("Payouts"), "payouts", "upload", "money.read"),
            ],
        ),
        (
            _("Organisation"),
            [
                (_("Projects"), "projects", "project", "work.read"),
                (_("Members"), "members", "people", "work.read"),
                (_("API keys"), "keys", "key", "work.read"),
                (_("Secrets"), "secrets", "secret", "work.read"),
                (_("Webhooks"), "webhooks", "plug", "members.manage"),
                (_("Settings"), "organisation", "building", "work.read"),
            ],
        ),
    ]
    if actor.organisation is None:
        groups = []
    if actor.is_operator:
        groups.append(
            (
                _("Operate"),
                [
                    (_("Fleet"), "fleet", "fleet", ""),
                    (_("Queue"), "queue", "queue", ""),
                    (_("All jobs"), "all_jobs", "list", ""),
                    (_("Organisations"), "organisations", "people", ""),
                    (_("Payment rail"), "rail", "swap", ""),
                    (_("Bank transfers"), "bank", "building", ""),
                    (_("Invoices and terms"), "desk", "invoice", ""),
                    (_("Audit trail"), "audit", "audit", ""),
                ],
            )
        )
    return groups


def menu_of(request: HttpRequest, actor: Actor) -> list[Group]:
    return [group for group in _groups(request, actor) if group.items]


def _groups(request: HttpRequest, actor: Actor) -> Iterator[Group]:
    here = request.resolver_match.url_name if request.resolver_match else ""
    section = SECTIONS.get(here or "", here)
    for title, rows in entries(actor):
        yield Group(
            title,
            [
                Item(text, reverse(f"console:{name}"), icon, section == name)
                for text, name, icon, deed in rows
                if not deed or may(actor, deed)
            ],
        )


SECTIONS = {
    "job": "jobs",
    "job_new": "jobs",
    "job_log": "jobs",
    "invoice": "invoices",
    "invoice_line": "invoices",
    "upcoming": "invoices",
    "node": "nodes",
    "offer": "offers",
    "offer_new": "offers",
    "onboarding_node": "onboarding",
    "project": "projects",
    "operator_organisation": "organisations",
}
"""Page → the menu entry that is marked while it is shown."""
