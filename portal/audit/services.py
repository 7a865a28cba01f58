"""Write the audit trail, inside the transaction of the deed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from portal import ids
from portal.audit.models import AuditEvent


def note(
    *,
    actor: str,
    deed: str,
    target: str,
    now: datetime,
    organisation_id: int | None = None,
    address: str | None = None,
    data: Mapping[str, Any] | None = None,
) -> AuditEvent:
    """Record that `actor` did `deed` to `target`. `data` never holds a secret."""
    return AuditEvent.objects.create(
        public_id=ids.public_id("aud", at=now),
        at=now,
        actor=actor,
        deed=deed,
        target=target,
        organisation_id=organisation_id,
        address=address,
        data=dict(data or {}),
    )
