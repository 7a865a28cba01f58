"""Nodes that somebody sees."""

from datetime import datetime
from typing import Any

from django.apps import apps
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from marketplace.models import Enrolment, Fingerprint, Node
from portal import ids
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound

_RELATED = ("organisation", "zone__region", "inventory")


def for_organisation(organisation: Organisation) -> QuerySet[Node]:
    """A provider's nodes, newest first."""
    return Node.objects.filter(organisation=organisation).select_related(*_RELATED).order_by("-id")


def everything() -> QuerySet[Node]:
    """The fleet, for operators."""
    return Node.objects.select_related(*_RELATED).order_by("-id")


def of_provider(organisation: Organisation, public_id: str) -> Node:
    """One of a provider's nodes by id or name; NotFound for a stranger's."""
    rows = for_organisation(organisation)
    found = rows.filter(public_id=public_id).first() or rows.filter(name=public_id).first()
    if found is None:
        raise NotFound(_("There is no such node that you can see."), code="node_not_found")
    return found


def by_public_id(public_id: str) -> Node:
    """Any node, for what every tenant may see of it (fingerprints, places); NotFound if absent or only invited."""
    found = everything().filter(public_id=public_id).exclude(state="invited").first()
    if found is None:
        raise NotFound(_("There is no such node that you can see."), code="node_not_found")
    return found


def by_secret(public_id: str, secret: str) -> Node | None:
    """The node that signs in with its own secret; None for any other pair (another node's secret, a retired node).

    A door that got None answers 401 and calls ``marketplace.services.nodes.refuse_sign_in`` (one audit event).
    """
    found = Node.objects.select_related(*_RELATED[:2]).filter(public_id=public_id).exclude(secret_hash="").first()
    if found is None or found.state in ("invited", "retired") or not ids.same(found.secret_hash, ids.digest(secret)):
        return None
    return found


def fingerprints(node: Node) -> QuerySet[Fingerprint]:
    """All measurements of a node, newest first."""
    return Fingerprint.objects.filter(node=node).order_by("-id")


def enrolment(node: Node) -> Enrolment | None:
    """The token a node came, or is to come, by."""
    return Enrolment.objects.filter(node=node).first()


def round_trips(region: str) -> dict[str, int]:
    """Region → round trip in microseconds from `region`, as far as links are configured.

    Links belong to scheduling, a floor above: asked by name through the registry of apps, without an import.
    """
    if not apps.is_installed("scheduling"):
        return {}
    link: Any = apps.get_model("scheduling", "Link")
    known = link.objects.filter(source=region, rtt_us__isnull=False).values_list("target", "rtt_us")
    return {**dict(known), region: 0}


def wanted_orders(node: Node) -> list[str]:
    """What the agent is to do with its next sync (self_test, fingerprint, inventory)."""
    return list(node.wanted)


def counts(now: datetime) -> dict[str, int]:
    """How many nodes are in each state, for operators."""
    found: dict[str, int] = {}
    for state in Node.objects.values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found
