"""/agent/v1: what agents ask and tell. Messages and codes: `agent.protocol`; a door parses, asks one service, answers.

`sync` is the one held call: an async view that signs in, hears and looks in one synchronous step, gives its database
connection back *in that step*, and
waits in the channel layer. Only a wake-up (or the end of the hold) makes it look again.
"""

import asyncio
import base64
import ipaddress
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt

from agent import protocol as wire
from marketplace.models import Node
from marketplace.services import nodes as joining
from portal import clock, softstate
from portal.api import throttling
from portal.kit.errors import IdlewildError, NotFound
from scheduling.api.agent_door import (
    answer,
    carried,
    check_version,
    door,
    malformed,
    number,
    pace,
    read,
    refusal,
    sign_in,
    spoken,
    whole,
)
from scheduling.domain import attempt as attempts
from scheduling.domain import demand
from scheduling.domain.linkstate import Measured
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt
from scheduling.services import artefacts, checkpoints, gangs, leases, live, logs, metrics, nodes_sync, reports
from scheduling.services import links as routes
from scheduling.services.metering import Reading
from scheduling.services.pieces import Part

PACE_S = 0.15
"""So long the answer to a sync waits that comes too soon after the last ones: many news at once are then told
together.
"""


# --- the node
# ------------------------------------------------------------------------------------------------------------
@door("POST")
def enroll(request: HttpRequest) -> HttpResponse:
    where = throttling.address(request)
    throttling.check("enroll", where)
    message = read(request, wire.EnrollRequest)
    joined = joining.enroll(
        token=message.token,
        hardware=message.hardware,  # type: ignore[arg-type]  # frozen, and fits
        agent_version=message.agent_version,
        boot_id=message.boot_id,
        hostname=message.hostname,
        address=where,
        now=clock.now(),
    )
    node = joined.node
    zone = node.zone
    return answer(wire.Enrolled(node.public_id, joined.secret, node.name, zone.region.slug, zone.slug))


@door("POST")
def inventory(request: HttpRequest) -> HttpResponse:
    node, message = spoken(request, wire.InventoryReport)
    row = nodes_sync.inventory(
        node=node,
        hardware=message.hardware,
        agent_version=message.agent_version,
        runtime=message.runtime,
        self_test=message.self_test,
        fingerprint=message.fingerprint,
        now=clock.now(),
    )
    missing = tuple(
        wire.Check(check["name"], ok=False, detail=str(check["detail"])[:500], fix=str(check["fix"])[:500])
        for check in joining.missing(row)
    )
    return answer(wire.InventoryAnswer(row.state, missing))


@door("POST")
def drain(request: HttpRequest) -> HttpResponse:
    node, message = spoken(request, wire.DrainRequest)
    nodes_sync.leave(node=node, deadline=timedelta(milliseconds=message.deadline_ms), now=clock.now())
    return answer(wire.Stored(state=node.state))


@door("POST")
def links(request: HttpRequest) -> HttpResponse:
    node, message = spoken(request, wire.LinkReport)
    beacon = None
    if message.beacon_port is not None:
        seen = throttling.address(request)
        host = message.beacon_host or seen
        if host != seen and not _may_be_named(host):
            raise malformed("beacon_host", _("must be the node's own address, or a public one"))
        beacon = (host, message.beacon_port, message.beacon_key)
    plan = routes.report(
        node=node,
        sequence=message.sequence,
        links=tuple((one.region, Measured(one.rtt_us, one.loss_ppm, one.mbps)) for one in message.links),
        beacon=beacon,
        now=clock.now(),
    )
    targets = tuple(wire.LinkTarget(one.region, one.host, one.port, one.key) for one in plan.targets)
    return answer(wire.LinkPlan(targets, plan.period_ms))


def _may_be_named(host: str) -> bool:
    """May other nodes be sent there? A name or a private address could stand for somebody else's inner machine."""
    if settings.IDLEWILD_ALLOW_UNSAFE_NODES:  # a market on one machine or in one house
        return True
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False


@csrf_exempt
async def sync(request: HttpRequest) -> HttpResponse:
    """See the module and `scheduling.services.nodes_sync`."""
    if request.method != "POST":
        return HttpResponse(status=405, headers={"Allow": "POST"})
    pair = wire.parse_authorization(request.headers.get("Authorization", ""))
    loop = asyncio.get_running_loop()
    began = loop.time()
    # The place in the group is taken before the first look, so nothing that happens between the two is missed.
    async with softstate.Listener(live.agent_group(pair[0] if pair else "nobody")) as listener:
        try:
            node, said, found, too_fast = await _apart(_hear)(request)
            if too_fast:
                await asyncio.sleep(PACE_S)
            until = began + found.hold_ms / 1000
            while found.hold_ms and (left := until - loop.time()) > 0:
                if await listener.heard(left) is None:
                    break
                found = await _apart(_look_again)(node, said, found)
        except IdlewildError as error:
            return refusal(request, error)
    return answer(_sync_answer(found))


