"""Nodes join, prove themselves, work and leave. The table of states is in :mod:`marketplace.domain.enrolment`.

A provider *invites*: a node in state `invited` and a one-time token. The agent *enrolls* with the token and what
hardware it saw. Its inventory reports bring the self-test, the runtime inventory and the fingerprint; when all checks
passed the node is listed by itself, and its offer published if the token carried terms.

Four checks stand on the onboarding page, each ``{name, state: waiting|passed|failed, detail, fix, at}``: connected,
hardware, isolation, fingerprint. Every change of state puts ``node.state`` into the outbox
(``{node, state, deadline}``), so that scheduling opens or closes the capacity and wakes the agent.

For `scheduling.api.agent`: :func:`enroll`, :func:`on_start` (incarnations), :func:`on_inventory`, :func:`drain` and
:func:`refuse_sign_in`; nodes sign in by ``marketplace.selectors.nodes.by_secret``.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from marketplace.domain import fingerprint as rules
from marketplace.domain import pricing
from marketplace.domain.enrolment import Effect, Event, State, step
from marketplace.models import Device, Enrolment, Fingerprint, Inventory, Node, Zone
from marketplace.models.nodes import Isolation
from marketplace.services import fingerprints, offers
from portal import ids
from portal.accounts.models import Organisation
from portal.accounts.services import webhooks
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput, NotFound, NotSignedIn
from portal.outbox.services import put

TOKEN_KEEP = timedelta(hours=24)
CHECKS = ("connected", "hardware", "isolation", "fingerprint")
ORDERS = frozenset({"self_test", "fingerprint", "inventory"})


class DeviceLike(Protocol):
    """A card as the agent's plug-in found it (``agent.protocol.DeviceInfo`` fits)."""

    id: str
    kind: str
    model: str
    memory_mib: int
    driver: str
    virtual: bool


class HardwareLike(Protocol):
    """What the agent sells, and the machine around it (``agent.protocol.Hardware`` fits)."""

    cores_milli: int
    memory_mib: int
    disk_gib: int
    arch: str
    machine_cores: int
    cpu_model: str
    system: str
    devices: Sequence[DeviceLike]


class CheckLike(Protocol):
    name: str
    ok: bool
    detail: str
    fix: str
    skipped: bool


class SelfTestLike(Protocol):
    """``agent.protocol.SelfTest`` fits; `isolation` may be an enum of strings."""

    isolation: Any
    executor: str
    cgroups: str
    checks: Sequence[CheckLike]
    note: str


@dataclass(frozen=True)
class Invited:
    """A node to come, and the token that is never shown again."""

    node: Node
    enrolment: Enrolment
    token: str
    line: str


@dataclass(frozen=True)
class Enrolled:
    """A node that joined, and its secret, which is never shown again."""

    node: Node
    secret: str


# --- joining
# -----------------------------------------------------------------------------------------------------------
def invite(
    *,
    organisation: Organisation,
    zone: Zone,
    by: str,
    now: datetime,
    name: str = "",
    terms: Mapping[str, Any] | None = None,
    refuse_past_due: bool | None = None,
    keep: timedelta = TOKEN_KEEP,
) -> Invited:
    """A token for one machine, good for a day. With `terms` its offer is published as soon as it is listed."""
    label = name.strip() or f"{zone.region.slug}-{ids.token(5)}"
    if len(label) > 80 or any(ord(letter) < 32 for letter in label):
        raise InvalidInput([Finding("name", "bad_name", _("at most 80 characters"))])
    if terms is not None:
        pricing.read_terms(
            terms,
            currency=organisation.currency,
            timezone=organisation.period_timezone,
            now=now,
            complete=True,
            path="terms",
        )
    token = "enr_" + ids.token(40)
    refuse = terms.get("refuse_past_due", True) if terms and refuse_past_due is None else refuse_past_due
    with transaction.atomic():
        node = Node.objects.create(
            organisation=organisation,
            zone=zone,
            name=label,
            created_at=now,
            refuse_past_due=True if refuse is None else refuse,
            checks=_blank_checks(),
        )
        enrolment = Enrolment.objects.create(
            organisation=organisation,
            zone=zone,
            name=label,
            node=node,
            token_hash=ids.digest(token),
            terms=dict(terms) if terms is not None else None,
            created_by=by,
            created_at=now,
            expires_at=now + keep,
        )
        note(
            actor=by,
            deed="node.invite",
            target=node.public_id,
            organisation_id=organisation.id,
            data={"zone": str(zone), "name": label, "terms": terms is not None},
            now=now,
        )
    return Invited(node, enrolment, token, line(token))


