"""Usage and invoices on pages: the same figures as the services, lines of 0 with reason and node, documents, computing again."""

import json
from datetime import timedelta
from typing import Any

import pytest

from billing.services import usage
from portal import clock
from tests.billing.books import OCTOBER, a_fact, october
from tests.cast import Person

pytestmark = pytest.mark.django_db


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def an_october(of: Person) -> Any:
    """Half an hour of one card and two cores; then a lost attempt of six minutes that costs nothing."""
    home = of.organisation
    good = {"attempt_ref": "att_good", "seconds": 1_800, "green_ratio_ppm": 800_000}
    facts = [
        a_fact(home, **good),
        a_fact(
            home, **good, resource="core", count_milli=2_000, unit_price_micro=100_000, price_version_ref="prv_core"
        ),
        a_fact(home, attempt_ref="att_lost", seconds=360, started_at=OCTOBER + timedelta(hours=2)),
    ]
    for fact in facts:
        assert usage.record(fact=fact, now=fact.ended_at).answer == "stored"
    end = OCTOBER + timedelta(hours=3)
    usage.end_attempt(
        attempt_ref="att_good", reason="finished", fault="none", billed=True, message="", ended_at=end, now=end
    )
    usage.end_attempt(
        attempt_ref="att_lost", reason="node_lost", fault="provider", billed=False, message="", ended_at=end, now=end
    )
    return october(home)


def test_an_issued_invoice(ada: Person, cleo: Person) -> None:
    made = an_october(ada)
    browser = ada.browser()
    listed = text_of(browser.get("/invoices"))
    assert made.number in listed
    assert "October 2026" in listed
    page = text_of(browser.get(f"/invoices/{made.public_id}"))
    assert "CN¥2.10" in page  # 0.5 h × 4.00 + 1 h × 0.10
    assert "The node went silent" in page
    assert "nod_1" in page
    assert "Research" in page
    assert f"/invoices/{made.public_id}/lines/1" in page
    for path in ("", "/lines/1", "/document.pdf", "/document.json"):
        assert cleo.browser().get(f"/invoices/{made.public_id}{path}").status_code == 404


def test_a_line_lists_its_records(ada: Person) -> None:
    made = an_october(ada)
    browser = ada.browser()
    positions = range(1, made.lines.count() + 1)
    pages = [text_of(browser.get(f"/invoices/{made.public_id}/lines/{position}")) for position in positions]
    assert any("0.500000 card-hours" in page and "att_good" in page for page in pages)
    assert any("att_lost" in page for page in pages)
    assert browser.get(f"/invoices/{made.public_id}/lines/99").status_code == 404


def test_documents(ada: Person) -> None:
    made = an_october(ada)
    browser = ada.browser()
    for kind, start in (("pdf", b"%PDF"), ("csv", "\ufeff".encode()), ("json", b"{")):
        answer = browser.get(f"/invoices/{made.public_id}/document.{kind}")
        assert answer.status_code == 200
        assert answer.content.startswith(start), kind
        assert f'filename="{made.number}.{kind}"' in answer.headers["Content-Disposition"]
    assert json.loads(browser.get(f"/invoices/{made.public_id}/document.json").content)["number"] == made.number
    assert browser.get(f"/invoices/{made.public_id}/document.exe").status_code == 404


def test_computing_again(ada: Person, cleo: Person) -> None:
    made = an_october(ada)
    path = f"/invoices/{made.public_id}/verify"
    assert "The invoice is right." in text_of(ada.browser().post(path))
    assert ada.browser().get(path).status_code == 405
    assert cleo.browser().post(path).status_code == 404


def test_p31_the_page_and_the_api_print_the_bounds_and_the_zone_of_the_month(ada: Person) -> None:
    """In API and page as in CSV and PDF (tests/billing/services/test_documents.py)."""
    assert ada.organisation.period_timezone == "Asia/Shanghai"
    made = an_october(ada)
    bounds = {
        "start": "2026-09-30T16:00:00Z",
        "end": "2026-10-31T16:00:00Z",
        "timezone": "Asia/Shanghai",
        "hours": "744",
    }
    told = ada.program().get("/api/v1/usage?month=2026-10").json()
    assert {name: told[name] for name in bounds} == bounds
    page = text_of(ada.browser().get(f"/invoices/{made.public_id}"))
    assert "Asia/Shanghai" in page
    assert "744" in page
    assert 'datetime="2026-09-30T16:00:00' in page
    assert 'datetime="2026-10-31T16:00:00' in page


def test_usage_of_a_month(ada: Person) -> None:
    an_october(ada)
    browser = ada.browser()
    page = text_of(browser.get("/usage?month=2026-10&by=project"))
    assert "CN¥2.10" in page
    assert "0.6000" in page  # card-hours, the lost ones too
    assert "0.1000 of them cost nothing" in page
    assert "80\N{NO-BREAK SPACE}%" in page
    for group in ("department", "day", "job", "provider", "region", "node", "sku"):
        assert browser.get(f"/usage?month=2026-10&by={group}").status_code == 200, group


def test_the_upcoming_month_is_the_sum_of_its_lines(ada: Person) -> None:
    now = clock.now()
    fact = a_fact(ada.organisation, started_at=now - timedelta(minutes=2), seconds=60, unit_price_micro=60_000_000)
    usage.record(fact=fact, now=now)
    page = text_of(ada.browser().get("/invoices"))
    assert page.count("CN¥1.00") >= 3  # head, line, total
    assert "CN¥1.00" in text_of(ada.browser().get("/home"))


def test_the_usage_page_explains_a_month(ada: Person) -> None:
    """A chart with its table, the odd day with its job, savings, energy, files of the month."""
    home = ada.organisation
    power = {"power_mw": 400_000, "power_basis": "nameplate", "pue_milli": 1_250, "grid_g_per_kwh": 400}
    hours = {day: 1 for day in range(1, 12)} | {12: 20}
    facts = [
        a_fact(
            home, attempt_ref=f"att_{day}", job_ref=f"job_{day}", job_name=f"day {day}", started_at=OCTOBER.replace(day=day), seconds=hours * 3600,
            **power,
        )
        for day, hours in hours.items()
    ]  # fmt: skip
    usage.record_many(facts=facts, now=OCTOBER + timedelta(days=20))
    usage.end_attempt(
        attempt_ref="att_1",
        reason="out_of_memory",
        fault="tenant",
        billed=True,
        message="",
        ended_at=OCTOBER,
        now=OCTOBER,
    )
    page = text_of(ada.browser().get("/usage?month=2026-10&by=hardware"))
    for said in (
        'role="img"', "Cost per day: the highest is CN¥64.00 on 2026-10-12.", "CN¥72.00 more than usual", "day 12",
        "Work that failed was billed", "15.500 kWh", "maker&#x27;s figure × PUE", "/api/v1/usage.csv?month=2026-10&amp;group_by=hardware",
    ):  # fmt: skip
        assert said in page, said
    assert "Monthly statement" not in page, "the month is not closed"
    october(home)
    page = text_of(ada.browser().get("/usage?month=2026-10"))
    assert "/api/v1/statements/2026-10/split.xlsx" in page
    assert "style=" not in page
