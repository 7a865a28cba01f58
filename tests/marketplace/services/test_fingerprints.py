"""Fingerprints after the first: asked for again, in doubt, and suddenly better ones measured once more."""

from dataclasses import replace
from datetime import timedelta

from marketplace.models import CheckedRun, Node
from marketplace.selectors import offers as offer_rows
from marketplace.services import challenges, fingerprints, housekeeping, nodes
from portal.audit.models import AuditEvent
from scheduling.services import nodes_sync
from tests.cast import THEN
from tests.factories.hardware import SomeMetric, SomeReport, SomeSelfTest
from tests.factories.market import a_node, an_enrolled
from tests.marketplace.services.test_nodes import LATER, TERMS, prove

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def listed(sol):
    """A node that proved itself the way agents do."""
    node = prove(an_enrolled(sol, terms=TERMS).node)
    assert node.state == "listed"
    return node


def test_a_listed_node_is_surprised_every_three_days_on_average(sol):
    asked = 0
    node = listed(sol)
    for _ in range(60):
        Node.objects.filter(id=node.id).update(wanted=[], soak_s=0)
        asked += fingerprints.request_due(now=LATER + HOUR, since=LATER + HOUR - DAY)
    node.refresh_from_db()
    assert 8 <= asked <= 34, "a third of 60 days"
    Node.objects.filter(id=node.id).update(wanted=[], soak_s=0)
    assert fingerprints.request_due(now=LATER + HOUR) == 0
    assert fingerprints.request_due(now=LATER + 8 * DAY) == 1, "seven days old"
    node.refresh_from_db()
    order = nodes_sync._order(node, "fingerprint")
    assert order.soak_s == 300
    assert order.id.endswith(f".{node.fingerprints.latest('id').id}"), "another name for each measurement"


def test_much_better_than_last_time_is_measured_once_more(sol):
    node = listed(sol)
    better = SomeReport(metrics=(SomeMetric("gemm_1024", value=140.0), SomeMetric("triad", unit="gb_s", value=18.0)))
    node = prove(node, fingerprint=better, now=LATER + HOUR)
    assert node.wanted == ["fingerprint"]
    assert node.soak_s == 300
    assert AuditEvent.objects.filter(deed="fingerprint.recheck").exists()
    node = prove(node, fingerprint=better, now=LATER + 2 * HOUR)
    assert (node.wanted, node.soak_s) == ([], 0), "no better than the one before"


def test_a_node_in_doubt_comes_back_by_passing_again(sol):
    node = listed(sol)
    assert offer_rows.live_rows(LATER)[0].measured is not None
    assert nodes.doubt(node=node, reason="3 attempts in a row failed by the node's fault", now=LATER + HOUR)
    node.refresh_from_db()
    assert node.state == "probing"
    assert set(node.wanted) == {"self_test", "fingerprint"}
    check = nodes.missing(node)[0]
    assert (check["name"], check["state"]) == ("fingerprint", "failed")
    assert "in a row" in check["detail"]
    assert fingerprints.valid(node, LATER + HOUR) is None
    assert not nodes.doubt(node=node, reason="again", now=LATER + HOUR), "it is in doubt already"

    node = prove(node, fingerprint=None, now=LATER + 2 * HOUR)
    assert node.state == "probing", "the old measurement does not count any more"
    node = prove(node, self_test=SomeSelfTest(), now=LATER + 3 * HOUR)
    assert node.state == "listed"
    assert offer_rows.live_rows(LATER + 3 * HOUR)[0].measured is not None


def test_a_run_of_another_suite_or_age_does_not_count(sol):
    node = listed(sol)
    row = challenges.begin(node=node, kind=challenges.Kind.GEMM, expected=0.01, short=True, now=THEN)
    CheckedRun.objects.filter(id=row.id).update(state="passed", measured="1.5")
    named = {"node": node, "runs": [row.public_id]}
    assert [run.id for run in challenges.passed(**named, short=True, now=THEN)] == [row.id]
    assert challenges.passed(**named, short=False, now=THEN) == []
    assert challenges.passed(**named, short=True, now=THEN + 2 * HOUR) == []
    assert challenges.passed(node=a_node(sol), runs=[row.public_id], short=True, now=THEN) == []
    assert housekeeping.expire(now=THEN + 2 * DAY)["runs"] == 1


def test_a_strict_portal_keeps_an_unchecked_node_out(sol, settings):
    settings.IDLEWILD_UNCHECKED_FINGERPRINTS = False
    node = prove(an_enrolled(sol).node)
    assert node.state == "probing"
    assert nodes.missing(node)[0]["detail"] == "not_checked"
    short = prove(node, fingerprint=replace(SomeReport(), short=True))
    assert nodes.missing(short)[0]["detail"] == "not_checked"
