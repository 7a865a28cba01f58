"""The rules of wallets, grants, budgets, credit notes, reminders, bank transfers and rates, without a database."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain import bank, bank_files, budgets, credit, dunning, grants, holds, ledger, rates
from billing.domain.bank import Match, Payable, TransferEvent, TransferState, Why
from billing.domain.budgets import Scope, Spender
from billing.domain.credit import NotedLine, Standing, TooMuch
from billing.domain.grants import Allowance, Credit, Hours
from billing.domain.ledger import AccountKind
from portal.kit.errors import InvalidInput, InvalidTransition
from portal.kit.intervals import Interval
from portal.kit.money import Money

NOW = datetime(2026, 11, 10, tzinfo=UTC)
HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
HOURS_US = 3_600_000_000


def yuan(minor):
    return Money(minor, "CNY")


# -- holds ---------------------------------------------------------------------------------------------------------------------------
def test_what_is_kept_is_never_less_than_the_bill():
    assert holds.taxed(yuan(101), 60_000) == yuan(108)
    assert holds.windowed(yuan(1001), timedelta(hours=10)) == yuan(101)
    assert holds.windowed(yuan(1001), HOUR) == yuan(1001)
    assert holds.ahead(600_000, MINUTE, "CNY", 0) == yuan(1)
    assert holds.ahead(600_000, 2 * MINUTE, "CNY", 60_000) == yuan(3)
    assert holds.ahead(600_000, timedelta(0), "JPY", 0) == Money(0, "JPY")


@pytest.mark.parametrize(
    ("used", "held", "free", "left", "amount", "stop"),
    [
        (0, 60, 0, 10 * HOUR, 60, False),  # it reaches an hour ahead already
        (30, 60, 100, 10 * HOUR, 90, False),  # a whole window
        (30, 60, 10, 10 * HOUR, 70, False),  # what there is
        (58, 60, 0, 10 * HOUR, 60, False),  # two minutes are left
        (59, 60, 0, 10 * HOUR, 60, True),  # one minute is
        (59, 60, 0, MINUTE, 60, False),  # but it ends in one
        (80, 60, 30, 10 * HOUR, 110, False),  # used more than it held
        (80, 60, 0, 10 * HOUR, 80, True),
        (80, 60, 0, timedelta(0), 80, False),
    ],
)
def test_a_running_job_renews_takes_what_there_is_or_stops(used, held, free, left, amount, stop):
    found = holds.renew(used=yuan(used), held=yuan(held), free=yuan(free), hour_micro=600_000, left=left, tax_ppm=0)
    assert (found.amount.minor, found.stop) == (amount, stop)


def test_a_prepaid_tenant_is_refused_by_its_balance():
    exposure = holds.Exposure(0, 0, {"job_1": 300}, {"job_1": 200}, funds_minor=1000, prepaid=True)
    assert holds.decide(exposure, yuan(700)).allowed
    assert holds.decide(exposure, yuan(701)).refused_by == "balance"


# -- grants --------------------------------------------------------------------------------------------------------------------------
def a_credit(ref, left=100, priority=50, expires=None, given=NOW):
    return Credit(ref=ref, left_minor=left, priority=priority, expires_at=expires, given_at=given)


def test_credits_are_used_in_order_and_the_rest_is_owed_back():
    found = [
        a_credit("old", given=NOW - DAY), a_credit("soon", expires=NOW + DAY), a_credit("first", 10, 0), a_credit("over", expires=NOW),
        a_credit("empty", 0), a_credit("new"),
    ]  # fmt: skip
    assert [one.ref for one in grants.in_order(found, now=NOW)] == ["first", "soon", "old", "new"]
    assert grants.use(found, 150, now=NOW) == [("first", 10), ("soon", 100), ("old", 40)]
    assert grants.use(found, 400, now=NOW) == [
        ("first", 10),
        ("soon", 100),
        ("old", 100),
        ("new", 100),
        (grants.OWED_BACK, 90),
    ]
    assert grants.use(found, 10, now=NOW) == [("first", 10)]


def hours(ref, left=HOURS_US, giver="org_uni", resource="core", priority=50, starts=NOW - DAY, expires=None):
    return Hours(
        ref=ref,
        giver_ref=giver,
        resource=resource,
        left_us=left,
        priority=priority,
        starts_at=starts,
        expires_at=expires,
        given_at=NOW,
    )


def test_hours_cover_their_givers_nodes_in_their_time():
    given = Allowance(
        [
            hours("late", priority=60),
            hours("soon", expires=NOW + DAY),
            hours("gone", expires=NOW - HOUR),
            hours("b", giver="x"),
        ]
    )
    assert given
    ask = {"provider_ref": "org_uni", "resource": "core", "at": NOW}
    assert given.cover(**ask, qty_us=HOURS_US + 5) == ([("soon", HOURS_US), ("late", 5)], 0)
    assert [(one.ref, one.left_us) for one in given.open()] == [
        ("gone", HOURS_US),
        ("b", HOURS_US),
        ("late", HOURS_US - 5),
    ]
    assert given.cover(**{**ask, "resource": "card"}, qty_us=7) == ([], 7)
    assert given.cover(**{**ask, "provider_ref": "org_other"}, qty_us=7) == ([], 7)
    assert given.cover(**ask, qty_us=HOURS_US) == ([("late", HOURS_US - 5)], 5)
    assert not Allowance()


def test_enough_hours_are_those_that_nobody_keeps():
    found = [
        hours("core"),
        hours("card", resource="card"),
        hours("far", giver="org_far"),
        hours("short", giver="org_far", resource="card", expires=NOW + MINUTE),
    ]
    ask = {"now": NOW, "until": NOW + HOUR}
    assert grants.enough(found, [], {"core": HOURS_US}, **ask) == ["org_far", "org_uni"]
    assert grants.enough(found, [], {"core": HOURS_US, "card": 1}, **ask) == ["org_uni"]
    assert grants.enough(found, [{"core": 1}], {"core": HOURS_US}, **ask) == []
    assert grants.enough(found, [], {}, **ask) == []


# -- budgets -------------------------------------------------------------------------------------------------------------------------
def test_a_budget_counts_its_own_jobs():
    jobs = budgets.merged({"a": ("p1", "R", 300), "b": ("p2", "R", 50)}, {"a": ("p1", "R", 500), "c": ("p2", "T", 100)})
    assert jobs == [Spender("a", "p1", "R", 300, 500), Spender("b", "p2", "R", 50), Spender("c", "p2", "T", 0, 100)]
    for scope, key, spent, committed in (
        (Scope.ORGANISATION, "", 350, 650), (Scope.DEPARTMENT, "R", 350, 550), (Scope.PROJECT, "p2", 50, 150), (Scope.JOB, "a", 300, 500),
    ):  # fmt: skip
        found = budgets.standing(1000, scope, key, jobs)
        assert (found.spent_minor, found.committed_minor) == (spent, committed)
    full = budgets.standing(350, Scope.ORGANISATION, "", jobs)
    assert (full.percent, full.left_minor, full.exhausted, full.passed([100, 50, 101])) == (100, 0, True, [50, 100])
    assert budgets.fits(budgets.standing(1000, Scope.ORGANISATION, "", jobs), 350)
    assert not budgets.fits(budgets.standing(1000, Scope.ORGANISATION, "", jobs), 351)


def test_a_forecast_goes_on_at_the_pace():
    month = Interval(NOW - 9 * DAY, NOW + 20 * DAY)
    values = {"spent_minor": 900, "recent_minor": 700, "month": month}
    assert budgets.forecast(**values, recent=Interval(NOW - 7 * DAY, NOW), now=NOW) == 900 + 2000
    assert budgets.forecast(**values, recent=Interval(NOW, NOW), now=NOW) == 900
    assert budgets.forecast(**values, recent=Interval(NOW - 7 * DAY, NOW), now=NOW + 30 * DAY) == 900


def test_thresholds_are_whole_per_cents():
    assert budgets.check_thresholds([100, 50]) == (50, 100)
    assert budgets.check_thresholds(iter([80])) == (80,)
    for wrong in ([], [0], [50, 50], [201], [True], ["50"], list(range(1, 12))):
        with pytest.raises(ValueError, match="thresholds"):
            budgets.check_thresholds(wrong)


# -- credit notes --------------------------------------------------------------------------------------------------------------------
def test_a_note_names_what_it_cannot_take():
    lines = [NotedLine(1, "a", 100, 10, 0), NotedLine(2, "b", -30, -3, 0)]
    left = Standing(70, 0, 70, 0, 0, 0, 0)
    assert left.creditable_minor == 70
    with pytest.raises(TooMuch, match="net"):
        credit.write(
            lines, {1: 100}, left, fee_ppm=100_000, currency="CNY"
        )  # a line below zero had lowered the invoice
    with pytest.raises(TooMuch, match="line 2"):
        credit.write(lines, {2: 1}, left, fee_ppm=100_000, currency="CNY")
    with pytest.raises(TooMuch, match="no line 3"):
        credit.write(lines, {3: 1}, left, fee_ppm=100_000, currency="CNY")
    with pytest.raises(TooMuch, match="more than nothing"):
        credit.write(lines, {}, left, fee_ppm=100_000, currency="CNY")
    note = credit.write(lines, {1: 70}, left, fee_ppm=100_000, currency="CNY")
    assert (note.net_minor, note.total_minor, note.off_open_minor, note.lines[0].fee_minor) == (70, 70, 70, 7)
    with pytest.raises(TooMuch, match="more than nothing"):
        credit.by_total(lines, left, yuan(0))
    with pytest.raises(TooMuch, match=r"at most 0\.70"):
        credit.by_total(lines, left, yuan(71))


def test_a_total_is_laid_over_the_lines_and_its_tax_follows():
    lines = [NotedLine(1, "a", 100, 10, 60_000), NotedLine(2, "b", 200, 20, 60_000)]
    left = Standing(300, 18, 318, 0, 0, 0, 0)
    assert credit.by_total(lines, left, yuan(318)) == {1: 100, 2: 200}
    assert credit.by_total(lines, left, yuan(106)) == {1: 33, 2: 67}
    assert credit.by_total(lines, Standing(300, 150, 450, 0, 0, 0, 0), yuan(2)) == {2: 1}
    assert credit.by_total(lines, Standing(300, 150, 450, 0, 0, 0, 0), yuan(4)) == {
        1: 1,
        2: 1,
    }  # 2 + 1: four is never made up
    with pytest.raises(TooMuch, match="no net part"):
        credit.by_total(lines, Standing(300, 150, 450, 0, 0, 0, 0), yuan(1))


@given(
    st.integers(1, 5000),
    st.integers(0, 200_000),
    st.integers(0, 300_000),
    st.lists(st.integers(1, 700), min_size=1, max_size=8),
)
def test_notes_take_the_whole_and_never_more(net, tax_ppm, fee_ppm, asks):
    """P7: fee, share and tax of all notes add up to the line's own when everything is credited."""
    from billing.domain import payout, tax

    fee = payout.shares([("a", net)], fee_ppm)[0].fee_minor
    whole_tax = sum(one.tax_minor for one in tax.of_lines([(net, tax_ppm)]))
    noted = noted_tax = noted_fee = 0
    for ask in [*asks, net]:
        ask = min(ask, net - noted)
        if not ask:
            continue
        line = NotedLine(1, "a", net, fee, tax_ppm, noted, noted_fee)
        left = Standing(net, whole_tax, net + whole_tax, 0, 0, noted, noted_tax)
        note = credit.write([line], {1: ask}, left, fee_ppm=fee_ppm, currency="CNY")
        assert note.lines[0].seller_minor >= 0
        assert note.lines[0].fee_minor + note.lines[0].seller_minor == ask
        noted, noted_tax, noted_fee = noted + ask, noted_tax + note.tax_minor, noted_fee + note.lines[0].fee_minor
    assert (noted, noted_tax, noted_fee) == (net, whole_tax, fee)


