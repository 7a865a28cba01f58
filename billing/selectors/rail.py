"""What operators see of the rail: the comparisons with the ledger, events that could not be applied, money that fits nothing."""

from django.db.models import QuerySet

from billing.domain.ledger import PLATFORM, AccountKind
from billing.models import Account, Dispute, DisputeState, InboxState, Reconciliation, WebhookInbox
from portal.kit.money import Money


def latest() -> list[Reconciliation]:
    """The last comparison, a row per currency."""
    last = Reconciliation.objects.order_by("-at").values_list("at", flat=True).first()
    return list(Reconciliation.objects.filter(at=last).order_by("currency")) if last else []


def history() -> QuerySet[Reconciliation]:
    """All comparisons, newest first."""
    return Reconciliation.objects.order_by("-id")


def dead_events() -> list[WebhookInbox]:
    """The newest events that could not be applied."""
    return list(WebhookInbox.objects.filter(state=InboxState.DEAD).order_by("-id")[:20])


def unmatched() -> list[Money]:
    """Money of which nobody knows whose it is, per currency."""
    rows = Account.objects.filter(owner=PLATFORM, kind=AccountKind.UNMATCHED.value).exclude(balance_minor=0)
    return [Money(row.balance_minor, row.currency) for row in rows.order_by("currency")]


def open_disputes() -> list[Dispute]:
    """Disputes that wait for an answer."""
    return list(
        Dispute.objects.filter(state=DisputeState.OPEN).select_related("payment__organisation").order_by("due_by")
    )
