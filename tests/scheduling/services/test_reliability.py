"""A node's reliability: its own faults, nobody else's."""

from datetime import timedelta

from scheduling.services import reliability
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import a_running

S = timedelta(seconds=1)


def test_only_the_nodes_own_faults_count_and_a_new_node_has_no_figure(ada: Person, sol: Person) -> None:
    node = a_node(sol, cores=64, memory_gib=64)
    endings = ["finished"] * 10 + ["exit_nonzero"] * 4 + ["platform_fault"] * 2 + ["start_failed"] * 3
    for n, reason in enumerate(endings):
        a_running(ada, node, name=f"j{n}").finish(THEN + S, reason=reason)
    assert reliability.score(now=THEN + 2 * S) == 1
    node.refresh_from_db()
    assert (node.reliability_ppm, node.reliability_samples) == (None, 19)
    a_running(ada, node, name="last").finish(THEN + S, reason="node_rebooted")
    reliability.score(now=THEN + 2 * S)
    node.refresh_from_db()
    assert (node.reliability_ppm, node.reliability_samples) == (800_000, 20)
    assert reliability.score(now=THEN + timedelta(days=31)) == 0


def test_three_of_its_own_faults_in_a_row_put_a_node_in_doubt(ada: Person, sol: Person) -> None:
    node = a_node(sol, cores=64, memory_gib=64)
    for n, reason in enumerate(["start_failed", "exit_nonzero", "start_failed"]):
        a_running(ada, node, name=f"j{n}").finish(THEN + (n + 1) * S, reason=reason)
    reliability.score(now=THEN + 5 * S)
    node.refresh_from_db()
    assert node.doubted_at is None, "a tenant's failure between counts for nobody"
    a_running(ada, node, name="last").finish(THEN + 5 * S, reason="start_failed")
    reliability.score(now=THEN + 6 * S)
    node.refresh_from_db()
    assert node.doubted_at == THEN + 6 * S
    assert node.state == "probing"
    assert node.doubt == reliability.DOUBT
