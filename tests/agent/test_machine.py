"""Every pair of the agent's machine, and the orders of events that a network and a scheduler can produce."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import machine as m
from agent import protocol as wire
from agent.machine import Attempt, InvalidTransition, State
from agent.protocol import AssignmentSpec, Output, Phase, Reason, Resources

SPEC = AssignmentSpec(
    attempt="att_0001",
    task="tsk_0001",
    job="job_0001",
    fence=7,
    lease_secret="lease-secret-0001",
    lease_class="standard",
    ttl_ms=15_000,
    renew_ms=3_000,
    deadline_ms=13_000,
    frozen_kill_ms=120_000,
    run="true",
    resources=Resources(1000, 512, 1024),
    max_duration_s=60,
    usage_every_ms=60_000,
)
WITH_OUTPUTS = AssignmentSpec(**{**SPEC.__dict__, "outputs": (Output("model", "/job/model"),)})

EVENTS: dict[str, m.Event] = {
    "Accepted": m.Accepted(SPEC, 1000),
    "Refused": m.Refused("taken back"),
    "Staged": m.Staged(now_ms=500),
    "StagingFailed": m.StagingFailed(Reason.INPUT_UNREADABLE, "no such file"),
    "Started": m.Started(Phase.RUN),
    "Froze": m.Froze(),
    "Thawed": m.Thawed(),
    "Renewed": m.Renewed(deadline_ms=2000, now_ms=500),
    "Cancelled": m.Cancelled(Reason.CANCELLED_BY_TENANT, 30_000),
    "FencedOff": m.FencedOff(),
    "Ended": m.Ended(Reason.EXIT_NONZERO, True, 3, "exit code 3"),
    "SupervisorLost": m.SupervisorLost(Reason.PLATFORM_FAULT, "killed"),
    "Uploaded": m.Uploaded((wire.UploadedOutput("model", 3, "0" * 64),)),
    "UploadFailed": m.UploadFailed(Reason.UPLOAD_FAILED, "no answer"),
    "Saved": m.Saved(),
    "Delivered": m.Delivered(),
    "Undeliverable": m.Undeliverable("422"),
}
S = State
SUPERVISED = (S.STARTING, S.RUNNING, S.FROZEN, S.STOPPING)

# (state, event) → (next state, kinds of instructions). What is not here must be refused.
EXPECTED: dict[tuple[State, str], tuple[State, tuple[type, ...]]] = {
    (S.OFFERED, "Accepted"): (S.STAGING, (m.Stage,)),
    (S.OFFERED, "Refused"): (S.DONE, (m.Forget,)),
    (S.OFFERED, "Renewed"): (S.OFFERED, ()),
    (S.OFFERED, "Cancelled"): (S.DONE, (m.Forget,)),
    (S.OFFERED, "FencedOff"): (S.DONE, (m.Forget,)),
    (S.STAGING, "Staged"): (S.STARTING, (m.Launch,)),
    (S.STAGING, "StagingFailed"): (S.FINISHING, (m.Finish,)),
    (S.STAGING, "Renewed"): (S.STAGING, ()),
    (S.STAGING, "Cancelled"): (S.FINISHING, (m.Abort, m.Finish)),
    (S.STAGING, "FencedOff"): (S.DONE, (m.Abort, m.Forget)),
    (S.READY, "Renewed"): (S.STARTING, (m.Launch,)),
    (S.READY, "Cancelled"): (S.FINISHING, (m.Finish,)),
    (S.READY, "FencedOff"): (S.DONE, (m.Forget,)),
    (S.STARTING, "Started"): (S.RUNNING, (m.Report,)),
    (S.STARTING, "Froze"): (S.FROZEN, (m.Report,)),
    (S.RUNNING, "Started"): (S.RUNNING, (m.Report,)),
    (S.RUNNING, "Froze"): (S.FROZEN, (m.Report,)),
    (S.RUNNING, "Thawed"): (S.RUNNING, ()),
    (S.FROZEN, "Started"): (S.FROZEN, ()),
    (S.FROZEN, "Froze"): (S.FROZEN, ()),
    (S.FROZEN, "Thawed"): (S.RUNNING, (m.Report,)),
    (S.STOPPING, "Started"): (S.STOPPING, ()),
    (S.STOPPING, "Froze"): (S.STOPPING, (m.Stop,)),
    (S.STOPPING, "Thawed"): (S.STOPPING, ()),
    (S.UPLOADING, "Uploaded"): (S.FINISHING, (m.Finish,)),
    (S.UPLOADING, "UploadFailed"): (S.FINISHING, (m.Finish,)),
    (S.UPLOADING, "Renewed"): (S.UPLOADING, ()),
    (S.UPLOADING, "Cancelled"): (S.FINISHING, (m.Abort, m.Finish)),
    (S.UPLOADING, "FencedOff"): (S.DONE, (m.Abort, m.Forget)),
    (S.SAVING, "Saved"): (S.FINISHING, (m.Finish,)),
    (S.SAVING, "Renewed"): (S.SAVING, ()),
    (S.SAVING, "Cancelled"): (S.SAVING, ()),
    (S.SAVING, "FencedOff"): (S.DONE, (m.Abort, m.Forget)),
    (S.FINISHING, "Delivered"): (S.DONE, (m.Forget,)),
    (S.FINISHING, "Undeliverable"): (S.DONE, (m.Forget,)),
    (S.FINISHING, "Renewed"): (S.FINISHING, ()),
    (S.FINISHING, "Cancelled"): (S.FINISHING, ()),
    (S.FINISHING, "FencedOff"): (S.DONE, (m.Abort, m.Forget)),
    (S.KILLING, "Ended"): (S.DONE, (m.Forget,)),
    (S.KILLING, "SupervisorLost"): (S.DONE, (m.Forget,)),
    **{(state, "Renewed"): (state, (m.Renew,)) for state in SUPERVISED},
    **{(state, "Cancelled"): (S.STOPPING, (m.Stop,)) for state in SUPERVISED if state is not S.STOPPING},
    (S.STOPPING, "Cancelled"): (S.STOPPING, ()),
    **{(state, "FencedOff"): (S.KILLING, (m.Kill,)) for state in SUPERVISED},
    **{(state, "Ended"): (S.FINISHING, (m.Finish,)) for state in SUPERVISED},
    **{(state, "SupervisorLost"): (S.FINISHING, (m.Finish,)) for state in SUPERVISED},
    **{
        (S.KILLING, name): (S.KILLING, ())
        for name in ("Started", "Froze", "Thawed", "Renewed", "Cancelled", "FencedOff")
    },
    **{(S.DONE, name): (S.DONE, ()) for name in EVENTS},
}


def attempt(state: State, **more: object) -> Attempt:
    return Attempt("att_0001", 7, state, deadline_ms=1000, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "name"), list(itertools.product(State, EVENTS)))
def test_every_pair(state: State, name: str) -> None:
    before = attempt(state)
    if (state, name) not in EXPECTED:
        with pytest.raises(InvalidTransition, match=f"{name} in state {state.value}"):
            m.step(before, EVENTS[name])
        return
    after, instructions = m.step(before, EVENTS[name])
    assert (after.state, tuple(type(i) for i in instructions)) == EXPECTED[(state, name)]


def test_the_docstring_shows_the_table() -> None:
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in (m.__doc__ or "").splitlines()
        if line.startswith("| ")
    ]
    states = [State(name) for name in rows[0][1:]]
    shown = {
        (state, row[0]) for row in rows[1:] for state, cell in zip(states, row[1:] + [""] * 11, strict=False) if cell
    }
    assert shown == {pair for pair in EXPECTED if pair[0] is not State.DONE}


def test_nothing_is_launched_after_the_deadline() -> None:
    waiting, instructions = m.step(attempt(State.STAGING), m.Staged(now_ms=1000))
    assert (waiting.state, instructions) == (State.READY, ())
    still, instructions = m.step(waiting, m.Renewed(deadline_ms=1500, now_ms=1600))
    assert (still.state, instructions) == (State.READY, ())
    started, instructions = m.step(still, m.Renewed(deadline_ms=2500, now_ms=1700))
    assert (started.state, instructions) == (State.STARTING, (m.Launch(),))


def test_a_deadline_never_moves_back() -> None:
    later, _ = m.step(attempt(State.RUNNING), m.Renewed(5000, 100))
    same, instructions = m.step(later, m.Renewed(4000, 200))
    assert same.deadline_ms == 5000
    assert instructions == (m.Renew(5000),)


def test_a_finished_job_with_outputs_uploads_them_first() -> None:
    running = m.step(m.offered("att_0001", 7, 3000)[0], m.Accepted(WITH_OUTPUTS, 9000))[0]
    running = m.step(m.step(running, m.Staged(1))[0], m.Started(Phase.RUN))[0]
    uploading, instructions = m.step(running, m.Ended(Reason.FINISHED, True, 0))
    assert uploading.state is State.UPLOADING
    assert instructions == (m.Report(Phase.UPLOADING, False), m.Upload())
    done = wire.UploadedOutput("model", 3, "0" * 64)
    finishing, instructions = m.step(uploading, m.Uploaded((done,)))
    assert (finishing.reason, finishing.outputs, instructions) == (Reason.FINISHED, (done,), (m.Finish(),))
    failed, _ = m.step(uploading, m.UploadFailed(Reason.OUTPUT_MISSING, "no model"))
    assert (failed.reason, failed.message) == (Reason.OUTPUT_MISSING, "no model")


def test_a_failed_job_uploads_nothing() -> None:
    after, instructions = m.step(attempt(State.RUNNING, has_outputs=True), m.Ended(Reason.EXIT_NONZERO, True, 1))
    assert (after.state, instructions) == (State.FINISHING, (m.Finish(),))


@pytest.mark.parametrize("reason", [Reason.PREEMPTED, Reason.NODE_DRAINED, Reason.EXIT_NONZERO, Reason.TIME_LIMIT])
def test_a_job_with_checkpoints_that_may_go_on_stores_a_last_one(reason: Reason) -> None:
    running = attempt(State.STOPPING, has_checkpoint=True, started=True, reason=reason)
    saving, instructions = m.step(running, m.Ended(reason, True, 143))
    assert (saving.state, saving.phase, saving.reason) == (State.SAVING, Phase.UPLOADING, reason)
    assert instructions == (m.Report(Phase.UPLOADING, False), m.Save())
    assert saving.holds_lease
    ending, _ = m.step(saving, m.Saved())
    assert (ending.state, ending.reason, ending.exit_code) == (State.FINISHING, reason, 143)


def test_a_lost_supervisors_job_is_saved_and_a_done_or_cancelled_one_is_not() -> None:
    running = attempt(State.RUNNING, has_checkpoint=True, started=True)
    assert m.step(running, m.SupervisorLost(Reason.PLATFORM_FAULT))[0].state is State.SAVING
    for reason in m.NOTHING_TO_SAVE:
        assert m.step(running, m.Ended(reason, True, 0))[0].state is State.FINISHING
    unstarted = attempt(State.STARTING, has_checkpoint=True)
    assert m.step(unstarted, m.Ended(Reason.EXIT_NONZERO, False))[0].state is State.FINISHING


def test_a_frozen_job_gets_no_grace() -> None:
    _, instructions = m.step(attempt(State.FROZEN), m.Cancelled(Reason.PREEMPTED, 30_000))
    assert instructions == (m.Stop(Reason.PREEMPTED, 0),)
    stopping = attempt(State.STOPPING, reason=Reason.PREEMPTED)
    assert m.step(stopping, m.Froze())[1] == (m.Stop(Reason.PREEMPTED, 0),)


def test_a_start_that_overtook_a_freeze_is_remembered() -> None:
    frozen, _ = m.step(attempt(State.STARTING), m.Froze())
    assert not frozen.started
    known, _ = m.step(frozen, m.Started(Phase.RUN))
    assert (known.started, known.state) == (True, State.FROZEN)


def test_which_states_hold_a_lease() -> None:
    without = {State.OFFERED, State.KILLING, State.DONE}
    assert {state for state in State if not attempt(state).holds_lease} == without


def test_a_sync_answer_is_read_fences_first_and_only_for_our_fence() -> None:
    known = {"att_0001": attempt(State.RUNNING), "att_0002": Attempt("att_0002", 1, State.RUNNING)}
    answer = wire.SyncAnswer(
        incarnation=1,
        assignments=(wire.Assignment("att_0001", 7, 100), wire.Assignment("att_0003", 1, 100)),
        renewals=(
            wire.Renewal("att_0001", 7, 15_000, 3_000, 13_000),
            wire.Renewal("att_0001", 8, 1, 1, 1),
            wire.Renewal("att_0009", 1, 1, 1, 1),
        ),
        cancels=(wire.Cancel("att_0001", 7, Reason.PREEMPTED, 10), wire.Cancel("att_0001", 6, Reason.PREEMPTED, 10)),
        fenced=(wire.Fenced("att_0002", 1), wire.Fenced("att_0002", 2), wire.Fenced("att_0001", 6)),
    )
    facts = m.read_sync(known, answer, sent_ms=100, now_ms=150)
    assert facts.events == (
        ("att_0002", m.FencedOff()),
        ("att_0001", m.Renewed(13_100, 150)),
        ("att_0001", m.Cancelled(Reason.PREEMPTED, 10)),
    )
    assert facts.offers == (m.offered("att_0003", 1, 100),)


@given(st.lists(st.sampled_from(sorted(EVENTS)), max_size=25))
def test_no_order_of_events_runs_a_job_after_a_fence(names: list[str]) -> None:
    """Lost, late and repeated facts in any order: refused ones change nothing, and a fence is final."""
    now, _ = m.offered("att_0001", 7, 3000)
    fenced = False
    for name in names:
        try:
            after, instructions = m.step(now, EVENTS[name])
        except InvalidTransition:
            continue
        kinds = {type(i) for i in instructions}
        if fenced:
            assert not kinds & {m.Launch, m.Report, m.Finish, m.Upload, m.Renew, m.Accept}
        if now.state is State.DONE:
            assert after == now
        fenced = fenced or name == "FencedOff"
        now = after
