"""Split bills (分账账单): the invoices of a month of an organisation and everything below it, by department and project, shared costs by rule.

Every amount is read from issued invoices, so Σ of a split bill is Σ of the invoices. A line's tax is its part of the invoice's tax: differences of rounded
cumulative amounts, in the order of lines.
"""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from billing.domain import allocation
from billing.domain.allocation import Method, Place, Rule, Share, Source
from billing.domain.invoicing import InvoiceState
from billing.models import AllocationRule, Invoice, InvoiceLine
from portal.accounts.models import Organisation
from portal.kit.errors import NotFound
from portal.kit.money import Money

MOST_LEVELS = 8


@dataclass(frozen=True, slots=True)
class SplitBill:
    """The rows of one month in one currency, with the invoices they come from. Amounts include tax."""

    month: str
    currency: str
    invoices: tuple[str, ...]
    rows: tuple[Share, ...]
    names: dict[str, str]

    @property
    def total(self) -> Money:
        return Money(sum(row.final for row in self.rows), self.currency)

    def wire(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "month": self.month,
            "currency": self.currency,
            "invoices": list(self.invoices),
            "total": self.total.wire(),
            "rows": [
                {
                    "organisation": row.place.organisation,
                    "organisation_name": self.names[row.place.organisation],
                    "department": row.place.department,
                    "project": row.place.project or None,
                    "project_name": row.place.project_name or None,
                    "net": Money(row.net, self.currency).text(),
                    "moved": Money(row.moved, self.currency).text(),
                    "rules": list(row.rules),
                    "final": Money(row.final, self.currency).text(),
                    "share_ppm": row.share_ppm,
                }
                for row in self.rows
            ],
        }


def tree(root: Organisation) -> list[Organisation]:
    """The organisation and everything below it, by name of the slug."""
    found, level = {root.id: root}, [root.id]
    for _level in range(MOST_LEVELS):
        below = {row.id: row for row in Organisation.objects.filter(parent_id__in=level).exclude(id__in=found)}
        if not below:
            break
        found |= below
        level = list(below)
    return sorted(found.values(), key=lambda row: row.slug)


def of_month(root: Organisation, month: str) -> list[SplitBill]:
    """One split bill per currency; NotFound if no invoice of that month was issued in the tree."""
    owners = {row.id: row for row in tree(root)}
    gone = (InvoiceState.DRAFT, InvoiceState.VOID)
    issued = (
        Invoice.objects.filter(organisation_id__in=owners, period__month=month)
        .exclude(state__in=gone)
        .order_by("number")
    )
    if not issued:
        raise NotFound(_("No invoice of %(month)s was issued yet.") % {"month": month})
    rules = _rules(owners, month)
    return [
        _bill(month, code, [invoice for invoice in issued if invoice.currency == code], owners, rules)
        for code in sorted({invoice.currency for invoice in issued})
    ]


def rules_of(organisation_id: int) -> QuerySet[AllocationRule]:
    """The rules of an organisation, the newest first; ended ones too."""
    return AllocationRule.objects.filter(organisation_id=organisation_id).order_by("-id")


def _bill(
    month: str, code: str, issued: list[Invoice], owners: dict[int, Organisation], rules: list[Rule]
) -> SplitBill:
    costs: dict[Place, int] = {}
    for invoice in issued:
        lines = list(InvoiceLine.objects.filter(invoice=invoice).order_by("position"))
        taxes = allocation.telescope(invoice.tax_minor, [line.amount_minor for line in lines])
        for line, tax in zip(lines, taxes, strict=True):
            slug = owners[invoice.organisation_id].slug
            place = Place(slug, line.department, line.project_ref, line.project_name)
            costs[place] = costs.get(place, 0) + line.amount_minor + tax
    shares = allocation.split_bill(costs, rules)
    numbers = tuple(str(invoice.number) for invoice in issued)
    return SplitBill(month, code, numbers, tuple(shares), {row.slug: row.name for row in owners.values()})


def _rules(owners: dict[int, Organisation], month: str) -> list[Rule]:
    """The rules that hold in that month, in the order in which they were made."""
    rows = AllocationRule.objects.filter(organisation_id__in=owners, from_month__lte=month).order_by("id")
    return [
        Rule(
            name=row.name,
            organisation=owners[row.organisation_id].slug,
            source_kind=Source(row.source_kind),
            source=row.source,
            method=Method(row.method),
            weights=tuple((str(name), int(weight)) for name, weight in row.weights),
        )
        for row in rows
        if not row.until_month or month < row.until_month
    ]


def rule(organisation_id: int, public_id: str) -> AllocationRule:
    """One rule of an organisation; NotFound for a foreign one."""
    row = (
        AllocationRule.objects.filter(organisation_id=organisation_id, public_id=public_id)
        .select_related("organisation")
        .first()
    )
    if row is None:
        raise NotFound(_("There is no such rule."))
    return row