def line(token: str) -> str:
    """What the provider pastes on the node. The agent's wheel comes from this portal."""
    folder = settings.IDLEWILD_GET_DIR
    wheels = sorted(path.name for path in folder.glob("idlewild_agent-*.whl")) if folder.is_dir() else []
    if not wheels:
        return f"idlewild-agent enroll {token} --url {settings.IDLEWILD_BASE_URL} --up"
    address = f"{settings.IDLEWILD_BASE_URL}/get/{wheels[-1]}"
    return f"pipx run --spec {address} idlewild-agent enroll {token} --url {settings.IDLEWILD_BASE_URL} --up"


def enroll(
    *,
    token: str,
    hardware: HardwareLike,
    agent_version: str,
    boot_id: str,
    now: datetime,
    hostname: str = "",
    address: str | None = None,
) -> Enrolled:
    """Join with a one-time token. Unknown, used or outlived: NotSignedIn (401), nothing changes but one audit event."""
    enrolment, node_id = _usable_enrolment(token, address, now)
    _refuse_hardware(hardware)
    secret = ids.token(48)
    with transaction.atomic():
        used = Enrolment.objects.filter(id=enrolment.id, used_at=None, expires_at__gt=now).update(used_at=now)
        if used != 1:  # another machine was faster with the same token
            raise NotSignedIn(_("This enrolment token was used a moment ago."), code="TOKEN_USED")
        node = Node.objects.select_for_update(no_key=True).get(id=node_id)
        state, _effects = step(State(node.state), Event.ENROLLED)
        node.state = state
        node.secret_hash = ids.digest(secret)
        node.boot_id = boot_id
        node.agent_version = agent_version
        node.enrolled_at = now
        _take_hardware(node, hardware)
        _set_check(node, "connected", "passed", hostname or node.name, "", now)
        node.save()
        _take_devices(node, hardware.devices)
        note(
            actor=node.public_id,
            deed="node.enroll",
            target=node.public_id,
            organisation_id=node.organisation_id,
            address=address,
            data={"hostname": hostname, "agent": agent_version},
            now=now,
        )
        _announce(node, now)
    return Enrolled(node, secret)


def _usable_enrolment(token: str, address: str | None, now: datetime) -> tuple[Enrolment, int]:
    """What the token is for, and its node; else NotSignedIn under a code of the wire (`agent.protocol.Code`), for which the agent knows what to do."""
    enrolment = Enrolment.objects.select_related("node", "organisation").filter(token_hash=ids.digest(token)).first()
    if enrolment is None or enrolment.node is None:
        why = NotSignedIn(_("This enrolment token is unknown."), code="TOKEN_UNKNOWN")
    elif enrolment.used_at is not None:
        why = NotSignedIn(_("This enrolment token has enrolled a node already."), code="TOKEN_USED")
    elif enrolment.expires_at <= now:
        why = NotSignedIn(_("This enrolment token is over."), code="TOKEN_EXPIRED")
    else:
        return enrolment, enrolment.node.id
    _note_refused_token(enrolment, address, now)
    raise why


def _note_refused_token(enrolment: Enrolment | None, address: str | None, now: datetime) -> None:
    note(
        actor="anonymous",
        deed="node.enroll_refused",
        target=enrolment.public_id if enrolment else "unknown token",
        organisation_id=enrolment.organisation_id if enrolment else None,
        address=address,
        now=now,
    )


def refuse_sign_in(*, public_id: str, address: str | None, now: datetime) -> None:
    """A wrong secret for a node: one audit event for its provider. The door answers 401."""
    node = Node.objects.filter(public_id=public_id).first()
    note(
        actor="anonymous",
        deed="node.sign_in_refused",
        target=public_id[:80],
        organisation_id=node.organisation_id if node else None,
        address=address,
        now=now,
    )


