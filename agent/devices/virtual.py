"""Virtual cards: cards of no hardware, so that card-seconds run from agent to invoice where no card is.

`IDLEWILD_VIRTUAL_CARDS=N` makes N of them; the portal refuses such nodes outside its demo and test profiles. They bind
nothing, are metered as cards, have no SCU, and carry `virtual` wherever they are shown, sold or billed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..protocol import DeviceInfo, Metric
from .plugin import Attachment, DevicePlugin, Sample

VARIABLE = "IDLEWILD_VIRTUAL_CARDS"
MOST = 64


class VirtualCards(DevicePlugin):
    kind = "virtual"

    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> VirtualCards:
        text = environment.get(VARIABLE, "").strip()
        if not text:
            return cls(0)
        if not text.isdigit() or int(text) > MOST:
            raise ValueError(f"{VARIABLE} must be a whole number from 0 to {MOST}, for example 2")
        return cls(int(text))

    def probe(self) -> list[DeviceInfo]:
        return [
            DeviceInfo(id=f"virtual-{i}", kind=self.kind, model="virtual", memory_mib=0, virtual=True)
            for i in range(self.count)
        ]

    def attach(self, ids: Sequence[str]) -> Attachment:
        return Attachment(environment={"IDLEWILD_VIRTUAL_CARDS_ATTACHED": ",".join(ids)})

    def sample(self, ids: Sequence[str]) -> dict[str, Sample]:
        return {id: Sample() for id in ids}

    def check(self, id: str) -> str:
        known = {device.id for device in self.probe()}
        return "" if id in known else f"no virtual card {id}"

    def benchmark(self, id: str) -> tuple[Metric, ...] | None:
        return None
