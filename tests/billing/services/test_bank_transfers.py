"""对公转账: a statement is imported, its money finds its invoice or wallet once, and what finds nobody is visible and assignable."""

from datetime import UTC, datetime

import pytest

from billing.domain import bank as rules
from billing.domain.ledger import AccountKind
from billing.models import BankStatement, BankTransfer
from billing.selectors import balances, bank
from billing.services import bank_transfers
from portal.kit.errors import Conflict, InvalidInput, NotFound
from portal.kit.money import Money
from portal.outbox.models import OutboxMessage
from tests.billing.books import a_tenant, rated
from tests.billing.services.test_periods import in_threads
from tests.billing.services.test_wallets import account, in_account, proved

NOW = datetime(2026, 11, 12, tzinfo=UTC)
pytestmark = pytest.mark.django_db
HEAD = "date,amount,currency,payer_name,payer_account,text,bank_reference\r\n"


def upload(*rows, head=HEAD, name="november.csv", encoding="utf-8"):
    data = (head + "\r\n".join(rows)).encode(encoding)
    return bank_transfers.import_statement(name=name, data=data, by="usr_staff", now=NOW)


def an_invoice(minor=1000, **values):
    tenant = a_tenant(**values)
    return tenant, rated(tenant, (3_600_000_000, minor * 10_000))


def unmatched_balance(code="CNY"):
    return balances.of("platform", AccountKind.UNMATCHED, code)


def test_a_transfer_with_the_reference_pays_its_invoice_once():
    tenant, invoice = an_invoice()
    reference = bank.of_invoice(invoice)["printed"]
    row = f"2026-11-11,10.00,CNY,Moss Lab,6222 0001,货款 {reference} 谢谢,B1"
    done = upload(row)
    assert (done.new, done.matched, done.known, done.repeated) == (1, 1, 0, False)
    again = upload(row)
    assert (again.new, again.matched, again.repeated) == (0, 0, True)
    other = upload(row, f"2026-11-12,3.00,CNY,Moss Lab,6222 0001,{reference},B2", name="again.csv")
    assert (other.new, other.matched, other.known) == (1, 0, 1)
    invoice.refresh_from_db()
    assert (invoice.state, invoice.paid_minor) == ("paid", 1000)
    assert BankTransfer.objects.get(bank_reference="B2").why == "nothing_open"
    assert (unmatched_balance(), balances.of("platform", AccountKind.CASH, "CNY")) == (300, -1300)
    assert OutboxMessage.objects.filter(topic="mail", key__startswith="bank:").count() == 1
    proved(tenant)


@pytest.mark.parametrize(
    "text", ["IW-2026-000001", "iw 2026 000001", "账单IW2026000001款", "inv.IW-2026-000001, thank you"]
)
def test_people_write_the_number_as_they_like(text):
    _, invoice = an_invoice()
    assert invoice.number == "IW-2026-000001"
    assert upload(f'2026-11-11,10.00,,Moss,1,"{text}",B1').matched == 1


def test_a_part_pays_a_part_and_too_much_fills_the_wallet():
    tenant, invoice = an_invoice()
    upload(f"2026-11-11,4.00,CNY,Moss,1,{invoice.number},B1")
    invoice.refresh_from_db()
    assert (invoice.state, invoice.paid_minor) == ("partially_paid", 400)
    upload(f"2026-11-12,8.50,CNY,Moss,1,{invoice.number},B2")
    invoice.refresh_from_db()
    assert invoice.state == "paid"
    assert in_account(tenant) == ("2.50", "0.00", "0.00")
    row = BankTransfer.objects.get(bank_reference="B2")
    assert (row.to_invoice_minor, row.to_wallet_minor) == (600, 250)
    proved(tenant)


def test_a_wallet_has_a_reference_of_its_own():
    tenant = a_tenant()
    upload(f'2026-11-11,"1,200.00",CNY,Moss,1,top up {bank.of_wallet(tenant)["printed"]},B1')
    assert in_account(tenant) == ("1200.00", "0.00", "0.00")
    assert bank.for_organisation(tenant.id).get().invoice is None


