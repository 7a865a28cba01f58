"""The rival: routing off. Whatever is measured is forgotten twice a second, so placement counts with the configured figures."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 0.5


@contextmanager
def forgetting(forget: Callable[[], None]) -> Iterator[None]:
    """Call `forget`, which drops what is known of links from the soft store, again and again."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(EVERY_S):
            forget()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5)
