"""Usage that was metered elsewhere, row by row: a cluster's own accounting, a storage's meter, another cloud's FOCUS file.

A row becomes one usage fact. Its key is (``imp:<source>:<id>``, resource, 1), so the same row sent again, in whatever batch, changes nothing, and the same id
with other content is a conflict. A batch with one bad row stores nothing: every fault is told at once, with the row and the column.

=================  =====================================================================================================
column             meaning
=================  =====================================================================================================
id                 required; unique within the source, at most 48 characters
resource           required; core, card, memory_gib, storage_gib, network_byte
started_at         required; RFC 3339 with zone
ended_at           required; not before the start
quantity, count    one of them: unit-hours (bytes for network_byte), or how many units over the whole interval
unit_price         per unit-hour (per GB), at most six decimals; without it 0
currency           default: the organisation's
project            slug or id of a project of the organisation
others             hardware_model, rental (fixed, spot), node, job, task, user, region, zone; green_ratio (0…1), pue, power_watts, grid_g_per_kwh
=================  =====================================================================================================
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

from billing.domain import metering
from billing.domain.energy import MOST_MILLIWATTS, Basis
from billing.domain.metering import RESOURCES, Resource, UsageFact
from portal.kit.errors import Finding
from portal.kit.intervals import Interval
from portal.kit.money import CURRENCIES, MAX_UNIT_PRICE_MICRO, PPM, parse_micro, plain_decimal
from portal.kit.quantities import MILLI, US_PER_HOUR

REQUIRED = ("id", "resource", "started_at", "ended_at")
TEXTS = {"hardware_model": 80, "node": 80, "job": 80, "task": 120, "user": 80, "region": 80, "zone": 80}
"""Free text columns and how long they may be."""
COLUMNS = (
    *REQUIRED, "quantity", "count", "unit_price", "currency", "project", "rental", "green_ratio", "pue", "power_watts", "grid_g_per_kwh",
    *TEXTS,
)  # fmt: skip
RENTALS = ("fixed", "spot")
MOST_ID = 48
MOST_COUNT = 10**9
MOST_QUANTITY = 10**9
PRICE_VERSION = "import"
FOCUS_UNITS = {
    "core-hour": Resource.CORE, "card-hour": Resource.CARD, "GiB-hour": Resource.STORAGE_GIB, "GB": Resource.NETWORK_BYTE,
}  # fmt: skip
"""PricingUnit of a FOCUS row → resource; a GiB-hour of the category Compute is memory."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project that rows may name."""

    ref: str
    name: str
    department: str


@dataclass(frozen=True, slots=True)
class Context:
    """What a batch belongs to: the tenant, who provided it, and the name of the meter."""

    organisation_id: int
    currency: str
    source: str
    provider_ref: str
    provider_name: str
    now: datetime
    projects: Mapping[str, Project] = field(default_factory=dict)


class _Bad(ValueError):
    """One fault of one cell."""

    def __init__(self, column: str, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.column, self.code, self.hint = column, code, hint


def facts(
    rows: Iterable[Mapping[str, Any]], context: Context, *, first: int = 1
) -> tuple[list[UsageFact], list[Finding]]:
    """The facts of a batch, and every fault: ``row 3, ended_at``. `first`: the number of the first row."""
    made: list[UsageFact] = []
    findings: list[Finding] = []
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows, start=first):
        try:
            fact = _fact(row, context)
        except _Bad as fault:
            findings.append(Finding(f"row {number}.{fault.column}", fault.code, str(fault), fault.hint, line=number))
            continue
        key = (fact.attempt_ref, fact.resource)
        if key in seen:
            findings.append(
                Finding(f"row {number}.id", "twice", f"row {seen[key]} has the same id and resource", line=number)
            )
        seen[key] = number
        made.append(fact)
    return made, findings


