"""An operator's commands: payments, voids, verification."""

import io

import pytest
from django.core.management import CommandError, call_command

from billing.models import Invoice
from tests.billing.books import a_tenant, rated

pytestmark = pytest.mark.django_db


def run(*words):
    out = io.StringIO()
    call_command("invoice", *words, stdout=out)
    return out.getvalue().strip()


def test_a_payment_a_void_and_a_verification():
    paid, void = (rated(a_tenant(), (3_600_000_000, 10_000_000)) for _ in range(2))
    assert "every line matches" in run("verify", paid.number)
    assert run("pay", paid.number, "4.00", "CNY", "--reference", "bank 1") == f"{paid.number} partially_paid"
    assert (
        run("pay", paid.public_id, "6.00", "CNY", "--reference", "bank 2", "--by", "usr_staff") == f"{paid.number} paid"
    )
    assert run("void", void.number, "--reason", "wrong party") == f"{void.number} void"


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "IW-2026-999999"),
        ("pay", "{}", "10.001", "CNY", "--reference", "b"),
        ("pay", "{}", "NaN", "CNY", "--reference", "b"),
        ("pay", "{}", "-1", "CNY", "--reference", "b"),
        ("pay", "{}", "10.01", "CNY", "--reference", "b"),
        ("pay", "{}", "5", "USD", "--reference", "b"),
        ("pay", "{}", "5", "ISK", "--reference", "b"),
        ("pay", "{}", "5", "CNY"),
        ("void", "{}"),
        ("burn", "{}"),
    ],
)
def test_wrong_words_change_nothing(words):
    invoice = rated(a_tenant(), (3_600_000_000, 10_000_000))
    with pytest.raises(CommandError):
        run(*[word.format(invoice.number) for word in words])
    assert Invoice.objects.get() == invoice
    assert Invoice.objects.get().state == "open"
