"""Work with slack waits for greener hours, never longer than it may, and quotes say what it would emit."""

from datetime import timedelta

import pytest

from marketplace.models import Offer, Region
from marketplace.services import energy, offers
from scheduling.models import Attempt, Task
from scheduling.services import cycle, quotes
from tests.cast import Person
from tests.factories.market import a_node
from tests.scheduling.services.works import NOW, heard, spec, submit

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
WISH = {"pick": "greenest", "slack": "6h"}


@pytest.fixture(autouse=True)
def market(sol: Person) -> None:
    """One node on a grid that is at 500 g now and at 100 g for one hour, four hours from now."""
    a_node(sol, region="east", name="one", cores=8)
    Region.objects.filter(slug="east").update(carbon_g_per_kwh=450)
    start = NOW.replace(minute=0, second=0, microsecond=0)
    hours = [energy.Hour("DE", start + n * HOUR, 100_000 if n == 4 else 500_000) for n in range(-168, 20)]
    energy.load(hours=hours, source="test", by="test", now=NOW)
    energy.hang(region="east", grid_zone="DE", by="test", now=NOW)
    heard()


def test_a_task_with_slack_waits_for_the_green_hour_and_then_starts(ada: Person) -> None:
    job = submit(ada, placement=WISH)
    cycle.run(now=NOW)
    task = job.tasks.get()
    green = NOW.replace(minute=0, second=0, microsecond=0) + 4 * HOUR
    assert task.not_before == green
    assert (task.waiting["reason"], task.waiting["asked"]) == ("start_later", green.strftime("%Y-%m-%dT%H:%M:%SZ"))
    heard(now=green)
    cycle.run(now=green)
    assert Attempt.objects.filter(task=task).count() == 1


def test_without_slack_or_when_green_does_not_count_it_starts_now(ada: Person) -> None:
    submit(ada, placement={"pick": "greenest"})
    submit(ada, placement={"pick": "cheapest", "slack": "6h"})
    cycle.run(now=NOW)
    assert Attempt.objects.count() == 2


def test_it_waits_no_longer_than_its_slack_and_its_deadline_allow(ada: Person) -> None:
    submit(ada, name="short", placement={**WISH, "slack": "2h"})
    submit(ada, name="pressed", placement={**WISH, "deadline": "3h"})
    cycle.run(now=NOW)
    assert Attempt.objects.count() == 2
    assert not Task.objects.filter(not_before__isnull=False).exists()


def test_waiting_for_a_green_hour_is_no_lack_of_capacity(ada: Person) -> None:
    job = submit(ada, placement=WISH, retry={"on_events": ["no-capacity"], "duration": "1h"})
    cycle.run(now=NOW)
    later = NOW + 2 * HOUR
    heard(now=later)
    cycle.run(now=later)
    assert job.tasks.get().state == "queued"


def test_where_no_hours_are_known_it_starts_now(ada: Person) -> None:
    Region.objects.update(grid_zone="")
    submit(ada, placement=WISH)
    cycle.run(now=NOW)
    assert Attempt.objects.count() == 1


def test_a_quote_says_what_it_would_emit_and_what_waiting_saves(ada: Person) -> None:
    quote = quotes.make(actor_org=ada.organisation, project=None, spec=spec(placement=WISH), by=ada.id, now=NOW)
    carbon = quote.points[0]["carbon"]
    # one core at 2.1 W for an hour × PUE 1.12
    assert carbon["watt_hours"] == 2
    assert carbon["grams"] == 1
    assert (carbon["basis"], carbon["accounting"], carbon["grams_per_kwh"]) == ("hourly", "location-based", 500.0)
    assert carbon["greener_start"]["saved_percent"] == 80.0


def test_cards_count_by_their_board_power_and_an_unknown_one_leaves_the_sum_unknown(ada: Person, sol: Person) -> None:
    a_node(sol, region="east", name="known", gpus=1, model="A100-80GB")
    a_node(sol, region="east", name="strange", gpus=1, model="Unheard-Of")
    heard()
    found = []
    for model in ("A100-80GB", "Unheard-Of"):
        wish = spec(resources={"accelerators": f"{model}:1"}, max_price="5")
        quote = quotes.make(actor_org=ada.organisation, project=None, spec=wish, by=ada.id, now=NOW)
        found.append(quote.points[0]["carbon"])
    assert [one["watt_hours"] for one in found] == [450, None]
    assert [one["grams"] for one in found] == [225, None]


def test_without_hours_the_yearly_mean_counts_and_is_called_so(ada: Person) -> None:
    Region.objects.update(grid_zone="")
    quote = quotes.make(actor_org=ada.organisation, project=None, spec=spec(), by=ada.id, now=NOW)
    carbon = quote.points[0]["carbon"]
    assert (carbon["basis"], carbon["grams_per_kwh"]) == ("yearly", 450.0)
    Region.objects.update(carbon_g_per_kwh=None)
    quote = quotes.make(actor_org=ada.organisation, project=None, spec=spec(), by=ada.id, now=NOW)
    assert quote.points[0]["carbon"]["grams"] is None
    assert quote.points[0]["carbon"]["basis"] == "unknown"


def window(sol: Person, factor: str) -> None:
    """East sells at another price from three hours on, for two hours."""
    start = NOW + 3 * HOUR
    spans = [
        {
            "from": start.strftime("%H:%M"),
            "to": (start + 2 * HOUR).strftime("%H:%M"),
            "timezone": "UTC",
            "factor": factor,
        }
    ]
    offers.reprice(offer=Offer.objects.get(), terms={"windows": spans}, by="test", now=NOW)


def test_cheap_hours_are_waited_for_when_cost_counts(ada: Person, sol: Person) -> None:
    window(sol, "0.5")
    cheap = submit(ada, placement={"pick": "cheapest", "slack": "6h"})
    green = submit(ada, placement=WISH)
    cycle.run(now=NOW)
    assert cheap.tasks.get().not_before == NOW + 3 * HOUR
    assert green.tasks.get().not_before == NOW.replace(minute=0, second=0, microsecond=0) + 4 * HOUR


def test_dearer_hours_are_not(ada: Person, sol: Person) -> None:
    window(sol, "2")
    submit(ada, placement={"pick": "cheapest", "slack": "6h"})
    cycle.run(now=NOW)
    assert Attempt.objects.count() == 1


def test_both_count_as_their_product(ada: Person, sol: Person) -> None:
    """At 4 h: 100 g × half the price; the window alone from 3 h on saves half, the green hour alone four fifths."""
    window(sol, "0.5")
    job = submit(ada, placement={"pick": "weights", "weights": {"cost": 0.5, "green": 0.5}, "slack": "6h"})
    cycle.run(now=NOW)
    assert job.tasks.get().not_before == NOW.replace(minute=0, second=0, microsecond=0) + 4 * HOUR
