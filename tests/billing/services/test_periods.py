"""Months close once, whoever asks and however often."""

import pytest

from billing.services import invoices, usage
from tests.billing.books import a_fact, a_tenant, case, october, rated

pytestmark = pytest.mark.django_db


def test_smoke():
    tenant = a_tenant()
    invoice = rated(tenant, (1206000000, 1000000), (1206000000, 1000000), (1206000000, 1000000))
    assert [line.amount_minor for line in invoice.lines.order_by("position")] == [34, 34, 34]
    assert invoice.subtotal_minor == 102
    done = invoices.verify(invoice)
    assert done.ok, done.wire()
