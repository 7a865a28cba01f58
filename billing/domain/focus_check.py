"""Our checker of FOCUS 1.2 files: it names the row, the column and what to do.

====================  ==================================================================================================
rule                  what is wrong
====================  ==================================================================================================
``columns``           a column that must be there is missing, or is there twice, or is not one of FOCUS (own ones begin with x_);
                      a row with more or fewer cells
``null``              a value that must not be null is; a null written as ``""``, NULL, N/A or the like
``number``            not plain decimal digits (a plus sign, a thousands comma, a unit)
``time``              not ``YYYY-MM-DDTHH:MM:SSZ``; a period that ends before it begins; a charge outside its billing period
``word``              a word that FOCUS does not allow, a currency that is none
``service``           a service in two categories, a subcategory of another category
``usage``             a usage row without sku, prices, quantities, units; a tax row with any of them
``pair``              a quantity without unit, a name without id
``cost``              cost is not unit price × quantity; a credit or adjustment whose costs differ
``invoice``           Σ BilledCost of an invoice is not what is to be paid
====================  ==================================================================================================

Row numbers are those of a spreadsheet: the header is row 1.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from billing.domain.focus import ALWAYS, COLUMNS, billed, parse

NOT_NULL = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargePeriodEnd",
    "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ProviderName", "PublisherName",
    "ServiceCategory", "ServiceName",
)  # fmt: skip
KNOWN = frozenset(COLUMNS) | {
    "BillingAccountType", "CapacityReservationId", "CapacityReservationStatus", "CommitmentDiscountCategory", "CommitmentDiscountId",
    "CommitmentDiscountName", "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit",
    "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice",
    "SubAccountType",
}  # fmt: skip
"""All columns of FOCUS 1.2."""
NUMBERS = (
    "BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "PricingQuantity", "ConsumedQuantity", "ListUnitPrice", "ContractedUnitPrice",
)  # fmt: skip
TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
WORDS = {
    "ChargeCategory": frozenset({"Usage", "Purchase", "Tax", "Credit", "Adjustment"}),
    "ChargeClass": frozenset({"Correction"}),
    "ChargeFrequency": frozenset({"One-Time", "Recurring", "Usage-Based"}),
    "PricingCategory": frozenset({"Standard", "Committed", "Dynamic", "Other"}),
    "ServiceCategory": frozenset({
        "AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools", "Multicloud", "Identity",
        "Integration", "Internet of Things", "Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security", "Storage",
        "Web", "Other",
    }),
}  # fmt: skip
SUBCATEGORIES = {
    "Compute": frozenset({
        "Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines", "Other (Compute)",
    }),
    "Storage": frozenset({
        "Backup Storage", "Block Storage", "File Storage", "Object Storage", "Storage Platforms", "Other (Storage)",
    }),
    "Networking": frozenset({
        "Application Networking", "Content Delivery", "Network Connectivity", "Network Infrastructure", "Network Routing", "Network Security",
        "Other (Networking)",
    }),
    "Other": frozenset({"Other (Other)"}),
}  # fmt: skip
"""Of the categories that we use; others are not checked further."""
OF_USAGE = (
    "SkuId", "SkuPriceId", "PricingCategory", "ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "PricingUnit", "ConsumedQuantity",
    "ConsumedUnit",
)  # fmt: skip
PAIRS = (("PricingQuantity", "PricingUnit"), ("ConsumedQuantity", "ConsumedUnit"))
NAMES = (("SubAccountName", "SubAccountId"), ("RegionName", "RegionId"), ("ResourceName", "ResourceId"))
CURRENCIES = frozenset([
    "AED", "ARS", "AUD", "BHD", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP", "HKD",
    "HUF", "IDR", "ILS", "INR", "ISK", "JOD", "JPY", "KES", "KRW", "KWD", "MAD", "MXN", "MYR", "NGN", "NOK", "NZD",
    "OMR", "PEN", "PHP", "PKR", "PLN", "QAR", "RON", "RSD", "SAR", "SEK", "SGD", "THB", "TND", "TRY", "TWD", "UAH",
    "USD", "VND", "ZAR",
])  # fmt: skip
FALSE_NULLS = frozenset({"null", "n/a", "na", "none", "nan", "-", "nil"})
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE]-?\d+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the row (0 = the file), the column, the rule, and a sentence."""

    row: int
    column: str
    rule: str
    message: str

    def __str__(self) -> str:
        place = f"row {self.row}" if self.row else "file"
        return f"{place}, {self.column}: {self.message}" if self.column else f"{place}: {self.message}"


