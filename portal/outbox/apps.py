from django.apps import AppConfig

from portal.outbox import mail
from portal.outbox.registry import handler


class OutboxConfig(AppConfig):
    """Promises kept after commit; performs the topic ``mail`` itself."""

    name = "portal.outbox"
    label = "outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        handler("mail")(mail.send)
