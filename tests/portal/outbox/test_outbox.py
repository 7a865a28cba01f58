"""Promised in the transaction, kept after it: at least once, keyed, tried again."""

from datetime import timedelta

import pytest
from django.core import mail as sent
from django.db import transaction

from portal.outbox import registry, services
from portal.outbox.models import OutboxMessage
from tests.cast import THEN

LATER = THEN + timedelta(seconds=1)


@pytest.fixture
def topic():
    """A topic of this test whose handler notes what it is given, or fails when told to."""
    seen = []

    def perform(key, payload):
        if payload.get("fail"):
            raise ValueError("not today")
        seen.append((key, dict(payload)))

    name = "test.topic"
    registry._handlers[name] = perform
    yield name, seen
    del registry._handlers[name]


def test_the_same_promise_twice_is_one(db, topic):
    name, seen = topic
    for _ in range(2):
        services.put(topic=name, key="a", payload={"n": 1}, now=THEN)
    assert services.relay(now=LATER) == 1
    assert services.relay(now=LATER) == 0
    assert seen == [("a", {"n": 1})]


def test_nothing_is_promised_by_a_transaction_that_fails(db, topic):
    with transaction.atomic():
        services.put(topic=topic[0], key="a", now=THEN)
        transaction.set_rollback(True)
    assert services.relay(now=LATER) == 0


def test_it_waits_until_it_is_due(db, topic):
    services.put(topic=topic[0], key="a", now=THEN, due_at=THEN + timedelta(hours=1))
    assert services.relay(now=LATER) == 0
    assert services.relay(now=THEN + timedelta(hours=1)) == 1


def test_a_failure_is_written_down_and_tried_again_later(db, topic):
    services.put(topic=topic[0], key="a", payload={"fail": True}, now=THEN)
    services.put(topic=topic[0], key="b", now=THEN)
    assert services.relay(now=LATER) == 1, "one failure stops nothing"
    row = OutboxMessage.objects.get(key="a")
    assert (row.tries, row.last_error, row.due_at) == (1, "ValueError: not today", LATER + timedelta(seconds=1))
    OutboxMessage.objects.filter(key="a").update(payload={})
    assert services.relay(now=LATER) == 0
    assert services.relay(now=LATER + timedelta(seconds=1)) == 1


def test_the_pauses_grow(db, topic):
    services.put(topic=topic[0], key="a", payload={"fail": True}, now=THEN)
    now, pauses = THEN, []
    for _ in range(len(services.BACK_OFF) + 2):
        services.relay(now=now)
        due = OutboxMessage.objects.get().due_at
        pauses.append(int((due - now).total_seconds()))
        now = due
    assert pauses == [*services.BACK_OFF, services.BACK_OFF[-1], services.BACK_OFF[-1]]


def test_a_topic_nobody_performs_stays_as_the_record_of_the_promise(db):
    services.put(topic="nobody.knows", key="a", now=THEN)
    assert services.relay(now=LATER) == 0
    row = OutboxMessage.objects.get()
    assert (row.sent_at, row.last_error) == (None, "no handler")


def test_sent_ones_are_kept_for_thirty_days(db, topic):
    services.put(topic=topic[0], key="a", now=THEN)
    services.relay(now=THEN)
    assert services.expire(now=THEN + timedelta(days=30)) == 0
    assert services.expire(now=THEN + timedelta(days=31)) == 1


def test_mail_goes_out(db):
    services.put(topic="mail", key="m", payload={"to": ["a@example.org"], "subject": "S", "body": "B"}, now=THEN)
    assert services.relay(now=THEN) == 1
    assert (sent.outbox[0].to, sent.outbox[0].subject, sent.outbox[0].body) == (["a@example.org"], "S", "B")


def test_a_topic_has_one_handler():
    with pytest.raises(ValueError, match="handler already"):
        registry.handler("mail")(lambda key, payload: None)
    assert "mail" in registry.topics()


@pytest.fixture
def together():
    """A topic whose messages are performed at once; it fails while `fails` says so."""
    seen, fails = [], []

    def perform(messages):
        if fails:
            raise ValueError("not today")
        seen.append([(key, dict(payload)) for key, payload in messages])

    registry._together["test.together"] = perform
    yield seen, fails
    del registry._together["test.together"]


def test_what_is_performed_together_takes_one_turn(db, together):
    seen, _ = together
    services.put_many(topic="test.together", messages=[("a", {"n": 1}), ("b", {"n": 2}), ("a", {})], now=THEN)
    services.put_many(topic="test.together", messages=[], now=THEN)
    assert services.relay(now=LATER) == 2
    assert services.relay(now=LATER) == 0
    assert seen == [[("a", {"n": 1}), ("b", {"n": 2})]]


def test_together_fails_together_and_is_tried_again_later(db, together):
    seen, fails = together
    fails.append(True)
    services.put_many(topic="test.together", messages=[("a", {}), ("b", {})], now=THEN)
    assert services.relay(now=THEN) == 0
    assert {row.tries for row in OutboxMessage.objects.all()} == {1}
    assert "not today" in OutboxMessage.objects.first().last_error
    assert services.relay(now=THEN) == 0
    fails.clear()
    assert services.relay(now=LATER) == 2
    assert len(seen) == 1


def test_a_topic_is_performed_one_by_one_or_together(together):
    with pytest.raises(ValueError, match="handler already"):
        registry.together("mail")(lambda messages: None)
    assert "test.together" in registry.topics()
