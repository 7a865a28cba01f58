"""What a task emits."""

import pytest

from scheduling.domain import carbon
from scheduling.domain.carbon import Basis


def test_energy_times_pue_times_intensity():
    found = carbon.footprint(
        power_mw=1_000_000, seconds=7_200, pue_milli=1_200, intensity_mg=350_000, basis=Basis.HOURLY
    )
    assert (found.watt_hours, found.grams, found.basis) == (2_400, 840, "hourly")


@pytest.mark.parametrize(
    ("power", "pue", "intensity", "energy"),
    [(None, 1_200, 350_000, None), (1_000_000, None, 350_000, None), (1_000_000, 1_000, None, 1_000)],
)
def test_what_is_unknown_stays_unknown(power, pue, intensity, energy):
    found = carbon.footprint(power_mw=power, seconds=3_600, pue_milli=pue, intensity_mg=intensity)
    assert (found.watt_hours, found.grams, found.basis) == (energy, None, "unknown")
