"""The rail's gateway: without a key there is no rail, and that is said."""

import pytest

from billing.gateways import stripe as gateway


def test_without_a_key_there_is_no_rail(settings):
    settings.STRIPE_SECRET_KEY = ""
    assert not gateway.configured()
    with pytest.raises(gateway.NoRail) as refused:
        gateway.client()
    assert (refused.value.code, refused.value.status) == ("no_payment_rail", 409)


@pytest.mark.parametrize("base", ["", "http://127.0.0.1:1"])
def test_with_a_key_there_is_a_client_at_the_configured_address(settings, base):
    settings.STRIPE_SECRET_KEY, settings.IDLEWILD_STRIPE_API_BASE = "sk_test_1", base
    assert gateway.configured()
    assert gateway.client() is not None
