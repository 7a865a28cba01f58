"""The admin shows prices and measurements, and changes none (P37)."""

import pytest
from django.urls import reverse

from tests.factories.market import a_node


@pytest.fixture
def admin(staff):
    staff.user.is_superuser = True
    staff.user.save()
    return staff.browser()


@pytest.mark.parametrize("model", ["priceversion", "fingerprint", "offer", "node", "enrolment", "referenceprice"])
def test_no_row_is_made_or_changed_by_hand(admin, sol, model):
    """P37 in the admin: no price is entered there at all."""
    node = a_node(sol)
    row = {
        "priceversion": node.offers.get().prices.first(),
        "fingerprint": node.fingerprints.get(),
        "offer": node.offers.get(),
        "node": node,
    }.get(model)
    assert admin.get(reverse(f"admin:marketplace_{model}_changelist")).status_code == 200
    assert admin.post(reverse(f"admin:marketplace_{model}_add"), {"unit_price_micro": "-1"}).status_code == 403
    if row is not None:
        assert admin.get(reverse(f"admin:marketplace_{model}_change", args=[row.pk])).status_code == 200
        assert (
            admin.post(
                reverse(f"admin:marketplace_{model}_change", args=[row.pk]), {"unit_price_micro": "-1"}
            ).status_code
            == 403
        )
        assert (
            admin.post(reverse(f"admin:marketplace_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        )


def test_nobody_but_operators_comes_in(sol):
    assert sol.browser().get(reverse("admin:index")).status_code == 302
