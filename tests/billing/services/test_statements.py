"""Monthly statements, split bills and fapiao requests: every column adds up to the invoice, old bills keep their split."""

import csv
import io
from datetime import timedelta
from decimal import Decimal

import openpyxl
import pypdf
import pytest

from billing.selectors import fapiao as requests
from billing.selectors import splits
from billing.services import allocations, credit_notes, fapiao, invoices, receipts, statements, usage
from portal.kit.errors import Conflict, InvalidInput, InvalidTransition, NotFound
from portal.kit.money import Money
from tests.billing.books import AFTER_OCTOBER, OCTOBER, a_fact, a_tenant, october

pytestmark = pytest.mark.django_db
USCC = "91110000600037341L"


@pytest.fixture
def tenant(settings):
    """October of a tenant in Shanghai: three departments on two nodes, over two local days; a lost core; 6 % tax; partly paid."""
    settings.IDLEWILD_TAX_PPM = 60_000
    return a_tenant(name="Moss", period_timezone="Asia/Shanghai")


def used(tenant, **values):
    power = {"power_mw": 400_000, "power_basis": "nameplate", "pue_milli": 1200, "grid_g_per_kwh": 500}
    late = OCTOBER + timedelta(hours=15)
    facts = [
        a_fact(
            tenant, attempt_ref=f"att_{tenant.id}_1", seconds=5000, department="Vision", project_ref="prj_v", started_at=late,
            green_ratio_ppm=250_000, **power,
        ),
        a_fact(
            tenant, attempt_ref=f"att_{tenant.id}_2", seconds=3601, department="Language", project_ref="prj_l", node_ref="nod_2"
        ),
        a_fact(
            tenant, attempt_ref=f"att_{tenant.id}_3", seconds=777, department="Platform", project_ref="prj_p", project_name="=Shared"
        ),
        a_fact(
            tenant, attempt_ref=f"att_{tenant.id}_4", resource="core", seconds=60, department="Vision", project_ref="prj_v"
        ),
    ]  # fmt: skip
    usage.record_many(facts=facts, now=facts[0].ended_at)
    usage.end_attempt(
        attempt_ref=f"att_{tenant.id}_4", reason="node_lost", fault="provider", billed=False, message="", ended_at=facts[3].ended_at, now=facts[0].ended_at
    )  # fmt: skip
    return october(tenant)


def table(tenant, kind, language="en", **options):
    data = statements.file(
        tenant=tenant, month="2026-10", kind=kind, format="csv", language=language, now=AFTER_OCTOBER, **options
    )
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))


def column(rows, name):
    return sum(Decimal(row[name]) for row in rows)


@pytest.mark.parametrize("by", ["item", "instance"])
@pytest.mark.parametrize("per", ["month", "day", "hour"])
def test_every_column_of_a_monthly_statement_adds_up_to_the_invoice(tenant, by, per):
    invoice = used(tenant)
    paid = Money(300, "CNY")
    invoice = invoices.record_payment(invoice=invoice, amount=paid, reference="b1", by="usr_1", now=AFTER_OCTOBER)
    rows = table(tenant, "monthly", by=by, per=per)
    assert column(rows, "Amount") == Decimal(invoice.subtotal_minor) / 100
    assert column(rows, "Tax") == Decimal(invoice.tax_minor) / 100
    assert column(rows, "Paid") == 3
    assert column(rows, "Outstanding") == Decimal(invoice.payable_minor - 300) / 100
    assert {row["Node"] for row in rows} == ({""} if by == "item" else {"nod_1", "nod_2"})
    quantity = sum(
        Decimal(row["Quantity"]) for row in rows if row["Department"] == "Vision" and row["Item"].startswith("Card")
    )
    assert abs(quantity - Decimal("1.3889")) <= Decimal("0.0002")
    times = {row["Time"] for row in rows if row["Department"] == "Vision" and row["Item"].startswith("Card")}
    assert (
        times
        == {
            "month": {"2026-10"},
            "day": {"2026-10-05", "2026-10-06"},
            "hour": {"2026-10-05 23:00", "2026-10-06 00:00"},
        }[per]
    )


