"""Housekeeping of the front door."""

from celery import shared_task

from portal import clock
from portal.accounts.services import housekeeping


@shared_task(name="portal.expire")
def expire() -> None:
    housekeeping.expire(now=clock.now())
