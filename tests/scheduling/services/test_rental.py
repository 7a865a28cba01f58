"""Spot beside fixed, windows of the day and discounts: what the answer, the job, the lease and the invoice line say is one price."""

from datetime import UTC, datetime, timedelta

import pytest

from billing.selectors.usage import job_cost
from billing.services import periods, wallets
from marketplace.models import Offer
from marketplace.services import offers
from scheduling.models import Attempt, Job
from scheduling.services import cycle
from tests.cast import Person
from tests.factories.market import a_node
from tests.factories.running import Phase, Work
from tests.scheduling.services.works import NOW, heard, submit

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def ran(job: Job, now: datetime, hours: int = 1) -> Work:
    heard(now=now)
    assert len(cycle.run(now=now).placed) == 1
    attempt = Attempt.objects.get(task__job=job)
    work = Work(job, attempt.node, attempt)
    work.accept(now)
    work.report(Phase.RUN, now)
    work.finish(now + hours * HOUR, readings=[("core", 1_000, hours * 3_600_000_000)])
    return work


def test_p28_answer_job_and_invoice_line_agree_on_the_rental(ada: Person, sol: Person) -> None:
    """P28: equal offers, spot and fixed; a spot job waits when spot is sold out, and never runs at the fixed price."""
    a_node(sol, cores=1, prices={"core": "0.20"}, terms={"spot_factor": "0.5"}, name="both")
    a_node(sol, cores=4, prices={"core": "0.20"}, name="fixed-only")
    spot = submit(ada, name="spot", resources={"use_spot": True})
    ran(spot, NOW)
    fixed = submit(ada, name="fixed")
    ran(fixed, NOW + 2 * HOUR)
    for job, rental, sku, price in ((spot, "spot", "core:-:spot", 100_000), (fixed, "fixed", "core:-:fixed", 200_000)):
        shown = ada.program().get(f"/api/v1/jobs/{job.public_id}").json()
        assert (job.rental, shown["rental"]) == (rental, rental)
        (line,) = job_cost(job.public_id).lines
        assert (line.sku, line.price_micro) == (sku, price)
        assert (", spot" in line.description) is (rental == "spot")
    holder = submit(ada, name="holder", resources={"use_spot": True})
    heard(now=NOW + 4 * HOUR)
    assert len(cycle.run(now=NOW + 4 * HOUR).placed) == 1  # the only core that is sold as spot
    late = submit(ada, name="late", resources={"use_spot": True})
    assert not cycle.run(now=NOW + 4 * HOUR).placed
    assert late.tasks.get().state == "queued"
    assert holder.rental == "spot"
    closed = periods.close(
        organisation_id=ada.organisation.id, month="2026-11", now=datetime(2026, 12, 5, tzinfo=UTC)
    ).invoice
    assert closed is not None
    assert sorted((line.sku, line.amount_minor) for line in closed.lines.all()) == [
        ("core:-:fixed", 20),
        ("core:-:spot", 10),
    ]


def test_a_window_of_the_day_and_a_discount_are_pinned_at_placement(ada: Person, sol: Person) -> None:
    """Placed at night at half price with 10 % off: it stays so by day, after a reprice, and when the discount is gone."""
    a_node(
        sol,
        prices={"core": "1.00"},
        terms={"windows": [{"from": "22:00", "to": "06:00", "timezone": "UTC", "factor": "0.5"}]},
    )
    wallets.set_terms(organisation_id=ada.organisation.id, discount_ppm=100_000, by="usr_staff", now=NOW)
    night = datetime(2026, 11, 3, 5, tzinfo=UTC)
    job = submit(ada, now=night, max_price="1.00", max_duration="5h")
    heard(now=night)
    assert len(cycle.run(now=night).placed) == 1
    attempt = Attempt.objects.get(task__job=job)
    work = Work(job, attempt.node, attempt)
    work.accept(night)
    work.report(Phase.RUN, night)
    offers.reprice(offer=Offer.objects.get(), terms={"prices": {"core": "3.00"}}, by=sol.id, now=night + HOUR)
    wallets.set_terms(organisation_id=ada.organisation.id, discount_ppm=0, by="usr_staff", now=night + HOUR)
    work.finish(night + 4 * HOUR, readings=[("core", 1_000, 4 * 3_600_000_000)])
    (line,) = job_cost(job.public_id).lines
    assert (line.price_micro, line.discount_ppm, line.list_amount.text(), line.amount.text()) == (
        500_000,
        100_000,
        "2.00",
        "1.80",
    )
    closed = periods.close(
        organisation_id=ada.organisation.id, month="2026-11", now=datetime(2026, 12, 5, tzinfo=UTC)
    ).invoice
    assert closed is not None
    assert closed.subtotal_minor == 180
