"""Ctrl-C, counted.

A KeyboardInterrupt that arises inside a destructor or a callback is dropped by the interpreter, and the command would go on as if nobody
had pressed anything. So the handler counts as well as raises, and whoever is about to wait or to submit asks `check`. While it is `held`,
the first Ctrl-C waits and the second one does not.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """The Ctrl-Cs of one command; inside `with` it is their handler."""

    def __init__(self) -> None:
        self._came = 0
        self._answered = 0
        self._is_held = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came += 1
        if not (self._is_held and self._waiting == 1):
            raise KeyboardInterrupt

    @property
    def _waiting(self) -> int:
        return self._came - self._answered

    def check(self) -> None:
        """Raise what has come and was not answered."""
        if self._waiting:
            raise KeyboardInterrupt

    def answer(self) -> None:
        """What has come so far has been dealt with."""
        self._answered = self._came

    @contextmanager
    def held(self) -> Iterator[None]:
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False

    def sleep(self, seconds: float, *, of: Callable[[float], None] = time.sleep) -> None:
        self.check()
        of(seconds)
        self.check()
