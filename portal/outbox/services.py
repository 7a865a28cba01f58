"""Promise (:func:`put`) and keep (:func:`relay`) effects."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.db import OperationalError, connection, transaction

from portal.outbox.models import OutboxMessage
from portal.outbox.registry import handler_of, perform

log = logging.getLogger(__name__)

BATCH = 100
BACK_OFF = (1, 2, 5, 10, 30, 60, 300, 1800)
"""Seconds before the next try after the n-th failure; the last one repeats."""


def put(
    *, topic: str, key: str, payload: Mapping[str, Any] | None = None, now: datetime, due_at: datetime | None = None
) -> None:
    """Promise an effect in the running transaction; the same (topic, key) again is no second promise.

    After commit the relay is nudged; a lost nudge costs one period of the relay, nothing else.
    """
    OutboxMessage.objects.bulk_create(
        [OutboxMessage(topic=topic, key=key, payload=dict(payload or {}), created_at=now, due_at=due_at or now)],
        ignore_conflicts=True,
    )
    if due_at is None or due_at <= now:
        transaction.on_commit(_nudge, robust=True)


def relay(*, now: datetime, limit: int = BATCH) -> int:
    """Perform what is due, each message in a transaction of its own that claims it (`SKIP LOCKED`); returns how many
    were sent.
    """
    sent = 0
    due = (
        OutboxMessage.objects.filter(sent_at=None, due_at__lte=now)
        .order_by("due_at", "id")
        .values_list("id", flat=True)[:limit]
    )
    for message_id in list(due):
        sent += _send_one(message_id, now)
    return sent


def expire(*, now: datetime, keep: timedelta = timedelta(days=30)) -> int:
    """Delete sent messages older than `keep`; returns the number."""
    return OutboxMessage.objects.filter(sent_at__lt=now - keep).delete()[0]


def _send_one(message_id: int, now: datetime) -> bool:
    with transaction.atomic():
        message = OutboxMessage.objects.select_for_update(skip_locked=True).filter(id=message_id, sent_at=None).first()
        if message is None:  # another relay has it
            return False
        if (
            handler_of(message.topic) is None
        ):  # nobody performs it yet: the row stays as the record of the promise, and is asked again seldom
            OutboxMessage.objects.filter(id=message.id).update(
                due_at=now + timedelta(seconds=BACK_OFF[-1]), last_error="no handler"
            )
            return False
        try:
            with transaction.atomic():
                perform(message.topic, message.key, message.payload, now=now)
        except Exception as error:  # whatever a handler raises is written down and tried again
            if isinstance(error, OperationalError) and not connection.is_usable():
                raise
            wait = BACK_OFF[min(message.tries, len(BACK_OFF) - 1)]
            log.warning("outbox %s %s failed: %s", message.topic, message.key, error)
            OutboxMessage.objects.filter(id=message.id).update(
                tries=message.tries + 1,
                last_error=f"{type(error).__name__}: {error}"[:500],
                due_at=now + timedelta(seconds=wait),
            )
            return False
        OutboxMessage.objects.filter(id=message.id).update(sent_at=now, tries=message.tries + 1, last_error="")
        return True


def _nudge() -> None:
    current_app.send_task("portal.relay", queue="relay", ignore_result=True, retry=False)
