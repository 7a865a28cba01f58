"""Rows of usage that was metered elsewhere: what they become, and every fault with its row and column."""

from datetime import UTC, datetime

import pytest

from billing.domain import imports
from billing.domain.imports import Context, Project
from portal.kit.quantities import US_PER_HOUR

NOW = datetime(2026, 11, 1, tzinfo=UTC)
CONTEXT = Context(
    organisation_id=7,
    currency="CNY",
    source="7.slurm",
    provider_ref="org_1",
    provider_name="Moss",
    now=NOW,
    projects={"vision": Project("prj_1", "Vision", "Research")},
)


def a_row(**values):
    known = {
        "id": "job-1", "resource": "core", "started_at": "2026-10-05T00:00:00Z", "ended_at": "2026-10-05T02:00:00+00:00", "count": "4",
        "unit_price": "0.035", "project": "vision",
    }  # fmt: skip
    return {name: value for name, value in (known | values).items() if value is not None}


def one(**values):
    made, findings = imports.facts([a_row(**values)], CONTEXT)
    assert findings == []
    return made[0]


def test_a_row_becomes_a_fact():
    fact = one(
        user="ada", pue="1.2", power_watts="8.5", grid_g_per_kwh=300, green_ratio="0.25", rental="spot", region="east"
    )
    assert fact.key == ("imp:7.slurm:job-1", "core", 1)
    assert (fact.qty_us, fact.count_milli, fact.unit_price_micro) == (8 * US_PER_HOUR, 4000, 35_000)
    assert (fact.project_ref, fact.department, fact.user_ref, fact.sku) == ("prj_1", "Research", "ada", "core:-:spot")
    assert (fact.pue_milli, fact.power_mw, fact.power_basis, fact.grid_g_per_kwh) == (1200, 8500, "measured", 300)
    assert fact.green_ratio_ppm == 250_000
    assert (fact.price_version_ref, fact.provider_ref) == ("import:7.slurm", "org_1")


def test_a_quantity_is_taken_to_nine_decimals_and_fits_its_interval():
    fact = one(count=None, quantity="0.333333333")
    assert fact.qty_us == 333_333_333 * US_PER_HOUR // 10**9
    assert fact.count_milli * 7200 * 10**6 >= fact.qty_us * 1000
    assert one(count=None).count_milli == 1000
    assert one(count=None, quantity="0", ended_at="2026-10-05T00:00:00Z").qty_us == 0
    sent = one(resource="network_byte", count=None, quantity="1500000000")
    assert (sent.qty_us, sent.count_milli) == (1_500_000_000, 0)


FAULTS = [
    ({"id": None}, "id", "missing"),
    ({"ended_at": ""}, "ended_at", "missing"),
    ({"resource": "gpu"}, "resource", "unknown_resource"),
    ({"started_at": "2026-10-05T00:00:00"}, "started_at", "bad_time"),
    ({"started_at": "yesterday"}, "started_at", "bad_time"),
    ({"ended_at": "2026-10-04T00:00:00Z"}, "ended_at", "backwards"),
    ({"ended_at": "2027-10-04T00:00:00Z"}, "ended_at", "in_the_future"),
    ({"currency": "RMB"}, "currency", "unknown_currency"),
    ({"rental": "night"}, "rental", "unknown_rental"),
    ({"project": "nobody"}, "project", "unknown_project"),
    ({"quantity": "1"}, "count", "both"),
    ({"count": "-1"}, "count", "out_of_range"),
    ({"count": "1.0001"}, "count", "bad_number"),
    ({"count": "x"}, "count", "bad_number"),
    ({"count": 1.5}, "count", "not_text"),
    ({"count": True}, "count", "not_text"),
    ({"unit_price": "0.0000001"}, "unit_price", "bad_number"),
    ({"unit_price": "NaN"}, "unit_price", "bad_number"),
    ({"unit_price": "1000000000000"}, "unit_price", "out_of_range"),
    ({"count": None, "quantity": "1", "ended_at": "2026-10-05T00:00:00Z"}, "ended_at", "no_length"),
    ({"resource": "network_byte"}, "quantity", "missing"),
    ({"user": "u" * 81}, "user", "too_long"),
    ({"user": "u\x00"}, "user", "bad_text"),
    ({"colour": "red"}, "colour", "unknown_column"),
    ({"green_ratio": "1.1"}, "green_ratio", "out_of_range"),
]


@pytest.mark.parametrize(("values", "column", "code"), FAULTS)
def test_every_fault_names_its_row_and_column(values, column, code):
    made, findings = imports.facts([a_row(id="a"), a_row(**values)], CONTEXT, first=2)
    assert len(made) == 1
    assert [(finding.path, finding.code, finding.line) for finding in findings] == [(f"row 3.{column}", code, 3)]


def test_the_same_id_twice_in_a_batch_is_a_fault_another_resource_is_none():
    _, findings = imports.facts([a_row(), a_row(resource="card"), a_row(count="5")], CONTEXT)
    assert [(finding.path, finding.message) for finding in findings] == [
        ("row 3.id", "row 1 has the same id and resource")
    ]


def focus_row(**values):
    known = {
        "ChargeCategory": "Usage", "ChargeClass": None, "PricingUnit": "card-hour", "PricingQuantity": "1.5", "SkuId": "card:A100:spot",
        "PricingCategory": "Dynamic", "ChargePeriodStart": "2026-10-05T00:00:00Z", "ChargePeriodEnd": "2026-10-05T02:00:00Z",
        "ContractedUnitPrice": "4", "BillingCurrency": "CNY", "ServiceCategory": "Compute",
    }  # fmt: skip
    return known | values


def test_focus_rows_become_rows_of_an_import_with_ids_of_their_own():
    rows, numbers, findings = imports.of_focus(
        [focus_row(), focus_row(), focus_row(ChargeCategory="Tax"), focus_row(PricingUnit="GiB-hour", SkuId="x"),
         focus_row(PricingUnit="GiB-hour", ServiceCategory="Storage"), focus_row(PricingUnit="GB", SkuId="network_byte:-:fixed", PricingCategory="Standard")]
    )  # fmt: skip
    assert findings == []
    assert numbers == [2, 3, 5, 6, 7]
    assert rows[0]["id"].endswith(".1")
    assert rows[1]["id"] == rows[0]["id"][:-1] + "2"
    assert [row["resource"] for row in rows] == ["card", "card", "memory_gib", "storage_gib", "network_byte"]
    assert rows[4]["quantity"] == "1500000000.0"
    assert (rows[0]["hardware_model"], rows[2]["hardware_model"], rows[4]["hardware_model"]) == ("A100", "", "")
    rows[4]["quantity"] = "1500000000"
    made, faults = imports.facts(rows, CONTEXT)
    assert faults == []
    assert (made[0].sku, made[0].qty_us, made[4].sku) == (
        "card:A100:spot",
        3 * US_PER_HOUR // 2,
        "network_byte:-:fixed",
    )


def test_focus_rows_that_cannot_be_taken_over_are_named():
    _, _, findings = imports.of_focus(
        [focus_row(PricingUnit="Hours"), focus_row(ChargeClass="Correction"), focus_row(PricingQuantity="-1")]
    )
    assert [(finding.path, finding.code) for finding in findings] == [
        ("row 2.PricingUnit", "unknown_unit"),
        ("row 3.ChargeClass", "correction"),
        ("row 4.ChargeClass", "correction"),
    ]
    _, faults = imports.facts([a_row(project="x")], CONTEXT)
    assert [(fault.path, fault.line) for fault in imports.numbered(faults, [17])] == [("row 17.project", 17)]
