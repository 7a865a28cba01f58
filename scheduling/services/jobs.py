"""Submit, cancel, retry, change: what tenants do with jobs.

Everything of one deed is one transaction: rows, hold, audit note, event and the wish for a cycle stand or fall together.
Order of locks: Task, Attempt, Lease, NodeState, Job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.models import Organisation, Project
from portal.accounts.selectors import organisations
from portal.audit.services import note
from portal.kit.errors import Conflict, Finding, InvalidInput
from portal.kit.money import CURRENCIES, Money, micro_text
from portal.outbox.services import put
from scheduling.domain.attempt import LIVE
from scheduling.domain.demand import JobSpec, Pick, TaskSpec
from scheduling.domain.job import JOB_OPEN, JobState, TaskEvent, TaskState
from scheduling.domain.reasons import EndReason, WaitReason
from scheduling.domain.spec import BUDGET_ACTIONS
from scheduling.domain.spec_values import Wrong, money_minor
from scheduling.models import Attempt, Job, Quote, Task
from scheduling.selectors import snapshot
from scheduling.services import events, funds, leases, live, outcomes, quotes, specs

SECONDS_PER_HOUR = 3_600


@dataclass(frozen=True)
class Terms:
    """What a submission settles: the point that was chosen, the cap, the budget, what is held."""

    point: int | None
    budget_minor: int | None
    held: Money


def submit(
    *,
    tenant: Organisation,
    project: Project | None,
    spec: Any,
    by: str,
    now: datetime,
    quote: Quote | None = None,
    point: int | None = None,
) -> Job:
    """Submit a job; with a quote, `spec` may be left out. SpendingRefused (402), Conflict `quote_expired` (409) or InvalidInput (422) create nothing."""
    with transaction.atomic():
        if quote is not None:
            quote = quotes.use(quote=quote, now=now)
        parsed = specs.read(
            quote.spec if spec is None and quote is not None else spec,
            tenant=tenant,
            project=project,
            now=now,
            quoted=quote is not None,
            point_given=point is not None or quote is not None,
            name=quote.spec["name"] if quote is not None else "",
        )
        job_spec = parsed.spec
        if quote is not None:
            _demand_same(quote, job_spec)
        terms = _terms(job_spec, quote, point, tenant)
        job = _create(tenant, job_spec, by, now, quote, terms)
        held = funds.reserve(job=job, whole=terms.held, now=now)
        note(
            actor=by,
            deed="job.submit",
            target=job.public_id,
            organisation_id=tenant.id,
            data={"name": job.name, "project": job.project.slug, "quote": quote.public_id if quote else None},
            now=now,
        )
        events.write(
            job_id=job.id,
            type="job.queued",
            data={"rental": job.rental, "held": held.wire(), "point": terms.point},
            now=now,
        )
        put(topic="cycle.wanted", key=f"job.{job.public_id}", now=now)
        live.changed(f"job.{job.public_id}", f"org.{tenant.public_id}.jobs")
    job.refresh_from_db()
    return job


def cancel(*, job: Job, by: str, now: datetime, reason: EndReason = EndReason.CANCELLED_BY_TENANT) -> Job:
    """Cancel what has not ended: queued tasks at once, running attempts by asking their agents. Again = no change."""
    with transaction.atomic():
        waiting = list(Task.objects.select_for_update(no_key=True).filter(job=job).order_by("id"))
        open_tasks = [task for task in waiting if task.state in (TaskState.WAITING, TaskState.QUEUED)]
        for task in open_tasks:
            outcomes.move(task=task, event=TaskEvent.CANCELLED, now=now, reason=reason)
        running = Attempt.objects.filter(task__job=job, state__in=[state.value for state in LIVE]).order_by("task_id")
        running_ids = list(running.values_list("id", flat=True))
        for attempt_id in running_ids:
            leases.ask_stop(attempt_id=attempt_id, reason=reason, actor=by, now=now)
        if not open_tasks and not running_ids:
            return job
        first = Job.objects.filter(id=job.id, cancel_requested_at=None).update(cancel_requested_at=now)
        if first:
            note(
                actor=by, deed="job.cancel", target=job.public_id, organisation_id=job.organisation_id,
                data={"reason": reason.value}, now=now,
            )  # fmt: skip
        outcomes.settle(job_id=job.id, now=now)
    job.refresh_from_db()
    return job


def retry(*, job: Job, by: str, now: datetime) -> Job:
    """Queue the failed tasks again, under the same job. Conflict `nothing_to_retry` if none has failed."""
    with transaction.atomic():
        failed = list(
            Task.objects.select_for_update(no_key=True).filter(job=job, state=TaskState.FAILED).order_by("id")
        )
        if not failed:
            raise Conflict(
                _("No task of this job has failed, so there is nothing to try again."), code="nothing_to_retry"
            )
        for task in failed:
            outcomes.move(
                task=task,
                event=TaskEvent.RETRIED,
                now=now,
                queued_at=now,
                not_before=None,
                excluded_nodes=[],
                failures={},
                first_failed_at=None,
                reason="",
                retries_asked=task.retries_asked + 1,
            )
            Task.objects.filter(id=task.id).update(ended_at=None)
            put(topic="cycle.wanted", key=f"retry.{task.public_id}.{task.retries_asked + 1}", now=now)
        Job.objects.filter(id=job.id).update(cancel_requested_at=None)
        outcomes.settle(job_id=job.id, now=now)
        funds.reserve(job=job, whole=_held_again(job), now=now)
        note(
            actor=by, deed="job.retry", target=job.public_id, organisation_id=job.organisation_id,
            data={"tasks": [task.public_id for task in failed]}, now=now,
        )  # fmt: skip
    job.refresh_from_db()
    return job


CHANGES = ("priority", "labels", "max_price_micro", "budget_minor", "budget_on_exceed")


def change(*, job: Job, values: Mapping[str, Any], by: str, now: datetime) -> Job:
    """Change priority, labels, cap or budget for attempts to come. Running attempts keep their price."""
    unknown = set(values) - set(CHANGES)
    if unknown:
        raise InvalidInput([Finding(name, "unknown_field", _("this cannot be changed")) for name in sorted(unknown)])
    if job.state not in JOB_OPEN and set(values) - {"labels"}:
        raise Conflict(_("This job has ended."), code="job_ended", state=job.state)
    with transaction.atomic():
        if "budget_minor" in values:  # what its budget held looks for capacity from now on
            held = Task.objects.filter(job=job, state=TaskState.QUEUED, waiting__reason=WaitReason.BUDGET_HELD.value)
            held.update(queued_at=now)
        row = Job.objects.select_for_update(no_key=True).get(id=job.id)
        changed = {name: value for name, value in values.items() if getattr(row, name) != value}
        if changed:
            Job.objects.filter(id=job.id).update(**changed, spec=_spec_with(row, changed))
            was = {name: getattr(row, name) for name in changed}
            note(
                actor=by, deed="job.change", target=job.public_id, organisation_id=job.organisation_id,
                data={"was": was, "is": changed}, now=now,
            )  # fmt: skip
            events.write(job_id=job.id, type="job.changed", data={"fields": sorted(changed)}, now=now)
            put(topic="cycle.wanted", key=f"change.{job.public_id}.{row.event_sequence + 1}", now=now)
            live.changed(f"job.{job.public_id}", f"org.{job.organisation.public_id}.jobs")
    job.refresh_from_db()
    if "budget_minor" in changed:
        funds.stop_if_spent(
            job=job, now=now
        )  # lowered below what is used: also an agent that is cut off finds it at its next sync
    return job


def as_columns(job: Job, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a door read (`priority labels max_price budget`) as columns; InvalidInput for a budget that is none."""
    columns = {name: values[name] for name in ("priority", "labels") if name in values}
    if "max_price" in values:
        if values["max_price"] is None and job.quote is None:
            raise InvalidInput([Finding("max_price", "price_unbounded", _("a job without a quote needs a cap"))])
        columns["max_price_micro"] = values["max_price"]
    if "budget" in values:
        columns |= _budget(job, values["budget"])
    return columns