def test_what_matches_nothing_waits_with_its_reason_and_is_assigned():
    tenant, invoice = an_invoice()
    other, second = an_invoice(2000)
    good = bank.of_invoice(invoice)["reference"]
    wrong = good[:-1] + ("1" if good[-1] != "1" else "2")
    upload(
        "2026-11-11,5.00,CNY,Ada,1,thank you,B1",
        f"2026-11-11,5.00,CNY,Ada,1,{wrong},B2",
        "2026-11-11,5.00,CNY,Ada,1,IW-2026-999999,B3",
        f"2026-11-11,5.00,CNY,Ada,1,{invoice.number} + {second.number},B4",
        f"2026-11-11,5.00,USD,Ada,1,{invoice.number},B5",
    )
    why = dict(BankTransfer.objects.values_list("bank_reference", "why"))
    assert why == {
        "B1": "no_reference", "B2": "bad_reference", "B3": "unknown_reference", "B4": "several_references", "B5": "currency_differs",
    }  # fmt: skip
    assert (unmatched_balance(), unmatched_balance("USD")) == (2000, 500)
    assert bank.unmatched().count() == 5
    b1, b2, b3, b5 = (BankTransfer.objects.get(bank_reference=name) for name in ("B1", "B2", "B3", "B5"))
    bank_transfers.assign(transfer=b1, organisation=tenant, invoice=invoice, by="usr_staff", now=NOW)
    bank_transfers.assign(transfer=b2, organisation=other, invoice=None, by="usr_staff", now=NOW)
    bank_transfers.send_back(transfer=b3, reference="out 1", by="usr_staff", now=NOW)
    for again in (
        lambda: bank_transfers.assign(transfer=b1, organisation=tenant, invoice=None, by="usr_staff", now=NOW),
        lambda: bank_transfers.send_back(transfer=b2, reference="out 2", by="usr_staff", now=NOW),
        lambda: bank_transfers.assign(transfer=b5, organisation=tenant, invoice=invoice, by="usr_staff", now=NOW),
        lambda: bank_transfers.assign(transfer=b5, organisation=other, invoice=None, by="usr_staff", now=NOW),
    ):
        with pytest.raises(Conflict):
            again()
    assert in_account(tenant) == ("0.00", "0.00", "-5.00")
    assert in_account(other)[0] == "5.00"
    assert (unmatched_balance(), balances.of("platform", AccountKind.CASH, "CNY")) == (500, -1500)
    proved(tenant)
    proved(other)


@pytest.mark.django_db(transaction=True)
def test_eight_operators_assign_a_transfer_once():
    tenant, invoice = an_invoice()
    upload("2026-11-11,5.00,CNY,Ada,1,thank you,B1")
    row = BankTransfer.objects.get()

    def assign(_):
        try:
            bank_transfers.assign(transfer=row, organisation=tenant, invoice=invoice, by="usr_staff", now=NOW)
        except Conflict as refused:
            return refused.code
        return "done"

    said = in_threads(8, assign)
    assert (said.count("done"), said.count("transfer_settled")) == (1, 7)
    invoice.refresh_from_db()
    assert invoice.paid_minor == 500
    proved(tenant)


def test_an_export_of_a_chinese_bank_in_gb18030_is_read():
    tenant, invoice = an_invoice()
    head = "账号:,6222\r\n交易日期,交易时间,贷方发生额,借方发生额,币种,对方户名,对方账号,摘要,交易流水号\r\n"
    done = upload(
        f"20261111,10:00,10.00,,人民币,苔藓实验室,6222,服务费 {invoice.number},A001",
        "20261111,11:00,,99.00,人民币,电力公司,1,电费,A002",
        ",,,,,,,,",
        head=head,
        encoding="gb18030",
    )
    assert (done.new, done.matched) == (1, 1)
    row = BankTransfer.objects.get()
    assert (row.payer_name, row.booked_on.isoformat(), row.amount_minor) == ("苔藓实验室", "2026-11-11", 1000)
    proved(tenant)


CAMT = """<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>
<Ntry><Amt Ccy="EUR">{total}</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>2026-11-11</Dt></BookgDt>
<AcctSvcrRef>S1</AcctSvcrRef><NtryDtls><TxDtls><Refs><AcctSvcrRef>S1A</AcctSvcrRef></Refs><Amt Ccy="EUR">7.00</Amt><RltdPties><Dbtr><Pty><Nm>Moos GmbH</Nm>
</Pty></Dbtr><DbtrAcct><Id><IBAN>DE02120300000000202051</IBAN></Id></DbtrAcct></RltdPties><RmtInf><Strd><CdtrRefInf><Ref>{reference}</Ref></CdtrRefInf></Strd>
</RmtInf></TxDtls><TxDtls><Amt Ccy="EUR">1.00</Amt><RmtInf><Ustrd>hello</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>
<Ntry><Amt Ccy="EUR">50.00</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-11-11</Dt></BookgDt><AcctSvcrRef>S2</AcctSvcrRef></Ntry>
<Ntry><Amt Ccy="EUR">2.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>PDNG</Sts><BookgDt><Dt>2026-11-11</Dt></BookgDt><AcctSvcrRef>S3</AcctSvcrRef></Ntry>
<Ntry><Amt Ccy="EUR">3.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><DtTm>2026-11-11T10:00:00</DtTm></BookgDt><NtryRef>S4</NtryRef></Ntry>
</Stmt></BkToCstmrStmt></Document>"""