def check(document: str, payable: Mapping[str, str] | None = None) -> list[Problem]:
    """Everything that is wrong with a FOCUS text, in the order of its rows. `payable`: invoice → amount to be paid, as decimal text."""
    found = list(parse(document.removeprefix("\ufeff")))
    if not found:
        return [Problem(0, "", "columns", "the file is empty: the first row names the columns")]
    header = [name for name, _ in found[0]]
    problems = list(_header(header))
    good: list[tuple[int, Row]] = []
    for number, cells in enumerate(found[1:], start=2):
        if len(cells) != len(header):
            problems.append(Problem(number, "", "columns", f"{len(cells)} cells, the header has {len(header)}"))
            continue
        values, faults = _values(number, header, cells)
        problems += faults
        problems += _row(number, values, {fault.column for fault in faults})
        good.append((number, values))
    problems += _services(good)
    if payable is not None:
        problems += _invoices([row for _, row in good], payable)
    return sorted(problems, key=lambda problem: problem.row)


def _header(header: list[str]) -> Iterator[Problem]:
    for name in ALWAYS:
        if name not in header:
            yield Problem(1, name, "columns", "this column is missing: every FOCUS file has it")
    for name in header:
        if name not in KNOWN and not name.startswith("x_"):
            yield Problem(1, name, "columns", "FOCUS 1.2 has no such column: one of your own begins with x_")
    for name in sorted({name for name in header if header.count(name) > 1}):
        yield Problem(1, name, "columns", "this column is there twice")


def _values(number: int, header: list[str], cells: list[tuple[str, bool]]) -> tuple[Row, list[Problem]]:
    """Column → value, nulls as None; and what is wrong with cells by themselves."""
    values: dict[str, str | None] = {}
    problems = []
    for name, (value, quoted) in zip(header, cells, strict=True):
        values[name] = value or None
        if (quoted and not value) or value.lower() in FALSE_NULLS:
            said = value if value else '""'
            problems.append(Problem(number, name, "null", f"a null is an empty field without quotes, not {said}"))
            values[name] = None
        elif not value:
            if name in NOT_NULL:
                problems.append(Problem(number, name, "null", "this must not be empty"))
        else:
            problems += _cell(number, name, value)
    return values, problems


def _cell(number: int, name: str, value: str) -> Iterator[Problem]:
    if name in NUMBERS and not _NUMBER.fullmatch(value):
        yield Problem(number, name, "number", f"{value!r} is not a plain number: digits, a point, no sign but a minus")
    elif name in TIMES and not _moment(value):
        yield Problem(number, name, "time", f"{value!r} is not a time in UTC: write 2026-10-01T00:00:00Z")
    elif name in WORDS and value not in WORDS[name]:
        yield Problem(number, name, "word", f"{value!r} is not one of {', '.join(sorted(WORDS[name]))}")
    elif name == "BillingCurrency" and value not in CURRENCIES:
        yield Problem(number, name, "word", f"{value!r} is not a currency of ISO 4217: write CNY, USD, EUR …")
    elif name in {"Tags", "SkuPriceDetails"} and not _flat(value):
        yield Problem(number, name, "word", 'this is not flat JSON: write {"key": "value"}')


def _row(number: int, row: Row, broken: set[str]) -> Iterator[Problem]:
    """What is wrong between the cells of a row; columns that are wrong by themselves are left out."""
    yield from _periods(number, row, broken)
    yield from _presence(number, row)
    yield from _costs(number, row, broken)