# --- what agents say
# ---------------------------------------------------------------------------------------------------
def on_start(*, node: Node, boot_id: str, now: datetime) -> int:
    """A new start of the agent: its incarnation, one more than the last. Older ones are superseded from now on."""
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(id=node.id)
        row.incarnation += 1
        row.boot_id = boot_id
        row.save(update_fields=["incarnation", "boot_id"])
    return row.incarnation


def on_inventory(
    *,
    node: Node,
    hardware: HardwareLike,
    agent_version: str,
    now: datetime,
    runtime: Mapping[str, str] | None = None,
    self_test: SelfTestLike | None = None,
    fingerprint: "fingerprints.ReportLike | None" = None,
) -> Node:
    """What the node has and has proved. None = not in this report. Lists or unlists the node by itself."""
    with transaction.atomic():
        row = (
            Node.objects.select_for_update(of=("self",), no_key=True)
            .select_related("zone__region", "organisation")
            .get(id=node.id)
        )
        if row.state in (State.INVITED, State.RETIRED):
            raise Conflict(_("This node is %(state)s.") % {"state": row.state}, code="state")
        row.agent_version = agent_version
        _check_hardware(row, hardware, now)
        if runtime is not None:
            Inventory.objects.update_or_create(node=row, defaults={"runtime": dict(runtime), "probed_at": now})
            _served(row, "inventory")
        if self_test is not None:
            _take_self_test(row, self_test, now)
            _served(row, "self_test")
        if fingerprint is not None:
            measured = fingerprints.accept(node=row, report=fingerprint, now=now)
            _served(row, "fingerprint")
            row.soak_s = 0
            if fingerprints.rises(row, measured):
                _once_more(row, measured, now)
        _check_fingerprint(row, now)
        row.save()
        _settle(row, now)
    return row


def _once_more(row: Node, measured: Fingerprint, now: datetime) -> None:
    """Suddenly faster by more than a tenth: that is measured again at once, under load."""
    row.wanted = [*row.wanted, "fingerprint"]
    row.soak_s = rules.SOAK_S
    note(
        actor="system",
        deed="fingerprint.recheck",
        target=measured.public_id,
        organisation_id=row.organisation_id,
        data={"node": row.public_id, "reason": "rise"},
        now=now,
    )


def doubt(*, node: Node, reason: str, now: datetime) -> bool:
    """A listed node that failed in use loses its proof: self-test and measurement are ordered, and listed it is again when both
    have passed. False if it was not listed, or is in doubt already.
    """
    with transaction.atomic():
        row = (
            Node.objects.select_for_update(of=("self",), no_key=True)
            .select_related("zone__region", "organisation")
            .get(id=node.id)
        )
        if row.state != State.LISTED or fingerprints.valid(row, now) is None:
            return False
        row.doubted_at, row.doubt = now, reason[:200]
        row.wanted = [*dict.fromkeys([*row.wanted, "self_test", "fingerprint"])]
        _check_fingerprint(row, now)
        row.save(update_fields=["doubted_at", "doubt", "wanted", "checks"])
        note(
            actor="system",
            deed="node.doubt",
            target=row.public_id,
            organisation_id=row.organisation_id,
            data={"reason": reason},
            now=now,
        )
        _settle(row, now)
    return True


def report_checks(*, node: Node, now: datetime) -> Node:
    """Look at the checks again (after a fingerprint expired, or the rules changed)."""
    with transaction.atomic():
        row = (
            Node.objects.select_for_update(of=("self",), no_key=True)
            .select_related("zone__region", "organisation")
            .get(id=node.id)
        )
        _check_fingerprint(row, now)
        row.save(update_fields=["checks"])
        if row.state not in (State.INVITED, State.RETIRED):
            _settle(row, now)
    return row


def missing(node: Node) -> list[dict[str, Any]]:
    """The checks that keep the node from being listed."""
    return [check for check in node.checks if check["state"] != "passed"]


