"""Documents: the same bytes whenever they are made; both languages; a spreadsheet that reads Chinese."""

import io

import pypdf
import pytest

from billing.services import documents, usage
from tests.billing.books import AFTER_OCTOBER, a_fact, a_tenant, october

pytestmark = pytest.mark.django_db


def text_of(data: bytes) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages)


def test_pdf_in_both_languages():
    tenant = a_tenant(name="苔藓实验室 #panic() *b* $x$ @ref", period_timezone="Asia/Shanghai")
    fact = a_fact(tenant, project_name="视觉 <b>", green_ratio_ppm=615000)
    usage.record(fact=fact, now=fact.ended_at)
    invoice = october(tenant)
    for language, word in (("en", "Invoice"), ("zh-hans", "账单")):
        pdf = documents.ensure(invoice=invoice, format="pdf", language=language, now=AFTER_OCTOBER)
        text = text_of(bytes(pdf.content))
        assert word in text
        assert "苔藓实验室 #panic() *b* $x$ @ref" in text
        assert invoice.number in text
