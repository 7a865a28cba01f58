"""Finance against the real portal: a closed month by the command, its documents, its proof."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billing.models import Payment, ProviderAccount
from billing.services import payments, payouts, provider_accounts, usage
from tests.billing.books import a_fact, moment, october
from tests.billing.rail.conftest import Rail, rail, twin
from tests.cast import a_member
from tests.client.conftest import Speaker
from tests.fakes.stripe_twin import rules

__all__ = ["rail", "twin"]

Speak = Callable[..., Speaker]
THEN = moment("2026-10-05T02:00:00Z")


@pytest.fixture
def invoice(ada: Any, sol: Any) -> Any:
    """Ada's October: an hour of a card, and an attempt that was lost."""
    provider = {"provider_ref": sol.organisation.public_id, "provider_name": "Sol Power"}
    card = a_fact(ada.organisation, seconds=3600, **provider)
    lost = a_fact(ada.organisation, attempt_ref="att_2", job_ref="job_2", **provider)
    usage.record_many(facts=[card, lost], now=THEN)
    usage.end_attempt(
        attempt_ref="att_2", reason="node_lost", fault="provider", billed=False, message="", ended_at=THEN, now=THEN
    )
    return october(ada.organisation)


def test_an_invoice_is_listed_shown_saved_and_verified(live: Speak, ada: Any, invoice: Any, tmp_path: Path) -> None:
    command, name = live(ada), invoice.public_id
    assert invoice.number in command("invoice", "list").out
    shown = command("invoice", "show", name)
    for word in (invoice.number, "Sol Power", "card-hour"):
        assert word in shown.out
    for kind, beginning in (("pdf", b"%PDF-"), ("csv", b""), ("json", b"{"), ("xlsx", b"PK"), ("focus", b"BilledCost")):
        file = tmp_path / f"bill.{kind}"
        said = command("invoice", "download", name, str(file), "--format", kind)
        assert said.exit == 0, said
        assert file.read_bytes().startswith(beginning)
    assert json.loads((tmp_path / "bill.json").read_text())
    assert len(list(csv.reader((tmp_path / "bill.csv").read_text(encoding="utf-8-sig").splitlines()))) >= 2
    assert command("invoice", "download", name, str(tmp_path)).exit == 0
    assert (tmp_path / f"{name}.pdf").exists()
    proof = command("invoice", "verify", name, "--json")
    assert (proof.exit, proof.lines[0]["ok"]) == (0, True)
    assert "matches" in command("invoice", "verify", invoice.number).out
    assert command("invoice", "verify", "NOBODY-1").exit == 209


def test_a_month_s_statements_are_saved(live: Speak, ada: Any, invoice: Any, tmp_path: Path) -> None:
    command = live(ada)
    for kind in ("monthly", "split"):
        said = command(
            "invoice", "statement", "2026-10", str(tmp_path), "--kind", kind, "--format", "csv", "--per", "day"
        )
        assert said.exit == 0, said
        rows = list(csv.reader((tmp_path / f"2026-10-{kind}.csv").read_text(encoding="utf-8-sig").splitlines()))
        assert len(rows) >= 2
    assert command("invoice", "statement", "2026-10", str(tmp_path)).exit == 0
    assert (tmp_path / "2026-10-monthly.xlsx").read_bytes().startswith(b"PK")
    assert command("invoice", "statement", "2026-10", "--kind", "weekly").exit == 2


def test_a_month_is_grouped(live: Speak, ada: Any, invoice: Any) -> None:
    command = live(ada)
    groups = command("usage", "--month", "2026-10", "--group-by", "provider", "--json").lines[0]["groups"]
    assert [group["name"] for group in groups] == ["Sol Power"]
    assert command("usage", "--month", "2026-10", "--group-by", "colour").exit == 200
    assert "node_lost" in command("usage", "--month", "2026-10", "--group-by", "line", "--json").out


def test_strangers_and_developers_read_no_money(live: Speak, ada: Any, cleo: Any, invoice: Any, tmp_path: Path) -> None:
    for words in (("show",), ("verify",), ("download",)):
        assert live(cleo)("invoice", *words, invoice.public_id).exit == 209
        assert (
            live(a_member(ada, f"{words[0]}@example.org", "developer"))("invoice", *words, invoice.public_id).exit
            == 201
        )
    assert live(cleo)("invoice", "list", "--json").lines[0] == {"items": []}


def test_wallet_budgets_and_credit_notes(live: Speak, ada: Any, cleo: Any, invoice: Any) -> None:
    from billing.services import credit_notes, wallets
    from portal import clock
    from portal.kit.money import Money

    command, now = live(ada), clock.now()
    wallets.top_up(organisation_id=ada.organisation.id, amount=Money(3000, "CNY"), reference="pay_1", now=now)
    said = command("wallet").out
    assert "30.00" in said
    assert "RF" in said
    assert "topup" in command("wallet", "--entries").out
    assert command("wallet", "--json").lines[0]["available"]["amount"] == "526.00"
    made = command(
        "budget", "set", "organisation", "40.00", "--at-limit", "block", "--alert", "50,100", "--json"
    ).lines[0]
    (row,) = made["items"]
    assert (row["thresholds"], row["at_limit"], row["amount"]["amount"]) == ([50, 100], "block", "40.00")
    assert "40.00" in command("budget", "list").out
    assert command("budget", "set", "galaxy", "1").exit == 2
    assert command("budget", "set", "organisation", "1", "--alert", "half").exit == 2
    assert command("budget", "set", "organisation", "nothing").exit == 200
    assert live(cleo)("budget", "delete", row["id"]).exit == 209
    assert command("budget", "delete", row["id"]).exit == 0
    credit_notes.issue(invoice=invoice, total=Money(100, "CNY"), reason="slow", reference="r", by="usr_staff", now=now)
    assert "slow" in command("credit-notes").out


def test_paying_by_card_and_being_paid(
    live: Speak, ada: Any, sol: Any, invoice: Any, rail: Rail, settings: Any
) -> None:
    settings.IDLEWILD_PAYOUT_MINIMUM = "1.00"
    payments.start(invoice=invoice, by=ada.id, now=rail.now)
    provider_accounts.start(organisation=sol.organisation, by=sol.id, now=rail.now)
    rail.relay()
    command, seller = live(ada), live(sol)
    assert command("pay", invoice.number, "--json").lines[0]["url"].startswith(rail.twin.url)
    assert "4.00" in command("pay", invoice.number).out
    rail.twin.pay(Payment.objects.get().session)
    rules.verify_account(rail.twin.books, ProviderAccount.objects.get().rail_id)
    rail.tell()
    assert "succeeded" in command("payments").out
    assert command("pay", invoice.number).exit == 209  # nothing is open any more
    assert "3.60" in seller("earnings").out
    rail.wait(days=8)
    payouts.release_due(now=rail.now)
    rail.relay()
    (sent,) = seller("payout", "list", "--json").lines[0]["items"]
    assert (sent["state"], sent["amount"]["amount"]) == ("paid", "3.60")
    assert "paid" in seller("payout", "list").out
    assert "2026-10" in seller("payout", "show", sent["id"]).out
    assert seller("earnings", "--json").lines[0]["balances"][0]["paid"]["amount"] == "3.60"
