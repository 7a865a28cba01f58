"""Documents: the same bytes whenever they are made; both languages; a spreadsheet that reads the Chinese."""

import csv
import hashlib
import io
import json
import time
from dataclasses import replace
from decimal import Decimal

import openpyxl
import pypdf
import pytest
import typst

from billing.domain import focus_check, wording
from billing.domain.tax import Category, Treatment
from billing.gateways import einvoice, pdf
from billing.models import InvoiceDocument
from billing.selectors import invoices as stored
from billing.services import documents, usage
from portal.kit.errors import Conflict, NotFound, Unavailable
from portal.outbox.models import OutboxMessage
from portal.outbox.services import relay
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, case, october

pytestmark = pytest.mark.django_db
WILD = "苔藓实验室 #panic() *b* $x$ @ref"


def text_of(data: bytes) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages)


def made(invoice, kind, language="en"):
    return bytes(documents.ensure(invoice=invoice, format=kind, language=language, now=AFTER_OCTOBER).content)


@pytest.fixture
def invoice(settings):
    """October of a tenant in Shanghai: a billed card, a lost core, 6 % tax."""
    settings.IDLEWILD_TAX_PPM = 60_000
    tenant = a_tenant(name=WILD, period_timezone="Asia/Shanghai", tax_id="91310000TEST", address="上海市 1 号\n2 楼")
    card = a_fact(tenant, seconds=3600, project_name="=2+5", green_ratio_ppm=615_000, virtual=True)
    core = a_fact(tenant, attempt_ref="att_2", resource="core", seconds=600, unit_price_micro=3500)
    usage.record_many(facts=[card, core], now=card.ended_at)
    usage.end_attempt(
        attempt_ref="att_2",
        reason="node_lost",
        fault="provider",
        billed=False,
        message="",
        ended_at=core.ended_at,
        now=card.ended_at,
    )
    return october(tenant)


def test_the_pdf_says_all_in_both_languages(invoice):
    for language, words in (
        ("en", ["Invoice", "card-hour", "node lost", "Tax 6 %", "744 hours"]),
        ("zh-hans", ["账单", "卡时", "节点失联", "税额 6 %", "744 小时"]),
    ):
        text = text_of(made(invoice, "pdf", language))
        for word in [*words, WILD, invoice.number, "nod_1", "4.24", "61.5 %", "Asia/Shanghai", "91310000TEST"]:
            assert word in text, word


def test_the_pdf_is_an_archive_document_and_the_same_byte_by_byte(invoice):
    first = made(invoice, "pdf")
    frozen = json.loads(made(invoice, "json"))
    assert documents.render_pdf(frozen, "en") == first
    assert b"pdfaid" in first
    assert (
        hashlib.sha256(first).hexdigest()
        == InvoiceDocument.objects.get(invoice=invoice, format="pdf", language="en").sha256
    )


def test_a_pdf_of_two_hundred_lines_has_all_of_them(invoice):
    frozen = json.loads(made(invoice, "json"))
    line = frozen["lines"][0]
    frozen["lines"] = [line | {"n": n, "project": line["project"] | {"name": f"Project {n}"}} for n in range(1, 201)]
    text = text_of(documents.render_pdf(frozen, "zh-hans"))
    assert all(f"Project {n}" in text for n in range(1, 201))


def test_m1_changes_after_the_issue_change_no_document(invoice, settings):
    given, expected = case("bill-m1")
    before = {
        (kind, language): made(invoice, kind, language)
        for kind in ("json", "pdf", "csv")
        for language in wording.LANGUAGES
    }
    tenant = invoice.organisation
    changes = {"tenant.name": "name", "tenant.tax_id": "tax_id", "tenant.address": "address"}
    for change in given["change"]:
        if change in changes:
            setattr(tenant, changes[change], "changed")
    tenant.save()
    settings.IDLEWILD_TAX_PPM = 130_000
    dearer = a_fact(
        tenant, attempt_ref="att_3", unit_price_micro=9_000_000, price_version_ref="prv_2", started_at=AFTER_OCTOBER
    )
    usage.record(fact=dearer, now=dearer.ended_at)
    after = {(kind, language): made(invoice, kind, language) for kind, language in before}
    assert after == before
    assert expected["re_rendered_pdf_equals_stored"]
    frozen = json.loads(after["json", "en"])
    assert documents.render_pdf(frozen, "zh-hans") == before["pdf", "zh-hans"]
    assert frozen["tenant"]["name"] == WILD
    # raw SQL on the issued invoice: tests/billing/models/test_guards.py


