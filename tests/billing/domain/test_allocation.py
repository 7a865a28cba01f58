"""Split bills: what is shared is laid over departments to the last minor unit."""

from hypothesis import given
from hypothesis import strategies as st

from billing.domain import allocation
from billing.domain.allocation import Method, Place, Rule, Source, split_bill
from tests.billing.books import case

A, B, SHARED = Place("org", "A", "prj_a"), Place("org", "B", "prj_b"), Place("org", "Platform", "prj_s")


def rule(**values):
    known = {
        "name": "Platform", "organisation": "org", "source_kind": Source.DEPARTMENT, "source": "Platform", "method": Method.EQUAL,
    }  # fmt: skip
    return Rule(**(known | values))


def rows(costs, *rules):
    return {
        (share.place.department, share.place.project): (share.net, share.moved, share.final)
        for share in split_bill(costs, rules)
    }


def test_a_shared_cost_leaves_its_source_and_is_borne_in_equal_parts():
    assert rows({A: 100, B: 300, SHARED: 101}, rule()) == {
        ("A", ""): (0, 51, 51),
        ("A", "prj_a"): (100, 0, 100),
        ("B", ""): (0, 50, 50),
        ("B", "prj_b"): (300, 0, 300),
        ("Platform", "prj_s"): (101, -101, 0),
    }


def test_by_weights_and_by_usage():
    given, expected = case("bill-b9")
    weights = tuple(zip("XYZ", given["weights"], strict=True))
    shared = rows({SHARED: given["total_minor"]}, rule(method=Method.WEIGHTS, weights=weights))
    assert [shared[name, ""][1] for name in "XYZ"] == expected["parts_minor"]
    by_weight = rows({A: 100, SHARED: 100}, rule(method=Method.WEIGHTS, weights=(("B", 3), ("A", 1), ("C", 0))))
    assert by_weight["A", ""] == (0, 25, 25)
    assert by_weight["B", ""] == (0, 75, 75)
    by_usage = rows({A: 100, B: 300, SHARED: 100}, rule(method=Method.USAGE))
    assert (by_usage["A", ""][1], by_usage["B", ""][1]) == (25, 75)
    chosen = rows({A: 100, B: 300, SHARED: 100}, rule(method=Method.USAGE, weights=(("A", 1),)))
    assert chosen["A", ""][1] == 100


def test_a_project_can_be_shared_and_rules_follow_each_other():
    first = rule(source_kind=Source.PROJECT, source="prj_s", weights=(("Ops", 1),))
    second = rule(name="Ops", source="Ops", weights=(("A", 1), ("B", 1)))
    found = split_bill({A: 10, B: 10, SHARED: 9, Place("org", "Ops", "prj_o"): 1}, [first, second])
    assert sum(share.final for share in found) == 30
    moved = {share.place: share.moved for share in found}
    assert moved[SHARED] == -9
    assert moved[Place("org", "Ops", "prj_o")] == -1
    assert moved[Place("org", "Ops")] == 9, "what was moved to a department is not shared again under another project"


def test_a_rule_that_moves_nothing():
    alone = rows({SHARED: 100}, rule())
    assert alone == {("Platform", "prj_s"): (100, 0, 100)}
    assert rows({A: 100}, rule()) == {("A", "prj_a"): (100, 0, 100)}
    assert rows({Place("other", "Platform", "p"): 5, A: 1}, rule())["Platform", "p"] == (5, 0, 5)
    assert rows({A: -5, SHARED: 5}, rule(method=Method.USAGE))["Platform", "prj_s"] == (5, 0, 5)


def test_shares_of_the_whole_add_up_to_a_million():
    found = split_bill({A: 1, B: 1, SHARED: 1}, [])
    assert sum(share.share_ppm for share in found) == 1_000_000
    assert [share.share_ppm for share in split_bill({A: -1}, [])] == [0]


costs = st.dictionaries(
    st.builds(Place, st.sampled_from(["x", "y"]), st.sampled_from("ABC"), st.sampled_from(["p", "q"])),
    st.integers(-(10**6), 10**6),
)
rules = st.builds(
    Rule,
    name=st.just("r"),
    organisation=st.sampled_from(["x", "y"]),
    source_kind=st.sampled_from(Source),
    source=st.sampled_from(["A", "B", "p", "q"]),
    method=st.sampled_from(Method),
    weights=st.lists(
        st.tuples(st.sampled_from("ABCD"), st.integers(0, 9)), max_size=3, unique_by=lambda pair: pair[0]
    ).map(tuple),
)


@given(costs, st.lists(rules, max_size=4))
def test_r4_a_split_bill_always_adds_up_to_the_bill(costs, rules):
    found = split_bill(costs, rules)
    assert sum(share.moved for share in found) == 0
    assert sum(share.final for share in found) == sum(costs.values())
    assert {share.place: share.net for share in found if share.net} == {
        place: cost for place, cost in costs.items() if cost
    }


@given(st.integers(-(10**6), 10**6), st.lists(st.integers(-(10**4), 10**4), max_size=6))
def test_telescoping_parts_add_up(total, weights):
    parts = allocation.telescope(total, weights)
    assert sum(parts) == (total if sum(weights) else 0)
