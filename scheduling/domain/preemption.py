"""Who makes room: attempts at the interruptible price stop for a task at the fixed price, and nobody else ever does; priority never preempts.

Victims of one node: the set that frees enough and loses least, compared by

1. card-seconds of work since its last checkpoint (or its start);
2. core-seconds of the same, for work without cards;
3. how many are stopped;
4. the youngest first.

None is stopped in its first `GRACE_S` seconds: what was just placed is not pushed around. Among nodes the same comparison decides, at last the node's id.
Up to `EXACT` candidates of a node all sets are looked at; beyond, the cheapest are added until it is enough and those that were not needed are left again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scheduling.domain.fairness import Held

GRACE_S = 120
EXACT = 10


@dataclass(frozen=True)
class Victim:
    """A live attempt at the interruptible price: what it holds, how long it runs, and how much it would lose (seconds since its checkpoint or start)."""

    attempt: int
    node: str
    held: Held
    age_s: float
    lost_s: float
    card_model: str = ""

    @property
    def loss(self) -> tuple[float, float]:
        """Card-seconds and core-seconds."""
        return self.held.cards * self.lost_s, self.held.cores_milli / 1_000 * self.lost_s


@dataclass(frozen=True)
class Room:
    """A place that fits once `victims` are gone."""

    node: str
    victims: tuple[Victim, ...]


Loss = tuple[float, float, int, float]


def choose(places: Iterable[tuple[str, Held, Held, str]], victims: Sequence[Victim]) -> Room | None:
    """The room that costs least; None if no place can be made.

    `places`: node, what is free of it, what is needed there, kind of cards: what a victim frees of other cards helps nobody.
    """
    by_node: dict[str, list[Victim]] = {}
    for victim in victims:
        if victim.age_s >= GRACE_S:
            by_node.setdefault(victim.node, []).append(victim)
    best: tuple[Loss, str, tuple[Victim, ...]] | None = None
    for node, free, needs, model in places:
        found = fewest(free, needs, [_usable(victim, model) for victim in by_node.get(node, ())])
        if found and (best is None or (_loss(found), node) < best[:2]):
            best = (_loss(found), node, found)
    return None if best is None else Room(best[1], best[2])


def fewest(free: Held, needs: Held, victims: Sequence[Victim]) -> tuple[Victim, ...]:
    """The victims of one node that lose least and free enough; () if nobody has to, or enough cannot be freed."""
    if enough(free, needs) or not enough(_sum(free, victims), needs):
        return ()
    ordered = sorted(victims, key=lambda victim: (*victim.loss, victim.age_s, victim.attempt))
    if len(ordered) <= EXACT:
        sets = (chosen for count in range(1, len(ordered) + 1) for chosen in combinations(ordered, count))
        fitting = [chosen for chosen in sets if enough(_sum(free, chosen), needs)]
        return min(fitting, key=_loss)
    taken: list[Victim] = []
    for victim in ordered:
        taken.append(victim)
        if enough(_sum(free, taken), needs):
            break
    for victim in reversed(ordered):  # the dearest that is not needed after all
        without = [one for one in taken if one is not victim]
        if victim in taken and enough(_sum(free, without), needs):
            taken = without
    return tuple(taken)


def enough(free: Held, needs: Held) -> bool:
    """Does `needs` fit into `free`?"""
    return (
        free.cores_milli >= needs.cores_milli
        and free.memory_mib >= needs.memory_mib
        and free.disk_gib >= needs.disk_gib
        and free.cards >= needs.cards
    )


def freed(victims: Iterable[Victim]) -> Mapping[str, Held]:
    """Per node: what all of them together would give back."""
    found: dict[str, Held] = {}
    for victim in victims:
        found[victim.node] = found.get(victim.node, Held()) + victim.held
    return found


def _usable(victim: Victim, model: str) -> Victim:
    if victim.card_model == model:
        return victim
    return replace(victim, held=replace(victim.held, cards=0))


def _sum(free: Held, victims: Iterable[Victim]) -> Held:
    return sum((victim.held for victim in victims), free)


def _loss(victims: Sequence[Victim]) -> Loss:
    cards = sum(victim.loss[0] for victim in victims)
    cores = sum(victim.loss[1] for victim in victims)
    return cards, cores, len(victims), sum(victim.age_s for victim in victims)