def want(*, node: Node, order: str, by: str, now: datetime) -> Node:
    """Ask the agent for something with its next sync: self_test, fingerprint or inventory."""
    if order not in ORDERS:
        raise InvalidInput([Finding("order", "unknown", ", ".join(sorted(ORDERS)))])
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(id=node.id)
        if row.state in (State.INVITED, State.RETIRED):
            raise Conflict(_("This node is %(state)s.") % {"state": row.state}, code="state")
        if order not in row.wanted:
            row.wanted = [*row.wanted, order]
            row.save(update_fields=["wanted"])
            note(actor=by, deed=f"node.{order}", target=row.public_id, organisation_id=row.organisation_id, now=now)
            _announce(row, now)
    return row


def set_reliability(*, node: Node, ppm: int | None, samples: int) -> None:
    """Scheduling's figure (None = new: fewer than 20 samples)."""
    Node.objects.filter(id=node.id).update(reliability_ppm=ppm, reliability_samples=samples)


# --- leaving
# -----------------------------------------------------------------------------------------------------------
def drain(*, node: Node, by: str, now: datetime, deadline: datetime | None = None) -> Node:
    """No new work; what runs may end until `deadline` (None: as long as it takes)."""
    if deadline is not None and deadline < now:
        raise InvalidInput([Finding("deadline", "past", _("a time to come"))])
    return _move(node, Event.DRAIN, by, "node.drain", now, drain_deadline=deadline)


def undrain(*, node: Node, by: str, now: datetime) -> Node:
    """Take new work again: listed at once if the checks still hold."""
    return _move(node, Event.UNDRAIN, by, "node.undrain", now, drain_deadline=None)


def retire(*, node: Node, by: str, now: datetime) -> Node:
    """Out for good: the offer is withdrawn, history stays."""
    return _move(node, Event.RETIRE, by, "node.retire", now, retired_at=now)


def rename(*, node: Node, name: str, by: str, now: datetime) -> Node:
    """Another name."""
    label = name.strip()
    if not label or len(label) > 80 or any(ord(letter) < 32 for letter in label):
        raise InvalidInput([Finding("name", "bad_name", _("1 to 80 characters"))])
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(id=node.id)
        before, row.name = row.name, label
        row.save(update_fields=["name"])
        note(
            actor=by,
            deed="node.rename",
            target=row.public_id,
            organisation_id=row.organisation_id,
            data={"before": before, "after": label},
            now=now,
        )
    return row


def expire(*, now: datetime) -> int:
    """Nodes whose token was never used leave; returns how many."""
    gone = 0
    over = Enrolment.objects.filter(used_at=None, expires_at__lte=now, node__state=State.INVITED).select_related("node")
    for enrolment in over:
        if enrolment.node:
            _move(enrolment.node, Event.TOKEN_EXPIRED, "system", "node.token_expired", now, retired_at=now)
            gone += 1
    return gone


# --- inside
# ------------------------------------------------------------------------------------------------------------
def _move(node: Node, event: Event, by: str, deed: str, now: datetime, **values: Any) -> Node:
    with transaction.atomic():
        row = (
            Node.objects.select_for_update(of=("self",), no_key=True)
            .select_related("zone__region", "organisation")
            .get(id=node.id)
        )
        before = State(row.state)
        state, effects = step(before, event)
        row.state = state
        for field, value in values.items():
            setattr(row, field, value)
        row.save(update_fields=["state", *values])
        note(
            actor=by,
            deed=deed,
            target=row.public_id,
            organisation_id=row.organisation_id,
            data={"state": state.value, **_texts(values)},
            now=now,
        )
        if state is not before:
            _tell(row, now)
        _perform(row, effects, now)
        _announce(row, now)
    return row


def _settle(row: Node, now: datetime) -> None:
    """The checks decide: listed, or probing again."""
    event = Event.CHECKS_FAILED if missing(row) else Event.CHECKS_PASSED
    before = row.state
    state, effects = step(State(before), event)
    if state != before:
        row.state = state
        row.save(update_fields=["state"])
        deed = "node.list" if state == State.LISTED else "node.unlist"
        note(actor="system", deed=deed, target=row.public_id, organisation_id=row.organisation_id, now=now)
        _tell(row, now)
    _perform(row, effects, now)
    _announce(row, now)


def _tell(row: Node, now: datetime) -> None:
    """The provider's webhooks; the row is locked."""
    if row.state in (State.LISTED, State.RETIRED):
        webhooks.emit(
            organisation_id=row.organisation_id,
            type=f"node.{State(row.state).value}",
            subject=row.public_id,
            data={"node": {"id": row.public_id, "name": row.name}, "zone": row.zone.slug},
            now=now,
        )


