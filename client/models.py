"""What the portal tells, as frozen values. Reading is tolerant: a field the portal adds later is kept in `raw`, one it
leaves out is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Row = dict[str, Any]


class JobState(str, Enum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


def rows_of(value: Any) -> list[Row]:
    """The objects of a list, or of a page (`items`)."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("items", "results") if name in value), [])
    return (
        [dict(row) for row in value if isinstance(row, Mapping)]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else []
    )


def mapping(value: Any) -> Row:
    return dict(value) if isinstance(value, Mapping) else {}


def text(value: Any) -> str:
    return "" if value is None else str(value)


def money_text(value: Any) -> str:
    """`12.34 CNY` of the wire's `{"amount", "currency"}`."""
    if isinstance(value, Mapping):
        return f"{value.get('amount', '')} {value.get('currency', '')}".strip()
    return text(value)


@dataclass(frozen=True)
class Page:
    """One page of a list, newest first; `next_cursor` is empty at the end."""

    items: list[Row]
    next_cursor: str = ""
    raw: Row = field(default_factory=dict)

    @classmethod
    def read(cls, body: Any) -> Page:
        return cls(rows_of(body), text(mapping(body).get("next_cursor")), mapping(body))


@dataclass(frozen=True)
class Point:
    """One point of the front: a node, what it costs, when it ends, how green it is, what is moved."""

    index: int
    node: str
    region: str
    zone: str
    values: Row
    cost: Row
    roles: list[str]
    raw: Row

    @classmethod
    def read(cls, row: Mapping[str, Any], index: int) -> Point:
        node = row.get("node")
        return cls(
            index=int(row.get("index", index)),
            node=text(
                mapping(node).get("name") or mapping(node).get("id")
                if isinstance(node, Mapping)
                else row.get("node_name") or node
            ),
            region=text(row.get("region")),
            zone=text(row.get("zone")),
            values=mapping(row.get("values")),
            cost=mapping(row.get("cost")),
            roles=[text(role) for role in row.get("roles") or []],
            raw=dict(row),
        )


@dataclass(frozen=True)
class Quote:
    """A promise of placements and prices until `expires_at`."""

    id: str
    points: list[Point]
    pick: int | None
    reason: Any
    refused: list[Row]
    warnings: list[Row]
    expires_at: str
    raw: Row

    @classmethod
    def read(cls, body: Any) -> Quote:
        row = mapping(body)
        pick = row.get("pick")
        return cls(
            id=text(row.get("id")),
            points=[Point.read(point, n) for n, point in enumerate(rows_of(row.get("points")))],
            pick=pick if isinstance(pick, int) else None,
            reason=row.get("reason"),
            refused=rows_of(row.get("refused")),
            warnings=rows_of(row.get("warnings")),
            expires_at=text(row.get("expires_at")),
            raw=row,
        )


@dataclass(frozen=True)
class Job:
    """A job as the portal shows it."""

    id: str
    name: str
    state: JobState
    reason: str
    project: str
    created_at: str
    raw: Row

    @classmethod
    def read(cls, body: Any) -> Job:
        row = mapping(body)
        project = row.get("project")
        return cls(
            id=text(row.get("id")),
            name=text(row.get("name")),
            state=JobState(text(row.get("state")) or "queued"),
            reason=text(row.get("reason")),
            project=text(mapping(project).get("slug") if isinstance(project, Mapping) else project),
            created_at=text(row.get("created_at")),
            raw=row,
        )


@dataclass(frozen=True)
class Event:
    """Something that happened to a job; `sequence` grows per job."""

    sequence: int
    type: str
    data: Row
    created_at: str
    raw: Row

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Event:
        return cls(
            int(row.get("sequence") or 0),
            text(row.get("type")),
            mapping(row.get("data")),
            text(row.get("created_at") or row.get("created")),
            dict(row),
        )
