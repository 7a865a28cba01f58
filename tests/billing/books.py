"""What billing's tests share: tenants, facts, and the way from a fact to a closed month, all through the real services."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from billing.domain.metering import UsageFact
from billing.models import Invoice
from billing.services import periods, usage
from portal.accounts.models import Organisation
from portal.kit.quantities import US_PER_HOUR

CASES = {
    case["id"]: case
    for case in yaml.safe_load((Path(__file__).resolve().parents[1] / "cases" / "billing.yaml").read_text())["cases"]
}
OCTOBER = datetime(2026, 10, 5, tzinfo=UTC)
AFTER_OCTOBER = datetime(2026, 11, 4, 1, tzinfo=UTC)
"""Grace of October is over, in every zone the tests use."""
_numbers = itertools.count(1)


def case(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(input, expected) of a case of tests/cases/billing.yaml."""
    found = CASES[name]
    return found["input"], found["expected"]


def moment(text: str) -> datetime:
    """An RFC 3339 time of the cases."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def a_tenant(**values: Any) -> Organisation:
    """A new organisation: CNY, UTC."""
    number = next(_numbers)
    defaults: dict[str, Any] = {
        "slug": f"tenant-{number}",
        "name": f"Tenant {number}",
        "currency": "CNY",
        "period_timezone": "UTC",
        "created_at": datetime(2026, 9, 1, tzinfo=UTC),
    }
    return Organisation.objects.create(**(defaults | values))


def a_fact(tenant: Organisation | int, **values: Any) -> UsageFact:
    """A fact of one card for one minute at 4.00 an hour; `seconds` sets its length, `qty_us` follows unless it is given."""
    start = values.pop("started_at", OCTOBER)
    end = values.pop("ended_at", None) or start + timedelta(seconds=values.pop("seconds", 60))
    values.pop("seconds", None)
    resource = values.get("resource", "card")
    count = values.get("count_milli", 1000)
    length = (end - start) // timedelta(microseconds=1)
    defaults: dict[str, Any] = {
        "attempt_ref": "att_1",
        "fence": 1,
        "resource": resource,
        "seq": 1,
        "started_at": start,
        "ended_at": end,
        "count_milli": count,
        "qty_us": count * length // 1000,
        "sku": f"{resource}:{'A100-80GB' if resource == 'card' else '-'}:fixed",
        "price_version_ref": "prv_1",
        "unit_price_micro": 4_000_000,
        "currency": "CNY",
        "organisation_id": tenant if isinstance(tenant, int) else tenant.id,
        "project_ref": "prj_1",
        "project_name": "Vision",
        "department": "Research",
        "provider_ref": "org_seller",
        "provider_name": "Sol Power",
        "node_ref": "nod_1",
        "job_ref": "job_1",
        "job_name": "moss",
        "task_name": "main",
        "user_ref": "usr_1",
        "region": "east",
        "zone": "east-1",
        "hardware_model": "A100-80GB" if resource == "card" else "",
    }
    return UsageFact(**(defaults | values))


def rated(tenant: Organisation, *pairs: tuple[int, int], **values: Any) -> Invoice:
    """October's invoice over (qty_us, price_micro) pairs, each a line of a project of its own."""
    for number, (quantity, price) in enumerate(pairs, start=1):
        hours = max(1, -(-quantity // US_PER_HOUR))
        fact = a_fact(
            tenant,
            attempt_ref=f"att_{tenant.id}_{number}",
            job_ref=f"job_{tenant.id}_{number}",
            project_ref=f"prj_{number}",
            started_at=datetime(2026, 10, 1, tzinfo=UTC),
            ended_at=datetime(2026, 10, 1, tzinfo=UTC) + timedelta(hours=1),
            count_milli=1000 * hours,
            qty_us=quantity,
            unit_price_micro=price,
            **values,
        )
        assert usage.record(fact=fact, now=fact.ended_at).answer == "stored"
    return october(tenant)


def october(tenant: Organisation, now: datetime = AFTER_OCTOBER) -> Invoice:
    """The tenant's October, closed."""
    invoice = periods.close(organisation_id=tenant.id, month="2026-10", now=now).invoice
    assert invoice is not None
    return invoice