def _perform(row: Node, effects: tuple[Effect, ...], now: datetime) -> None:
    for effect in effects:
        if effect is Effect.LISTED:
            _publish_terms(row, now)
        elif effect is Effect.CHECK:
            _check_fingerprint(row, now)
            _settle(row, now)
        elif effect is Effect.RETIRED:
            offers.withdraw_all(node=row, by="system", now=now)


def _publish_terms(row: Node, now: datetime) -> None:
    """The token's terms become an offer, once. Terms that are over by now are left to the provider."""
    enrolment = Enrolment.objects.filter(node=row).first()
    if enrolment is None or enrolment.terms is None or row.offers.exists():
        return
    try:
        offers.publish(node=row, terms=enrolment.terms, by=enrolment.created_by, now=now)
    except InvalidInput as error:
        note(
            actor="system",
            deed="offer.publish_refused",
            target=row.public_id,
            organisation_id=row.organisation_id,
            data={"detail": error.detail},
            now=now,
        )


def _announce(row: Node, now: datetime) -> None:
    """Tell scheduling (capacity, live pages, a wake-up of the agent)."""
    put(
        topic="node.state",
        key=f"{row.public_id}:{ids.token(12)}",
        payload={
            "node": row.public_id,
            "state": str(row.state),
            "deadline": row.drain_deadline.isoformat() if row.drain_deadline else None,
        },
        now=now,
    )


def _texts(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in values.items()}


def _blank_checks() -> list[dict[str, Any]]:
    return [{"name": name, "state": "waiting", "detail": "", "fix": "", "at": None} for name in CHECKS]


def _set_check(row: Node, name: str, state: str, detail: str, fix: str, now: datetime) -> None:
    known = {check["name"]: check for check in (row.checks or _blank_checks())}
    before = known.get(name)
    at = before["at"] if before and before["state"] == state else now.isoformat()
    known[name] = {"name": name, "state": state, "detail": detail, "fix": fix, "at": at}
    row.checks = [known[each] for each in CHECKS if each in known]


def _served(row: Node, order: str) -> None:
    row.wanted = [wanted for wanted in row.wanted if wanted != order]


def _refuse_hardware(hardware: HardwareLike) -> None:
    """A virtual card where none may be: the profile of the portal decides, not the agent."""
    if any(device.virtual for device in hardware.devices) and not settings.IDLEWILD_VIRTUAL_CARDS:
        raise InvalidInput(
            [Finding("hardware.devices", "virtual_card_refused", _("this portal takes no virtual cards"))],
            code="virtual_card_refused",
        )


def _check_hardware(row: Node, hardware: HardwareLike, now: datetime) -> None:
    try:
        _refuse_hardware(hardware)
    except InvalidInput as refused:
        fix = _("Start the agent without --virtual-cards.")
        _set_check(row, "hardware", "failed", refused.detail, fix, now)
        return
    before = row.hardware_hash
    _take_hardware(row, hardware)
    if before and row.hardware_hash != before:
        note(
            actor=row.public_id,
            deed="node.hardware",
            target=row.public_id,
            organisation_id=row.organisation_id,
            now=now,
        )
        if "fingerprint" not in row.wanted:
            row.wanted = [*row.wanted, "fingerprint"]
    changed = _take_devices(row, hardware.devices)
    cards = f", {len(hardware.devices)} × {hardware.devices[0].model}" if hardware.devices else ""
    detail = f"{row.cores_milli / 1000:g} / {row.machine_cores} cores, {row.memory_mib / 1024:.1f} GiB{cards}"
    _set_check(row, "hardware", "passed", detail, "", now)
    if changed:
        offers.complete_prices(node=row, by="system", now=now)


def hardware_hash(hardware: HardwareLike) -> str:
    """What a fingerprint is valid for: processor, cores for sale, cards and drivers."""
    cards = sorted([d.kind, d.model, d.memory_mib, d.driver, d.virtual] for d in hardware.devices)
    text = json.dumps([hardware.arch, hardware.cpu_model, hardware.machine_cores, hardware.cores_milli, cards])
    return hashlib.sha256(text.encode()).hexdigest()


