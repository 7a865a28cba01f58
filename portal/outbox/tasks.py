"""The relay as a celery task."""

from celery import shared_task

from portal import clock
from portal.outbox import services


@shared_task(name="portal.relay")
def relay() -> None:
    services.relay(now=clock.now())