def test_a_notes_posting_takes_accrued_then_available_then_makes_a_debt():
    posting = ledger.credit_note(
        tenant="t", currency="CNY", sellers={"a": 90}, there={"a": (50, 30)}, fee_minor=10, tax_minor=0, off_open_minor=60, to_credit_minor=40
    )  # fmt: skip
    legs = {(leg.owner, leg.kind): leg.amount_minor for leg in posting.legs}
    assert legs == {
        ("a", AccountKind.ACCRUED): -50, ("a", AccountKind.AVAILABLE): -30, ("a", AccountKind.PROVIDER_RECEIVABLE): -10,
        ("platform", AccountKind.PLATFORM_FEE): -10, ("t", AccountKind.TENANT_RECEIVABLE): 60, ("t", AccountKind.CREDIT): 40,
    }  # fmt: skip
    bank_posting = ledger.bank_settled(tenant="t", currency="CNY", to_invoice_minor=3, to_wallet_minor=4)
    assert sum(leg.amount_minor for leg in bank_posting.legs) == 0
    paid = ledger.from_wallet(tenant="t", currency="CNY", hold_minor=5, wallet_minor=-2)
    assert {leg.kind: leg.amount_minor for leg in paid.legs} == {
        AccountKind.HOLD: -5, AccountKind.WALLET: 2, AccountKind.TENANT_RECEIVABLE: 3,
    }  # fmt: skip
    moved = ledger.moved("CNY", amount_minor=7, out_of=("p", AccountKind.CASH), into=("t", AccountKind.WALLET))
    assert {leg.kind: leg.amount_minor for leg in moved.legs} == {AccountKind.CASH: -7, AccountKind.WALLET: 7}