def _take_hardware(row: Node, hardware: HardwareLike) -> None:
    row.cores_milli = hardware.cores_milli
    row.memory_mib = hardware.memory_mib
    row.disk_gib = hardware.disk_gib
    row.arch = hardware.arch
    row.cpu_model = hardware.cpu_model
    row.machine_cores = hardware.machine_cores
    row.system = hardware.system
    row.hardware_hash = hardware_hash(hardware)
    if not row.lease_classes:
        row.lease_classes = list(settings.IDLEWILD_LEASE_CLASSES)


def _take_devices(row: Node, devices: Sequence[DeviceLike]) -> bool:
    """Write the cards; those no longer reported stay as rows that are not present. Did the set of models change?"""
    before = set(row.devices.filter(present=True).values_list("local_id", "model"))
    seen = {device.id for device in devices}
    if len(seen) != len(devices):
        raise InvalidInput([Finding("hardware.devices", "twice", _("a device is named twice"))])
    for device in devices:
        Device.objects.update_or_create(
            node=row,
            local_id=device.id,
            defaults={
                "kind": device.kind,
                "model": device.model,
                "memory_mib": device.memory_mib,
                "driver": device.driver,
                "virtual": device.virtual,
                "present": True,
            },
        )
    Device.objects.filter(node=row, present=True).exclude(local_id__in=seen).update(present=False)
    return before != {(device.id, device.model) for device in devices}


def _take_self_test(row: Node, self_test: SelfTestLike, now: datetime) -> None:
    row.isolation = Isolation(str(getattr(self_test.isolation, "value", self_test.isolation)))
    row.executor = self_test.executor
    row.cgroups = self_test.cgroups
    failed = [check for check in self_test.checks if not check.ok or check.skipped]
    words = {
        Isolation.FULL: _("sandbox with control groups: serves any tenant"),
        Isolation.BWRAP: _("sandbox without control groups: not exclusive"),
        Isolation.NONE: _("no sandbox: not exclusive"),
    }
    detail = words[row.isolation]  # the sentence alone: pages translate it
    fix = "; ".join(check.fix for check in failed if check.fix)[:500]
    _set_check(row, "isolation", "passed", detail, fix, now)


def _check_fingerprint(row: Node, now: datetime) -> None:
    newest = fingerprints.newest(row)
    valid = fingerprints.valid(row, now)
    if valid is not None:
        _set_check(row, "fingerprint", "passed", _("short suite") if valid.short else valid.suite, "", now)
    elif newest is not None and row.doubted_at is not None and newest.measured_at <= row.doubted_at:
        fix = _("The node tests and measures itself again; when both pass it is listed.")
        _set_check(row, "fingerprint", "failed", row.doubt, fix, now)
    elif newest is not None:
        fix = _("The node measures again when it is idle; stop other work on it.")
        _set_check(
            row, "fingerprint", "failed", newest.reason or _("measured for other hardware, or too long ago"), fix, now
        )
    else:
        _set_check(row, "fingerprint", "waiting", _("the node measures itself"), "", now)


def zone_of(*, region: str, zone: str = "") -> Zone:
    """A zone by slugs; without a zone the only one of the region. NotFound or InvalidInput otherwise."""
    rows = Zone.objects.select_related("region").filter(region__slug=region)
    if zone:
        found = rows.filter(slug=zone).first()
        if found is None:
            raise InvalidInput(
                [
                    Finding(
                        "zone",
                        "unknown",
                        _("there is no zone %(zone)s in %(region)s") % {"zone": zone, "region": region},
                    )
                ]
            )
        return found
    zones = list(rows[:2])
    if not zones:
        raise InvalidInput([Finding("region", "unknown", _("there is no region %(region)s") % {"region": region})])
    if len(zones) > 1:
        names = ", ".join(rows.values_list("slug", flat=True))
        raise InvalidInput([Finding("zone", "missing", _("name one of its zones: %(names)s") % {"names": names})])
    return zones[0]


def not_found() -> NotFound:
    """The error of a node that is absent or somebody else's."""
    return NotFound(_("There is no such node that you can see."), code="node_not_found")
