"""Webhooks: endpoints, events inside the transaction of what happened, and sending until it is received, over real HTTP."""

import asyncio
import ipaddress
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from portal import vault
from portal.accounts.gateways import webhooks as gateway
from portal.accounts.models import WebhookDelivery, WebhookEndpoint, WebhookEvent
from portal.accounts.services import webhooks
from portal.audit.models import AuditEvent
from portal.kit import webhooks as rules
from portal.kit.errors import Conflict, InvalidInput
from portal.outbox.models import OutboxMessage
from tests.cast import THEN, Person, a_member
from tests.portal.accounts.receiver import Receiver

S, DAY = timedelta(seconds=1), timedelta(days=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def made(ada: Person, receiver: Receiver) -> webhooks.Made:
    return webhooks.create(organisation=ada.organisation, url=receiver.url, types=[], by=ada.id, now=THEN)


def emit(of: Person, *, type: str = "job.done", sequence: int | None = 7, now: datetime = THEN) -> WebhookEvent | None:
    return webhooks.emit(
        organisation_id=of.organisation.id,
        type=type,
        subject="job_1",
        sequence=sequence,
        data={"reason": "算力"},
        now=now,
    )


def state() -> tuple[str, int]:
    return WebhookDelivery.objects.values_list("state", "tries").get()


def test_an_event_arrives_signed_once(ada: Person, made: webhooks.Made, receiver: Receiver) -> None:
    event = emit(ada)
    assert event is not None
    assert emit(ada) == event  # the same thing told twice is one event
    assert webhooks.deliver(now=THEN) == 1
    assert webhooks.deliver(now=THEN + S) == 0
    [got] = receiver.got
    assert got.event == {
        "id": event.public_id, "type": "job.done", "created": "2026-11-02T08:00:00Z", "sequence": 7,
        "data": {"reason": "算力"},
    }  # fmt: skip
    assert (got.headers["Idlewild-Event"], got.headers["Idlewild-Attempt"]) == (event.public_id, "1")
    header = got.headers["Idlewild-Signature"]
    assert rules.is_signed(header, made.secret, got.body, now=int(THEN.timestamp()))
    assert state() == ("delivered", 1)


def test_what_was_rolled_back_is_not_told(ada: Person, made: webhooks.Made, receiver: Receiver) -> None:
    def fails() -> None:
        with transaction.atomic():
            emit(ada)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert webhooks.deliver(now=THEN) == 0
    assert receiver.got == []


def test_failures_are_tried_again_with_back_off_and_the_same_bytes(
    ada: Person, made: webhooks.Made, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers = [500, 302, 404]
    emit(ada)
    now = THEN
    monkeypatch.setattr(webhooks.clock, "now", lambda: now)
    for wait in (0, 10, 60, 300):
        if wait:
            assert webhooks.deliver(now=now + (wait - 1) * S) == 0  # not before its time
        now += wait * S
        webhooks.deliver(now=now)
    assert len(receiver.got) == 4
    assert len({one.body for one in receiver.got}) == 1
    assert [one.headers["Idlewild-Attempt"] for one in receiver.got] == ["1", "2", "3", "4"]
    assert state() == ("delivered", 4)
    row = WebhookDelivery.objects.get()
    assert [one["status"] for one in row.log] == [500, 302, 404, 200]  # a redirect is not followed
    assert WebhookEndpoint.objects.get().failing_since is None


def test_after_nine_tries_it_has_failed_and_can_be_sent_again(
    ada: Person, made: webhooks.Made, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers = [503] * 9
    emit(ada)
    now = THEN
    monkeypatch.setattr(webhooks.clock, "now", lambda: now)
    webhooks.deliver(now=now)
    with pytest.raises(Conflict) as early:
        webhooks.resend(delivery=WebhookDelivery.objects.get(), by=ada.id, now=now)
    assert early.value.code == "webhook_due"
    for seconds in rules.BACK_OFF_S:
        now += seconds * S
        webhooks.deliver(now=now)
    assert state() == ("failed", 9)
    assert webhooks.deliver(now=now + 30 * DAY) == 0
    again = webhooks.resend(delivery=WebhookDelivery.objects.get(), by=ada.id, now=now)
    assert (again.state, again.tries) == ("due", 0)
    assert webhooks.deliver(now=now) == 1
    assert len(receiver.got) == 10
    assert WebhookDelivery.objects.get().log[-1]["status"] == 200


def test_five_failing_days_switch_an_endpoint_off_and_its_admins_are_told(
    ada: Person, made: webhooks.Made, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_member(ada, "dev@example.org", "developer")
    receiver.answers = [500, 500, 500]
    now = THEN
    monkeypatch.setattr(webhooks.clock, "now", lambda: now)
    emit(ada)
    webhooks.deliver(now=now)
    assert WebhookEndpoint.objects.get().failing_since == THEN
    now = THEN + 5 * DAY
    webhooks.deliver(now=now)
    endpoint = WebhookEndpoint.objects.get()
    assert not endpoint.enabled
    assert emit(ada, sequence=8) is None
    [mail] = OutboxMessage.objects.filter(topic="mail", key__startswith="webhook-disabled")
    assert mail.payload["to"] == [ada.user.email]
    assert AuditEvent.objects.filter(deed="webhook.disabled").count() == 1
    back = webhooks.change(endpoint=endpoint, enabled=True, by=ada.id, now=now)
    assert (back.enabled, back.failing_since) == (True, None)
    assert emit(ada, sequence=9) is not None


def test_a_new_secret_signs_beside_the_old_one_for_a_day(ada: Person, made: webhooks.Made, receiver: Receiver) -> None:
    fresh = webhooks.rotate(endpoint=made.endpoint, by=ada.id, now=THEN)
    for sequence, moment, old_holds in ((1, THEN + S, True), (2, THEN + DAY, False)):
        emit(ada, sequence=sequence, now=moment)
        webhooks.deliver(now=moment)
        got = receiver.got[-1]
        header, at = got.headers["Idlewild-Signature"], int(moment.timestamp())
        assert rules.is_signed(header, fresh.secret, got.body, now=at)
        assert rules.is_signed(header, made.secret, got.body, now=at) is old_holds


def test_only_what_is_wanted_is_told_and_only_to_its_organisation(
    ada: Person, cleo: Person, receiver: Receiver
) -> None:
    webhooks.create(organisation=ada.organisation, url=receiver.url, types=["job.failed"], by=ada.id, now=THEN)
    webhooks.create(organisation=cleo.organisation, url=receiver.url, types=[], by=cleo.id, now=THEN)
    assert emit(ada) is None
    emit(ada, type="job.failed")
    webhooks.deliver(now=THEN)
    assert receiver.types() == ["job.failed"]


def test_a_slow_receiver_delays_nobody_else(ada: Person, cleo: Person) -> None:
    with Receiver(slow_s=0.5) as slow, Receiver() as quick:
        webhooks.create(organisation=ada.organisation, url=slow.url, types=[], by=ada.id, now=THEN)
        webhooks.create(organisation=cleo.organisation, url=quick.url, types=[], by=cleo.id, now=THEN)
        for number in range(30):
            emit(ada, sequence=number)
        webhooks.emit(
            organisation_id=cleo.organisation.id, type="job.done", subject="job_2", sequence=1, data={}, now=THEN + S
        )
        begun = time.monotonic()
        webhooks.deliver(now=THEN + S)
        assert time.monotonic() - begun < 5
        assert len(quick.got) == 1
        assert len(slow.got) == webhooks.PER_ENDPOINT


@pytest.mark.django_db(transaction=True)
def test_two_senders_do_not_send_the_same(ada: Person, receiver: Receiver) -> None:
    from django.db import connections

    webhooks.create(organisation=ada.organisation, url=receiver.url, types=[], by=ada.id, now=THEN)
    for number in range(4):
        emit(ada, sequence=number)
    receiver.slow_s = 0.1

    def send() -> None:
        try:
            webhooks.deliver(now=THEN)
        finally:
            connections.close_all()

    senders = [threading.Thread(target=send) for _ in range(3)]
    for one in senders:
        one.start()
    for one in senders:
        one.join()
    assert sorted(one.event["sequence"] for one in receiver.got) == [0, 1, 2, 3]


def test_no_answer_is_a_failure_with_a_reason() -> None:
    with Receiver(slow_s=0.4) as slow:
        outcome = asyncio.run(gateway.send(slow.url, b"{}", {}, private=True, timeout_s=0.1))
        assert (outcome.status, outcome.error) == (0, "no answer within 0.1 s")
    closed = asyncio.run(gateway.send(slow.url, b"{}", {}, private=True))
    assert closed.status == 0
    assert "ConnectError" in closed.error


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.8/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "http://example.org/",
        "https://user:word@example.org/",
    ],
)
def test_nothing_is_sent_behind_our_own_door(url: str) -> None:
    outcome = asyncio.run(gateway.send(url, b"{}", {}, private=False))
    assert (outcome.status, outcome.received) == (0, False)
    assert "public" in outcome.error or "address" in outcome.error


@pytest.mark.parametrize(
    ("address", "public"),
    [("93.184.216.34", True), ("2002:0a00:0001::1", False), ("224.0.0.1", False), ("100.64.0.1", False), ("::", False)],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert gateway.is_public(ipaddress.ip_address(address)) is public


def test_bad_addresses_and_types_are_refused(ada: Person, settings: Any) -> None:
    settings.IDLEWILD_PRIVATE_WEBHOOKS = False
    for url in ("http://example.org", "ftp://x", "https://", "https://a:b@c.org", "https://x/" + "y" * 500):
        with pytest.raises(InvalidInput):
            webhooks.create(organisation=ada.organisation, url=url, types=[], by=ada.id, now=THEN)
    with pytest.raises(InvalidInput):
        webhooks.create(organisation=ada.organisation, url="https://x.org", types=["job.gone"], by=ada.id, now=THEN)
    assert WebhookEndpoint.objects.count() == 0


def test_the_same_address_twice_and_too_many_are_refused(ada: Person, made: webhooks.Made) -> None:
    with pytest.raises(Conflict) as twice:
        webhooks.create(organisation=ada.organisation, url=made.endpoint.url, types=[], by=ada.id, now=THEN)
    assert twice.value.code == "webhook_exists"
    for number in range(webhooks.MOST_ENDPOINTS - 1):
        webhooks.create(organisation=ada.organisation, url=f"https://x{number}.org", types=[], by=ada.id, now=THEN)
    other = WebhookEndpoint.objects.exclude(id=made.endpoint.id).first()
    with pytest.raises(Conflict):
        webhooks.change(endpoint=other, url=made.endpoint.url, by=ada.id, now=THEN)
    with pytest.raises(Conflict) as many:
        webhooks.create(organisation=ada.organisation, url="https://y.org", types=[], by=ada.id, now=THEN)
    assert many.value.code == "too_many"


def test_secrets_are_sealed_and_sealed_anew(ada: Person, made: webhooks.Made, settings: Any) -> None:
    row = WebhookEndpoint.objects.get()
    assert made.secret not in row.sealed
    assert vault.decrypt(row.sealed, about=f"webhook:{row.public_id}") == made.secret
    assert webhooks.reseal() == 0
    settings.IDLEWILD_VAULT_KEYS = "newer:" + "n" * 40 + "," + settings.IDLEWILD_VAULT_KEYS
    assert webhooks.reseal() == 1
    assert WebhookEndpoint.objects.get().sealed.startswith("newer:")


def test_old_events_are_forgotten(ada: Person, made: webhooks.Made) -> None:
    emit(ada)
    assert webhooks.expire(now=THEN + 30 * DAY) == 0
    assert webhooks.expire(now=THEN + 31 * DAY) == 2  # the event and its delivery


def test_without_a_number_the_next_of_the_subject_is_taken(ada: Person, made: webhooks.Made) -> None:
    assert [emit(ada, type=f"node.{kind}", sequence=None).sequence for kind in ("listed", "retired")] == [1, 2]  # type: ignore[union-attr]


# --- the API
# ---------------------------------------------------------------------------------------------------------
def test_endpoints_by_the_api(ada: Person, ben: Person, cleo: Person, receiver: Receiver) -> None:
    web = ada.web()
    made = web.post("/api/v1/webhooks", {"url": receiver.url, "types": ["job.done"]}, format="json")
    assert made.status_code == 201
    one = f"/api/v1/webhooks/{made.json()['id']}"
    secret = made.json()["secret"]
    assert secret.startswith("whsec_")
    shown = web.get(one).json()
    assert "secret" not in shown
    assert web.get("/api/v1/webhooks").json()["items"] == [shown]
    assert web.post(f"{one}:test").status_code == 202
    webhooks.deliver(now=THEN + 365 * DAY)
    [got] = receiver.got
    assert got.event["type"] == "endpoint.test"
    [row] = web.get(f"{one}/deliveries").json()["items"]
    assert (row["state"], row["tries"][0]["status"]) == ("delivered", 200)
    assert web.get(f"{one}/deliveries?state=failed").json()["items"] == []
    assert web.get(f"{one}/deliveries?state=gone").status_code == 422
    assert web.post(f"/api/v1/webhook-deliveries/{row['id']}:resend").json()["state"] == "due"
    assert web.post(f"/api/v1/webhook-deliveries/{row['id']}:resend").status_code == 409
    assert web.post(f"{one}:rotate").json()["secret"] != secret
    changed = web.put(one, {"types": [], "description": "ours"}, format="json").json()
    assert (changed["types"], changed["description"], changed["url"]) == ([], "ours", receiver.url)
    assert web.put(one, {"types": ["x"]}, format="json").status_code == 422
    for path in (one, f"{one}/deliveries"):
        assert cleo.web().get(path).status_code == 404
        assert ben.web().get(path).status_code == 403  # a developer
    assert cleo.web().post(f"/api/v1/webhook-deliveries/{row['id']}:resend").status_code == 404
    assert web.delete(one).status_code == 204
    assert web.get(one).status_code == 404
