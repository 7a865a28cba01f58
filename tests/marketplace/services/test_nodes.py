"""A node joins by a one-time token, proves itself, is listed by itself, drains and retires."""

from datetime import timedelta

import pytest

from marketplace.selectors import nodes as selectors
from marketplace.selectors import offers as offer_rows
from marketplace.services import nodes
from portal.audit.models import AuditEvent
from portal.kit.errors import Conflict, InvalidInput, InvalidTransition, NotSignedIn
from portal.outbox.models import OutboxMessage
from tests.cast import THEN
from tests.factories.hardware import SomeCheck, SomeHardware, SomeMetric, SomeReport, SomeSelfTest, cards
from tests.factories.market import an_enrolled, an_invited

LATER = THEN + timedelta(minutes=5)
TERMS = {"prices": {"core": "0.10", "card": "2.00"}, "spot_factor": "0.6", "green_ratio": "0.8"}


def prove(node, *, hardware=None, now=LATER, **reports):
    """The agent's first inventory report."""
    reports = {"self_test": SomeSelfTest(), "fingerprint": SomeReport(), "runtime": {"python": "3.11.2"}, **reports}
    return nodes.on_inventory(node=node, hardware=hardware or SomeHardware(), agent_version="test", now=now, **reports)


def test_an_invited_node_waits_for_its_machine(sol):
    invited = an_invited(sol)
    assert invited.node.state == "invited"
    assert invited.token in invited.line
    assert [check["state"] for check in invited.node.checks] == ["waiting"] * 4


def test_a_machine_enrolls_and_signs_in_with_its_secret(sol):
    enrolled = an_enrolled(sol)
    assert enrolled.node.state == "probing"
    assert selectors.by_secret(enrolled.node.public_id, enrolled.secret) == enrolled.node
    assert selectors.by_secret(enrolled.node.public_id, "wrong") is None


def test_it_is_listed_by_itself_when_all_checks_passed(sol):
    node = prove(an_enrolled(sol).node)
    assert node.state == "listed"
    assert nodes.missing(node) == []
    assert OutboxMessage.objects.filter(topic="node.state", payload__state="listed").exists()


def test_its_offer_is_published_at_once_if_the_token_carries_terms(sol):
    hardware = SomeHardware(devices=cards(2, virtual=True))
    node = prove(an_enrolled(sol, terms=TERMS, hardware=hardware).node, hardware=hardware)
    offer = node.offers.get()
    assert offer.state == "published"
    assert {version.sku: version.unit_price_micro for version in offer.prices.all()} == {
        "core:-:fixed": 100_000,
        "core:-:spot": 60_000,
        "card:virtual:fixed": 2_000_000,
        "card:virtual:spot": 1_200_000,
    }
    row = offer_rows.live_rows(LATER)[0]
    assert row.virtual
    assert row.green_ratio_ppm == 800_000
    assert row.scu("custom", cores_milli=1000, cards=2) is None, "a virtual card has no SCU"
    assert row.scu("custom", cores_milli=8000) > 0


def test_without_terms_the_provider_publishes(sol):
    assert not prove(an_enrolled(sol).node).offers.exists()


def test_a_missing_measurement_keeps_it_probing_and_names_the_check(sol):
    node = prove(an_enrolled(sol).node, fingerprint=None)
    assert node.state == "probing"
    assert [check["name"] for check in nodes.missing(node)] == ["fingerprint"]


def test_an_unstable_measurement_names_its_spread(sol):
    shaky = SomeReport(metrics=(SomeMetric("gemm_512", cv_ppm=200_000),))
    node = prove(an_enrolled(sol).node, fingerprint=shaky)
    assert node.state == "probing"
    assert "gemm_512" in nodes.missing(node)[0]["detail"]


def test_a_sandbox_without_control_groups_is_listed_and_labelled(sol):
    test = SomeSelfTest(isolation="bwrap", cgroups="none", checks=(SomeCheck("cgroups", ok=False, fix="run as root"),))
    node = prove(an_enrolled(sol).node, self_test=test)
    assert (node.state, node.isolation) == ("listed", "bwrap")
    isolation = next(check for check in node.checks if check["name"] == "isolation")
    assert "not exclusive" in isolation["detail"]
    assert isolation["fix"] == "run as root"


def test_a_used_token_changes_nothing_and_leaves_one_audit_event(sol):
    invited = an_invited(sol)
    first = nodes.enroll(token=invited.token, hardware=SomeHardware(), agent_version="1", boot_id="a", now=THEN)
    before = AuditEvent.objects.count()
    with pytest.raises(NotSignedIn, match="enrolled a node already"):
        nodes.enroll(
            token=invited.token, hardware=SomeHardware(cores_milli=1000), agent_version="1", boot_id="b", now=LATER
        )
    first.node.refresh_from_db()
    assert (first.node.boot_id, first.node.cores_milli) == ("a", 8000)
    assert AuditEvent.objects.count() == before + 1
    assert AuditEvent.objects.latest("id").deed == "node.enroll_refused"


