"""The twin as a program of its own: what `./dev up` runs so that a visitor can press "pay" without a real card.

    python -m tests.fakes.stripe_twin --port 8001 --hook http://127.0.0.1:8000/hooks/stripe --state FILE

It remembers everything in FILE, so a customer or an account is still known after a restart, and tells each event to the hook until it is taken.
"""

import argparse
import itertools
import json
import signal
import threading
from pathlib import Path

from tests.fakes.stripe_twin.books import Books, Part
from tests.fakes.stripe_twin.server import Twin

SAVE_EVERY_S = 1.0


def save(books: Books, path: Path) -> None:
    """Everything but events: objects, balances, cards, notes, and the next number."""
    with books.lock:
        kept = {
            "objects": {key: row for key, row in books.objects.items() if row["object"] != "event"},
            "balances": [
                [owner, code, [[part.amount, part.available_on] for part in parts]]
                for (owner, code), parts in books.balances.items()
            ],
            "cards": books.cards,
            "notes": books.notes,
            "next": int(books.id("x").rpartition("twin")[2]),
        }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(kept))
    new.replace(path)


def load(path: Path) -> Books:
    """What was saved; an empty memory if nothing was."""
    books = Books()
    if not path.exists():
        return books
    kept = json.loads(path.read_text())
    books.objects, books.cards, books.notes = kept["objects"], kept["cards"], kept["notes"]
    books.balances = {(owner, code): [Part(*part) for part in parts] for owner, code, parts in kept["balances"]}
    books._numbers = itertools.count(kept["next"])
    return books


def main() -> None:
    parser = argparse.ArgumentParser(prog="stripe_twin")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hook", required=True)
    parser.add_argument("--state", type=Path, required=True)
    asked = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with Twin(port=asked.port, books=load(asked.state)) as twin:
        twin.hooks.start(asked.hook)
        made = 0
        while not over.wait(SAVE_EVERY_S):
            if len(twin.calls) + len(twin.books.events) != made:
                made = len(twin.calls) + len(twin.books.events)
                save(twin.books, asked.state)
        twin.hooks.stop()
        save(twin.books, asked.state)


if __name__ == "__main__":
    main()
