"""Housekeeping of the front door."""

from celery import shared_task

from portal import clock
from portal.accounts.services import housekeeping, webhooks


@shared_task(name="portal.expire")
def expire() -> None:
    housekeeping.expire(now=clock.now())


@shared_task(name="portal.webhooks")
def deliver() -> None:
    webhooks.deliver(now=clock.now())
