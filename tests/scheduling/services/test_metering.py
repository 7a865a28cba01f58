"""Counters become facts: proven, never more than observed, nothing lost to jitter."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.models import UsageRecord
from portal.audit.models import AuditEvent
from scheduling.domain.attempt import Phase
from scheduling.models import Attempt, Meter
from scheduling.services.metering import Reading, take
from tests.cast import THEN, Person
from tests.factories.market import a_node
from tests.factories.running import Work, a_placed, a_queued, a_running, place

S = timedelta(seconds=1)
US = timedelta(microseconds=1)


def total(work: Work, resource: str = "core") -> int:
    rows = UsageRecord.objects.filter(attempt_ref=work.name, resource=resource, state="ok")
    return sum(rows.values_list("qty_us", flat=True))


def test_intervals_close_up_and_quantities_are_growth(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    for second in (1, 2, 5):
        assert work.use(second * 1_000_000, THEN + second * S, seq=second) == "stored"
    rows = list(UsageRecord.objects.order_by("seq").values_list("started_at", "ended_at", "qty_us"))
    assert rows == [
        (THEN, THEN + S, 1_000_000),
        (THEN + S, THEN + 2 * S, 1_000_000),
        (THEN + 2 * S, THEN + 5 * S, 3_000_000),
    ]
    assert work.fresh().proven_until == THEN + 5 * S


def test_cards_are_metered_and_priced_by_their_own_sku(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol, gpus=2), cards=2)
    assert work.use(6_000_000, THEN + 3 * S, resource="card", count=2_000) == "stored"
    row = UsageRecord.objects.get()
    assert (row.sku, row.price_version_ref, row.unit_price_micro) == ("card:A100-80GB:fixed", "prv_card", 2_000_000)
    assert (row.hardware_model, row.virtual, row.region, row.zone) == ("A100-80GB", False, "east", "a")
    assert (row.green_ratio_ppm, row.pue_milli) == (600_000, 1_120)
    assert (row.provider_name, row.project_name, row.job_name) == ("Sol Power", ada.project.name, "job")


def test_what_has_no_price_is_kept_and_not_billed(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    assert work.use(5_000_000, THEN + 5 * S, resource="memory_gib") == "stored"
    assert UsageRecord.objects.count() == 0
    assert Meter.objects.get().reported == 5_000_000


def test_twice_the_cores_are_clipped_to_the_allocation_and_audited_once(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    for second in range(1, 6):
        assert work.use(second * 2_000_000, THEN + second * S, seq=second, count=2_000) == "stored"
    assert total(work) == 5_000_000
    assert AuditEvent.objects.filter(deed="usage.clipped", target=work.name).count() == 1


def test_a_claim_that_no_clock_can_hold_is_clipped_like_any_other(ada: Person, sol: Person) -> None:
    """2**62 µs of a tenth of a core is an interval of a million years: the sum was no date, and the batch broke."""
    work = a_running(ada, a_node(sol))
    assert work.use(2**62, THEN + S, count=1, seq=1) == "stored"
    assert work.use(2**62 + 5, THEN + 2 * S, count=1, seq=2) == "stored"
    assert total(work) == 2_000
    assert AuditEvent.objects.filter(deed="usage.clipped").count() == 1


def test_jitter_of_the_network_loses_nothing(ada: Person, sol: Person) -> None:
    """The first report comes 400 ms late, the second at once: its interval is too short, and the rest follows."""
    work = a_running(ada, a_node(sol))
    work.use(1_000_000, THEN + 1.4 * S, seq=1)
    work.use(2_000_000, THEN + 2 * S, seq=2)
    assert total(work) < 2_000_000
    work.use(3_000_000, THEN + 3.4 * S, seq=3)
    assert total(work) == 3_000_000
    assert AuditEvent.objects.filter(deed="usage.clipped").count() == 0


def test_an_age_dates_a_reading_back_and_never_before_the_last_one(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.use(1_000_000, THEN + 10 * S, seq=1, until=THEN + S)
    assert UsageRecord.objects.get().ended_at == THEN + S
    work.use(1_000_000, THEN + 10 * S, seq=2, until=THEN)
    assert work.fresh().proven_until == THEN + S


def test_frozen_time_is_not_metered_nor_made_up_for(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.use(1_000_000, THEN + S, seq=1)
    work.use(1_000_000, THEN + 31 * S, seq=2)  # frozen for 30 s: the counter stands
    work.use(2_000_000, THEN + 32 * S, seq=3)
    assert total(work) == 2_000_000
    assert UsageRecord.objects.count() == 2


def test_usage_an_hour_late_after_the_end_is_refused_and_kept_for_audit(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol))
    work.finish(THEN + 5 * S, reason="node_rebooted", readings=[("core", 1_000, 5_000_000)])
    assert work.use(9_000_000, THEN + timedelta(hours=1), seq=2) == "rejected_stale"
    assert total(work) == 5_000_000
    assert UsageRecord.objects.filter(state="rejected_stale").count() == 1


def test_usage_that_overtakes_its_start_report_counts_from_where_it_says(ada: Person, sol: Person) -> None:
    work = a_placed(ada, a_node(sol))
    work.accept(THEN)
    assert work.use(2_000_000, THEN + 5 * S) == "stored"
    assert UsageRecord.objects.get().started_at == THEN + 3 * S
    work.report(Phase.RUN, THEN + 5 * S)
    assert total(work) == 2_000_000


def test_nothing_is_metered_before_the_attempt_was_accepted(ada: Person, sol: Person) -> None:
    work = a_placed(ada, a_node(sol))
    work.accept(THEN)
    assert work.use(60_000_000, THEN + 5 * S) == "stored"
    assert UsageRecord.objects.get().started_at == THEN
    assert total(work) == 5_000_000


def test_inputs_that_moved_between_regions_are_one_line_of_bytes(ada: Person, sol: Person) -> None:
    node = a_node(sol)
    job = a_queued(ada)
    transfer = {"link": "west→east", "bytes": 2_000_000_000, "price_micro_per_gb": 20_000}
    prices = {"currency": "CNY", "rental": "fixed", "items": {}, "transfer": transfer}
    work = Work(job, node, place(job, node, prices=prices))
    work.accept(THEN)
    assert UsageRecord.objects.count() == 0
    work.report(Phase.SETUP, THEN + S)
    work.report(Phase.RUN, THEN + 2 * S)
    row = UsageRecord.objects.get()
    assert (row.resource, row.qty_us, row.unit_price_micro, row.sku) == (
        "network_byte",
        2_000_000_000,
        20_000,
        "network_byte:-:fixed",
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 5_000_000), st.integers(0, 2_000_000), st.integers(0, 6_000_000)),
        min_size=1,
        max_size=12,
    )
)
def test_never_more_than_allocation_times_observed_time(
    ada: Person, sol: Person, steps: list[tuple[int, int, int]]
) -> None:
    """Whatever a node claims: metered ≤ allocation × time since accept, intervals close up, no fact falls."""
    node = a_node(sol, cores=64, memory_gib=64)
    work = a_running(ada, node)
    now, claimed = THEN, 0
    attempt = Attempt.objects.select_related(
        "task__job__project", "node__organisation", "node__zone__region", "lease"
    ).get(id=work.attempt.id)
    for seq, (passed, age, claim) in enumerate(steps, 1):
        now, claimed = now + passed * US, claimed + claim
        take(
            attempt=attempt,
            lease=attempt.lease,
            readings=[Reading("core", seq, 1_000, claimed, now - age * US)],
            received_at=now,
        )
        observed = int((now - THEN) / US)
        assert total(work) <= min(claimed, observed)
    rows = list(UsageRecord.objects.filter(attempt_ref=work.name).order_by("seq").values_list("started_at", "ended_at"))
    assert all(end <= following for (_, end), (following, _) in pairwise(rows))


def test_what_a_jobs_network_carried_is_shown_and_never_billed(ada: Person, sol: Person) -> None:
    work = a_running(ada, a_node(sol), network_hosts=("hub.example.org:443",))
    for seq, carried in ((1, 500), (2, 70_000), (3, 70_000)):
        assert (
            work.use(carried, THEN + seq * timedelta(seconds=9), seq=seq, resource="network_byte", count=0) == "stored"
        )
    assert work.fresh().stats["network_bytes"] == 70_000
    work.finish(THEN + timedelta(minutes=1), readings=[("network_byte", 0, 81_000)])
    assert work.fresh().stats["network_bytes"] == 81_000
    assert not UsageRecord.objects.filter(resource="network_byte").exists()
