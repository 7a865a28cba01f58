"""Topic ``mail``: plain text mail through Django's backend (a file per mail where no server is configured)."""

from collections.abc import Mapping
from typing import Any

from django.core.mail import EmailMessage


def send(key: str, payload: Mapping[str, Any]) -> None:
    """Payload: `to` (list), `subject`, `body`; the key becomes the Message-ID's stable part, so that a repeated mail is
    recognised.
    """
    EmailMessage(
        subject=payload["subject"], body=payload["body"], to=list(payload["to"]), headers={"X-Idlewild-Key": key}
    ).send()
