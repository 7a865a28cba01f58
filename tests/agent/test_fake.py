"""The fake agent that server tests use speaks the real wire: here against the fake portal."""

from __future__ import annotations

import pytest

from agent import machine
from agent.machine import State
from agent.protocol import Input, Output, Reason, Source, UsageVerdict
from tests.agent.peer import Peer
from tests.fakes.agent import FakeAgent, Refused, http_call


@pytest.fixture
def agent(portal: Peer) -> FakeAgent:
    made = FakeAgent(http_call(portal.url))
    made.enroll(portal.token)
    made.sync()
    assert made.inventory().state == "listed"
    return made


def test_a_job_from_assignment_to_finish(agent: FakeAgent, portal: Peer) -> None:
    attempt = portal.assign(
        "true", outputs=(Output("m", "/job/m"),), inputs=(Input("x", Source.PORTAL),), contents={0: b"in"}
    )
    agent.sync()
    assert agent.only() == attempt
    assert agent.state(attempt) is State.RUNNING
    assert agent.fetch_input(attempt, 0) == b"in"
    agent.write(attempt, "hello\n")
    agent.pass_time(1_000)
    assert {result.verdict for result in agent.report_usage().results} == {UsageVerdict.STORED}
    agent.jobs[attempt].files["m"] = b"model"
    agent.finish(attempt)
    assert agent.state(attempt) is State.DONE
    lease = portal.leases[attempt]
    assert (lease.outputs, portal.log(attempt)) == ({"m": b"model"}, "hello\n")
    assert lease.finish is not None
    assert lease.finish.ran_us == 1_000_000


def test_silence_freezes_and_a_fence_ends_it(agent: FakeAgent, portal: Peer) -> None:
    attempt = portal.assign("true")
    agent.sync()
    agent.pass_time(10_000)
    assert agent.state(attempt) is State.FROZEN
    assert agent.ran_us(attempt) == 2_400_000
    agent.sync()
    assert agent.state(attempt) is State.RUNNING
    portal.lapse(attempt)
    agent.sync()
    assert agent.state(attempt) is State.DONE
    with pytest.raises(Refused) as caught:
        agent.send_finish(attempt)
    assert caught.value.status == 410


def test_lost_answers_and_held_instructions(agent: FakeAgent, portal: Peer) -> None:
    attempt = portal.assign("true")
    agent.sync(lost=True)
    assert agent.jobs == {}
    agent.holds = {machine.Finish}
    agent.sync()
    agent.finish(attempt, Reason.EXIT_NONZERO, exit_code=3)
    assert portal.leases[attempt].finish is None
    agent.perform_held()
    assert agent.state(attempt) is State.DONE
    agent.restart()
    assert agent.sync().incarnation == 2
