"""What a maker's cards must be able to do. Another maker = one new file with one such class, named in `found.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..protocol import DeviceInfo, Metric


@dataclass(frozen=True)
class Attachment:
    """What a sandbox needs to use cards: device nodes to bind (source, target) and environment."""

    binds: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """Load in parts per million, memory in MiB, power in milliwatts; None = not known."""

    load_ppm: int | None = None
    memory_mib: int | None = None
    milliwatts: int | None = None


class DevicePlugin(ABC):
    kind: str

    @abstractmethod
    def probe(self) -> list[DeviceInfo]:
        """The cards that are there now; ids are stable over restarts."""

    @abstractmethod
    def attach(self, ids: Sequence[str]) -> Attachment: ...

    @abstractmethod
    def sample(self, ids: Sequence[str]) -> dict[str, Sample]: ...

    @abstractmethod
    def check(self, id: str) -> str:
        """What is wrong with the card; empty when nothing is."""

    @abstractmethod
    def benchmark(self, id: str) -> tuple[Metric, ...] | None:
        """Measured metrics, or None when this card has none."""
