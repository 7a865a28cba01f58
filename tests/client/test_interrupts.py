"""Ctrl-C is never lost, even where the interpreter drops the exception."""

import os
import signal
import time

import pytest

from client.cli.interrupts import Interrupts


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def press_twice() -> None:
    press()
    press()
    time.sleep(0.01)


class Trap:
    """Presses Ctrl-C inside its destructor, where a KeyboardInterrupt is dropped."""

    def __del__(self) -> None:
        press()
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_the_interpreter_drops_comes_at_the_next_wait() -> None:
    with Interrupts() as ctrl_c:
        trap = Trap()
        del trap
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.sleep(0.0)


def test_while_held_the_first_waits_and_the_second_does_not() -> None:
    with Interrupts() as ctrl_c:
        with ctrl_c.held():
            press()
            time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            ctrl_c.check()
        ctrl_c.answer()
        ctrl_c.check()
        with ctrl_c.held(), pytest.raises(KeyboardInterrupt):
            press_twice()


def test_outside_the_old_handler_is_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is before