def test_the_monthly_statement_in_chinese_with_energy_and_without_zeros(tenant):
    used(tenant)
    rows = table(tenant, "monthly", "zh-hans")
    vision = next(row for row in rows if row["部门"] == "Vision" and row["应付"] != "0.00")
    assert (vision["用电量（kWh）"], vision["碳排（kg CO2e）"], vision["核算依据"]) == (
        "0.667",
        "0.333",
        "nameplate × PUE",
    )
    assert (vision["绿电比例"], vision["单位"], vision["目录价"], vision["折扣"]) == ("0.25", "卡时", "5.56", "0.00")
    assert next(row for row in rows if row["项目"] == "'=Shared")["绿电比例"] == "未知"
    assert next(row for row in rows if row["不计费原因"])["不计费原因"] == "节点失联"
    assert len(table(tenant, "monthly", zero=False)) == len(rows) - 1
    with pytest.raises(NotFound):
        statements.file(tenant=tenant, month="2026-10", kind="weekly", format="csv", language="en", now=AFTER_OCTOBER)
    with pytest.raises(NotFound, match="2026-09"):
        statements.file(tenant=tenant, month="2026-09", kind="monthly", format="csv", language="en", now=AFTER_OCTOBER)


def test_a_split_bill_lays_shared_costs_by_rule_and_adds_up_over_the_tree(tenant):
    rule = allocations.set_rule(
        organisation=tenant, name="Platform", source_kind="department", source="Platform", method="usage", weights=[], from_month="2026-10",
        by="usr_1", now=AFTER_OCTOBER,
    )  # fmt: skip
    child = a_tenant(name="Moss South", parent=tenant, period_timezone="Asia/Shanghai")
    made = [used(tenant), used(child)]
    (bill,) = splits.of_month(tenant, "2026-10")
    assert bill.total.minor == sum(invoice.total_minor for invoice in made)
    assert len(bill.invoices) == 2
    own = {(row.place.department, row.place.project): row for row in bill.rows if row.place.organisation == tenant.slug}
    assert own["Platform", "prj_p"].final == 0
    assert own["Vision", ""].moved + own["Language", ""].moved == -own["Platform", "prj_p"].moved
    below = {
        (row.place.department, row.place.project): row for row in bill.rows if row.place.organisation == child.slug
    }
    assert below["Platform", "prj_p"].moved == 0, "a rule holds in its own organisation"
    rows = table(tenant, "split", "zh-hans")
    assert column(rows, "最终分配成本") == Decimal(bill.total.minor) / 100
    assert column(rows, "拆分金额") == 0
    book = openpyxl.load_workbook(
        io.BytesIO(
            statements.file(
                tenant=tenant, month="2026-10", kind="split", format="xlsx", language="en", now=AFTER_OCTOBER
            )
        )
    )
    header, *lines = book.active.iter_rows(values_only=True)
    assert round(sum(line[header.index("Final cost")] for line in lines), 2) == float(bill.total.text())
    assert bill.wire()["total"] == bill.total.wire()
    with pytest.raises(Conflict, match="closed"):
        allocations.end_rule(rule=rule, month="2026-10", by="usr_1", now=AFTER_OCTOBER)
    ended = allocations.end_rule(rule=rule, month="2026-11", by="usr_1", now=AFTER_OCTOBER)
    assert ended.until_month == "2026-11"
    assert splits.of_month(tenant, "2026-10") == [bill], "old bills keep their split"
    with pytest.raises(Conflict, match="ended already"):
        allocations.end_rule(rule=rule, month="2026-12", by="usr_1", now=AFTER_OCTOBER)
    with pytest.raises(Conflict, match="closed"):
        allocations.set_rule(
            organisation=tenant, name="", source_kind="department", source="Vision", method="equal", weights=[], from_month="2026-10",
            by="usr_1", now=AFTER_OCTOBER,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"source_kind": "team"}, "source_kind"),
        ({"method": "luck"}, "method"),
        ({"source": " "}, "source"),
        ({"method": "weights"}, "weights"),
        ({"weights": [("A", -1)]}, "weights"),
        ({"weights": [("A", 1), ("A", 2)]}, "weights"),
        ({"from_month": "soon"}, "from_month"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(tenant, values, path):
    known = {
        "organisation": tenant, "name": "x", "source_kind": "project", "source": "prj_1", "method": "equal", "weights": [],
        "from_month": "2026-10", "by": "usr_1", "now": OCTOBER,
    }  # fmt: skip
    with pytest.raises(InvalidInput) as refused:
        allocations.set_rule(**(known | values))
    assert refused.value.errors[0].path == path
    allocations.set_rule(**known)
    with pytest.raises(Conflict, match="already"):
        allocations.set_rule(**known)


def ask(invoice, **values):
    return fapiao.request(
        **(
            {
                "invoice": invoice,
                "kind": "normal",
                "buyer_name": "苔藓公司",
                "buyer_code": USCC,
                "by": "usr_1",
                "now": AFTER_OCTOBER,
            }
            | values
        )
    )


def test_a_fapiao_is_asked_for_issued_reversed_and_asked_for_again(tenant, settings):
    settings.IDLEWILD_ISSUER_NAME, settings.IDLEWILD_ISSUER_BANK = "闲野", "示例银行 0001"
    invoice = used(tenant)
    row = ask(invoice)
    with pytest.raises(Conflict, match="already"):
        ask(invoice)
    (said,) = csv.DictReader(io.StringIO(fapiao.as_csv(list(requests.waiting()), clerk="cleo").decode("utf-8-sig")))
    assert said["价税合计（小写）"] == Money(invoice.total_minor, "CNY").text()
    assert said["价税合计（大写）"].startswith("壹拾")
    assert (said["统一社会信用代码"], said["税率"], said["开票人"], said["销售方名称"]) == (USCC, "6%", "cleo", "闲野")
    assert Decimal(said["金额"]) + Decimal(said["税额"]) == Decimal(said["价税合计（小写）"])
    with pytest.raises(InvalidInput):
        fapiao.issued(row=row, number="12", by="usr_2", now=AFTER_OCTOBER)
    row = fapiao.issued(row=row, number="25312000000012345678", by="usr_2", now=AFTER_OCTOBER)
    with pytest.raises(InvalidTransition):
        fapiao.refused(row=row, reason="late", by="usr_2", now=AFTER_OCTOBER)
    row = fapiao.reversed_by(
        row=row, red_number="25312000000099999999", reason="wrong name", by="usr_2", now=AFTER_OCTOBER
    )
    assert (row.state, fapiao.record(row)["状态"]) == ("reversed", "已红冲")
    again = ask(invoice, kind="special", buyer_contact="上海 021", buyer_bank="银行 1")
    assert fapiao.refused(row=again, reason="no", by="usr_2", now=AFTER_OCTOBER).state == "refused"
    assert requests.of_invoice(invoice).count() == 2


def test_a_fapiao_that_cannot_be_is_refused(tenant):
    invoice = used(tenant)
    with pytest.raises(InvalidInput):
        ask(invoice, buyer_code="91110000600037341M")
    with pytest.raises(InvalidInput):
        ask(invoice, kind="special")
    dollars = a_tenant(currency="USD")
    fact = a_fact(dollars, currency="USD", attempt_ref="att_usd")
    usage.record(fact=fact, now=fact.ended_at)
    with pytest.raises(Conflict, match="CNY"):
        ask(october(dollars))
    nothing = a_tenant()
    fact = a_fact(nothing, attempt_ref="att_zero", unit_price_micro=0)
    usage.record(fact=fact, now=fact.ended_at)
    with pytest.raises(Conflict, match="nothing to pay"):
        ask(october(nothing))


# --- receipts and credit notes as PDF --------------------------------------------------------------------------------


def pdf_text(data):
    return " ".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages)