# -- reminders -----------------------------------------------------------------------------------------------------------------------
def test_the_ladder_has_no_step_before_the_invoice():
    due = NOW + 2 * DAY
    ask = {"due_at": due, "issued_at": NOW}
    assert dunning.due_step(**ask, taken=(), now=NOW + DAY) is None  # it would have been before its issue
    assert dunning.due_step(**ask, taken=(), now=due) == "due"
    assert dunning.due_step(**ask, taken=("due",), now=due + HOUR) is None
    assert dunning.due_step(**ask, taken=("final",), now=due + 8 * DAY) is None
    assert dunning.due_step(due_at=NOW + 5 * DAY, issued_at=NOW, taken=(), now=NOW + 2 * DAY) == "upcoming"
    assert dunning.may_give_up(due_at=NOW, now=NOW + 60 * DAY)
    assert not dunning.may_give_up(due_at=NOW, now=NOW + 59 * DAY)


# -- bank transfers ------------------------------------------------------------------------------------------------------------------
def a_line(text, minor=1000, code="CNY"):
    return bank.Credit("B1", date(2026, 11, 11), Money(minor, code), "Moss", "1", text)


INVOICE = bank.creditor_reference("IW-2026-000001")
WALLET = bank.wallet_reference("org_01ABCDEFGHJKMNPQRSTVWXYZ23")


