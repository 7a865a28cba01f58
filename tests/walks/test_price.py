"""A price: the provider reprices; what runs keeps its snapshot, what is placed later pays the new price."""

from collections.abc import Callable

from billing.models import UsageRecord
from marketplace.models import Offer, PriceVersion
from marketplace.services import offers
from portal import clock
from scheduling.models import Attempt, Lease
from tests.cast import Person
from tests.walks.conftest import Agent, eventually
from tests.walks.test_failure import running
from tests.walks.test_job import ended, submit


def core_price(lease: Lease) -> int:
    return int(lease.prices["items"]["core"]["unit_price_micro"])


def test_a_price(ada: Person, sol: Person, a_machine: Callable[..., Agent]) -> None:
    machine = a_machine()
    first = submit(ada, "echo begun; sleep 6", name="before")
    eventually(lambda: running(first), what="the first job runs")
    offer = Offer.objects.get(node=machine.node)
    offers.reprice(offer=offer, terms={"prices": {"core": "0.30", "card": "2.00"}}, by=sol.id, now=clock.now())
    assert PriceVersion.objects.filter(offer=offer, resource="core").count() >= 2
    eventually(lambda: ended(first), what="the first job ends")
    second = submit(ada, "echo begun; sleep 2", name="after")
    eventually(lambda: ended(second), what="the second job ends")
    assert (first.state, second.state) == ("done", "done")
    old, new = (Lease.objects.get(attempt__task__job=job) for job in (first, second))
    assert (core_price(old), core_price(new)) == (100_000, 300_000)
    for job, micro in ((first, 100_000), (second, 300_000)):
        attempt = Attempt.objects.get(task__job=job)
        paid = set(
            UsageRecord.objects.filter(attempt_ref=attempt.public_id, resource="core").values_list(
                "unit_price_micro", flat=True
            )
        )
        assert paid == {micro}
