"""Promise (:func:`put`) and keep (:func:`relay`) effects."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.db import OperationalError, connection, transaction
from django.db.models import F

from portal import softstate
from portal.outbox.models import OutboxMessage
from portal.outbox.registry import Together, handler_of, perform, performed_together

log = logging.getLogger(__name__)

BATCH = 100
BATCH_TOGETHER = 2_000
NUDGED, NUDGED_TTL_MS = "relay.nudged", 1_000
BACK_OFF = (1, 2, 5, 10, 30, 60, 300, 1800)
"""Seconds before the next try after the n-th failure; the last one repeats."""


def put(
    *, topic: str, key: str, payload: Mapping[str, Any] | None = None, now: datetime, due_at: datetime | None = None
) -> None:
    """Promise an effect in the running transaction; the same (topic, key) again is no second promise.

    After commit the relay is nudged; a lost nudge costs one period of the relay, nothing else.
    """
    put_many(topic=topic, messages=[(key, payload or {})], now=now, due_at=due_at)


def put_many(
    *, topic: str, messages: Sequence[tuple[str, Mapping[str, Any]]], now: datetime, due_at: datetime | None = None
) -> None:
    """Several promises of one topic, as (key, payload), in one statement and with one nudge."""
    OutboxMessage.objects.bulk_create(
        [
            OutboxMessage(topic=topic, key=key, payload=dict(payload), created_at=now, due_at=due_at or now)
            for key, payload in messages
        ],
        ignore_conflicts=True,
    )
    if messages and (due_at is None or due_at <= now):
        transaction.on_commit(_nudge, robust=True)


def relay(*, now: datetime, limit: int = BATCH) -> int:
    """Perform what is due, each message in a transaction of its own that claims it (`SKIP LOCKED`); topics that are
    performed together take one transaction for all. Returns how many were sent.
    """
    softstate.forget(NUDGED)
    together = performed_together()
    sent = _send_together(together, now)
    due = (
        OutboxMessage.objects.filter(sent_at=None, due_at__lte=now)
        .exclude(topic__in=list(together))
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


def _send_together(together: Mapping[str, Together], now: datetime) -> int:
    with transaction.atomic():
        due = list(
            OutboxMessage.objects.select_for_update(skip_locked=True)
            .filter(sent_at=None, due_at__lte=now, topic__in=list(together))
            .order_by("due_at", "id")[:BATCH_TOGETHER]
        )
        sent = 0
        for topic, all_at_once in together.items():
            mine = [message for message in due if message.topic == topic]
            if mine:
                sent += _perform_together(topic, all_at_once, mine, now)
    return sent


def _perform_together(topic: str, all_at_once: Together, mine: Sequence[OutboxMessage], now: datetime) -> int:
    rows = OutboxMessage.objects.filter(id__in=[message.id for message in mine])
    try:
        with transaction.atomic():
            all_at_once([(message.key, message.payload) for message in mine])
    except Exception as error:  # whatever a handler raises is written down and tried again
        if isinstance(error, OperationalError) and not connection.is_usable():
            raise
        log.warning("outbox %s failed for %d messages: %s", topic, len(mine), error)
        wait = BACK_OFF[min(max(message.tries for message in mine), len(BACK_OFF) - 1)]
        rows.update(
            tries=F("tries") + 1,
            last_error=f"{type(error).__name__}: {error}"[:500],
            due_at=now + timedelta(seconds=wait),
        )
        return 0
    return rows.update(sent_at=now, tries=F("tries") + 1, last_error="")


def _nudge() -> None:
    """Ask for the relay, once until it has begun: a burst of promises is one message."""
    if not softstate.first(NUDGED, ttl_ms=NUDGED_TTL_MS):
        return
    current_app.send_task("portal.relay", queue="relay", ignore_result=True, retry=False)
