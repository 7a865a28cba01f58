"""Dominant share: the largest part of any one resource that an organisation holds (weighted DRF with equal weights)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Held:
    """Cores, memory, disk and cards, together."""

    cores_milli: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    cards: int = 0

    def __add__(self, other: "Held") -> "Held":
        return Held(
            self.cores_milli + other.cores_milli,
            self.memory_mib + other.memory_mib,
            self.disk_gib + other.disk_gib,
            self.cards + other.cards,
        )

    def __mul__(self, times: int) -> "Held":
        return Held(self.cores_milli * times, self.memory_mib * times, self.disk_gib * times, self.cards * times)

    def __sub__(self, other: "Held") -> "Held":
        return Held(
            self.cores_milli - other.cores_milli,
            self.memory_mib - other.memory_mib,
            self.disk_gib - other.disk_gib,
            self.cards - other.cards,
        )


def dominant_share(held: Held, capacity: Held) -> float:
    """0…1 of `capacity`; what does not exist anywhere does not count."""
    shares = (
        mine / all_of_it
        for mine, all_of_it in (
            (held.cores_milli, capacity.cores_milli),
            (held.memory_mib, capacity.memory_mib),
            (held.disk_gib, capacity.disk_gib),
            (held.cards, capacity.cards),
        )
        if all_of_it > 0
    )
    return max(shares, default=0.0)