def of_focus(rows: Iterable[Mapping[str, str | None]]) -> tuple[list[dict[str, Any]], list[int], list[Finding]]:
    """FOCUS rows that our checker accepted, as rows of an import; their row numbers; and what cannot be taken over.

    Rows that are no usage (tax, credit, rounding) are left out. An id is the digest of the whole row, counted where equal rows repeat, so the same file
    sent twice gives the same ids.
    """
    found: list[dict[str, Any]] = []
    numbers: list[int] = []
    findings: list[Finding] = []
    repeated: dict[str, int] = {}
    for number, row in enumerate(rows, start=2):
        if row.get("ChargeCategory") != "Usage":
            continue
        try:
            taken = _of_focus(row)
        except _Bad as fault:
            findings.append(Finding(f"row {number}.{fault.column}", fault.code, str(fault), fault.hint, line=number))
            continue
        digest = sha256("\x1f".join(f"{name}={row[name]}" for name in sorted(row)).encode()).hexdigest()[:32]
        repeated[digest] = repeated.get(digest, 0) + 1
        found.append(taken | {"id": f"{digest}.{repeated[digest]}"})
        numbers.append(number)
    return found, numbers, findings


def _of_focus(row: Mapping[str, str | None]) -> dict[str, Any]:
    unit, quantity = str(row["PricingUnit"]), str(row["PricingQuantity"])
    if unit not in FOCUS_UNITS:
        raise _Bad("PricingUnit", "unknown_unit", f"{unit!r} cannot be billed here", ", ".join(FOCUS_UNITS))
    if row.get("ChargeClass") == "Correction" or quantity.startswith("-"):
        raise _Bad(
            "ChargeClass", "correction", "a correction of another bill cannot be imported", "import what was used"
        )
    resource = FOCUS_UNITS[unit]
    if unit == "GiB-hour" and row.get("ServiceCategory") == "Compute":
        resource = Resource.MEMORY_GIB
    sku = str(row["SkuId"]).split(":")
    ours = len(sku) == 3 and sku[0] == resource
    whole = plain_decimal(quantity)
    return {
        "resource": resource.value,
        "started_at": row["ChargePeriodStart"],
        "ended_at": row["ChargePeriodEnd"],
        "quantity": f"{whole * 10**9:f}" if resource is Resource.NETWORK_BYTE else quantity,
        "unit_price": row["ContractedUnitPrice"],
        "currency": row["BillingCurrency"],
        "rental": "spot" if row.get("PricingCategory") == "Dynamic" else "fixed",
        "hardware_model": sku[1].replace("-", "", 1) if ours and sku[1] == "-" else sku[1] if ours else "",
        "project": row.get("SubAccountId") or "",
        "region": row.get("RegionId") or "",
        "zone": row.get("AvailabilityZone") or "",
        "node": row.get("ResourceId") or "",
    }


def _fact(row: Mapping[str, Any], context: Context) -> UsageFact:
    for name in row:
        if name not in COLUMNS:
            raise _Bad(str(name)[:60], "unknown_column", "there is no such column", ", ".join(COLUMNS))
    for name in REQUIRED:
        if not row.get(name):
            raise _Bad(name, "missing", "this is required")
    text = _words(row)
    resource = text["resource"]
    if resource not in RESOURCES:
        raise _Bad("resource", "unknown_resource", f"{resource!r} is no resource", ", ".join(sorted(RESOURCES)))
    start, end = _moment(row, "started_at"), _moment(row, "ended_at")
    if end < start:
        raise _Bad("ended_at", "backwards", "it ends before it begins")
    if end > context.now + metering.AHEAD:
        raise _Bad("ended_at", "in_the_future", "it ends in the future: import what has been used")
    currency = text["currency"] or context.currency
    if currency not in CURRENCIES:
        raise _Bad(
            "currency", "unknown_currency", f"{currency!r} is no currency of ours", ", ".join(sorted(CURRENCIES))
        )
    if text["rental"] not in ("", *RENTALS):
        raise _Bad("rental", "unknown_rental", f"{text['rental']!r} is neither fixed nor spot")
    project = context.projects.get(text["project"]) if text["project"] else Project("", "", "")
    if project is None:
        raise _Bad("project", "unknown_project", f"{text['project']!r} is no project of this organisation")
    qty, count = _amounts(row, resource, Interval(start, end).microseconds)
    power = _number(row, "power_watts", 3, MOST_MILLIWATTS)
    return UsageFact(
        attempt_ref=f"imp:{context.source}:{text['id']}",
        fence=1,
        resource=resource,
        seq=1,
        started_at=start,
        ended_at=end,
        count_milli=count,
        qty_us=qty,
        sku=f"{resource}:{text['hardware_model'] or '-'}:{text['rental'] or 'fixed'}",
        price_version_ref=f"{PRICE_VERSION}:{context.source}",
        unit_price_micro=_number(row, "unit_price", 6, MAX_UNIT_PRICE_MICRO) or 0,
        currency=currency,
        organisation_id=context.organisation_id,
        project_ref=project.ref,
        project_name=project.name,
        department=project.department,
        provider_ref=context.provider_ref,
        provider_name=context.provider_name,
        node_ref=text["node"],
        job_ref=text["job"],
        job_name=text["job"],
        task_name=text["task"],
        user_ref=text["user"],
        region=text["region"],
        zone=text["zone"],
        hardware_model=text["hardware_model"],
        green_ratio_ppm=_number(row, "green_ratio", 6, PPM),
        pue_milli=_number(row, "pue", 3, 10 * MILLI),
        power_mw=power,
        power_basis=Basis.UNKNOWN.value if power is None else Basis.MEASURED.value,
        grid_g_per_kwh=_number(row, "grid_g_per_kwh", 0, 10_000),
    )


