"""Scheduling as celery tasks: three lines each. When they run is in portal/celery.py only."""

from celery import shared_task

from portal import clock
from scheduling.services import (
    capacity,
    decay,
    engine,
    funds,
    leases,
    links,
    presence,
    quotes,
    recovery,
    reliability,
    storage,
    summaries,
)


@shared_task(name="scheduling.cycle")
def place() -> None:
    engine.turn(clock=leases.database_now)


@shared_task(name="scheduling.sweep")
def sweep() -> None:
    recovery.sweep(now=leases.database_now())


@shared_task(name="scheduling.links")
def believe() -> None:
    links.refresh(now=clock.now())


@shared_task(name="scheduling.reconcile")
def reconcile() -> None:
    capacity.reconcile(now=clock.now())
    recovery.forget_exclusions(now=clock.now())


@shared_task(name="scheduling.learn")
def learn() -> None:
    reliability.score(now=clock.now())
    decay.learn(now=clock.now())


@shared_task(name="scheduling.funds")
def watch_funds() -> None:
    funds.watch(now=clock.now())


@shared_task(name="scheduling.refresh")
def refresh() -> None:
    summaries.publish(now=clock.now())


@shared_task(name="scheduling.expire")
def expire() -> None:
    engine.expire(now=clock.now())
    quotes.expire(now=clock.now())
    storage.expire(now=clock.now())


@shared_task(name="scheduling.presence")
def presence_of_nodes() -> None:
    presence.look(now=clock.now())