def test_p31_the_month_has_the_same_bounds_and_zone_in_json_csv_and_pdf(invoice):
    frozen = json.loads(made(invoice, "json"))
    bounds = {
        "start": "2026-09-30T16:00:00Z",
        "end": "2026-10-31T16:00:00Z",
        "timezone": "Asia/Shanghai",
        "hours": "744",
    }
    assert {name: frozen["period"][name] for name in bounds} == bounds
    row = next(csv.DictReader(io.StringIO(made(invoice, "csv").decode("utf-8-sig"))))
    assert [row[name] for name in ("Period from", "Period until", "Time zone", "Period hours")] == list(bounds.values())
    text = text_of(made(invoice, "pdf"))
    for value in bounds.values():
        assert value in text


def test_the_csv_has_a_byte_order_mark_and_runs_no_formula(invoice):
    data = made(invoice, "csv", "zh-hans")
    assert data.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))
    assert [row["项目"] for row in rows] == ["'=2+5", "Vision"]
    assert [row["应付"] for row in rows] == ["4.00", "0.00"]
    assert [row["不计费原因"] for row in rows] == ["", "节点失联"]
    assert rows[0]["绿电比例"] == "0.615"
    assert rows[1]["绿电比例"] == "未知"
    assert "虚拟卡" in rows[0]["备注"]


@pytest.mark.parametrize(
    ("cell", "safe"), [("-1.50", "-1.50"), ("-1+1", "'-1+1"), ("@x", "'@x"), ("+1", "'+1"), (-3, -3), ("a=b", "a=b")]
)
def test_cells_that_a_spreadsheet_would_run_are_quoted(cell, safe):
    assert documents.harmless(cell) == safe


def test_lines_add_up_in_every_format(invoice):
    frozen = json.loads(made(invoice, "json"))
    minor = [round(float(line["amount"]) * 100) for line in frozen["lines"]]
    assert (sum(minor), frozen["subtotal"], frozen["tax"], frozen["total"]) == (400, "4.00", "0.24", "4.24")
    rows = list(csv.DictReader(io.StringIO(made(invoice, "csv").decode("utf-8-sig"))))
    assert [row["Amount"] for row in rows] == [line["amount"] for line in frozen["lines"]]
    assert [line.amount.text() for line in stored.lines(invoice)] == [line["amount"] for line in frozen["lines"]]


def test_the_outbox_makes_the_pdfs_once(invoice):
    with pytest.raises(Unavailable):
        stored.document(invoice, "pdf", "en")
    relay(now=AFTER_OCTOBER)
    message = OutboxMessage.objects.get(topic="invoice.pdf")
    assert message.sent_at is not None
    documents.render_promised(message.key, message.payload)
    assert InvoiceDocument.objects.filter(format="pdf").count() == 2
    assert stored.document(invoice, "pdf", "zh-hans") == made(invoice, "pdf", "zh-hans")
    assert stored.document(invoice, "json") == made(invoice, "json")
    with pytest.raises(NotFound):
        stored.document(invoice, "docx")


@pytest.mark.parametrize(("kind", "language"), [("docx", "en"), ("pdf", "fr"), ("", "en")])
def test_a_format_or_language_that_is_none_is_not_found(invoice, kind, language):
    with pytest.raises(NotFound):
        documents.ensure(invoice=invoice, format=kind, language=language, now=AFTER_OCTOBER)


def test_a_draft_has_no_documents(invoice):
    with pytest.raises(ValueError, match="number"):
        documents.content(
            type(invoice)(organisation=invoice.organisation, period=invoice.period, currency="CNY"),
            [],
            [],
            Treatment(0, Category.OUTSIDE),
        )


# --- the gateway -------------------------------------------------------------------------------------------------------


def test_the_font_with_chinese_is_there():
    folder = pdf.font_folder()
    assert pdf.FAMILY in typst.Fonts(include_system_fonts=False, font_paths=[str(folder)]).families()


def test_a_missing_font_is_an_error_that_says_what_to_do(settings, tmp_path, monkeypatch):
    settings.IDLEWILD_FONT_DIR = str(tmp_path)
    pdf.font_folder.cache_clear()
    assert pdf.font_folder() != tmp_path, "a folder without the font is passed over"
    pdf.font_folder.cache_clear()
    monkeypatch.setattr(pdf, "_candidates", lambda: [tmp_path])
    with pytest.raises(pdf.NoFont, match="paperang"):
        pdf.font_folder()
    monkeypatch.undo()
    pdf.font_folder.cache_clear()