def test_a_receipt_lists_what_was_paid_and_what_is_open(tenant):
    invoice = used(tenant)
    with pytest.raises(NotFound, match="Nothing was paid"):
        receipts.receipt(invoice, language="en")
    for reference, minor in (("b1", 300), ("b2", 200)):
        invoice = invoices.record_payment(
            invoice=invoice, amount=Money(minor, "CNY"), reference=reference, by="usr_1", now=AFTER_OCTOBER
        )
    data = receipts.receipt(invoice, language="zh-hans")
    text = pdf_text(data)
    for said in (
        "收据",
        invoice.number,
        "3.00 CNY",
        "2.00 CNY",
        Money(invoice.total_minor - 500, "CNY").text(),
        "付款",
    ):
        assert said in text, said
    assert receipts.receipt(invoice, language="zh-hans") == data


def test_a_credit_note_is_a_pdf_of_its_frozen_content(tenant):
    invoice = used(tenant)
    note = credit_notes.issue(
        invoice=invoice, total=Money(106, "CNY"), reason="node was slow #panic()", reference="r1", by="usr_1", now=AFTER_OCTOBER
    )  # fmt: skip
    text = pdf_text(receipts.credit_note(note, language="en"))
    for said in ("Credit note", note.number, invoice.number, "-1.06 CNY", "node was slow #panic()"):
        assert said in text, said


