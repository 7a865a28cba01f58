"""docs/reference/states.md is the contract; the code keeps it: states, which of them are ends, reasons, who pays, times of silence."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from billing.domain import bank, endings, holds, invoicing, payout, periods, rail
from marketplace.domain import enrolment, offer
from portal.settings import LEASE_CLASSES_REAL
from scheduling.domain import artefact, attempt, job, lease, quote
from scheduling.domain.attempt import Phase
from scheduling.domain.reasons import ENDED, WAITING, EndReason, WaitReason
from tests.sources import text

PAGE = text(Path("docs/reference/states.md"))
NAME = re.compile(r"`([a-z_]+)`")
# Things with a table of transitions: an end is a state that nothing leads out of.
TABLES: dict[str, Any] = {
    "attempt": attempt.TABLE,
    "lease": lease.TABLE,
    "enrolment": enrolment.TABLE,
    "offer": offer.TABLE,
    "quote": quote.TABLE,
    "artefact": artefact.TABLE,
    "period": periods.TABLE,
    "hold": holds.TABLE,
    "invoice": invoicing.TABLE,
    "bank": bank.TABLE,
    "payment": rail.TABLE,
    "payout": payout.TABLE,
}
STATES: dict[str, Any] = {
    "job": job.JobState,
    "task": job.TaskState,
    "attempt": attempt.AttemptState,
    "lease": lease.LeaseState,
    "enrolment": enrolment.State,
    "offer": offer.State,
    "quote": quote.QuoteState,
    "artefact": artefact.ArtefactState,
    "period": periods.PeriodState,
    "hold": holds.HoldState,
    "invoice": invoicing.InvoiceState,
    "bank": bank.TransferState,
    "payment": rail.PaymentState,
    "payout": payout.PayoutState,
}


def rows(heading: str, first: str) -> Iterator[list[str]]:
    """The cells of the table under a heading whose first column is called `first`."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = part.split(f"| {first} |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_object_has_the_states_of_the_page() -> None:
    told = {cells[0].split()[0]: (NAME.findall(cells[1]), NAME.findall(cells[2])) for cells in rows("States", "object")}
    assert set(told) == set(STATES)
    for thing, (live, ended) in told.items():
        assert {*live, *ended} == {str(state.value) for state in STATES[thing]}, thing
        assert len({*live, *ended}) == len(live) + len(ended), thing


@pytest.mark.parametrize("thing", sorted(TABLES))
def test_an_end_is_a_state_that_nothing_leads_out_of(thing: str) -> None:
    (cells,) = [cells for cells in rows("States", "object") if cells[0].split()[0] == thing]
    left = {str(state.value) for state, event in TABLES[thing] if _leads(TABLES[thing], state, event) != state}
    assert left == set(NAME.findall(cells[1]))


def _leads(table: Any, state: Any, event: Any) -> Any:
    found = table[state, event]
    return found[0] if isinstance(found, tuple) else found


def test_only_a_retry_leads_out_of_an_ended_task() -> None:
    left = {(state, event) for state, event in job.TABLE if state not in job.OPEN}
    assert {event for _, event in left} == {job.TaskEvent.RETRIED}
    assert {state for state, _ in left} == {job.TaskState.FAILED, job.TaskState.CANCELLED}


def test_phases_are_those_of_the_page_and_metering_begins_with_the_first_process() -> None:
    told = {phase: cells[2] for cells in rows("States", "state") for phase in NAME.findall(cells[1])}
    assert set(told) == {phase.value for phase in Phase}
    assert {phase for phase, metered in told.items() if metered == "yes"} == {"setup", "run"}


def reasons() -> Iterator[tuple[EndReason, list[str]]]:
    for cells in rows("Why it ended", "reason"):
        for name in NAME.findall(cells[0]):
            yield EndReason(name), cells


def test_every_reason_of_an_end_has_state_fault_money_and_event_of_the_page() -> None:
    seen = [reason for reason, _ in reasons()]
    assert sorted(seen) == sorted(EndReason)
    for reason, (_, state, fault, billed, event) in reasons():
        row = ENDED[reason]
        assert row.attempt_state == "".join(NAME.findall(state)), reason
        assert (row.fault.value, row.billed) == (fault, billed == "yes"), reason
        assert (row.event.value if row.event else "never") == event, reason


def test_billing_charges_by_the_same_table() -> None:
    told = {
        reason.value: (fault, billed == "yes") for reason, (_, state, fault, billed, _) in reasons() if state != "-"
    }
    assert {name: (fault.value, billed) for name, (fault, billed) in endings.REASONS.items()} == told


def test_every_waiting_reason_has_the_tier_of_the_page() -> None:
    told = {WaitReason(name): cells[0] for cells in rows("Why it waits", "tier") for name in NAME.findall(cells[1])}
    assert told == {reason: row.tier.value for reason, row in WAITING.items()}
    assert set(told) == set(WaitReason)


def test_the_times_of_silence_are_those_of_the_page() -> None:
    keys = ("suspect_ms", "ttl_ms", "deadline_ms", "lapse_ms")
    told = {
        cells[0].strip("`"): [float(cell) * 1_000 for cell in cells[1:]]
        for cells in rows("A silent node", "lease class")
    }
    assert told == {name: [row[key] for key in keys] for name, row in LEASE_CLASSES_REAL.items()}
    (kill_s,) = re.findall(r"frozen for (\d+) s", PAGE)
    assert {row["frozen_kill_ms"] for row in LEASE_CLASSES_REAL.values()} == {int(kill_s) * 1_000}
    for name, row in LEASE_CLASSES_REAL.items():
        assert row["deadline_ms"] < row["ttl_ms"] < row["lapse_ms"], (
            f"{name}: the node must have frozen before the portal gives up"
        )
