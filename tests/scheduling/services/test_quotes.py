"""A quote shows what the front costs, holds for ten minutes, is used once, and never lets anything be bought dearer."""

from datetime import timedelta

import pytest

from marketplace.services import offers
from portal.kit.errors import Conflict, InvalidInput
from scheduling.models import Lease, Quote
from scheduling.selectors import jobs as selectors
from scheduling.services import cycle, jobs, quotes
from tests.cast import Person
from tests.factories.market import a_link, a_node
from tests.scheduling.services.works import NOW, heard, spec, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def market(sol: Person) -> dict[str, object]:
    """Three nodes, none better than another in everything: cheap, quick, green."""
    nodes = {
        "cheap": a_node(sol, region="east", name="cheap", prices={"core": "0.10"}, terms={"green_ratio": "0.1"}),
        "green": a_node(sol, region="west", name="green", prices={"core": "0.30"}, terms={"green_ratio": "0.9"}),
        "middle": a_node(sol, region="north", name="middle", prices={"core": "0.20"}, terms={"green_ratio": "0.5"}),
    }
    for a in ("east", "west", "north"):
        for b in ("east", "west", "north"):
            if a != b:
                a_link(a, b, price=20_000)
    heard()
    return nodes


def ask(who: Person, **changes: object) -> Quote:
    return quotes.make(actor_org=who.organisation, project=None, spec=spec(**changes), by=who.id, now=NOW)


@pytest.mark.usefixtures("market")
def test_a_quote_holds_the_front_with_low_expected_and_high(ada: Person) -> None:
    quote = ask(ada, inputs=[{"url": "https://example.org/x", "path": "x", "size_bytes": 4 * 10**9, "region": "west"}])
    assert {"cheapest", "greenest"} <= {role for p in quote.points for role in p["roles"]}
    assert [p["name"] for p in quote.points] == ["cheap", "middle", "green"]
    cheap = next(p for p in quote.points if p["name"] == "cheap")
    # 1 core × 0.10 × 1 h + 4 GB × 0.02
    assert cheap["cost"] == {"low": "0.08", "expected": "0.18", "high": "0.18"}
    assert cheap["prices"]["core"]["unit_price"] == "0.10"
    assert cheap["prices"]["core"]["price_version"].startswith("prv_")
    assert cheap["transfer"][0]["link"] == "west→east"
    assert (quote.rental, quote.currency, quote.expires_at) == ("fixed", "CNY", NOW + timedelta(minutes=10))
    assert quote.pick is not None
    assert quote.reason["why"]["code"] == "pick_knee"
    assert quote.seen["node"] == {"seen": 3, "kept": 3}
    assert Lease.objects.count() == 0


def test_a_quote_without_points_says_why_and_what_would_help(ada: Person, sol: Person) -> None:
    a_node(sol, prices={"core": "0.10"})
    heard()
    quote = ask(ada, max_price="0.05")
    assert (quote.points, quote.pick) == ([], None)
    (refused,) = quote.refused[2]["refused"]
    assert (refused["reason"], refused["asked"], refused["best"], refused["unit"]) == (
        "price_over_max",
        "0.05",
        "0.10",
        "CNY/h",
    )
    assert quote.reason["helps"] == [{"change": "max_price 0.10", "field": "max_price", "value": "0.10", "nodes": 1}]
    with pytest.raises(Conflict) as caught:
        submit(ada, max_price="0.05", quote=quote)
    assert caught.value.code == "quote_empty"
    quote.refresh_from_db()
    assert quote.state == "open", "a refused submission used nothing"


@pytest.mark.usefixtures("market")
def test_the_chosen_point_is_taken_and_its_price_is_the_cap(ada: Person) -> None:
    quote = ask(ada)
    green = next(p["index"] for p in quote.points if p["name"] == "green")
    job = submit(ada, quote=quote, point=green)
    assert (job.point, job.budget_minor, job.rental) == (green, 30, "fixed")
    cycle.run(now=NOW)
    lease = Lease.objects.get(attempt__task__job=job)
    assert lease.node.name == "green"
    quote.refresh_from_db()
    assert quote.state == "used"


@pytest.mark.usefixtures("market")
def test_an_old_quote_and_a_used_quote_are_refused(ada: Person) -> None:
    """P27, first half."""
    quote = ask(ada)
    with pytest.raises(Conflict) as caught:
        submit(ada, quote=quote, now=NOW + timedelta(minutes=10))
    assert caught.value.code == "quote_expired"
    submit(ada, quote=quote, now=NOW + timedelta(minutes=9))
    with pytest.raises(Conflict) as again:
        submit(ada, quote=quote, now=NOW + timedelta(minutes=9))
    assert again.value.code == "quote_expired"
    assert selectors.for_organisation(ada.organisation).count() == 1