def test_an_unknown_and_an_outlived_token_are_refused(sol):
    invited = an_invited(sol)
    late = THEN + timedelta(hours=25)
    for token, now, code in (("enr_nonsense", THEN, "TOKEN_UNKNOWN"), (invited.token, late, "TOKEN_EXPIRED")):
        with pytest.raises(NotSignedIn) as refused:
            nodes.enroll(token=token, hardware=SomeHardware(), agent_version="1", boot_id="a", now=now)
        assert refused.value.code == code


def test_one_nodes_secret_does_not_open_another(sol):
    a, b = an_enrolled(sol), an_enrolled(sol)
    assert selectors.by_secret(b.node.public_id, a.secret) is None
    nodes.refuse_sign_in(public_id=b.node.public_id, address="192.0.2.1", now=LATER)
    event = AuditEvent.objects.latest("id")
    assert (event.deed, event.organisation_id) == ("node.sign_in_refused", sol.organisation.id)


def test_virtual_cards_are_refused_where_the_profile_has_none(sol, settings):
    settings.IDLEWILD_VIRTUAL_CARDS = 0
    invited = an_invited(sol)
    with pytest.raises(InvalidInput, match="no virtual cards"):
        nodes.enroll(
            token=invited.token,
            hardware=SomeHardware(devices=cards(1, virtual=True)),
            agent_version="1",
            boot_id="a",
            now=THEN,
        )
    invited.node.refresh_from_db()
    assert invited.node.state == "invited"


def test_a_virtual_card_put_in_later_unlists_the_node(sol, settings):
    node = prove(an_enrolled(sol).node)
    settings.IDLEWILD_VIRTUAL_CARDS = 0
    node = prove(node, hardware=SomeHardware(devices=cards(1, virtual=True)), self_test=None, fingerprint=None)
    assert node.state == "probing"
    assert not node.devices.exists()


def test_other_hardware_needs_another_measurement(sol):
    node = prove(an_enrolled(sol).node)
    node = prove(node, hardware=SomeHardware(cpu_model="Example 9001"), fingerprint=None)
    assert node.state == "probing"
    assert node.wanted == ["fingerprint"]
    node = prove(node, hardware=SomeHardware(cpu_model="Example 9001"))
    assert (node.state, node.wanted) == ("listed", [])


def test_a_card_of_another_model_gets_the_price_of_the_others(sol):
    one = SomeHardware(devices=cards(1))
    node = prove(an_enrolled(sol, terms=TERMS, hardware=one).node, hardware=one)
    node = prove(node, hardware=SomeHardware(devices=(*cards(1), *cards(2, model="H100")[1:])))
    assert node.offers.get().prices.get(sku="card:H100:fixed", valid_until=None).unit_price_micro == 2_000_000


def test_drain_undrain_and_retire(sol):
    node = prove(an_enrolled(sol, terms=TERMS).node)
    node = nodes.drain(node=node, by=sol.id, deadline=LATER + timedelta(hours=1), now=LATER)
    assert node.state == "draining"
    assert offer_rows.live_rows(LATER) == []
    node = nodes.undrain(node=node, by=sol.id, now=LATER)
    assert node.state == "listed"
    assert len(offer_rows.live_rows(LATER)) == 1
    node = nodes.retire(node=node, by=sol.id, now=LATER)
    assert node.state == "retired"
    assert node.offers.get().state == "withdrawn"
    with pytest.raises(InvalidTransition):
        nodes.undrain(node=node, by=sol.id, now=LATER)
    with pytest.raises(Conflict):
        prove(node)


def test_a_retired_node_no_longer_signs_in(sol):
    enrolled = an_enrolled(sol)
    nodes.retire(node=enrolled.node, by=sol.id, now=LATER)
    assert selectors.by_secret(enrolled.node.public_id, enrolled.secret) is None


def test_each_start_of_the_agent_has_its_incarnation(sol):
    node = an_enrolled(sol).node
    assert [nodes.on_start(node=node, boot_id="b", now=LATER) for _ in range(3)] == [1, 2, 3]


def test_tokens_nobody_used_end(sol):
    node = an_invited(sol).node
    assert nodes.expire(now=THEN) == 0
    assert nodes.expire(now=THEN + timedelta(hours=24)) == 1
    node.refresh_from_db()
    assert node.state == "retired"


def test_terms_are_read_when_the_token_is_made(sol):
    with pytest.raises(InvalidInput) as refused:
        an_invited(sol, terms={"prices": {"core": "-1"}, "colour": "green"})
    assert {finding.path for finding in refused.value.errors} == {"terms.colour", "terms.prices.core"}


def test_orders_wait_for_the_agent(sol):
    node = prove(an_enrolled(sol).node)
    assert nodes.want(node=node, order="self_test", by=sol.id, now=LATER).wanted == ["self_test"]
    assert prove(node).wanted == []
    with pytest.raises(InvalidInput):
        nodes.want(node=node, order="dance", by=sol.id, now=LATER)