def test_a_line_pays_what_its_text_names_clearly():
    there = {INVOICE: Payable(INVOICE, "CNY", 600, True), WALLET: Payable(WALLET, "CNY", 0, False)}
    assert bank.match(a_line(f"pay {bank.printed(INVOICE)}"), there) == Match(INVOICE, 600, 400)
    assert bank.match(a_line(WALLET.lower()), there) == Match(WALLET, 0, 1000)
    assert bank.match(a_line("IW-2026-000001"), there) == Match(INVOICE, 600, 400)
    for text, why in (
        ("hello", Why.NO_REFERENCE), (INVOICE[:-1] + "9", Why.BAD_REFERENCE), ("IW-2026-000009", Why.UNKNOWN_REFERENCE),
        (f"{INVOICE} {WALLET}", Why.SEVERAL_REFERENCES),
    ):  # fmt: skip
        assert bank.match(a_line(text), there).why is why
    assert bank.match(a_line(INVOICE, code="USD"), there).why is Why.CURRENCY_DIFFERS
    paid = {INVOICE: Payable(INVOICE, "CNY", 0, True)}
    assert bank.match(a_line(INVOICE), paid).why is Why.NOTHING_OPEN
    assert bank.names([a_line(INVOICE), a_line(WALLET)]) == {INVOICE, WALLET}
    assert len(WALLET) <= 25
    assert not bank.is_valid("RF1")
    assert bank.unique([a_line("a"), a_line("b")]) == ["B1"]


def test_a_transfer_is_settled_once():
    for state, event in ((s, e) for s in TransferState for e in TransferEvent):
        if (state, event) in bank.TABLE:
            assert bank.advance(state, event) == event.value
        else:
            with pytest.raises(InvalidTransition):
                bank.advance(state, event)


def test_the_template_is_read_and_faults_are_named():
    text = (
        bank_files.TEMPLATE
        + "2026/11/11,+1.00,,a,b,c,B1\r\n2026-11-12T10:00,2.00,kwd,a\r\n,,,,,,\r\n2026-11-12,0,,,,,\r\n"
    )
    with pytest.raises(InvalidInput) as refused:
        bank_files.read(text.encode(), default_currency="EUR")
    assert [(fault.path, fault.code) for fault in refused.value.errors] == [("row 3", "bad_row")]
    read = bank_files.read((bank_files.TEMPLATE + "2026年11月11日,1.00,,a,b,c,B1").encode(), default_currency="EUR")
    assert (read.format, read.credits[0].amount, read.credits[0].booked_on) == (
        "csv",
        Money(100, "EUR"),
        date(2026, 11, 11),
    )