def test_a_template_that_warns_or_fails_is_an_error(invoice, monkeypatch, tmp_path):
    frozen = json.loads(made(invoice, "json"))
    monkeypatch.setattr(pdf, "TEMPLATES", tmp_path)
    (tmp_path / "invoice-7.typ").write_text(
        '#set text(font: "No Such Font")\n#set document(date: datetime(year: 2026, month: 1, day: 1))\nx'
    )
    with pytest.raises(pdf.BadTemplate, match="font"):
        pdf.render(frozen, {}, template=7)
    (tmp_path / "invoice-7.typ").write_text("#panic()")
    with pytest.raises(pdf.BadTemplate):
        pdf.render(frozen, {}, template=7)


def test_a_name_can_be_anything_and_what_the_font_lacks_is_a_box():
    tenant = a_tenant(name="rare 𠀀 bell \a null")
    fact = replace(a_fact(tenant), provider_name='"]; #import "x" \\ 绿 🌱🌱', project_name="a" * 120)
    usage.record(fact=fact, now=fact.ended_at)
    text = text_of(made(october(tenant), "pdf"))
    assert '"]; #import "x" \\ 绿 □□' in text.replace("\n", " ")
    assert "rare □ bell □ null" in text


def test_too_many_characters_that_cannot_be_drawn_are_an_error(invoice):
    frozen = json.loads(made(invoice, "json"))
    frozen["tenant"]["name"] = "".join(chr(0x1F300 + n) for n in range(pdf.MOST_UNKNOWN + 1))
    with pytest.raises(pdf.BadTemplate, match="cannot be drawn"):
        documents.render_pdf(frozen, "en")


# --- e-invoice, FOCUS, spreadsheet --------------------------------------------------------------------------------------


def in_euro(settings, *, country="DE", tax_id="DE136695976", rate=200_000, **facts):
    settings.IDLEWILD_TAX_PPM = rate
    settings.IDLEWILD_ISSUER_NAME = "Idlewild Market"
    settings.IDLEWILD_ISSUER_ADDRESS = "1 rue de l'Exemple|75001 Paris"
    settings.IDLEWILD_ISSUER_COUNTRY = "FR"
    settings.IDLEWILD_ISSUER_TAX_ID = "FR40303265045"
    tenant = a_tenant(
        name="Muster & Söhne <GmbH>",
        currency="EUR",
        country=country,
        tax_id=tax_id,
        address="Beispielweg 1\n10115 Berlin",
    )
    fact = a_fact(tenant, seconds=4321, currency="EUR", **facts)
    usage.record(fact=fact, now=fact.ended_at)
    return october(tenant)


def test_an_invoice_in_euro_under_reverse_charge_is_a_valid_e_invoice(settings):
    invoice = in_euro(settings)
    assert (invoice.tax_minor, invoice.tax_category) == (0, "AE")
    xml = made(invoice, "xml")
    assert einvoice.problems(xml) == []
    text = xml.decode()
    for said in ("FR40303265045", "DE136695976", ">AE<", "Reverse charge", "Muster &amp; Söhne", invoice.number, "HUR"):
        assert said in text, said
    pdf_text = text_of(made(invoice, "pdf"))
    assert "Reverse charge" in pdf_text
    assert "FR40303265045 → DE136695976" in pdf_text
    inside = pypdf.PdfReader(io.BytesIO(made(invoice, "pdf"))).attachments
    assert inside["factur-x.xml"] == [xml]


def test_the_pdf_with_an_e_invoice_inside_is_the_same_byte_by_byte(settings):
    invoice = in_euro(settings)
    frozen = json.loads(made(invoice, "json"))
    first = made(invoice, "pdf", "zh-hans")
    time.sleep(1.1)
    assert documents.render_pdf(frozen, "zh-hans") == first


@pytest.mark.parametrize(
    ("country", "tax_id", "rate", "category", "tax"),
    [
        ("FR", "FR61954506077", 200_000, "S", 96),
        ("DE", "", 200_000, "S", 96),
        ("US", "", 0, "G", 0),
        ("FR", "", 0, "Z", 0),
    ],
)
def test_every_treatment_makes_a_valid_e_invoice(settings, country, tax_id, rate, category, tax):
    invoice = in_euro(settings, country=country, tax_id=tax_id, rate=rate)
    assert (invoice.tax_category, invoice.tax_minor) == (category, tax)
    assert f"<ram:CategoryCode>{category}</ram:CategoryCode>" in made(invoice, "xml").decode()