def _periods(number: int, row: Row, broken: set[str]) -> Iterator[Problem]:
    if broken & set(TIMES) or not all(row.get(name) for name in TIMES):
        return
    opens, closes, start, end = (str(row[name]) for name in TIMES)
    if opens >= closes:
        yield Problem(number, "BillingPeriodEnd", "time", "the billing period ends before it begins")
    if start >= end:
        yield Problem(number, "ChargePeriodEnd", "time", "the charge ends before it begins")
    elif not (opens <= start and end <= closes) and row.get("ChargeClass") != "Correction":
        yield Problem(
            number, "ChargePeriodStart", "time", f"{start} – {end} lies outside the billing period and is no Correction"
        )


def _presence(number: int, row: Row) -> Iterator[Problem]:
    category = row.get("ChargeCategory")
    if category == "Usage" and row.get("ChargeClass") != "Correction":
        for name in OF_USAGE:
            if row.get(name) is None:
                yield Problem(number, name, "usage", "a usage row needs this")
    elif category == "Tax":
        for name in OF_USAGE:
            if row.get(name) is not None:
                yield Problem(number, name, "usage", "a tax row has none")
    if category != "Usage" and category != "Tax" and row.get("ConsumedQuantity") is not None:
        yield Problem(number, "ConsumedQuantity", "usage", "only usage rows consume something")
    for quantity, unit in PAIRS:
        if row.get(quantity) is not None and row.get(unit) is None:
            yield Problem(number, unit, "pair", f"{quantity} has no unit")
    for name, key in NAMES:
        if row.get(name) is not None and row.get(key) is None:
            yield Problem(number, key, "pair", f"{name} is there without its id")


def _costs(number: int, row: Row, broken: set[str]) -> Iterator[Problem]:
    if row.get("ChargeCategory") in {"Credit", "Adjustment"}:
        for name in ("ListCost", "ContractedCost", "EffectiveCost"):
            if not broken & {name, "BilledCost"} and not _equal(row.get(name), row.get("BilledCost")):
                yield Problem(number, name, "cost", f"{row.get(name)} is not BilledCost {row.get('BilledCost')}")
        return
    for cost, price in (("ListCost", "ListUnitPrice"), ("ContractedCost", "ContractedUnitPrice")):
        three = (row.get(cost), row.get(price), row.get("PricingQuantity"))
        if broken & {cost, price, "PricingQuantity"} or None in three:
            continue
        with localcontext() as exact:
            exact.prec = 80
            product = Decimal(str(three[1])) * Decimal(str(three[2]))
        if product != Decimal(str(three[0])):
            yield Problem(number, cost, "cost", f"{three[0]} is not {price} × PricingQuantity = {product:f}")


def _services(rows: Iterable[tuple[int, Row]]) -> Iterator[Problem]:
    category: dict[str, str] = {}
    for number, row in rows:
        service, group, part = (row.get(name) for name in ("ServiceName", "ServiceCategory", "ServiceSubcategory"))
        if service is None or group is None:
            continue
        first = category.setdefault(service, group)
        if first != group:
            yield Problem(number, "ServiceCategory", "service", f"{service} was {first} before, here it is {group}")
        if part is not None and group in SUBCATEGORIES and part not in SUBCATEGORIES[group]:
            yield Problem(number, "ServiceSubcategory", "service", f"{part} does not belong to {group}")


def _invoices(rows: Iterable[Row], payable: Mapping[str, str]) -> Iterator[Problem]:
    of: dict[str, list[Row]] = {name: [] for name in payable}
    for row in rows:
        if row.get("InvoiceId"):
            of.setdefault(str(row["InvoiceId"]), []).append(row)
    for name, mine in sorted(of.items()):
        try:
            total = billed(mine)
        except ArithmeticError:  # a cost that is no number was named above
            continue
        if name not in payable:
            yield Problem(0, "InvoiceId", "invoice", f"invoice {name} is not known")
        elif total != Decimal(payable[name]):
            yield Problem(
                0, "BilledCost", "invoice", f"invoice {name}: rows add up to {total:f}, to be paid is {payable[name]}"
            )


def _moment(value: str) -> bool:
    if not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _flat(value: str) -> bool:
    try:
        read = json.loads(value)
    except ValueError:
        return False
    return isinstance(read, dict) and not any(isinstance(part, dict | list) for part in read.values())


def _equal(left: str | None, right: str | None) -> bool:
    return left is not None and right is not None and Decimal(left) == Decimal(right)