def test_camt_without_details_or_amounts():
    space = 'xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"'

    def statement(inner):
        return f"<Document {space}><Ntry><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-11-11</Dt></BookgDt>{inner}</Ntry></Document>".encode()

    amount = "<AmtDtls><TxAmt><Amt Ccy='EUR'>5.00</Amt></TxAmt></AmtDtls>"
    read = bank_files.read(statement(f"{amount}<NtryRef>X1</NtryRef>"), default_currency="CNY")
    assert (read.credits[0].bank_reference, read.credits[0].amount) == ("X1", Money(500, "EUR"))
    for inner in ("<Amt Ccy='EUR'>5.00</Amt>", "<NtryRef>X1</NtryRef>", "<NtryRef>X1</NtryRef><Amt Ccy='XXX'>1</Amt>"):
        with pytest.raises(InvalidInput) as refused:
            bank_files.read(statement(inner), default_currency="CNY")
        assert refused.value.errors[0].path == "entry 1"
    debit = statement("<NtryRef>X2</NtryRef><Amt Ccy='EUR'>5.00</Amt>").replace(b"CRDT", b"DBIT")
    assert bank_files.read(debit, default_currency="CNY").credits == ()
    for data in (b"<a", b"<a/>", b"<!DOCTYPE a><a/>"):
        with pytest.raises(InvalidInput):
            bank_files.read(data, default_currency="CNY")
    with pytest.raises(InvalidInput):
        bank_files.read(b"\xff\xff\xff", default_currency="CNY")
    with pytest.raises(InvalidInput):
        bank_files.read(b"x" * (bank_files.MOST_BYTES + 1), default_currency="CNY")


# -- rates ---------------------------------------------------------------------------------------------------------------------------
def test_amounts_are_compared_by_a_fresh_rate_only():
    day = date(2026, 11, 10)
    rate = rates.Rate("USD", "CNY", rates.parse_rate("7.1042"), day, "ECB")
    there = rates.compare(Money(1000, "USD"), "CNY", rate, day=day)
    assert there is not None
    assert there.wire() == {
        "amount": "71.04", "currency": "CNY", "approximate": True,
        "rate": {"base": "USD", "quote": "CNY", "rate": "7.1042", "day": "2026-11-10", "source": "ECB"},
    }  # fmt: skip
    back = rates.compare(Money(7104, "CNY"), "USD", rate, day=day + 7 * DAY)
    assert back is not None
    assert back.amount.to_money() == Money(1000, "USD")
    same = rates.compare(Money(5, "JPY"), "JPY", None, day=day)
    assert same is not None
    assert same.wire() == {"amount": "5", "currency": "JPY", "approximate": False}
    for to, other in (("CNY", day + 8 * DAY), ("CNY", day - DAY), ("EUR", day)):
        assert rates.compare(Money(1000, "USD"), to, rate, day=other) is None
    assert rates.compare(Money(1000, "USD"), "CNY", None, day=day) is None
    yen = rates.Rate("KWD", "JPY", rates.parse_rate("487.5"), day, "ECB")
    amount = rates.compare(Money(1500, "KWD"), "JPY", yen, day=day)
    assert amount is not None
    assert amount.amount.to_money() == Money(731, "JPY")  # 1.500 × 487.5 = 731.25


@pytest.mark.parametrize("text", ["0", "-1", "1.0000000001", "abc", "1e12", ""])
def test_a_rate_is_a_number_above_zero(text):
    with pytest.raises(ValueError, match=r"rate|number"):
        rates.parse_rate(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("date,text\r\n2026-11-11,x\r\n", "row 1"),
        (bank_files.TEMPLATE + "2026-11-11,1.00,XXX,a,b,c,B1", "row 2"),
        (bank_files.TEMPLATE + "yesterday,1.00,CNY,a,b,c,B1", "row 2"),
        ("<html></html>", "file"),
    ],
)
def test_a_file_that_is_no_statement_says_where(text, path):
    with pytest.raises(InvalidInput) as refused:
        bank_files.read(text.encode(), default_currency="CNY")
    assert refused.value.errors[0].path == path


def test_debits_are_passed_over():
    text = bank_files.TEMPLATE + "2026-11-11,-1.00,CNY,a,b,c,B1\r\n2026-11-11,-,CNY,a,b,c,B2"
    assert bank_files.read(text.encode(), default_currency="CNY").credits == ()
