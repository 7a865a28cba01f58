"""Who is told that something changed: open pages, and agents that are being held. After commit, through the channel
layer.

Pages listen to topics: ``job.<id>``, ``job.<id>.logs``, ``org.<id>.jobs``, ``node.<id>``, ``org.<id>.nodes``. A
message only says "changed";
every fact is fetched again, so a lost one costs a page nothing but its next poll.
"""

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
    for topic in dict.fromkeys(topics):
        transaction.on_commit(lambda topic=topic: _send(topic), robust=True)  # type: ignore[misc]


def wake(node: str) -> None:
    """End the held sync of a node, once the running transaction has committed."""
    transaction.on_commit(lambda: softstate.wake(agent_group(node)), robust=True)


def _send(topic: str) -> None:
    version = int(clock.now().timestamp() * 1000)
    softstate.wake(group(topic), {"type": "changed", "topic": topic, "version": version})