def test_a_camt_053_statement_is_read():
    tenant = a_tenant(currency="EUR")
    reference = bank.of_wallet(tenant)["reference"]
    data = CAMT.format(total="8.00", reference=reference).encode()
    done = bank_transfers.import_statement(name="stmt.xml", data=data, by="usr_staff", now=NOW)
    assert (done.new, done.matched) == (3, 1)
    assert account(tenant, AccountKind.WALLET) == "7.00"
    rows = {row.bank_reference: row for row in BankTransfer.objects.all()}
    assert set(rows) == {"S1A", "S1/2", "S4"}
    assert (rows["S1A"].payer_name, rows["S1A"].payer_account) == ("Moos GmbH", "DE02120300000000202051")


@pytest.mark.parametrize(
    ("data", "path", "code"),
    [
        (b"date,text\r\n2026-11-11,x\r\n", "row 1", "missing_column"),
        ((HEAD + "2026-13-11,1.00,CNY,a,b,c,B1").encode(), "row 2", "bad_row"),
        ((HEAD + "yesterday,1.00,CNY,a,b,c,B1").encode(), "row 2", "bad_row"),
        ((HEAD + "2026-11-11,1.005,CNY,a,b,c,B1").encode(), "row 2", "bad_row"),
        ((HEAD + "2026-11-11,abc,CNY,a,b,c,B1").encode(), "row 2", "bad_row"),
        ((HEAD + "2026-11-11,1.00,XXX,a,b,c,B1").encode(), "row 2", "bad_row"),
        ((HEAD + "2026-11-11,1.00,CNY,a,b,c,").encode(), "row 2", "bad_row"),
        ((HEAD + "2026-11-11,1.00,CNY,a,b,c,B1\r\n2026-11-11,2.00,CNY,a,b,c,B1").encode(), "B1", "twice"),
        (b"\xff\xfe\xff\xff\x00", "file", "bad_encoding"),
        (b"<html></html>", "file", "bad_xml"),
        (b"<html>", "file", "bad_xml"),
        (b"<!DOCTYPE x [<!ENTITY y 'z'>]><Document/>", "file", "bad_xml"),
        (CAMT.format(total="8.00", reference="x").replace("<NtryRef>S4</NtryRef>", "").encode(), "entry 4", "bad_row"),
        (
            CAMT.format(total="8.00", reference="x").replace('<Amt Ccy="EUR">1.00</Amt>', "").encode(),
            "entry 1",
            "bad_row",
        ),
        (b"x" * 5_000_001, "file", "too_large"),
    ],
)
def test_a_fault_names_its_row_and_nothing_of_the_file_is_taken(data, path, code):
    with pytest.raises(InvalidInput) as refused:
        bank_transfers.import_statement(name="x", data=data, by="usr_staff", now=NOW)
    assert (refused.value.errors[0].path, refused.value.errors[0].code) == (path, code)
    assert not BankStatement.objects.exists()


def test_amounts_of_nothing_and_debits_are_passed_over():
    done = upload("2026-11-11,0.00,CNY,a,b,c,B1", "2026-11-11,-5.00,CNY,a,b,c,B2", "2026-11-11,-,CNY,a,b,c,B3")
    assert done.new == 0


def test_references_have_check_digits():
    reference = rules.creditor_reference("IW-2026-000327")
    assert rules.is_valid(reference)
    assert rules.printed(reference).replace(" ", "") == reference
    for at in range(2, len(reference)):  # every single wrong digit is seen
        wrong = reference[:at] + ("7" if reference[at] != "7" else "8") + reference[at + 1 :]
        assert not rules.is_valid(wrong)
    with pytest.raises(NotFound):
        bank.owner_of(rules.creditor_reference("IW-2026-999999"))
    with pytest.raises(NotFound):
        bank.one("btr_x")
    assert Money(1, "CNY").minor == 1
