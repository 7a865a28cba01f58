"""Websockets: live pages (``/ws/``), and the wake-up of agents (``/agent/v1/wake``). Both only say that something
changed.

Pages: ``{"subscribe": [topic, …]}`` → ``{"topic", "version"}`` on each change, or ``{"refused": [topic, …]}`` for
what this person may not see. Who may see a
topic is asked before its group is joined:

| topic | who |
|---|---|
| ``job.<id>`` | members of its organisation who may read work; ``job.<id>.logs``: who may read logs |
| ``org.<id>.jobs``, ``org.<id>.nodes`` and other topics of an organisation | its members who may read work |
| ``node.<id>`` | members of its provider who may read work |

Operators see all of them.
"""

import re
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer
from django.urls import path

from agent import protocol as wire
from marketplace.models import Node
from marketplace.selectors import nodes as found
from portal.accounts.models import Membership, Role
from portal.accounts.permissions import ROLE_DEEDS, Deed
from scheduling.models import Job
from scheduling.services import live

TOPIC = re.compile(r"(job|org|node)\.((?:job|org|nod)_[0-9A-Z]{26})(?:\.([a-z]{1,20}))?")
MOST_TOPICS = 100
MOST_TEXT = 16 * 1024
NOT_SIGNED_IN = 4401


class Pages(AsyncJsonWebsocketConsumer):
    """One open page."""

    async def connect(self) -> None:
        self.topics: set[str] = set()
        if not self.scope["user"].is_authenticated:
            await self.close(code=NOT_SIGNED_IN)
            return
        await self.accept()

    async def disconnect(self, code: int) -> None:
        for topic in self.topics:
            await self.channel_layer.group_discard(live.group(topic), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        """Anything but a small JSON object is not for us, and no reason to fail."""
        if text_data is None or len(text_data) > MOST_TEXT:
            return
        try:
            content = await self.decode_json(text_data)
        except (ValueError, RecursionError):  # a thousand brackets fit into a small text
            return
        await self.receive_json(content)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        asked = content.get("subscribe") if isinstance(content, dict) else None
        if not isinstance(asked, list):
            return
        wanted = [str(topic)[:100] for topic in asked[:MOST_TOPICS]]
        allowed = await database_sync_to_async(visible)(self.scope["user"], wanted)
        refused = [topic for topic in wanted if topic not in allowed]
        for topic in wanted:
            if topic in allowed and topic not in self.topics and len(self.topics) < MOST_TOPICS:
                self.topics.add(topic)
                await self.channel_layer.group_add(live.group(topic), self.channel_name)
        if refused:
            await self.send_json({"refused": refused})

    async def changed(self, event: dict[str, Any]) -> None:
        await self.send_json({"topic": event["topic"], "version": event["version"]})


class Wake(AsyncWebsocketConsumer):
    """An agent that listens for "sync now"; nothing depends on it."""

    async def connect(self) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.scope["headers"]}
        pair = wire.parse_authorization(headers.get("authorization", ""))
        self.node = await database_sync_to_async(found.by_secret)(*pair) if pair else None
        if self.node is None:
            await self.close(code=NOT_SIGNED_IN)
            return
        await self.channel_layer.group_add(live.agent_group(self.node.public_id), self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        if self.node is not None:
            await self.channel_layer.group_discard(live.agent_group(self.node.public_id), self.channel_name)

    async def wake(self, event: dict[str, Any]) -> None:
        await self.send(text_data="sync")


def visible(user: Any, topics: list[str]) -> set[str]:
    """Which of these topics this person may see."""
    return {topic for topic in topics if _may_see(user, topic)}


def _may_see(user: Any, topic: str) -> bool:
    match = TOPIC.fullmatch(topic)
    if match is None:
        return False
    kind, public_id, part = match.groups()
    organisation = _organisation_of(kind, public_id)
    if organisation is None:
        return False
    if user.is_operator:
        return True
    role = Membership.objects.filter(user=user, organisation_id=organisation).values_list("role", flat=True).first()
    needed = Deed.LOGS_READ if kind == "job" and part == "logs" else Deed.WORK_READ
    return role is not None and needed in ROLE_DEEDS[Role(role)]


def _organisation_of(kind: str, public_id: str) -> int | None:
    owners = {
        "job": lambda: Job.objects.filter(public_id=public_id).values_list("organisation_id", flat=True),
        "node": lambda: Node.objects.filter(public_id=public_id).values_list("organisation_id", flat=True),
        "org": lambda: Membership.objects.filter(organisation__public_id=public_id).values_list(
            "organisation_id", flat=True
        ),
    }
    return owners[kind]().first()


websocket_urlpatterns = [path("", Pages.as_asgi())]
agent_websocket_urlpatterns = [path("wake", Wake.as_asgi())]
