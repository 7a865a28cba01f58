"""Energy and carbon beside usage."""

import pytest

from billing.domain import energy
from billing.domain.energy import Footprint, footprint
from portal.kit.quantities import US_PER_HOUR


def of(**values):
    known = {
        "qty_us": US_PER_HOUR,
        "power_mw": 400_000,
        "pue_milli": 1200,
        "grid_g_per_kwh": 500,
        "green_ratio_ppm": 250_000,
    }
    return footprint(**(known | values))


def test_one_card_hour_at_four_hundred_watts():
    assert of() == Footprint(
        480_000_000, 240_000_000, 180_000_000
    )  # 0.48 kWh, 240 g, 180 g in micrograms and microwatt-hours


def test_what_is_not_known_stays_unknown():
    assert of(power_mw=None) == Footprint()
    assert of(grid_g_per_kwh=None) == Footprint(480_000_000)
    assert of(pue_milli=None).energy_uwh == 400_000_000
    assert of(green_ratio_ppm=None) == Footprint(480_000_000, 240_000_000, 240_000_000)
    assert of(qty_us=1).energy_uwh == 0


@pytest.mark.parametrize("power", [-1, energy.MOST_MILLIWATTS + 1])
def test_a_power_that_no_unit_has_is_refused(power):
    with pytest.raises(ValueError, match="mW"):
        of(power_mw=power)


def test_the_basis_and_the_figures_in_words():
    assert energy.basis_text("", pue_known=True) == "unknown"
    assert energy.basis_text("nameplate", pue_known=True) == "nameplate × PUE"
    assert energy.basis_text("measured", pue_known=False) == "measured, machine only"
    assert energy.kwh_text(480_000_000) == "0.480"
    assert energy.kg_text(1_234_567_890_000) == "1234.568"
    assert energy.kg_text(-500_000) == "-0.001"
