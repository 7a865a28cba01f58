"""The real control of metering: a real log of three months, entered as usage facts and closed month by month.

NASA Ames iPSC/860, October to December 1993 (Parallel Workloads Archive; Bill Nitzberg, Dror Feitelson): 18,239 jobs from their real start times, cut
at UTC months; each user is a project, so an invoice has one line per user.
"""

import gzip
import time
from datetime import UTC, datetime, timedelta

import pytest

from billing.models import InvoiceLine, LineRecord, UsageRecord
from billing.selectors import balances
from billing.services import invoices, periods, usage
from tests import reference
from tests.billing.books import a_fact, a_tenant

pytestmark = pytest.mark.django_db

LOG = "workloads/swf/NASA-iPSC-1993-3.1-cln.swf.gz"
CORE_SECONDS = {"1993-10": 143_805_013, "1993-11": 194_399_056, "1993-12": 134_818_989, "1994-01": 1_214_957}


def jobs(tenant):
    """A fact per job of the log: its cores × its run time, from its real start."""
    with gzip.open(reference.path(LOG), "rt") as log:
        rows = log.read().splitlines()
    origin = next(int(row.split(":")[1]) for row in rows if "UnixStartTime" in row)
    for row in rows:
        if row.startswith(";"):
            continue
        number, submitted, _, seconds, cores, *rest = row.split()
        start = datetime.fromtimestamp(origin + int(submitted), UTC)
        yield a_fact(
            tenant,
            attempt_ref=f"att_nasa_{number}",
            resource="core",
            job_ref=f"job_nasa_{number}",
            project_ref=f"user-{rest[6]}",
            project_name=f"User {rest[6]}",
            started_at=start,
            seconds=int(seconds),
            count_milli=int(cores) * 1000,
            unit_price_micro=35_000,
        )


def test_s4_the_log_of_a_real_machine_meters_and_bills_to_the_core_second():
    tenant = a_tenant()
    facts = list(jobs(tenant))
    assert len(facts) == 18_239
    began = time.perf_counter()
    for month in CORE_SECONDS:
        batch = [fact for fact in facts if f"{fact.started_at:%Y-%m}" == month]
        if batch:
            answers = usage.record_many(facts=batch, now=max(fact.ended_at for fact in batch))
            assert {said.answer for said in answers} == {"stored"}
    stored = time.perf_counter()
    closed = [periods.close(organisation_id=tenant.id, month=month, now=_after(month)) for month in CORE_SECONDS]
    done = time.perf_counter()
    print(f"18,239 facts stored in {stored - began:.1f} s, four months closed in {done - stored:.1f} s")

    found = {each.period.month: int(sum(line.qty_us for line in each.invoice.lines.all())) for each in closed}
    assert found == {month: seconds * 10**6 for month, seconds in CORE_SECONDS.items()}
    assert sum(found.values()) == 474_238_015 * 10**6
    assert InvoiceLine.objects.count() == 153
    assert UsageRecord.objects.count() == 18_239
    assert LineRecord.objects.count() == 18_239 + 7 - _empty(facts)
    for each in closed:
        checked = invoices.verify(each.invoice)
        assert checked.ok, checked.problems

    before = _state(tenant)
    for month in CORE_SECONDS:
        periods.close(organisation_id=tenant.id, month=month, now=_after(month) + timedelta(days=1))
    again = usage.record_many(facts=facts[:500], now=facts[499].ended_at)
    assert {said.answer for said in again} == {"duplicate"}
    assert _state(tenant) == before
    assert set(balances.trial().values()) == {0}


def _after(month: str) -> datetime:
    """When the grace of a month of the log is over."""
    year, number = map(int, month.split("-"))
    return datetime(year + number // 12, number % 12 + 1, 4, tzinfo=UTC)


def _empty(facts) -> int:
    """Jobs of no length: stored, in no line."""
    return sum(fact.qty_us == 0 for fact in facts)


def _state(tenant):
    return (
        list(InvoiceLine.objects.order_by("id").values()),
        list(tenant.invoices.order_by("id").values()),
        UsageRecord.objects.count(),
        balances.balance(organisation_id=tenant.id),
    )
