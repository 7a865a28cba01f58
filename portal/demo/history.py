"""Last month's usage of the demo tenant: labelled demo history, entered as facts with their own time, closed and
invoiced.

The jobs are invented; everything after them is the real path: facts → roll-up → rating → lines → a numbered, immutable
invoice. One attempt was lost with its node, so the invoice shows a line of 0 with its reason.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from billing.domain.metering import UsageFact
from billing.services import periods, usage
from marketplace.models import Node
from portal import ids
from portal.accounts.models import Organisation, Project, User
from portal.kit.quantities import qty_us

GRACE = timedelta(days=3)
CORE_MICRO = {"asia-southeast1": 3_200_000, "asia-south1": 2_000_000, "us-west1": 2_400_000, "europe-north1": 4_000_000}
CARD_MICRO = {
    "asia-southeast1": 24_000_000,
    "asia-south1": 9_000_000,
    "us-west1": 15_000_000,
    "europe-north1": 30_000_000,
}
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Past:
    """One attempt of last month: when (day, hour), how long, on what."""

    project: str
    job: str
    region: str
    day: int
    hour: int
    hours: int
    cores_milli: int
    cards: int = 0
    transfer_gb: int = 0
    reason: str = "finished"


HISTORY = (
    Past("vision", "tile-training", "europe-north1", 3, 1, 9, 500, 1),
    Past("vision", "tile-training", "asia-south1", 5, 2, 14, 500, 2, transfer_gb=12),
    Past("vision", "tile-labels", "us-west1", 6, 9, 6, 500),
    Past("climate", "rain-ensemble", "europe-north1", 9, 20, 22, 500),
    Past("climate", "rain-ensemble", "us-west1", 11, 20, 30, 500, transfer_gb=40),
    Past("climate", "river-flood", "asia-southeast1", 14, 4, 5, 500, 1, reason="node_lost"),
    Past("climate", "river-flood", "us-west1", 14, 10, 8, 500, 1, transfer_gb=9),
    Past("docking", "docking-sweep", "asia-south1", 17, 0, 40, 500),
    Past("docking", "docking-sweep", "europe-north1", 20, 6, 16, 500),
    Past("docking", "pose-scores", "asia-southeast1", 23, 3, 4, 500, 2, reason="exit_nonzero"),
)


def last_closable_month(now: datetime, zone: str) -> tuple[str, datetime, datetime]:
    """(name, start, end) of the newest month whose three days of grace are over at `now`, in the zone of the bills."""
    local = now.astimezone(ZoneInfo(zone))
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if now < first.astimezone(UTC) + GRACE:
        first = _month_before(first)
    start = _month_before(first)
    return f"{start:%Y-%m}", start.astimezone(UTC), first.astimezone(UTC)


def _month_before(first: datetime) -> datetime:
    return (first - timedelta(days=1)).replace(day=1)


def write(*, tenant: Organisation, by: User, nodes: dict[str, Node], now: datetime) -> str:
    """Enter the history, close its month, issue its invoice; the month's name."""
    month, start, _end = last_closable_month(now, tenant.period_timezone)
    versions: dict[str, str] = {}
    for past in HISTORY:
        _attempt(past, tenant, by, nodes[past.region], start, versions)
    periods.close(organisation_id=tenant.id, month=month, now=now)
    return month


def _attempt(past: Past, tenant: Organisation, by: User, node: Node, start: datetime, versions: dict[str, str]) -> None:
    began = start + timedelta(days=past.day - 1, hours=past.hour)
    ended = began + past.hours * HOUR
    attempt, job = ids.public_id("att", at=began), ids.public_id("job", at=began)
    project = Project.objects.get(organisation=tenant, slug=past.project)
    facts: list[UsageFact] = []
    for resource, count, micro in (
        ("core", past.cores_milli, CORE_MICRO[past.region]),
        ("card", past.cards * 1000, CARD_MICRO[past.region]),
    ):
        if not count:
            continue
        model = "virtual" if resource == "card" else "-"
        sku = f"{resource}:{model}:fixed"
        for hour in range(past.hours):
            since = began + hour * HOUR
            facts.append(
                _fact(
                    past, attempt, job, project, by, node, resource, hour + 1, since, since + HOUR, count,
                    qty_us(count, 3_600_000_000), sku, versions, start, micro,
                )
            )  # fmt: skip
    if past.transfer_gb:
        size = past.transfer_gb * 10**9
        link = f"link:asia-southeast1→{past.region}"
        versions.setdefault(f"{past.region} network_byte:-:fixed", link)
        facts.append(
            _fact(
                past, attempt, job, project, by, node, "network_byte", 1, began, began + timedelta(minutes=5), 0,
                size, "network_byte:-:fixed", versions, start, 100_000,
            )
        )  # fmt: skip
    usage.record_many(facts=facts, now=ended)
    lost = past.reason == "node_lost"
    fault = "provider" if lost else "tenant" if past.reason == "exit_nonzero" else "none"
    usage.end_attempt(
        attempt_ref=attempt,
        reason=past.reason,
        fault=fault,
        billed=not lost,
        message="demo history",
        ended_at=ended,
        now=ended,
    )


def _fact(
    past: Past,
    attempt: str,
    job: str,
    project: Project,
    by: User,
    node: Node,
    resource: str,
    seq: int,
    since: datetime,
    until: datetime,
    count: int,
    quantity: int,
    sku: str,
    versions: dict[str, str],
    start: datetime,
    micro: int,
) -> UsageFact:
    version = versions.setdefault(f"{past.region} {sku}", ids.public_id("prv", at=start))
    region = node.zone.region
    return UsageFact(
        attempt_ref=attempt,
        fence=1,
        resource=resource,
        seq=seq,
        started_at=since,
        ended_at=until,
        count_milli=count,
        qty_us=quantity,
        sku=sku,
        price_version_ref=version,
        unit_price_micro=micro,
        currency=project.organisation.currency,
        organisation_id=project.organisation_id,
        project_ref=project.public_id,
        project_name=project.name,
        department=project.department,
        provider_ref=node.organisation.public_id,
        provider_name=node.organisation.name,
        node_ref=node.public_id,
        job_ref=job,
        job_name=past.job,
        task_name="main",
        user_ref=by.public_id,
        region=region.slug,
        zone=node.zone.slug,
        hardware_model="virtual" if resource == "card" else "",
        virtual=resource == "card",
        labels={"source": "demo history"},
        green_ratio_ppm=region.green_ratio_ppm,
        pue_milli=node.zone.pue_milli,
        demo=True,
    )
