"""HTTP to the portal: one total time-out, typed refusals, and pauses that fit the moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import protocol as wire
from agent.transport import Portal, Refused, Unreachable, pause_s
from tests.agent.peer import Peer, Problem
from tests.fakes.agent import HARDWARE

ENROLL = wire.EnrollRequest("token-0123456789", "host", "0.1.0", "boot", HARDWARE)


def post(url: str, **more: Any) -> wire.Enrolled:
    async def work() -> wire.Enrolled:
        portal = Portal(url)
        try:
            return await portal.post(wire.ENROLL, ENROLL, wire.Enrolled, **more)
        finally:
            await portal.close()

    return asyncio.run(work())


def test_an_answer(portal: Peer) -> None:
    assert post(portal.url).node == portal.node


def test_refusals_carry_code_and_sentence(portal: Peer) -> None:
    post(portal.url)
    with pytest.raises(Refused, match="409 TOKEN_USED: this token has enrolled a node already") as caught:
        post(portal.url)
    assert not caught.value.fenced


@pytest.mark.parametrize("status", [429, 500, 502, 503, 302])
def test_later(portal: Peer, status: int) -> None:
    def refuse(method: str, path: str) -> None:
        raise Problem(status, "later")

    portal.hook = refuse
    with pytest.raises(Unreachable, match=str(status)):
        post(portal.url)


def test_nobody_there() -> None:
    with pytest.raises(Unreachable, match="ConnectError"):
        post("http://127.0.0.1:9")


def test_the_total_time_out_holds_against_a_slow_answer(portal: Peer) -> None:
    portal.mood = "mute"
    with pytest.raises(Unreachable, match="TimeoutError"):
        post(portal.url, timeout_s=0.3)


def test_an_answer_of_another_wire_is_no_answer(portal: Peer) -> None:
    async def nonsense(*_: Any) -> Any:
        return {"node": 5}

    portal.handle = nonsense  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="unreadable answer"):
        post(portal.url)


def test_a_refusal_that_is_no_problem_json(portal: Peer) -> None:
    class Plain(Problem):
        body: Any

    def refuse(method: str, path: str) -> None:
        problem = Plain(404, "x")
        problem.body = b"<html>not here</html>"  # type: ignore[assignment]
        raise problem

    portal.hook = refuse
    with pytest.raises(Refused, match="not here"):
        post(portal.url)


@given(st.integers(1, 10_000), st.floats(0, 0.999999))
def test_pauses(failures: int, draw: float) -> None:
    assert 0.1 <= pause_s(failures, busy=False, frozen=False, draw=draw) <= 60.1
    assert 0.25 <= pause_s(failures, busy=True, frozen=False, draw=draw) <= 1.0
    assert pause_s(failures, busy=True, frozen=True, draw=draw) < 0.2
    assert pause_s(failures, busy=False, frozen=False, draw=draw, asked=7.0) == 7.0