def _apart(step: Callable[..., Any]) -> Callable[..., Any]:
    """A synchronous step in its own thread that gives the database connection back before it returns."""

    def run(*given: Any) -> Any:
        try:
            return step(*given)
        finally:
            connections.close_all()

    return sync_to_async(run)


def _hear(request: HttpRequest) -> tuple[Node, nodes_sync.Said, nodes_sync.Answer, bool]:
    check_version(request)
    node = sign_in(request)
    too_fast = pace(node)
    message = read(request, wire.SyncRequest)
    said = nodes_sync.Said(
        boot_id=message.boot_id,
        incarnation=message.incarnation,
        seq=message.seq,
        acknowledges=message.acknowledges,
        hold_ms=message.hold_ms,
        leases=tuple(nodes_sync.HeldLease(held.attempt, held.fence, held.frozen) for held in message.leases),
        draining=message.draining,
        load=json.dumps(message.load.to_wire()) if message.load else "",
    )
    return node, said, nodes_sync.hear(node=node, said=said, now=clock.now()), too_fast


def _look_again(node: Node, said: nodes_sync.Said, found: nodes_sync.Answer) -> nodes_sync.Answer:
    return nodes_sync.look_again(node=node, said=said, answer=found, now=clock.now())


def _sync_answer(found: nodes_sync.Answer) -> wire.SyncAnswer:
    return wire.SyncAnswer(
        incarnation=found.incarnation,
        assignments=tuple(wire.Assignment(one.attempt, one.fence, one.accept_ms) for one in found.assignments),
        renewals=tuple(
            wire.Renewal(one.attempt, one.fence, one.ttl_ms, one.renew_ms, one.deadline_ms) for one in found.renewals
        ),
        cancels=tuple(
            wire.Cancel(one.attempt, one.fence, wire.Reason(one.reason), one.grace_ms) for one in found.cancels
        ),
        fenced=tuple(wire.Fenced(one.attempt, one.fence) for one in found.fenced),
        orders=tuple(
            wire.Order(one.id, wire.OrderKind(one.kind), one.nonce, one.deadline_ms, one.soak_s) for one in found.orders
        ),
    )


# --- an attempt
# ----------------------------------------------------------------------------------------------------------
@door("POST")
def accept(request: HttpRequest, attempt: str) -> HttpResponse:
    node, message = spoken(request, wire.AcceptRequest)
    taken = reports.accepted(node=node, attempt=attempt, fence=message.fence, now=leases.database_now())
    gangs.arrived(attempt=attempt, address=str(request.META.get("REMOTE_ADDR", "")))
    return answer(_spec(taken))


@door("POST")
def report(request: HttpRequest, attempt: str) -> HttpResponse:
    node, message = spoken(request, wire.PhaseReport)
    ended = message.phase is wire.Phase.ENDED
    given = reports.progress(
        node=node,
        attempt=attempt,
        secret=request.headers.get(wire.HEADER_LEASE, ""),
        fence=message.fence,
        seq=message.seq,
        phase=None if ended else attempts.Phase(message.phase.value),
        frozen=message.frozen,
        message=message.message,
        now=clock.now(),
    )
    return answer(wire.Stored(given.state, given.repeated))


@door("POST")
def usage(request: HttpRequest) -> HttpResponse:
    node, message = spoken(request, wire.UsageBatch)
    now = clock.now()
    rows = [
        (
            row.attempt,
            row.fence,
            Reading(
                row.resource.value,
                row.seq,
                row.count_milli,
                row.qty_us,
                now - timedelta(milliseconds=min(row.age_ms, reports.MOST_AGE_MS)),
            ),
        )
        for row in message.rows
    ]
    verdicts = reports.used(node=node, rows=rows, now=now)
    results = tuple(
        wire.UsageResult(row.attempt, row.resource, row.seq, wire.UsageVerdict(verdict))
        for row, verdict in zip(message.rows, verdicts, strict=True)
    )
    return answer(wire.UsageAnswer(results))


