"""What ended attempts teach stands on the capacity rows, and placement counts with it; people see the SCU without it."""

from datetime import timedelta

import pytest

from marketplace.models import Node
from marketplace.selectors import offers
from scheduling.domain.demand import Resources
from scheduling.models import DecayAttempt, NodeState
from scheduling.selectors import predictions, snapshot
from scheduling.services import decay, quotes
from tests.cast import THEN
from tests.factories.market import a_node
from tests.factories.running import a_running
from tests.scheduling.services.works import heard

HOUR = timedelta(hours=1)
MICRO = 1_000_000
SHAPE = Resources(cores_milli=8_000, memory_mib=1_024, disk_gib=1)


@pytest.fixture
def two(sol):
    """Two nodes of different processors and the same fingerprint."""
    nodes = [a_node(sol, name=name, cores=8) for name in ("first", "second")]
    for node, model in zip(nodes, ("Alpha", "Beta"), strict=True):
        Node.objects.filter(id=node.id).update(cpu_model=model)
        node.refresh_from_db()
    return nodes


def work(ada, node, *, hours, scu_h, name="job"):
    """A job of `scu_h` that took `hours` there."""
    running = a_running(ada, node, name=name, resources=SHAPE, work_micro=round(scu_h * MICRO), now=THEN)
    running.finish(THEN + hours * HOUR)


def test_a_slow_processor_is_counted_with_less(ada, two):
    full = offers.live_rows(THEN)[0].scu("custom", cores_milli=8_000)
    for _ in range(12):
        work(ada, two[0], hours=1, scu_h=full)
        work(ada, two[1], hours=2, scu_h=full)
        assert decay.learn(now=THEN + 3 * HOUR) in (1, 2), "the first of all teaches nothing"
    assert DecayAttempt.objects.filter(error_micro__isnull=False).count() == 24
    assert decay.learn(now=THEN + 3 * HOUR) == 0, "each once"
    shown = [row.scu("custom", cores_milli=8_000) for row in offers.live_rows(THEN)]
    assert shown == [full, full], "people see what was measured"
    rows = snapshot.load(now=THEN + 3 * HOUR).table
    strength = {rows.rows[i].name: rows.rows[i].scu_cpu["custom"] * rows.rows[i].decay for i in range(len(rows))}
    assert 1.6 < strength["first"] / strength["second"] < 2.1
    assert strength["first"] > full > strength["second"]
    assert NodeState.objects.get(node=two[1]).hardware_decay[""]["custom"] < 0


def test_a_name_that_asks_for_too_little_is_corrected_instead(ada, two):
    full = offers.live_rows(THEN)[0].scu("custom", cores_milli=8_000)
    for _ in range(4):
        for node in two:
            work(ada, node, hours=3, scu_h=full, name="modest")
    decay.learn(now=THEN + 4 * HOUR)
    assert {state.decay_micro for state in NodeState.objects.all()} == {0}
    found = predictions.longer(organisation_id=ada.organisation.id, name="modest", task_type="custom")
    assert found == pytest.approx(3, rel=0.01)


def test_a_quote_says_what_kind_of_work_it_is_and_how_long_it_will_take(ada, two):
    spec = {"name": "study", "run": "python train.py", "resources": {"cpus": 8, "memory": 1, "disk_size": 1}}

    heard(now=THEN + 4 * HOUR)

    def asked():
        return quotes.make(actor_org=ada.organisation, project=ada.project, spec=spec, by=ada.id, now=THEN + 4 * HOUR)

    before = asked().reason
    assert before["task_type"] == {"kind": "training", "evidence": "word", "found": "train", "sure": False}
    assert (before["run_time"]["confidence"], before["run_time"]["assumed_s"]) == ("unknown", 86_400)
    for _ in range(5):
        a_running(ada, two[0], name="study", run="python train.py", task_type="training", resources=SHAPE).finish(
            THEN + HOUR
        )
    decay.learn(now=THEN + 2 * HOUR)
    after = asked()
    assert (after.reason["run_time"]["confidence"], after.reason["run_time"]["seconds"]) == ("high", 3_600)
    assert all(3_600 <= point["expected_s"] <= 3_602 for point in after.points), "work is kept in millionths"
    other = {**spec, "name": "another-name"}
    made = quotes.make(actor_org=ada.organisation, project=ada.project, spec=other, by=ada.id, now=THEN + 4 * HOUR)
    assert made.reason["run_time"]["basis"] == "command"
    told = quotes.make(
        actor_org=ada.organisation,
        project=ada.project,
        spec={**spec, "task_type": "render", "work": 2},
        by=ada.id,
        now=THEN + 4 * HOUR,
    )
    assert (told.reason["task_type"], told.reason["run_time"]) == (None, None)
