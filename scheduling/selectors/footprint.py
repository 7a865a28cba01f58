"""What a place would emit, and what waiting for greener hours would save: for quotes and for the cycle.

Location-based: hourly where the region's grid has hours of the last week, else the region's published yearly mean, else unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from marketplace.domain import power
from marketplace.selectors import energy
from marketplace.selectors.energy import Supply
from scheduling.domain import carbon, timeshift
from scheduling.domain.carbon import Basis
from scheduling.domain.columns import Floats
from scheduling.domain.timeshift import Start

HOUR_S = 3_600


@dataclass
class Electricity:
    """The electricity of all zones at one moment; the hours of a grid are read once, when somebody asks."""

    now: datetime
    supplies: Mapping[tuple[str, str], Supply]
    _hours: dict[tuple[str, int], energy.Ahead | None]

    @classmethod
    def at(cls, now: datetime) -> "Electricity":
        return cls(now, energy.supplies(), {})

    def start(self, region: str, zone: str, *, seconds: int, slack_s: int) -> Start | None:
        """The greenest start within `slack_s` of a task of `seconds`; None where no hours are known."""
        series = self.series(region, zone, seconds=seconds, slack_s=slack_s)
        if series is None:
            return None
        return timeshift.best_start(series, into_hour_s=self.into_hour_s, duration_s=seconds, slack_s=slack_s)

    @property
    def into_hour_s(self) -> int:
        """Seconds of the hour that runs which are over."""
        return int((self.now - self.now.replace(minute=0, second=0, microsecond=0)).total_seconds())

    def series(self, region: str, zone: str, *, seconds: int, slack_s: int) -> Floats | None:
        """Milligrams per kWh from the hour that runs, for as long as the task may take; None where no hours are known."""
        supply = self.supplies.get((region, zone))
        if supply is None or not supply.grid_zone:
            return None
        hours = (slack_s + seconds) // HOUR_S + 2
        key = (supply.grid_zone, hours)
        if key not in self._hours:
            self._hours[key] = energy.ahead(grid_zone=supply.grid_zone, now=self.now, hours=hours)
        known = self._hours[key]
        if known is None:
            return None
        return np.array(known.carbon_mg, dtype=np.float64)

    def of_point(self, point: Mapping[str, Any], *, slack_s: int) -> dict[str, Any]:
        """A point's `carbon`: grams, watt-hours, basis, g/kWh; with slack also the greener start and what it saves."""
        region, zone = str(point["region"]), str(point["zone"])
        seconds = max(1, int(point["expected_s"]))
        supply = self.supplies.get((region, zone), Supply("", None, None))
        begin = self.start(region, zone, seconds=seconds, slack_s=slack_s)
        watts = _milliwatts(point)
        basis = Basis.HOURLY if begin is not None else Basis.YEARLY if supply.yearly_mg is not None else Basis.UNKNOWN
        mean = round(begin.mean_now) if begin is not None else supply.yearly_mg
        now = carbon.footprint(
            power_mw=watts, seconds=seconds, pue_milli=supply.pue_milli, intensity_mg=mean, basis=basis
        )
        shown: dict[str, Any] = {
            "grams": now.grams,
            "watt_hours": now.watt_hours,
            "basis": now.basis,
            "grams_per_kwh": None if mean is None else round(mean / 1_000, 1),
            "accounting": "location-based",
        }
        if begin is not None and begin.delay_s:
            later = carbon.footprint(
                power_mw=watts, seconds=seconds, pue_milli=supply.pue_milli, intensity_mg=round(begin.mean), basis=basis
            )
            moment = self.now + timedelta(seconds=begin.delay_s)
            shown["greener_start"] = {
                "at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "grams": later.grams,
                "saved_percent": round(begin.saved * 100, 1),
            }
        return shown


def _milliwatts(point: Mapping[str, Any]) -> int | None:
    """Power of the allocation by the table of usage records; None for a card it does not have. Virtual cards draw nothing."""
    core, _ = power.of_unit("core", "")
    own = int(point["cores_milli"]) * (core or 0) // 1_000
    if not point["cards"] or point["virtual"]:
        return own
    card, _ = power.of_unit("card", str(point["card_model"]))
    return None if card is None else own + int(point["cards"]) * card