@door("POST")
def finish(request: HttpRequest, attempt: str) -> HttpResponse:
    node, message = spoken(request, wire.FinishReport)
    body = {
        name: value
        for name, value in message.to_wire().items()
        if name not in ("age_ms", "boot_id", "incarnation")  # they change with the try
    }
    told = reports.Finish(
        seq=message.seq,
        fence=message.fence,
        reason=EndReason(message.reason.value),
        started=message.started,
        age=timedelta(milliseconds=min(message.age_ms, reports.MOST_AGE_MS)),
        readings=[(counter.resource.value, counter.count_milli, counter.qty_us) for counter in message.counters],
        usage_seq=message.usage_seq,
        exit_code=message.exit_code,
        message=message.message,
        outputs={one.name: (one.size, one.sha256) for one in message.outputs},
        stats={
            "cpu_us": message.cpu_us,
            "mem_peak_bytes": message.mem_peak_bytes,
            "ran_us": message.ran_us,
            "frozen_us": message.frozen_us,
            "stdout_bytes": message.stdout_bytes,
            "stderr_bytes": message.stderr_bytes,
        },
        body=body,
    )
    given = reports.finished(
        node=node,
        attempt=attempt,
        secret=request.headers.get(wire.HEADER_LEASE, ""),
        report=told,
        now=clock.now(),
    )
    return answer(wire.Stored(given.state, given.repeated))


@door("POST")
def metrics_told(request: HttpRequest, attempt: str) -> HttpResponse:
    node, message = spoken(request, wire.MetricBatch)
    now = clock.now()
    mine = reports.of_node(node=node, attempt=attempt, now=now)
    leases.refuse_stale(attempt=mine, fence=message.fence)
    reports.check_secret(attempt=mine, secret=request.headers.get(wire.HEADER_LEASE, ""))
    samples = [
        metrics.Told(
            timedelta(milliseconds=min(one.age_ms, reports.MOST_AGE_MS)),
            one.ran_us,
            one.cpu_us,
            one.memory_bytes,
            one.network_bytes,
        )
        for one in message.samples
    ]
    metrics.store(attempt=mine, samples=samples, now=now)
    return answer(wire.Stored(mine.state))


@door("PUT")
def log(request: HttpRequest, attempt: str, stream: str) -> HttpResponse:
    mine = _live_attempt(request, attempt)
    if stream not in logs.STREAMS:
        raise NotFound(_("There is no such stream."))
    wanted = logs.append(
        attempt=mine,
        stream=stream,
        offset=number("offset", request.GET.get("offset", "")),
        packed=request.body,
        digest=request.headers.get(wire.HEADER_SHA256, ""),
        now=clock.now(),
    )
    return answer(wire.Received(wanted))


@door("PUT")
def output(request: HttpRequest, attempt: str, name: str) -> HttpResponse:
    mine = _live_attempt(request, attempt)
    stored = artefacts.upload(
        attempt=mine,
        name=name,
        offset=number("offset", request.GET.get("offset", "")),
        data=request.body,
        digest=request.headers.get(wire.HEADER_SHA256, ""),
        total=whole(request, wire.HEADER_TOTAL),
        whole_digest=request.headers.get(wire.HEADER_WHOLE_SHA256),
        now=clock.now(),
    )
    return answer(wire.Received(stored.offset, stored.complete))


@door("GET")
def input_bytes(request: HttpRequest, attempt: str, index: int) -> HttpResponseBase:
    mine = _live_attempt(request, attempt)
    inputs = demand.TaskSpec.from_form(mine.task.spec).inputs
    if index >= len(inputs) or not inputs[index].url.startswith(artefacts.SCHEME):
        raise NotFound(_("The job has no input of this number on the portal."))
    artefact = artefacts.resolve(organisation=mine.task.job.organisation, url=inputs[index].url)
    start = _range_start(request, artefact.size_bytes)
    return _bytes(artefacts.content(artefact=artefact, start=start), start, artefact.size_bytes)


@door("PUT")
def checkpoint(request: HttpRequest, attempt: str, name: str) -> HttpResponse:
    mine = _live_attempt(request, attempt)
    part = Part(
        number("offset", request.GET.get("offset", "")),
        request.body,
        request.headers.get(wire.HEADER_SHA256, ""),
        whole(request, wire.HEADER_TOTAL),
        request.headers.get(wire.HEADER_WHOLE_SHA256),
    )
    age = timedelta(milliseconds=min(whole(request, wire.HEADER_AGE_MS), reports.MOST_AGE_MS))
    stored = checkpoints.upload(attempt=mine, number=number("name", name), part=part, age=age, now=clock.now())
    return answer(wire.Received(stored.offset, stored.complete))


