"""A real log from usage to documents: every user of NASA's machine is a tenant, and every format of every invoice says the same cent.

69 users in CNY with 6 % tax, and again in EUR under reverse charge. The daily run does one month of some users in each currency; `make books` does all
153 (user, month) invoices of both.
"""

import csv
import gzip
import io
import json
import os
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import openpyxl
import pypdf
import pytest

from billing.domain import focus, focus_check
from billing.gateways import einvoice
from billing.models import Invoice
from billing.selectors import balances
from billing.services import documents, invoices, periods, usage
from portal.kit.money import Money
from tests import reference
from tests.billing.books import a_fact, a_tenant

pytestmark = pytest.mark.django_db
LOG = "workloads/swf/NASA-iPSC-1993-3.1-cln.swf.gz"
ALL = os.environ.get("IDLEWILD_BOOKS") == "all"
MONTHS = ("1993-10", "1993-11", "1993-12", "1994-01")
USERS = 69
SOME = 6
VAT = "DE136695976"


def rows_by_user():
    """(number, start, seconds, cores) of the jobs of each user of the log."""
    with gzip.open(reference.path(LOG), "rt") as log:
        rows = log.read().splitlines()
    origin = next(int(row.split(":")[1]) for row in rows if "UnixStartTime" in row)
    found = defaultdict(list)
    for row in rows:
        if not row.startswith(";"):
            number, submitted, _, seconds, cores, *rest = row.split()
            start = datetime.fromtimestamp(origin + int(submitted), UTC)
            found[int(rest[6])].append((number, start, int(seconds), int(cores)))
    return found


def after(month):
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 4, tzinfo=UTC)


def bill(currency, users, months, **who):
    """The invoices of these users over these months."""
    made = []
    for user, rows in sorted(users.items()):
        tenant = a_tenant(name=f"User {user} 用户", currency=currency, **who)
        facts = [
            a_fact(
                tenant, attempt_ref=f"att_{currency}_{number}", resource="core", job_ref=f"job_{number}", project_ref=f"prj_{user}",
                project_name=f"Project {user}", department=f"Code {user % 5}", started_at=start, seconds=seconds, count_milli=cores * 1000,
                unit_price_micro=35_417, currency=currency, green_ratio_ppm=None if user % 3 else 250_000,
            )
            for number, start, seconds, cores in rows
        ]  # fmt: skip
        for month in MONTHS:
            batch = [fact for fact in facts if f"{fact.started_at:%Y-%m}" == month]
            if batch:
                usage.record_many(facts=batch, now=max(fact.ended_at for fact in batch))
        for period in tenant.periods.filter(month__in=months).order_by("starts_at"):
            made += periods.close(organisation_id=tenant.id, month=period.month, now=after(period.month)).invoices
    return made


def said(invoice):
    """What each format says that is to be paid, read back from its bytes."""
    now = after("1994-01") + timedelta(days=40)

    def made(kind, language="en"):
        return bytes(documents.ensure(invoice=invoice, format=kind, language=language, now=now).content)

    frozen = json.loads(made("json"))
    found = {"json": Decimal(frozen["payable"])}
    rows = list(csv.DictReader(io.StringIO(made("csv").decode("utf-8-sig"))))
    found["csv"] = sum(Decimal(row["Amount"]) for row in rows) + Decimal(frozen["tax"])
    sums = openpyxl.load_workbook(io.BytesIO(made("xlsx", "zh-hans")), read_only=True).worksheets
    amounts = list(sums[1].iter_rows(values_only=True))
    found["xlsx"] = Decimal(str(amounts[-1][1]))
    header, *lines = sums[0].iter_rows(values_only=True)
    found["xlsx lines"] = sum(Decimal(str(row[header.index("应付")])) for row in lines) + Decimal(frozen["tax"])
    text = made("focus").decode()
    assert focus_check.check(text, {invoice.number: frozen["payable"]}) == []
    found["focus"] = focus.billed(focus.read(text))
    for language, word in (("en", "Payable"), ("zh-hans", "应付总额")):
        page = "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(made("pdf", language))).pages)
        found[f"pdf {language}"] = Decimal(re.search(rf"{word}\s+([0-9.]+) {invoice.currency}", page)[1])
    if invoice.currency == "EUR":
        xml = made("xml")
        assert einvoice.problems(xml) == []
        found["xml"] = Decimal(re.search(rb"<ram:DuePayableAmount>([0-9.]+)<", xml)[1].decode())
        lines = re.findall(rb"<ram:LineTotalAmount>([0-9.-]+)<", xml)
        found["xml lines"] = sum(Decimal(line.decode()) for line in lines[:-1])
    return found


@pytest.mark.parametrize(("currency", "tax_ppm"), [("CNY", 60_000), ("EUR", 0)])
def test_s3_every_format_of_every_invoice_of_a_real_log_says_the_same_cent(currency, tax_ppm, settings):
    settings.IDLEWILD_TAX_PPM = 60_000 if currency == "CNY" else 200_000
    who = {}
    if currency == "EUR":
        settings.IDLEWILD_ISSUER_COUNTRY, settings.IDLEWILD_ISSUER_TAX_ID = "FR", "FR40303265045"
        who = {"country": "DE", "tax_id": VAT, "address": "Beispielweg 1"}
    users = rows_by_user()
    assert len(users) == USERS
    chosen = users if ALL else {user: users[user] for user in sorted(users)[:SOME]}
    made = bill(currency, chosen, MONTHS if ALL else MONTHS[:1], **who)
    if ALL:
        assert len(made) == 153
        assert len({invoice.organisation_id for invoice in made}) == USERS
    total = Decimal(0)
    for invoice in made:
        assert invoice.tax_category == ("S" if tax_ppm else "AE")
        formats = said(invoice)
        expected = Decimal(Money(invoice.payable_minor, currency).text())
        assert {name: value for name, value in formats.items() if value != expected} == {}, invoice.number
        total += expected
    assert total == Decimal(sum(Invoice.objects.values_list("payable_minor", flat=True))) / 100
    assert invoices.verify(made[-1]).ok
    assert set(balances.trial().values()) == {0}
    print(f"{len(made)} invoices in {currency}: {total} in {', '.join(formats)}")
