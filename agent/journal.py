"""What must survive the agent: one row per attempt in SQLite (WAL, synchronous=FULL), and a few named values.

A row is written before the act it describes: the groups of a job before its supervisor is started, the number of a usage
report before it is sent. So a new agent finds every process that an old one may have started: it adopts a supervisor whose
pid **and start time** match on the same boot, else kills the journaled groups and says what happened. Rows of ended
attempts stay 30 days: they are the provider's own record of what was refused or lost.

Secrets are not in here: the assignment lies in the attempt's own folder (0600) and goes with it.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .machine import Attempt, State
from .protocol import Phase, Reason, UploadedOutput

KEPT_S = 30 * 24 * 3600

SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
  attempt TEXT PRIMARY KEY, fence INTEGER NOT NULL, state TEXT NOT NULL, boot_id TEXT NOT NULL,
  data TEXT NOT NULL, changed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS named (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Record:
    """An attempt and what its processes are called on this machine."""

    attempt: Attempt
    boot_id: str
    slot: int = 0
    group: dict[str, Any] | None = None
    supervisor_pid: int | None = None
    supervisor_start: int | None = None
    report_seq: int = 0
    usage_seq: int = 0
    ended_ms: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # the supervisor's last word

    def with_attempt(self, attempt: Attempt) -> Record:
        return replace(self, attempt=attempt)


def _attempt_to_json(attempt: Attempt) -> dict[str, Any]:
    data = {f.name: getattr(attempt, f.name) for f in fields(attempt)}
    data["outputs"] = [output.to_wire() for output in attempt.outputs]
    return data


def _attempt_from_json(data: dict[str, Any]) -> Attempt:
    reason = data["reason"]
    return Attempt(
        **{
            **data,
            "state": State(data["state"]),
            "phase": Phase(data["phase"]),
            "reason": Reason(reason) if reason else None,
            "outputs": tuple(UploadedOutput.from_wire(output) for output in data["outputs"]),
        }
    )


class Journal:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.executescript(SCHEMA)
        path.chmod(0o600)

    def close(self) -> None:
        self._db.close()

    def save(self, record: Record, now_s: int) -> None:
        data = {name: value for name, value in asdict(record).items() if name not in ("attempt", "boot_id")}
        data["attempt"] = _attempt_to_json(record.attempt)
        self._db.execute(
            "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (attempt) DO UPDATE SET fence = excluded.fence,"
            " state = excluded.state, boot_id = excluded.boot_id, data = excluded.data, changed = excluded.changed",
            (
                record.attempt.id,
                record.attempt.fence,
                record.attempt.state.value,
                record.boot_id,
                json.dumps(data),
                now_s,
            ),
        )

    def unfinished(self) -> list[Record]:
        return self._read("WHERE state != 'done' ORDER BY changed")

    def get(self, attempt: str) -> Record | None:
        found = self._read("WHERE attempt = ?", attempt)
        return found[0] if found else None

    def _read(self, where: str, *arguments: str) -> list[Record]:
        rows = self._db.execute(f"SELECT boot_id, data FROM attempts {where}", arguments)  # noqa: S608 - constants
        records = []
        for boot_id, text in rows:
            data = json.loads(text)
            records.append(Record(**{**data, "boot_id": boot_id, "attempt": _attempt_from_json(data["attempt"])}))
        return records

    def purge(self, now_s: int) -> None:
        self._db.execute("DELETE FROM attempts WHERE state = 'done' AND changed < ?", (now_s - KEPT_S,))

    def note(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO named VALUES (?, ?)", (name, value))

    def noted(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM named WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None
