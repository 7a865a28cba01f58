"""Websockets: who may hear what; news after commit; an agent's wake-up."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from agent import protocol as wire
from scheduling import consumers
from scheduling.services import live
from tests.cast import Person, a_member
from tests.factories.market import a_node
from tests.factories.running import a_queued

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE_S = 20


def page(user: Any) -> WebsocketCommunicator:
    socket = WebsocketCommunicator(URLRouter(consumers.websocket_urlpatterns), "/")
    socket.scope["user"] = user
    return socket


async def subscribed(user: Any, *topics: str) -> WebsocketCommunicator:
    socket = page(user)
    connected, _ = await socket.connect(timeout=PATIENCE_S)
    assert connected
    await socket.send_json_to({"subscribe": list(topics)})
    await asyncio.sleep(0.3)
    return socket


def change(*topics: str) -> None:
    with transaction.atomic():
        live.changed(*topics)


async def test_a_member_hears_of_its_job_after_commit(ada: Person, ben: Person) -> None:
    job = await sync_to_async(a_queued)(ada)
    topic = f"job.{job.public_id}"
    socket = await subscribed(ben.user, topic, f"org.{ada.organisation.public_id}.jobs")
    await sync_to_async(change)(topic)
    first = await socket.receive_json_from(timeout=PATIENCE_S)
    assert first["topic"] == topic
    await sync_to_async(change)(topic)
    second = await socket.receive_json_from(timeout=PATIENCE_S)
    assert second["version"] >= first["version"]
    await socket.disconnect()


async def test_what_was_rolled_back_is_not_told(ada: Person) -> None:
    job = await sync_to_async(a_queued)(ada)
    socket = await subscribed(ada.user, f"job.{job.public_id}")

    def fail() -> None:
        with transaction.atomic():
            live.changed(f"job.{job.public_id}")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await sync_to_async(fail)()
    assert await socket.receive_nothing(timeout=0.5)
    await socket.disconnect()


async def test_strangers_are_refused_and_hear_nothing(ada: Person, cleo: Person, sol: Person) -> None:
    job = await sync_to_async(a_queued)(ada)
    node = await sync_to_async(a_node)(sol)
    topics = [
        f"job.{job.public_id}",
        f"org.{ada.organisation.public_id}.jobs",
        f"node.{node.public_id}",
        "job.x",
        "everything",
    ]
    socket = await subscribed(cleo.user, *topics)
    assert await socket.receive_json_from(timeout=PATIENCE_S) == {"refused": topics}
    await sync_to_async(change)(*topics[:3])
    assert await socket.receive_nothing(timeout=0.5)
    await socket.disconnect()


async def test_logs_need_their_own_deed_and_operators_see_all(ada: Person, staff: Person) -> None:
    job = await sync_to_async(a_queued)(ada)
    accountant = await sync_to_async(a_member)(ada, "bill@example.org", "billing")
    logs = f"job.{job.public_id}.logs"
    socket = await subscribed(accountant.user, logs, f"job.{job.public_id}")
    assert await socket.receive_json_from(timeout=PATIENCE_S) == {"refused": [logs]}
    await socket.disconnect()
    socket = await subscribed(staff.user, logs)
    await sync_to_async(change)(logs)
    assert (await socket.receive_json_from(timeout=PATIENCE_S))["topic"] == logs
    await socket.disconnect()


async def test_a_stranger_without_a_session_is_not_let_in() -> None:
    socket = page(AnonymousUser())
    connected, code = await socket.connect(timeout=PATIENCE_S)
    assert (connected, code) == (False, consumers.NOT_SIGNED_IN)


@pytest.mark.parametrize(
    "text", ["{", "[]", "7", '{"subscribe": 7}', '{"subscribe": [{}]}', '"x"', "x" * 20_000, "[" * 16_000]
)
async def test_nonsense_is_no_reason_to_fail(ada: Person, text: str) -> None:
    socket = await subscribed(ada.user)
    await socket.send_to(text_data=text)
    job = await sync_to_async(a_queued)(ada)
    await socket.send_json_to({"subscribe": [f"job.{job.public_id}"]})
    await asyncio.sleep(0.3)
    await sync_to_async(change)(f"job.{job.public_id}")
    while "topic" not in await socket.receive_json_from(timeout=PATIENCE_S):
        pass
    await socket.disconnect()


async def test_an_agent_is_woken_and_a_wrong_secret_is_not_let_in(sol: Person) -> None:
    node = await sync_to_async(a_node)(sol)

    def socket(secret: str) -> WebsocketCommunicator:
        headers = [(b"authorization", wire.authorization(node.public_id, secret).encode())]
        return WebsocketCommunicator(URLRouter(consumers.agent_websocket_urlpatterns), "/wake", headers=headers)

    wrong = socket("guess")
    assert (await wrong.connect(timeout=PATIENCE_S))[0] is False
    right = socket("node-secret-of-the-tests")
    assert (await right.connect(timeout=PATIENCE_S))[0] is True
    await sync_to_async(wake)(node.public_id)
    assert await right.receive_from(timeout=PATIENCE_S) == "sync"
    await right.disconnect()


def wake(node: str) -> None:
    with transaction.atomic():
        live.wake(node)
