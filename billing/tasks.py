"""Billing's celery tasks; the timetable is in ``portal.celery``."""

from celery import shared_task

from billing.services import budgets, grants, holds, invoices, periods, reminders, rollup
from portal import clock


@shared_task(name="billing.close")
def close() -> None:
    periods.close_due(now=clock.now())


@shared_task(name="billing.past_due")
def past_due() -> None:
    invoices.mark_past_due(now=clock.now())


@shared_task(name="billing.holds")
def expire_holds() -> None:
    holds.expire_due(now=clock.now())
    grants.expire(now=clock.now())


@shared_task(name="billing.prove")
def prove() -> None:
    rollup.prove(now=clock.now())


@shared_task(name="billing.budgets")
def watch_budgets() -> None:
    budgets.watch(now=clock.now())


@shared_task(name="billing.reminders")
def send_reminders() -> None:
    reminders.send_due(now=clock.now())