def test_a_price_raised_since_waits_and_nothing_is_bought_dearer(ada: Person, sol: Person) -> None:
    """P27, second half: also when max_price would allow it."""
    node = a_node(sol, prices={"core": "0.10"})
    heard()
    quote = ask(ada)
    job = submit(ada, quote=quote)
    offers.reprice(offer=node.offers.get(), terms={"prices": {"core": "0.11"}}, by=sol.id, now=NOW)
    assert cycle.run(now=NOW).placed == {}
    waiting = job.tasks.get().waiting
    assert (waiting["reason"], waiting["asked"], waiting["best"], waiting["unit"]) == (
        "quote_outdated",
        "0.10",
        "0.11",
        "CNY/h",
    )
    later = NOW + timedelta(minutes=1)
    offers.reprice(offer=node.offers.get(), terms={"prices": {"core": "0.09"}}, by=sol.id, now=later)
    heard(now=later)
    cycle.run(now=later)
    assert Lease.objects.get().prices["items"]["core"]["unit_price_micro"] == 90_000


def test_a_running_attempt_keeps_its_price_and_the_next_pays_the_new_one_within_max_price(
    ada: Person, sol: Person
) -> None:
    """P29."""
    from scheduling.domain.reasons import EndReason
    from scheduling.models import Attempt
    from scheduling.services import leases

    node = a_node(sol, prices={"core": "1.00"})
    heard()
    job = submit(ada, max_price="2.00", quote=ask(ada, max_price="2.00"))
    cycle.run(now=NOW)
    first = Lease.objects.get()
    offers.reprice(
        offer=node.offers.get(), terms={"prices": {"core": "2.00"}}, by=sol.id, now=NOW + timedelta(seconds=1)
    )
    first.refresh_from_db()
    assert first.prices["items"]["core"]["unit_price_micro"] == 1_000_000
    leases.ask_stop(attempt_id=Attempt.objects.get().id, reason=EndReason.NODE_DRAINED, actor="system", now=NOW)
    heard(now=NOW + timedelta(seconds=2))
    cycle.run(now=NOW + timedelta(seconds=2))
    second = Lease.objects.get(fence=2)
    assert second.prices["items"]["core"]["unit_price_micro"] == 2_000_000
    offers.reprice(
        offer=node.offers.get(), terms={"prices": {"core": "2.01"}}, by=sol.id, now=NOW + timedelta(seconds=3)
    )
    leases.ask_stop(attempt_id=second.attempt_id, reason=EndReason.NODE_DRAINED, actor="system", now=NOW)
    later = NOW + timedelta(seconds=30)
    heard(now=later)
    cycle.run(now=later)
    assert job.tasks.get().waiting["reason"] == "price_over_max"


@pytest.mark.usefixtures("market")
def test_a_quote_holds_only_for_its_spec_and_its_points(ada: Person) -> None:
    quote = ask(ada)
    with pytest.raises(Conflict) as caught:
        submit(ada, quote=quote, resources={"cpus": 2})
    assert caught.value.code == "quote_differs"
    with pytest.raises(InvalidInput) as wrong:
        submit(ada, quote=quote, point=99)
    assert [f.path for f in wrong.value.errors] == ["point"]
    job = jobs.submit(tenant=ada.organisation, project=None, spec=None, by=ada.id, quote=quote, now=NOW)
    assert job.name == "job"
    assert job.spec == quote.spec


@pytest.mark.usefixtures("market")
def test_asking_needs_the_chosen_point(ada: Person) -> None:
    quote = ask(ada, placement={"pick": "ask"})
    assert quote.pick is not None
    with pytest.raises(InvalidInput) as caught:
        submit(ada, quote=quote, placement={"pick": "ask"})
    assert [f.code for f in caught.value.errors] == ["choice_required"]
    assert submit(ada, quote=quote, placement={"pick": "ask"}, point=0).point == 0


@pytest.mark.usefixtures("market")
def test_quotes_end_by_themselves(ada: Person) -> None:
    quote = ask(ada)
    assert quotes.expire(now=NOW + timedelta(minutes=9)) == 0
    assert quotes.expire(now=NOW + timedelta(minutes=10)) == 1
    quote.refresh_from_db()
    assert quote.state == "expired"


@pytest.mark.usefixtures("market")
def test_past_runs_of_the_name_tell_how_long_it_takes(ada: Person) -> None:
    from scheduling.models import Attempt

    job = submit(ada, name="nightly")
    cycle.run(now=NOW)
    Attempt.objects.update(state="succeeded", started_at=NOW, ended_at=NOW + timedelta(minutes=6), reason="finished")
    quote = ask(ada, name="nightly")
    assert {p["expected_s"] for p in quote.points} == {360}
    assert quote.points[0]["expected_micro"] * 10 == quote.points[0]["high_micro"]
    assert job.name == "nightly"
