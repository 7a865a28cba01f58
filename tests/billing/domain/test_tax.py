"""Which tax a tenant pays."""

import pytest

from billing.domain import tax
from billing.domain.tax import Category, Party, Treatment

PARIS = Party("FR", "FR40303265045")


@pytest.mark.parametrize(
    ("rate", "issuer", "tenant", "expected"),
    [
        (200_000, PARIS, Party("DE", "DE 136695976"), Treatment(0, Category.REVERSE)),
        (200_000, PARIS, Party("GR", "EL094259216"), Treatment(0, Category.REVERSE)),
        (200_000, PARIS, Party("FR", "FR61954506077"), Treatment(200_000, Category.STANDARD)),
        (200_000, PARIS, Party("DE"), Treatment(200_000, Category.STANDARD)),
        (200_000, PARIS, Party("CH", "CHE-123"), Treatment(200_000, Category.STANDARD)),
        (60_000, Party("CN", "91310000"), Party("CN", "91310000"), Treatment(60_000, Category.STANDARD)),
        (0, PARIS, Party("US"), Treatment(0, Category.EXPORT)),
        (0, PARIS, Party("FR"), Treatment(0, Category.ZERO)),
        (0, Party(), Party("FR"), Treatment(0, Category.OUTSIDE)),
    ],
)
def test_the_treatment_follows_the_table(rate, issuer, tenant, expected):
    found = tax.treat(rate_ppm=rate, issuer=issuer, tenant=tenant)
    assert found == expected
    assert found.reverse_charge is (expected.category == "AE")


def test_a_negative_rate_is_refused():
    with pytest.raises(ValueError, match="negative"):
        tax.treat(rate_ppm=-1, issuer=PARIS, tenant=PARIS)