def _budget(job: Job, value: Any) -> dict[str, Any]:
    amount, on_exceed = value, job.budget_on_exceed
    if isinstance(value, Mapping):
        amount, on_exceed = value.get("amount"), value.get("on_exceed", on_exceed)
        strange = set(value) - {"amount", "on_exceed"}
        if strange or amount is None or on_exceed not in BUDGET_ACTIONS:
            raise InvalidInput([Finding("budget", "bad_value", _("an amount, or amount and on_exceed: stop or hold"))])
    if amount is None:
        return {"budget_minor": None}
    try:
        return {"budget_minor": money_minor(amount, job.currency), "budget_on_exceed": on_exceed}
    except Wrong as wrong:
        message = _(wrong.message).format(**wrong.gaps)
        raise InvalidInput([Finding("budget", wrong.code, message, wrong.hint)]) from None


def _spec_with(job: Job, changed: Mapping[str, Any]) -> dict[str, Any]:
    """The shown spec with what was changed."""
    shown = {**job.spec, **{name: changed[name] for name in ("priority", "labels") if name in changed}}
    if "max_price_micro" in changed:
        cap = changed["max_price_micro"]
        shown["max_price"] = None if cap is None else micro_text(cap)
    if {"budget_minor", "budget_on_exceed"} & set(changed):
        amount = changed.get("budget_minor", job.budget_minor)
        on_exceed = changed.get("budget_on_exceed", job.budget_on_exceed)
        text = None if amount is None else Money(amount, job.currency).text()
        shown["budget"] = None if text is None else {"amount": text, "on_exceed": on_exceed}
    return shown


