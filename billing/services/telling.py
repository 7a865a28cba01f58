"""Mail to the people who look after a tenant's money: its owners and those of the role billing. In both languages, each key once."""

from collections.abc import Sequence
from datetime import datetime

from portal.accounts.models import Membership, Organisation, Role
from portal.outbox.services import put


def people(*, tenant: Organisation, key: str, subject: str, lines: Sequence[str], link: str, now: datetime) -> None:
    """Promise one mail (outbox topic ``mail``); the same key again is no second one."""
    members = Membership.objects.filter(organisation=tenant, role__in=[Role.OWNER, Role.BILLING])
    body = "\n".join(lines) + f"\n\n{link}\n"
    put(
        topic="mail",
        key=key,
        payload={"to": sorted(members.values_list("user__email", flat=True)), "subject": subject, "body": body},
        now=now,
    )
