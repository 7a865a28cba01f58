"""Money in a real browser: a statement fills the wallet, a job holds it, it runs dry, the job is stopped; an invoice is paid by transfer and credited.

The job's clock is the test's: its attempts and reports are made through the services, the pages are what a person sees meanwhile.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from billing.selectors import bank
from billing.services import budgets, credit_notes, grants, wallets
from portal import clock
from portal.kit.money import Money
from scheduling.models import Attempt, Job
from scheduling.services import cycle, funds
from tests.billing.books import rated
from tests.cast import Person
from tests.e2e.test_journeys import aside
from tests.factories.market import a_node
from tests.factories.running import Phase, Work
from tests.scheduling.services.works import heard, submit

pytestmark = pytest.mark.e2e
PICTURES = os.environ.get("IDLEWILD_PICTURES", "")


@pytest.fixture(autouse=True)
def _with_celery(live: str) -> None:
    import portal.celery  # noqa: F401


def picture(page: Any, name: str) -> None:
    """Kept for people to look at when IDLEWILD_PICTURES names a folder."""
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=True)


def fits(page: Any) -> None:
    """Nothing scrolls sideways."""
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_top_up_job_dry_notice_stop(
    open_as: Callable[..., Any], ada: Person, sol: Person, staff: Person, tmp_path: Path
) -> None:
    home, now = ada.organisation, clock.now()
    a_node(sol, prices={"core": "0.60"}, now=now)
    wallets.set_terms(organisation_id=home.id, mode="prepaid", by=staff.id, now=now)
    page = open_as(ada)
    page.goto("/wallet")
    reference = page.locator("#bank-reference").inner_text()
    file = tmp_path / "statement.csv"
    file.write_text(
        f"date,amount,payer_name,text,bank_reference\n2026-11-11,1.00,Moss Lab,top up {reference},B1\n2026-11-11,7.00,Nobody,hello,B2\n"
    )
    operator = open_as(staff)
    operator.goto("/operate/bank")
    operator.set_input_files("input[type=file]", str(file))
    operator.get_by_role("button", name="Import").click()
    operator.get_by_text("2 new transfers, 1 settled.").wait_for()
    fits(operator)
    picture(operator, "bank-1400")
    operator.goto("/operate/invoices")
    fits(operator)
    picture(operator, "desk-1400")
    page.reload()
    assert "CN¥1.00" in page.locator("dl.figures").first.inner_text()

    job = aside(lambda: submit(ada, now=now, max_price="0.60", max_duration="10h"))
    page.reload()
    assert "CN¥0.60" in page.locator("dl.figures").first.inner_text()  # kept for the job
    picture(page, "wallet-prepaid-1400")

    def run_dry() -> None:
        heard(now=now)
        assert len(cycle.run(now=now).placed) == 1
        attempt = Attempt.objects.get(task__job=job)
        work = Work(Job.objects.get(id=job.id), attempt.node, attempt)
        work.accept(now)
        work.report(Phase.RUN, now)
        late = now + timedelta(minutes=98)
        work.use(98 * 60_000_000, late)
        assert funds.watch(now=late).stopped == 0
        late += timedelta(minutes=1)
        work.use(99 * 60_000_000, late, seq=2)
        assert funds.watch(now=late).stopped == 1
        work.finish(late, reason="balance_exhausted", readings=[("core", 1_000, 99 * 60_000_000)])

    aside(run_dry)
    page.goto(f"/jobs/{job.public_id}")
    page.get_by_text("The prepaid balance is used up").first.wait_for()
    fits(page)
    picture(page, "job-dry-1400")


@pytest.mark.parametrize(("lang", "width"), [("en", 1440), ("en", 375), ("zh-hans", 375)])
def test_wallet_budgets_and_an_invoice_fit_every_width(
    open_as: Callable[..., Any], ada: Person, sol: Person, staff: Person, lang: str, width: int
) -> None:
    home, now = ada.organisation, clock.now()
    wallets.top_up(organisation_id=home.id, amount=Money(250_000, "CNY"), reference="pay_1", now=now)
    grants.give_credit(
        organisation_id=home.id, amount=Money(5_000, "CNY"), reason="Welcome", reference="w", by=staff.id, now=now
    )
    grants.give_hours(
        organisation_id=home.id, giver_id=sol.organisation.id, resource="core", qty_us=12_000 * 3_600_000_000, reason="Allocation 2027",
        by=sol.id, now=now,
    )  # fmt: skip
    wallets.take_out(organisation_id=home.id, amount=Money(250_000, "CNY"), reference="pay_1", now=now)
    invoice = rated(home, (3_600_000_000, 100_000_000))
    credit_notes.issue(
        invoice=invoice, total=Money(2_000, "CNY"), reason="The node was slow", reference="c", by=staff.id, now=now
    )
    some = (
        ("organisation", "", 10_000, "notify"),
        ("department", "Research", 4_000, "block"),
        ("project", ada.project.slug, 900, "stop"),
    )
    for scope, key, minor, at_limit in some:
        budgets.set_budget(
            organisation_id=home.id,
            scope=scope,
            key=key,
            amount=Money(minor, "CNY"),
            at_limit=at_limit,
            by=ada.id,
            now=now,
        )
    aside(lambda: submit(ada, now=now, max_price="1.00", max_duration="8h"))
    page = open_as(ada, width=width, lang=lang)
    for path, name in (("/wallet", "wallet"), ("/budgets", "budgets"), (f"/invoices/{invoice.public_id}", "invoice")):
        page.goto(path)
        fits(page)
        picture(page, f"{name}-{lang}-{width}")
    assert bank.of_invoice(invoice)["printed"] in page.content()