def _demand_same(quote: Quote, spec: JobSpec) -> None:
    """A quote holds for the spec that was quoted (its name aside)."""
    if quotes.spec_digest(spec.outward()) != quote.spec_digest:
        raise Conflict(_("This is not the spec that was quoted. Get a quote for it."), code="quote_differs")


def _terms(spec: JobSpec, quote: Quote | None, point: int | None, tenant: Organisation) -> Terms:
    if quote is None:
        if point is not None:
            raise InvalidInput([Finding("point", "exclusive_fields", _("a point belongs to a quote"))])
        return Terms(None, spec.budget_minor, held_without_quote(spec, tenant.currency))
    if not quote.points:
        raise Conflict(_("This quote has no point: nothing fits now. See what it says would help."), code="quote_empty")
    if point is None and spec.task.placement.pick == Pick.ASK:
        raise InvalidInput([Finding("point", "choice_required", _("choose one of the quote's points"))])
    chosen = quote.pick if point is None else point
    if chosen is None or not 0 <= chosen < len(quote.points):
        most = len(quote.points) - 1
        raise InvalidInput(
            [Finding("point", "out_of_range", _("the quote's points are 0 to {most}").format(most=most))]
        )
    high = Money(_minor_up(int(quote.points[chosen]["high_micro"]), tenant.currency), tenant.currency)
    budget = high.minor if spec.budget_minor is None else spec.budget_minor
    return Terms(chosen, budget, Money(min(budget, high.minor), tenant.currency))


def held_without_quote(spec: JobSpec, currency: str) -> Money:
    """The most a job without a quote may cost: cap × max_duration + the dearest transfer, at most its budget."""
    hours = (spec.max_price_micro or 0) * spec.task.max_duration_s * spec.task.num_nodes
    size = sum(item.size_bytes or 0 for item in spec.task.inputs)
    size *= spec.task.num_nodes
    transfer = size * snapshot.dearest_gb() // 10**9 if size else 0
    minor = _minor_up(-(-hours // SECONDS_PER_HOUR) + transfer, currency)
    return Money(minor if spec.budget_minor is None else min(minor, spec.budget_minor), currency)


def _held_again(job: Job) -> Money:
    """What a retried job may still cost."""
    if job.quote is not None and job.point is not None:
        minor = _minor_up(int(job.quote.points[job.point]["high_micro"]), job.currency)
    else:
        task = TaskSpec.from_form(job.tasks.order_by("id")[0].spec)
        spec = JobSpec(job.name, "", job.currency, task, max_price_micro=job.max_price_micro)
        minor = held_without_quote(spec, job.currency).minor
    return Money(minor if job.budget_minor is None else min(minor, job.budget_minor), job.currency)


def _minor_up(micro: int, currency: str) -> int:
    """Micro-currency in minor units, rounded up: a reservation is never too small."""
    step = 10 ** (6 - CURRENCIES[currency].exponent)
    return -(-micro // step)


def _create(tenant: Organisation, spec: JobSpec, by: str, now: datetime, quote: Quote | None, terms: Terms) -> Job:
    job = Job.objects.create(
        organisation=tenant,
        project=organisations.project(tenant, spec.project),
        name=spec.name,
        submitted_by=by,
        spec=spec.outward(),
        state=JobState.QUEUED,
        priority=spec.priority,
        labels=dict(spec.labels),
        currency=tenant.currency,
        rental=spec.task.resources.rental,
        max_price_micro=spec.max_price_micro,
        budget_minor=terms.budget_minor,
        budget_on_exceed=spec.budget_on_exceed,
        quote=quote,
        point=terms.point,
        created_at=now,
    )
    Task.objects.create(job=job, spec=spec.task.form(), state=TaskState.QUEUED, queued_at=now)
    return job