def test_an_issuer_without_tax_id_bills_outside_of_tax(settings):
    invoice = in_euro(settings, rate=0)
    frozen = json.loads(made(invoice, "json"))
    frozen["tax_treatment"] = {"category": "O", "rate": "0.00", "reverse_charge": False}
    frozen["issuer"]["tax_id"] = ""
    assert "VATEX-EU-O" in einvoice.xml(frozen).decode()


def test_an_e_invoice_that_lacks_something_says_what(settings):
    invoice = in_euro(settings, country="", tax_id="")
    with pytest.raises(Conflict, match="country of the organisation that is billed"):
        made(invoice, "xml")
    assert "factur-x.xml" not in pypdf.PdfReader(io.BytesIO(made(invoice, "pdf"))).attachments, (
        "the PDF is made without it"
    )
    settings.IDLEWILD_ISSUER_COUNTRY = settings.IDLEWILD_ISSUER_TAX_ID = ""
    frozen = json.loads(made(invoice, "json"))
    frozen["issuer"] = documents.issuer()
    assert len(einvoice.ready(frozen)) == 3


def test_an_e_invoice_is_made_for_euro_only(invoice):
    with pytest.raises(NotFound, match="EUR"):
        made(invoice, "xml")


def test_f3_wrong_arithmetic_is_caught_by_us_and_by_the_schematron(settings):
    frozen = json.loads(made(in_euro(settings, country="FR", tax_id=""), "json"))
    for change in ({"total": "5.77"}, {"subtotal": "4.81"}, {"tax": "0.97"}, {"payable": "0.01"}):
        with pytest.raises(einvoice.Wrong, match="add up"):
            einvoice.xml(frozen | change)
    tolerated = frozen | {
        "taxes": [frozen["taxes"][0] | {"tax": "0.97"}],
        "tax": "0.97",
        "total": "5.77",
        "payable": "5.77",
    }
    with pytest.raises(einvoice.Wrong, match=r"tax 20 % of 4\.80 is 0\.96, printed is 0\.97"):
        einvoice.xml(tolerated)
    good = einvoice.xml(frozen).decode()
    wrong = good.replace(">5.76<", ">5.77<")
    assert any("BR-CO-1" in problem for problem in einvoice.problems(wrong.encode()))
    assert einvoice.problems(b"<nothing")[0].startswith("XSD")
    assert einvoice.problems(
        good.replace("<ram:TypeCode>VAT", "<ram:Kind>VAT").replace("VAT</ram:TypeCode>", "VAT</ram:Kind>").encode()
    )


def test_an_invoice_below_zero_is_a_valid_e_invoice(settings):
    frozen = json.loads(made(in_euro(settings), "json"))
    line = frozen["lines"][0]
    back = {"amount": "-7.00", "qty_us": -line["qty_us"], "n": 2}
    frozen |= {
        "lines": [line, line | back], "subtotal": "-2.20", "total": "0.00", "payable": "0.00", "to_credit": "2.20",
    }  # fmt: skip
    assert "-2.20" in einvoice.xml(frozen).decode()


def test_f1_every_invoice_is_a_focus_file_that_our_checker_accepts(invoice):
    text = made(invoice, "focus").decode()
    assert focus_check.check(text, {invoice.number: "4.24"}) == []
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["ChargeCategory"] for row in rows] == ["Usage", "Usage", "Tax"]
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("4.24")
    assert {row["InvoiceId"] for row in rows} == {invoice.number}
    assert rows[1]["ResourceId"] == "nod_1"
    assert json.loads(rows[0]["SkuPriceDetails"])["x_Virtual"] == "true"


def test_the_spreadsheet_adds_up_and_runs_no_formula(invoice):
    for language, item in (("en", "Amount"), ("zh-hans", "应付")):
        book = openpyxl.load_workbook(io.BytesIO(made(invoice, "xlsx", language)))
        lines, sums = book.worksheets
        header = [cell.value for cell in lines[1]]
        assert sum(row[header.index(item)].value for row in lines.iter_rows(min_row=2)) == 4
        project = lines.cell(2, header.index("项目" if language == "zh-hans" else "Project") + 1)
        assert (project.value, project.data_type) == ("=2+5", "s")
        assert sums.cell(sums.max_row, 2).value == 4.24
    frozen = json.loads(made(invoice, "json"))
    assert documents.as_xlsx(frozen, "en") == made(invoice, "xlsx")
