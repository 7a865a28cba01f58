"""FOCUS: rows that add up to what is to be paid, and a checker that finds every kind of fault and names its row."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import focus, focus_check


def a_line(n=1, **values):
    known = {
        "n": n, "description": "card A100", "correction_of": None, "project": {"id": "prj_1", "name": "Moss", "department": "R, D"},
        "provider": {"id": "org_2", "name": "Sol"}, "resource": "card", "sku": "card:A100:spot", "region": "east", "zone": "east-1",
        "virtual": False, "price_version": "prv_1", "unit": "card-hour", "unit_price": "4.00", "tier": None, "discount": "0.00",
        "qty_us": 3_600_000_000, "amount": "4.00", "unbilled_reason": None, "node": None, "first_at": "2026-10-05T00:00:00.250000Z",
        "last_at": "2026-10-05T01:00:00.250000Z",
    }  # fmt: skip
    return known | values


def a_document(*lines, **values):
    known = {
        "number": "IW-2026-000001", "issuer": {"name": "Idlewild"}, "tenant": {"id": "org_1", "name": "Ada \"A\" Lab"}, "currency": "CNY",
        "period": {"start": "2026-10-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"}, "lines": list(lines) or [a_line()], "subtotal": "4.00",
        "taxes": [], "credit_used": None, "to_credit": None,
    }  # fmt: skip
    return known | values


def text_of(document):
    return focus.text(focus.rows(document))


def test_a_line_is_a_usage_row_in_whole_seconds():
    (row,) = focus.rows(a_document())
    assert (row["BilledCost"], row["ListCost"], row["PricingQuantity"]) == ("4", "4", "1")
    assert (row["ChargePeriodStart"], row["ChargePeriodEnd"]) == ("2026-10-05T00:00:00Z", "2026-10-05T01:00:01Z")
    assert (row["PricingCategory"], row["Tags"], row["ChargeClass"]) == ("Dynamic", '{"department":"R, D"}', None)
    assert focus_check.check(text_of(a_document()), {"IW-2026-000001": "4.00"}) == []


def test_tax_rounding_credit_and_balance_are_rows_that_add_up():
    lines = [
        a_line(1, qty_us=1_234_567_891, amount="1.37", discount="0.10", tier=2, virtual=True),
        a_line(2, qty_us=5, amount="0.00", first_at="2026-10-05T00:00:00Z", last_at="2026-10-05T00:00:00Z"),
        a_line(3, unit_price="0.00", unbilled_reason="node_lost", node="nod_1", amount="0.00", sku="card:A100:fixed"),
        a_line(4, resource="network_byte", unit="GB", qty_us=10**9, unit_price="0.02", amount="0.02", zone="", region=""),
        a_line(5, correction_of="2026-09", qty_us=-3_600_000_000, amount="-4.00", first_at="2026-09-05T00:00:00Z", last_at="2026-09-05T01:00:00Z"),
        a_line(6, project={"id": "", "name": "", "department": ""}, provider={"id": "", "name": ""}),
    ]  # fmt: skip
    taxes = [{"percent": "6", "tax": "0.08"}, {"percent": "0", "tax": "0.00"}]
    document = a_document(*lines, subtotal="1.39", taxes=taxes, credit_used="0.50")
    text = text_of(document)
    assert focus_check.check(text, {"IW-2026-000001": "0.97"}) == []
    rows = focus.read("\ufeff" + text)
    assert [row["ChargeCategory"] for row in rows] == ["Usage"] * 6 + ["Tax", "Adjustment", "Credit"]
    assert rows[4]["ChargeClass"] == "Correction"
    assert rows[5]["SubAccountId"] is None
    assert rows[5]["PublisherName"] == "Idlewild"
    below = a_document(a_line(qty_us=-3_600_000_000, correction_of="2026-09"), subtotal="-4.00", to_credit="4.00")
    assert focus.billed(focus.rows(below)) == 0


@given(
    st.lists(
        st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**8), st.integers(0, 999_999)),
        min_size=1,
        max_size=8,
    )
)
def test_f1_any_invoice_passes_the_checker(found):
    lines = [
        a_line(n, qty_us=qty, unit_price=f"{price // 10**6}.{price % 10**6:06d}", discount=f"0.{discount:06d}")
        for n, (qty, price, discount) in enumerate(found, start=1)
    ]
    text = text_of(a_document(*lines, subtotal="12.34", taxes=[{"percent": "6", "tax": "0.74"}]))
    assert focus_check.check(text, {"IW-2026-000001": "13.08"}) == []
    assert sum(Decimal(row["BilledCost"] or 0) for row in focus.read(text)).quantize(Decimal("0.01")) == Decimal(
        "13.08"
    )


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_characters="\r\x00"), max_size=8), min_size=1, max_size=4), max_size=4
    )
)
def test_what_is_written_is_read_again(rows):
    written = "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n" for row in rows)
    assert [[cell for cell, _ in row] for row in focus.parse(written)] == rows


def test_a_quoted_empty_field_is_told_from_an_empty_one():
    assert list(focus.parse('a,"",\nb,"x""y",z')) == [
        [("a", False), ("", True), ("", False)],
        [("b", False), ('x"y', True), ("z", False)],
    ]
    assert list(focus.parse('""')) == [[("", True)]]
    assert focus.read("") == []


FAULTS = [
    ("null", "BillingAccountName", '""', '""'),
    ("null", "ChargeClass", "NULL", "NULL"),
    ("null", "InvoiceIssuerName", "", "must not be empty"),
    ("number", "BilledCost", "+4", "plain number"),
    ("number", "PricingQuantity", '"1,000"', "plain number"),
    ("number", "ListUnitPrice", "4.00 CNY", "plain number"),
    ("time", "ChargePeriodStart", "2026-10-05 00:00:00", "not a time"),
    ("time", "ChargePeriodStart", "2026-13-05T00:00:00Z", "not a time"),
    ("time", "ChargePeriodStart", "2026-09-30T23:00:00Z", "outside the billing period"),
    ("time", "ChargePeriodEnd", "2026-10-05T00:00:00Z", "ends before it begins"),
    ("time", "BillingPeriodEnd", "2026-10-01T00:00:00Z", "ends before it begins"),
    ("word", "ChargeCategory", "usage", "not one of"),
    ("word", "ChargeFrequency", "Hourly", "not one of"),
    ("word", "PricingCategory", "Spot", "not one of"),
    ("word", "BillingCurrency", "rmb", "ISO 4217"),
    ("word", "Tags", "{broken", "flat JSON"),
    ("word", "Tags", '"{""a"":{""b"":1}}"', "flat JSON"),
    ("service", "ServiceCategory", "Storage", "was Compute before"),
    ("service", "ServiceSubcategory", "Object Storage", "does not belong"),
    ("usage", "SkuId", "", "usage row needs"),
    ("usage", "ConsumedQuantity", "", "usage row needs"),
    ("pair", "PricingUnit", "", "no unit"),
    ("pair", "RegionId", "", "without its id"),
    ("cost", "ListCost", "4.01", "is not ListUnitPrice"),
    ("cost", "ContractedCost", "3.99", "is not ContractedUnitPrice"),
    ("columns", "BilledCost", "4,4", "cells"),
]


@pytest.mark.parametrize(("rule", "column", "value", "says"), FAULTS)
def test_f3_every_kind_of_fault_is_found_and_names_its_row(rule, column, value, says):
    header, first, second = text_of(a_document(a_line(1), a_line(2), subtotal="8.00")).split("\r\n")[:3]
    place = header.split(",").index(column)
    cells = [cell if not quoted else '"' + cell.replace('"', '""') + '"' for cell, quoted in next(focus.parse(second))]
    cells[place] = value
    problems = focus_check.check("\r\n".join([header, first, ",".join(cells)]))
    found = [problem for problem in problems if problem.rule == rule and says in problem.message]
    assert found, problems
    assert {problem.row for problem in found} == {3}
    assert str(found[0]).startswith("row 3")


def test_faults_of_the_whole_file_are_found():
    assert [str(problem) for problem in focus_check.check("")] == [
        "file: the file is empty: the first row names the columns"
    ]
    text = text_of(a_document())
    assert [problem.column for problem in focus_check.check(text.replace(",ListCost,", ",Id,"))] == ["ListCost", "Id"]
    twice = focus_check.check(text.replace("RegionName", "RegionId"))
    assert ("RegionId", "this column is there twice") in {(problem.column, problem.message) for problem in twice}
    assert focus_check.check(text.replace("ListCost,", "ListCost,").replace("Tags", "x_Tags")) == []


def test_faults_of_tax_credit_and_purchase_rows_are_found():
    document = a_document(taxes=[{"percent": "6", "tax": "0.24"}], credit_used="1.00")
    header, usage, tax, credit = text_of(document).split("\r\n")[:4]
    names = header.split(",")

    def changed(row, **values):
        cells = row.split(",")
        for name, value in values.items():
            cells[names.index(name)] = value
        return focus_check.check("\r\n".join([header, ",".join(cells)]))

    assert [(p.column, p.rule) for p in changed(tax, SkuId="x")] == [("SkuId", "usage")]
    assert [(p.column, p.rule) for p in changed(credit, ListCost="-2")] == [("ListCost", "cost")]
    assert {(p.column, p.rule) for p in changed(credit, EffectiveCost="")} == {("EffectiveCost", "null")}
    bought = changed(credit, ChargeCategory="Purchase", ConsumedQuantity="1", ConsumedUnit="hour")
    assert [(p.column, p.rule) for p in bought] == [("ConsumedQuantity", "usage")]
    assert changed(credit, ServiceCategory="Web", ServiceSubcategory="whatever") == []
    missing = changed(credit, ServiceName="")
    assert [(p.column, p.rule) for p in missing] == [("ServiceName", "null")]
    assert usage


def test_an_invoice_whose_rows_do_not_add_up_is_found():
    text = text_of(a_document())
    wrong = focus_check.check(text, {"IW-2026-000001": "4.01", "IW-2026-000002": "1.00"})
    assert [str(problem) for problem in wrong] == [
        "file, BilledCost: invoice IW-2026-000001: rows add up to 4, to be paid is 4.01",
        "file, BilledCost: invoice IW-2026-000002: rows add up to 0, to be paid is 1.00",
    ]
    assert [problem.message for problem in focus_check.check(text, {})] == ["invoice IW-2026-000001 is not known"]
    broken = text.replace("CNY", "CNY").replace("\r\n4,", "\r\nfour,")
    assert {problem.rule for problem in focus_check.check(broken, {"IW-2026-000001": "4.00"})} == {"number"}
    alone = text.replace(",IW-2026-000001,", ",,")
    assert [problem.rule for problem in focus_check.check(alone, {})] == []
