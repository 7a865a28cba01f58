"""Read a job spec against what an organisation has: its projects, secrets, artefacts, and the regions and cards there are."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils.translation import gettext

from marketplace.models import Device, Zone
from portal import ids
from portal.accounts.models import Organisation, Project, Secret
from portal.kit.errors import NotFound
from scheduling.domain.spec import Context, Limits, Parsed, parse
from scheduling.selectors import predictions
from scheduling.services import artefacts

WORDS = (
    "amber",
    "brisk",
    "calm",
    "dusk",
    "early",
    "fern",
    "glad",
    "hazel",
    "iris",
    "jade",
    "kind",
    "lunar",
    "mild",
    "noble",
    "oak",
    "pine",
)
THINGS = (
    "brook",
    "cedar",
    "delta",
    "ember",
    "field",
    "grove",
    "heron",
    "islet",
    "lark",
    "maple",
    "otter",
    "pond",
    "reed",
    "stone",
    "tide",
    "wren",
)


def read(
    spec: Any,
    *,
    tenant: Organisation,
    project: Project | None,
    now: datetime,
    quoted: bool = False,
    needs_price: bool = True,
    point_given: bool = False,
    may_ask: bool = False,
    name: str = "",
) -> Parsed:
    """Parse `spec` (text or values). InvalidInput with all its errors; nothing is stored."""
    project = project or Project.objects.filter(organisation=tenant, archived_at=None).order_by("id").first()
    zones: dict[str, list[str]] = {}
    for region, zone in Zone.objects.values_list("region__slug", "slug"):
        zones.setdefault(region, []).append(zone)
    return parse(
        spec,
        context=Context(
            currency=tenant.currency,
            regions=zones,
            cards=set(Device.objects.filter(present=True, virtual=False).values_list("model", flat=True)),
            secrets=_secrets(tenant, project),
            projects=set(Project.objects.filter(organisation=tenant, archived_at=None).values_list("slug", flat=True)),
            project=project.slug if project else "default",
            new_name=name or new_name(),
            quoted=quoted,
            needs_price=needs_price,
            point_given=point_given,
            may_ask=may_ask,
            artefact=_artefacts(tenant),
            past_kinds=lambda job: predictions.past_kinds(organisation_id=tenant.id, name=job),
            limits=Limits(checkpoint_least_s=settings.IDLEWILD_CHECKPOINT_LEAST_S),
            now=now,
            say=gettext,
        ),
    )


def new_name() -> str:
    """A readable name for a job that has none, e.g. ``brisk-heron-4k``."""
    number = ids.seed()
    return f"{WORDS[number % len(WORDS)]}-{THINGS[number // 16 % len(THINGS)]}-{ids.token(3)}"


def _secrets(tenant: Organisation, project: Project | None) -> set[str]:
    rows = Secret.objects.filter(organisation=tenant)
    return set(rows.filter(project=None).values_list("name", flat=True)) | set(
        rows.filter(project=project).values_list("name", flat=True)
    )


def _artefacts(tenant: Organisation) -> Callable[[str], tuple[int, str] | None]:
    def find(name: str) -> tuple[int, str] | None:
        try:
            found = artefacts.resolve(organisation=tenant, url=artefacts.SCHEME + name)
        except NotFound:
            return None
        return found.size_bytes, found.region

    return find
