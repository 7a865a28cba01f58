"""FOCUS 1.2: an invoice as rows that any cost tool reads.

Usage rows are exact: cost = unit price × quantity as printed, with no rounding; what the invoice rounded away comes back as one ``Adjustment`` row, tax and
credit are rows too. So Σ BilledCost of an invoice is what is to be paid, to the last digit. ``ProviderName`` is the platform, ``PublisherName`` whose
machines did the work. Rows are made from the frozen document alone, so they never change.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

from billing.domain.metering import Resource
from billing.domain.statement import quantity_text

ALWAYS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory",
    "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName",
    "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName",
)  # fmt: skip
"""Columns that every FOCUS file has."""
COLUMNS = (
    *ALWAYS, "InvoiceId", "ChargeFrequency", "ServiceSubcategory", "AvailabilityZone", "ConsumedQuantity", "ConsumedUnit", "ListUnitPrice",
    "ContractedUnitPrice", "PricingCategory", "SkuId", "SkuMeter", "SkuPriceId", "SkuPriceDetails", "SubAccountId", "SubAccountName",
    "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "Tags",
)  # fmt: skip
PLACES = 9
SERVICES = {
    Resource.CORE: ("Idlewild Compute", "Compute", "Containers"),
    Resource.CARD: ("Idlewild Compute", "Compute", "Containers"),
    Resource.MEMORY_GIB: ("Idlewild Compute", "Compute", "Containers"),
    Resource.STORAGE_GIB: ("Idlewild Storage", "Storage", "Object Storage"),
    Resource.NETWORK_BYTE: ("Idlewild Transfer", "Networking", "Other (Networking)"),
}
"""resource → service, category, subcategory."""
WHOLE_BILL = ("Idlewild", "Other", "Other (Other)")
"""The service of rows that belong to the bill as a whole."""

Row = dict[str, str | None]


def rows(frozen: Mapping[str, Any]) -> list[Row]:
    """The rows of a frozen invoice document: one a line, then rounding, taxes, credit used, and what went to the credit balance."""
    usage = [_usage(frozen, line) for line in frozen["lines"]]
    with localcontext() as exact:
        exact.prec = 60
        rounding = Decimal(frozen["subtotal"]) - sum((Decimal(str(row["BilledCost"])) for row in usage), Decimal(0))
    bill = [
        _of_bill(frozen, "Tax", f"Tax {tax['percent']} %", Decimal(tax["tax"]))
        for tax in frozen["taxes"]
        if Decimal(tax["tax"])
    ]
    if rounding:
        bill.append(_of_bill(frozen, "Adjustment", "Rounding of the invoice's lines", rounding))
    if frozen["credit_used"]:
        bill.append(_of_bill(frozen, "Credit", "Credit used", -Decimal(frozen["credit_used"])))
    if frozen["to_credit"]:
        bill.append(_of_bill(frozen, "Adjustment", "Added to the credit balance", Decimal(frozen["to_credit"])))
    return usage + bill


def text(found: Iterable[Row]) -> str:
    """Rows as CSV: UTF-8 text without byte order mark, CRLF, a null is an empty field without quotes."""
    lines = [",".join(COLUMNS)]
    lines += [",".join(_cell(row[column]) for column in COLUMNS) for row in found]
    return "\r\n".join(lines) + "\r\n"


def billed(found: Iterable[Mapping[str, str | None]]) -> Decimal:
    """Σ BilledCost, exactly."""
    with localcontext() as exact:
        exact.prec = 60
        return sum((Decimal(row["BilledCost"] or 0) for row in found), Decimal(0))


def _usage(frozen: Mapping[str, Any], line: Mapping[str, Any]) -> Row:
    resource = Resource(line["resource"])
    quantity = Decimal(quantity_text(resource, line["qty_us"], PLACES))
    price = Decimal(line["unit_price"])
    with localcontext() as exact:
        exact.prec = 60
        kept = price * (1 - Decimal(line["discount"]))
        listed, contracted = price * quantity, kept * quantity
    start, end = _whole_seconds(line["first_at"], line["last_at"])
    service, category, subcategory = SERVICES[resource]
    spot = line["sku"].endswith(":spot")
    details = {"x_Rental": "spot" if spot else "fixed", "x_PriceVersion": line["price_version"]}
    details |= {"x_Tier": str(line["tier"])} if line["tier"] else {}
    details |= {"x_Virtual": "true"} if line["virtual"] else {}
    details |= {"x_NotBilledBecause": line["unbilled_reason"]} if line["unbilled_reason"] else {}
    tags = {"department": line["project"]["department"]} if line["project"]["department"] else {}
    same = _number(contracted)
    return {
        **_common(frozen),
        "BilledCost": same,
        "ContractedCost": same,
        "EffectiveCost": same,
        "ListCost": _number(listed),
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if line["correction_of"] else None,
        "ChargeDescription": line["description"],
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
        "PublisherName": line["provider"]["name"] or frozen["issuer"]["name"],
        "ServiceName": service,
        "ServiceCategory": category,
        "ServiceSubcategory": subcategory,
        "PricingCategory": "Dynamic" if spot else "Standard",
        "PricingQuantity": _number(quantity),
        "PricingUnit": line["unit"],
        "ConsumedQuantity": _number(quantity),
        "ConsumedUnit": line["unit"],
        "ListUnitPrice": _number(price),
        "ContractedUnitPrice": _number(kept),
        "SkuId": line["sku"],
        "SkuMeter": line["unit"],
        "SkuPriceId": f"{line['price_version']}/{line['tier'] or 0}",
        "SkuPriceDetails": _json(details),
        "SubAccountId": line["project"]["id"] or None,
        "SubAccountName": line["project"]["name"] or None if line["project"]["id"] else None,
        "RegionId": line["region"] or None,
        "RegionName": line["region"] or None,
        "AvailabilityZone": line["zone"] or None,
        "ResourceId": line["node"],
        "ResourceType": "Node" if line["node"] else None,
        "Tags": _json(tags) if tags else None,
    }


def _of_bill(frozen: Mapping[str, Any], category: str, description: str, amount: Decimal) -> Row:
    service, group, subcategory = WHOLE_BILL
    cost = _number(amount)
    return {
        **_common(frozen),
        "BilledCost": cost,
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "ListCost": cost,
        "ChargeCategory": category,
        "ChargeDescription": description,
        "ChargeFrequency": "Recurring" if category == "Tax" else "One-Time",
        "ChargePeriodStart": frozen["period"]["start"],
        "ChargePeriodEnd": frozen["period"]["end"],
        "PublisherName": frozen["issuer"]["name"],
        "ServiceName": service,
        "ServiceCategory": group,
        "ServiceSubcategory": subcategory,
    }


def _common(frozen: Mapping[str, Any]) -> Row:
    blank: Row = dict.fromkeys(COLUMNS)
    return blank | {
        "InvoiceId": frozen["number"],
        "InvoiceIssuerName": frozen["issuer"]["name"],
        "ProviderName": frozen["issuer"]["name"],
        "BillingAccountId": frozen["tenant"]["id"],
        "BillingAccountName": frozen["tenant"]["name"],
        "BillingCurrency": frozen["currency"],
        "BillingPeriodStart": frozen["period"]["start"],
        "BillingPeriodEnd": frozen["period"]["end"],
    }


def _whole_seconds(first: str, last: str) -> tuple[str, str]:
    """The interval in whole seconds around two moments, at least one second long."""
    start = datetime.fromisoformat(first).replace(microsecond=0)
    end = datetime.fromisoformat(last)
    end = max(end.replace(microsecond=0) + timedelta(seconds=bool(end.microsecond)), start + timedelta(seconds=1))
    return f"{start:%Y-%m-%dT%H:%M:%SZ}", f"{end:%Y-%m-%dT%H:%M:%SZ}"


def _number(value: Decimal) -> str:
    """Plain decimal digits without needless zeros."""
    digits = f"{value:f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits in {"-0", ""} else digits


def _json(values: Mapping[str, str]) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _cell(value: str | None) -> str:
    if value is None:
        return ""
    quoted = any(mark in value for mark in ',"\r\n') or value != value.strip()
    return '"' + value.replace('"', '""') + '"' if quoted else value


def parse(document: str) -> Iterator[list[tuple[str, bool]]]:
    """The rows of a CSV text; each cell with whether it was quoted (an empty field without quotes is a null, ``""`` is not)."""
    cell: list[str] = []
    row: list[tuple[str, bool]] = []
    quoted = inside = False
    at, end = 0, len(document)
    while at < end:
        mark = document[at]
        at += 1
        if inside:
            if mark != '"':
                cell.append(mark)
            elif document[at : at + 1] == '"':
                cell.append('"')
                at += 1
            else:
                inside = False
        elif mark == '"' and not cell:
            quoted = inside = True
        elif mark == ",":
            row.append(("".join(cell), quoted))
            cell, quoted = [], False
        elif mark == "\n":
            row.append(("".join(cell), quoted))
            yield row
            cell, row, quoted = [], [], False
        elif mark != "\r":
            cell.append(mark)
    if cell or row or quoted:
        row.append(("".join(cell), quoted))
        yield row


def read(document: str) -> list[dict[str, str | None]]:
    """The rows of a FOCUS text as column → value; nulls are None. Call the checker first."""
    found: Sequence[list[tuple[str, bool]]] = list(parse(document.removeprefix("\ufeff")))
    if not found:
        return []
    header = [name for name, _ in found[0]]
    return [{name: value or None for name, (value, _) in zip(header, row, strict=False)} for row in found[1:]]