@door("GET")
def checkpoint_bytes(request: HttpRequest, attempt: str, name: str) -> HttpResponseBase:
    mine = _live_attempt(request, attempt)
    row = checkpoints.hand_over(attempt=mine, checkpoint=name)
    start = _range_start(request, row.size_bytes)
    return _bytes(checkpoints.content(checkpoint=row, start=start), start, row.size_bytes)


@csrf_exempt
def checkpoint_door(request: HttpRequest, attempt: str, name: str) -> HttpResponseBase:
    """One address, two methods."""
    view = checkpoint_bytes if request.method == "GET" else checkpoint
    return view(request, attempt=attempt, name=name)


def _bytes(pieces: Iterator[bytes], start: int, size: int) -> StreamingHttpResponse:
    headers = {"Accept-Ranges": "bytes", "Content-Length": str(size - start)}
    if start:
        headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
    return StreamingHttpResponse(
        pieces, status=206 if start else 200, content_type="application/octet-stream", headers=headers
    )


def _live_attempt(request: HttpRequest, attempt: str) -> Attempt:
    """The attempt that a byte call is about: this node's, under the live fence, with the lease secret."""
    node, fence, secret = carried(request)
    mine = reports.of_node(node=node, attempt=attempt, now=clock.now())
    leases.refuse_stale(attempt=mine, fence=fence)
    reports.check_secret(attempt=mine, secret=secret)
    return mine


def _range_start(request: HttpRequest, size: int) -> int:
    text = request.headers.get("Range", "")
    if not text:
        return 0
    unit, _equals, span = text.partition("=")
    start = number("Range", span.partition("-")[0]) if unit == "bytes" else 0
    if start > size:
        raise malformed("Range", _("begins after the end"))
    return start


def _spec(taken: reports.Assigned) -> wire.AssignmentSpec:
    lease, spec, times = taken.lease, taken.spec, taken.times
    task = taken.attempt.task
    row = settings.IDLEWILD_LEASE_CLASSES[lease.lease_class]
    return wire.AssignmentSpec(
        attempt=taken.attempt.public_id,
        task=task.public_id,
        job=task.job.public_id,
        fence=lease.fence,
        lease_secret=taken.secret,
        lease_class=lease.lease_class,
        ttl_ms=times.ttl_ms,
        renew_ms=times.renew_ms,
        deadline_ms=times.agent_deadline_ms(lease.grace_ms),
        frozen_kill_ms=row["frozen_kill_ms"],
        run=spec.run,
        resources=wire.Resources(
            cores_milli=lease.cores_milli,
            memory_mib=lease.memory_mib,
            disk_mib=max(1, lease.disk_gib * 1024),
            devices=tuple(lease.devices),
        ),
        max_duration_s=spec.max_duration_s,
        usage_every_ms=row["usage_ms"],
        action=wire.OnDisconnect(lease.action),
        name=task.job.name,
        task_name=task.name,
        region=taken.region,
        setup=spec.setup,
        envs={**spec.envs, **gangs.environment(taken.attempt, spec)},
        secrets=dict(taken.secrets),
        inputs=tuple(_input(item) for item in spec.inputs),
        outputs=tuple(
            wire.Output(item.name, item.path, item.required, wire.FileKind(item.type))
            for item in (() if taken.attempt.rank else spec.outputs)  # a gang's outputs are those of rank 0
        ),
        stop_grace_ms=int(leases.STOP_GRACE.total_seconds() * 1000),
        checkpoint=_checkpoint_plan(taken),
        egress=spec.network_hosts,
    )


def _checkpoint_plan(taken: reports.Assigned) -> wire.CheckpointPlan | None:
    wanted = taken.spec.checkpoint
    if wanted is None:
        return None
    kept = tuple(wire.StoredCheckpoint(row.public_id, row.size_bytes, row.sha256) for row in taken.checkpoints)
    return wire.CheckpointPlan(wanted.path, wanted.interval_s * 1000, kept)


def _input(item: demand.Input) -> wire.Input:
    kind = wire.FileKind(item.type)
    if item.archive:
        return wire.Input(item.path, wire.Source.CONTENT, content=item.archive, kind=kind, unpack=True)
    if item.url.startswith(artefacts.SCHEME):
        unpack = kind is wire.FileKind.DIRECTORY
        return wire.Input(
            item.path, wire.Source.PORTAL, sha256=item.sha256 or None, size=item.size_bytes, kind=kind, unpack=unpack
        )
    if item.url:
        return wire.Input(
            item.path, wire.Source.HTTPS, url=item.url, sha256=item.sha256 or None, size=item.size_bytes, kind=kind
        )
    content = base64.b64encode(item.content.encode()).decode()
    return wire.Input(item.path, wire.Source.CONTENT, content=content, kind=kind)
