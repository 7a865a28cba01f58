"""Money over the rail in a real browser, in both languages: invoice → the hosted page → paid; a provider says where its money goes and is paid; a credit note
is given back to the card. The payment service is the twin, at its own address; the outbox is kept by the test.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from billing.models import Payment, Payout
from billing.services import credit_notes, payouts
from portal.kit.money import Money
from tests.billing.rail.conftest import Rail, an_invoice, rail, twin
from tests.cast import Person
from tests.e2e.test_journeys import aside
from tests.e2e.test_wallet import fits, picture

__all__ = ["rail", "twin"]
pytestmark = pytest.mark.e2e
WORDS = {
    "en": {
        "paid": "Paid",
        "ready": "Ready for payouts",
        "share": "Your share of",
        "way": "The refund is on its way.",
    },
    "zh-hans": {"paid": "已支付", "ready": "可以结算", "share": "分成", "way": "退款已提交。"},
}


@pytest.fixture(autouse=True)
def _with_celery(live: str, settings: Any) -> None:
    import portal.celery  # noqa: F401

    settings.IDLEWILD_BASE_URL = live


@pytest.mark.parametrize(("lang", "width"), [("en", 1400), ("zh-hans", 375)])
def test_invoice_card_payout_refund(
    open_as: Callable[..., Any], ada: Person, sol: Person, staff: Person, rail: Rail, lang: str, width: int
) -> None:
    words = WORDS[lang]
    hosted = re.compile(re.escape(rail.twin.url))
    invoice = aside(lambda: an_invoice("CNY", tenant=ada.organisation, provider_ref=sol.organisation.public_id))
    # 1. the tenant pays
    page = open_as(ada, lang=lang, width=width)
    page.goto(f"/invoices/{invoice.public_id}")
    fits(page)
    page.locator("#pay button[type=submit]").click()
    aside(rail.relay)
    page.wait_for_url(hosted)
    fits(page)
    picture(page, f"checkout-{lang}")
    page.get_by_role("button").click()
    page.wait_for_url(re.compile("back=paid"))
    aside(rail.relay)
    page.get_by_text(words["paid"], exact=True).first.wait_for()
    fits(page)
    picture(page, f"payment-{lang}")
    page.goto("/payments")
    fits(page)
    # 2. the provider says where its money goes, and gets it
    seller = open_as(sol, lang=lang, width=width)
    seller.goto("/provide/payouts")
    seller.locator("form[action$='/payouts/account'] button").click()
    aside(rail.relay)
    seller.wait_for_url(hosted)
    seller.get_by_role("button").click()
    seller.wait_for_url(re.compile("/provide/payouts"))
    aside(rail.tell)
    seller.goto("/provide/payouts")
    seller.get_by_text(words["ready"]).wait_for()
    aside(lambda: (rail.wait(days=8), payouts.release_due(now=rail.now), rail.relay()))
    assert aside(lambda: Payout.objects.get().state) == "paid"
    seller.goto("/provide/payouts")
    fits(seller)
    picture(seller, f"payouts-{lang}")
    seller.locator("a.row-name").click()
    seller.get_by_text(words["share"]).first.wait_for()
    fits(seller)
    picture(seller, f"payout-{lang}")
    # 3. a part goes back to the card
    part = Money(4_000, "CNY")
    note = aside(
        lambda: credit_notes.issue(invoice=invoice, total=part, reason="slow", reference="r", by="staff", now=rail.now)
    )
    operator = open_as(staff, lang=lang, width=width)
    operator.goto("/operate/rail")
    operator.fill("#back-number", invoice.number)
    operator.fill("#back-amount", "40.00")
    operator.fill("#back-reference", note.number)
    operator.locator("form[action$='/rail/refund'] button").click()
    operator.get_by_text(words["way"]).wait_for()
    aside(rail.relay)
    operator.locator(".page-head form button").click()
    fits(operator)
    picture(operator, f"rail-{lang}")
    payment = aside(lambda: Payment.objects.get())
    assert payment.refunded_minor == 4_000
    page.goto(f"/payments/{payment.public_id}")
    page.locator("#refunds-title").wait_for()
    fits(page)
    assert aside(lambda: rail.drift("CNY")) == 0
