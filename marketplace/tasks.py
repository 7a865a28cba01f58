"""What the timetable asks of the market."""

from celery import shared_task

from marketplace.services import housekeeping
from portal import clock


@shared_task(name="marketplace.expire")
def expire() -> None:
    housekeeping.expire(now=clock.now())
