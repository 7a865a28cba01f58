"""Who is told that something changed: open pages, and agents that are being held. After commit, through the channel
layer.

Pages listen to topics: ``job.<id>``, ``job.<id>.logs``, ``org.<id>.jobs``, ``node.<id>``, ``org.<id>.nodes``. A
message only says "changed";
every fact is fetched again, so a lost one costs a page nothing but its next poll.
"""

from collections.abc import Sequence

from django.db import transaction

from portal import clock, softstate


def group(topic: str) -> str:
    """The channel group of a topic."""
    return f"live.{topic}"


def agent_group(node: str) -> str:
    """The channel group that wakes a node's held sync."""
    return f"agent.{node}"


def changed(*topics: str) -> None:
    """Tell the pages that show these topics, once the running transaction has committed."""
    wanted = list(dict.fromkeys(topics))
    if wanted:
        transaction.on_commit(lambda: _send(wanted), robust=True)


def wake(*nodes: str) -> None:
    """End the held syncs of these nodes, once the running transaction has committed."""
    groups = [(agent_group(node), None) for node in dict.fromkeys(nodes)]
    if groups:
        transaction.on_commit(lambda: softstate.wake_many(groups), robust=True)


def _send(topics: Sequence[str]) -> None:
    version = int(clock.now().timestamp() * 1000)
    softstate.wake_many([(group(topic), {"type": "changed", "topic": topic, "version": version}) for topic in topics])
