"""Links between regions: their configured price and figures, what agents measure of them, and what is believed.

Agents of every region probe the beacons of the others and report (:func:`report`); two of a region do, so ten thousand
nodes measure no more than twenty. A report goes into the link database in the soft store. Every period :func:`refresh`
turns the database into beliefs, the same for all workers; news that cannot wait (a link much worse) are believed at once
and wake the cycle. Placement reads beliefs with the market (`selectors.snapshot`); a link that nobody measures keeps
its configured figures.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.models import Node, Region
from portal import softstate
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES, MAX_UNIT_PRICE_MICRO
from portal.outbox.services import put
from scheduling.domain import linkstate
from scheduling.domain.linkstate import Belief, Measured, Report
from scheduling.gateways import linkstore
from scheduling.gateways.linkstore import Beacon
from scheduling.models import Link
from scheduling.selectors import beliefs

PROBERS, BEACONS = 2, 2
"""So many agents of a region probe, so many beacons of each other region each."""
BEACON_FRESH_MS = 4 * linkstate.PERIOD_MS
IDLE_MS, SPARE_MS = 60_000, 300_000
"""How often agents report that have nothing to probe, and those whose region has its probers already."""
SEQUENCES = 10**9
"""Reports of one start of an agent; the next start counts on above them."""


@dataclass(frozen=True)
class Plan:
    """What an agent probes until its next report."""

    targets: tuple[Beacon, ...]
    period_ms: int


def report(
    *,
    node: Node,
    sequence: int,
    links: tuple[tuple[str, Measured], ...],
    beacon: tuple[str, int, str] | None,
    now: datetime,
) -> Plan:
    """Take an agent's report; `beacon` = host, port and key where it answers probes. Unknown regions are left out.

    Without the soft store nothing is kept and the agent is asked again in a minute.
    """
    region = node.zone.region.slug
    now_ms = _ms(now)
    known = set(Region.objects.values_list("slug", flat=True))
    seen = tuple(sorted((target, one) for target, one in links if target in known and target != region))
    new = Report(node.public_id, region, node.incarnation * SEQUENCES + sequence, seen, now_ms)
    place = None if beacon is None else Beacon(node.public_id, region, *beacon, now_ms)
    told = linkstore.tell(new, place)
    if told is None:
        return Plan((), IDLE_MS)
    before, beacons = told
    if _is_urgent(before, new) and softstate.count("links:urgent", seconds=1) <= 1:
        refresh(now=now)
        put(topic="cycle.wanted", key=f"links.{now_ms}", now=now)
    return _plan(node.public_id, region, beacons, now_ms)


def _is_urgent(before: Report | None, new: Report) -> bool:
    held = dict(before.links) if before is not None else {}
    return any(linkstate.is_urgent(held.get(target), one) for target, one in new.links)


def _plan(me: str, region: str, beacons: list[Beacon], now_ms: int) -> Plan:
    fresh = [one for one in beacons if now_ms - one.seen_ms <= BEACON_FRESH_MS]
    targets: list[Beacon] = []
    for name in sorted({one.region for one in fresh} - {region}):
        targets += [one for one in fresh if one.region == name][:BEACONS]
    answers = any(one.node == me for one in fresh)
    if targets and _is_prober(me, region, now_ms):
        return Plan(tuple(targets), linkstate.PERIOD_MS)
    return Plan((), linkstate.PERIOD_MS if answers else SPARE_MS if targets else IDLE_MS)


def _is_prober(me: str, region: str, now_ms: int) -> bool:
    """Am I among the first of my region that were heard lately?"""
    lately = [
        origin
        for origin, one in linkstore.database().items()
        if one.source == region and now_ms - one.received_ms <= linkstate.FRESH_PERIODS * linkstate.PERIOD_MS
    ]
    return me in sorted({*lately, me})[:PROBERS]


def refresh(*, now: datetime) -> dict[tuple[str, str], Belief]:
    """Believe what was reported since the last time; drop what nobody has said anything about for ten minutes."""
    now_ms = _ms(now)
    database = linkstore.database()
    silent = [origin for origin, one in database.items() if now_ms - one.received_ms > linkstore.KEPT_MS]
    linkstore.drop_reports(silent)
    held = beliefs.everything()
    seen = linkstate.readings({o: one for o, one in database.items() if o not in silent}, now_ms=now_ms)
    made = {ends: linkstate.observe(held.get(ends), one, seen_ms=at) for ends, (one, at) in seen.items()}
    old = [ends for ends, one in held.items() if ends not in seen and now_ms - one.seen_ms > linkstore.KEPT_MS]
    linkstore.believe({ends: one for ends, one in made.items() if held.get(ends) != one}, forget=old)
    return made


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def configure(
    *,
    source: str,
    target: str,
    rtt_us: int | None,
    bandwidth_mbps: int | None,
    price_micro_per_gb: int,
    currency: str,
    by: str,
    now: datetime,
    figures_source: str = "",
) -> Link:
    """Set a link; the same ends again change it. InvalidInput carries every finding."""
    known = set(Region.objects.filter(slug__in=[source, target]).values_list("slug", flat=True))
    findings = [
        Finding(name, "unknown_region", _("there is no such region"))
        for name, slug in (("source", source), ("target", target))
        if slug not in known
    ]
    if not 0 <= price_micro_per_gb <= MAX_UNIT_PRICE_MICRO:
        findings.append(Finding("price_per_gb", "bad_amount", _("a price lies between 0 and 1,000,000")))
    if currency not in CURRENCIES:
        findings.append(Finding("currency", "unknown_currency", ", ".join(sorted(CURRENCIES))))
    if rtt_us is not None and rtt_us < 0:
        findings.append(Finding("rtt_ms", "out_of_range", _("must not be negative")))
    if bandwidth_mbps is not None and bandwidth_mbps <= 0:
        findings.append(Finding("bandwidth_mbps", "out_of_range", _("must be more than 0")))
    if findings:
        raise InvalidInput(findings)
    with transaction.atomic():
        link, _made = Link.objects.update_or_create(
            source=source,
            target=target,
            defaults={
                "rtt_us": rtt_us,
                "bandwidth_mbps": bandwidth_mbps,
                "price_micro_per_gb": price_micro_per_gb,
                "currency": currency,
                "figures_source": figures_source,
                "updated_at": now,
            },
        )
        note(
            actor=by,
            deed="link.configure",
            target=f"{source}→{target}",
            data={"price_micro_per_gb": price_micro_per_gb, "rtt_us": rtt_us, "bandwidth_mbps": bandwidth_mbps},
            now=now,
        )
    return link
