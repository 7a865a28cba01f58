"""The topics that pages listen to (sent by `scheduling.services.live` after commit)."""

from typing import Any


def topics_of(organisation: Any) -> dict[str, str]:
    """Topics of an organisation's lists."""
    return {"jobs": f"org.{organisation.public_id}.jobs", "nodes": f"org.{organisation.public_id}.nodes"}


def job_topic(public_id: str) -> str:
    return f"job.{public_id}"


def node_topic(public_id: str) -> str:
    return f"node.{public_id}"
