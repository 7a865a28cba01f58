"""Billing's celery tasks; the timetable is in ``portal.celery``."""

from celery import shared_task

from billing.services import (
    budgets,
    grants,
    holds,
    invoices,
    payments,
    payouts,
    periods,
    reconcile,
    reminders,
    rollup,
)
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


@shared_task(name="billing.payments")
def look_after_payments() -> None:
    payments.refresh(now=clock.now())


@shared_task(name="billing.payouts")
def release_payouts() -> None:
    payouts.release_due(now=clock.now())


@shared_task(name="billing.reconcile")
def compare_with_the_rail() -> None:
    reconcile.run(now=clock.now())