# --- REST --------------------------------------------------------------------------------------------------------------


def test_statements_rules_and_fapiao_by_api(ada, cleo, staff):
    invoice = used(ada.organisation)
    web, month = ada.web(), invoice.period.month
    for address in (
        f"/api/v1/statements/{month}/monthly.csv?per=day&by=instance&lang=zh",
        f"/api/v1/statements/{month}/split.xlsx",
    ):
        answer = web.get(address)
        assert answer.status_code == 200, answer.content
        assert month in answer["Content-Disposition"]
        assert cleo.web().get(address).status_code == 404
    assert web.get(f"/api/v1/statements/{month}/monthly.csv?per=year").status_code == 422
    assert web.get(f"/api/v1/statements/{month}/split").json()["items"][0]["currency"] == "CNY"
    body = {
        "source_kind": "department",
        "source": "Platform",
        "method": "weights",
        "weights": {"Vision": 3},
        "from_month": "2026-12",
    }
    rule = web.post("/api/v1/allocation-rules", body, format="json").json()
    assert rule["weights"] == [["Vision", 3]]
    assert web.get("/api/v1/allocation-rules").json()["items"][0]["id"] == rule["id"]
    assert (
        cleo.web().post(f"/api/v1/allocation-rules/{rule['id']}/end", {"month": "2027-01"}, format="json").status_code
        == 404
    )
    assert (
        web.post(f"/api/v1/allocation-rules/{rule['id']}/end", {"month": "2027-01"}, format="json").json()[
            "until_month"
        ]
        == "2027-01"
    )
    receipt = f"/api/v1/invoices/{invoice.public_id}/receipt.pdf"
    assert web.get(receipt).status_code == 404
    invoices.record_payment(invoice=invoice, amount=Money(100, "CNY"), reference="b1", by="usr_1", now=AFTER_OCTOBER)
    assert web.get(receipt).content.startswith(b"%PDF")
    note = credit_notes.issue(
        invoice=invoice, total=Money(106, "CNY"), reason="slow", reference="r1", by="usr_1", now=AFTER_OCTOBER
    )
    assert web.get(f"/api/v1/credit-notes/{note.public_id}.pdf?lang=zh").content.startswith(b"%PDF")
    assert cleo.web().get(f"/api/v1/credit-notes/{note.public_id}.pdf").status_code == 404
    assert cleo.web().get(receipt).status_code == 404
    address = f"/api/v1/invoices/{invoice.public_id}/fapiao"
    asked = web.post(address, {"buyer_name": "x", "buyer_code": USCC}, format="json")
    assert asked.status_code == 201, asked.content
    assert web.get(address).json()["items"][0]["state"] == "requested"
    assert cleo.web().get(address).status_code == 404
    assert web.get("/api/v1/operator/fapiao.csv").status_code in (403, 404)
    operator = staff.web()
    assert asked.json()["id"] in operator.get("/api/v1/operator/fapiao.csv").content.decode()
    deed = f"/api/v1/operator/fapiao/{asked.json()['id']}"
    assert (
        operator.post(f"{deed}/issued", {"number": "25312000000012345678"}, format="json").json()["state"] == "issued"
    )
    assert operator.post(f"{deed}/refused", {"reason": "x"}, format="json").status_code == 409
    assert (
        operator.post(f"{deed}/reversed", {"number": "25312000000012345679"}, format="json").json()["state"]
        == "reversed"
    )
    assert (
        operator.post(
            "/api/v1/operator/fapiao/fap_none/issued", {"number": "25312000000012345679"}, format="json"
        ).status_code
        == 404
    )