def _words(row: Mapping[str, Any]) -> dict[str, str]:
    """The text columns, empty where they are not given."""
    found = {}
    for name, most in (
        ("id", MOST_ID),
        ("resource", 20),
        ("currency", 3),
        ("project", 80),
        ("rental", 5),
        *TEXTS.items(),
    ):
        value = row.get(name)
        text = "" if value is None else value.strip() if isinstance(value, str) else str(value)
        if len(text) > most:
            raise _Bad(name, "too_long", f"more than {most} characters")
        if "\x00" in text:
            raise _Bad(name, "bad_text", "it holds a null character")
        found[name] = text
    return found


def _moment(row: Mapping[str, Any], name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(row[name]).strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _Bad(name, "bad_time", f"{str(row[name])[:40]!r} is no time with a zone", "2026-10-05T08:00:00Z")
    return moment


def _amounts(row: Mapping[str, Any], resource: str, length: int) -> tuple[int, int]:
    """(qty_us, count_milli) of a row; one of quantity and count is given, or count is 1."""
    quantity, count = row.get("quantity"), row.get("count")
    if quantity not in (None, "") and count not in (None, ""):
        raise _Bad("count", "both", "give quantity or count, not both")
    if quantity in (None, ""):
        if resource == Resource.NETWORK_BYTE:
            raise _Bad("quantity", "missing", "bytes are given as a quantity")
        milli = _number(row, "count", 3, MOST_COUNT * MILLI)
        milli = MILLI if milli is None else milli
        return milli * length // MILLI, milli
    if resource == Resource.NETWORK_BYTE:
        return _number(row, "quantity", 0, MOST_QUANTITY * 10**9) or 0, 0
    billionths = _number(row, "quantity", 9, MOST_QUANTITY * 10**9) or 0
    qty = billionths * US_PER_HOUR // 10**9
    if qty and not length:
        raise _Bad("ended_at", "no_length", "a quantity needs an interval that is longer than nothing")
    return qty, -(-qty * MILLI // length) if length else 0


def _number(row: Mapping[str, Any], name: str, places: int, most: int) -> int | None:
    """A decimal ≥ 0 as a whole number of 10^-places; None if it is not given."""
    value = row.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Bad(name, "not_text", "write decimals as text: floats lose digits")
    try:
        scaled = parse_micro(str(value)) if places == 6 else plain_decimal(str(value).strip()).scaleb(places)
    except ValueError as fault:
        raise _Bad(name, "bad_number", str(fault)) from None
    if isinstance(scaled, Decimal):
        if scaled != scaled.to_integral_value():
            raise _Bad(name, "bad_number", f"at most {places} decimals")
        scaled = int(scaled)
    if not 0 <= scaled <= most:
        raise _Bad(name, "out_of_range", f"{value} is below 0 or too large")
    return scaled


def numbered(findings: Sequence[Finding], numbers: Sequence[int]) -> list[Finding]:
    """Findings of rows 1, 2, … told by the row numbers of the file they came from."""
    told = []
    for finding in findings:
        row = numbers[(finding.line or 1) - 1]
        column = finding.path.partition(".")[2]
        told.append(Finding(f"row {row}.{column}", finding.code, finding.message, finding.hint, line=row))
    return told
