"""Who makes room: the set that frees enough and loses least, never the young, never for nothing."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from scheduling.domain.fairness import Held
from scheduling.domain.preemption import EXACT, GRACE_S, Victim, choose, enough, fewest, freed


def victim(
    attempt: int,
    *,
    cores: int = 1,
    cards: int = 0,
    lost: float = 500.0,
    age: float = 500.0,
    node: str = "n",
    model: str = "",
) -> Victim:
    return Victim(attempt, node, Held(cores_milli=cores * 1_000, cards=cards), age, lost, model)


def cores(count: int, cards: int = 0) -> Held:
    return Held(cores_milli=count * 1_000, cards=cards)


def test_card_seconds_come_before_core_seconds_before_the_count() -> None:
    cheap, dear = victim(1, cores=8, lost=10), victim(2, cores=1, cards=1, lost=10)
    assert fewest(cores(0), cores(1), [dear, cheap]) == (cheap,)
    assert [
        v.attempt
        for v in fewest(cores(0), cores(2), [victim(1, lost=5), victim(2, lost=5), victim(3, cores=2, lost=4)])
    ] == [3]


def test_of_equal_losses_the_youngest_goes() -> None:
    assert fewest(cores(0), cores(1), [victim(1, age=900), victim(2, age=300)])[0].attempt == 2


def test_nobody_goes_when_it_fits_or_never_will() -> None:
    assert fewest(cores(4), cores(4), [victim(1)]) == ()
    assert fewest(cores(0), cores(4), [victim(1)]) == ()


def test_the_young_stay() -> None:
    young = victim(1, age=GRACE_S - 1)
    assert choose([("n", cores(0), cores(1), "")], [young]) is None
    found = choose([("n", cores(0), cores(1), "")], [victim(1, age=GRACE_S)])
    assert found is not None
    assert [v.attempt for v in found.victims] == [1]


def test_among_nodes_the_smaller_loss_wins_then_the_name() -> None:
    places = [(name, cores(0), cores(1), "") for name in ("b", "a")]
    both = [victim(1, node="b", lost=5), victim(2, node="a", lost=9)]
    found = choose(places, both)
    assert found is not None
    assert found.node == "b"
    same = choose(places, [victim(1, node="b"), victim(2, node="a")])
    assert same is not None
    assert same.node == "a"


def test_other_cards_help_nobody() -> None:
    held = [victim(1, cards=1, model="T4"), victim(2, cards=1, model="A100-80GB", lost=900)]
    found = choose([("n", cores(9), cores(1, cards=1), "A100-80GB")], held)
    assert found is not None
    assert [v.attempt for v in found.victims] == [2]


def test_many_candidates_are_thinned() -> None:
    many = [victim(i, cores=1, lost=float(i)) for i in range(EXACT + 5)] + [victim(99, cores=12, lost=100.0)]
    chosen = fewest(cores(0), cores(12), many)
    assert enough(sum((v.held for v in chosen), Held()), cores(12))
    assert all(not enough(sum((v.held for v in chosen if v is not one), Held()), cores(12)) for one in chosen)
    assert freed(many)["n"] == cores(EXACT + 5 + 12)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 50)), min_size=1, max_size=7),
    st.integers(1, 8),
)
def test_it_is_the_best_of_all_sets(rows: list[tuple[int, int, int]], wanted: int) -> None:
    victims = [victim(i, cores=c, cards=g, lost=float(lost)) for i, (c, g, lost) in enumerate(rows)]
    chosen = fewest(cores(0), cores(wanted), victims)
    sets = [
        s
        for n in range(1, len(victims) + 1)
        for s in combinations(victims, n)
        if enough(sum((v.held for v in s), Held()), cores(wanted))
    ]
    if not sets:
        assert chosen == ()
        return

    def loss(some: tuple[Victim, ...]) -> tuple[float, float, int]:
        return sum(v.loss[0] for v in some), sum(v.loss[1] for v in some), len(some)

    assert loss(chosen) == min(loss(one) for one in sets)
