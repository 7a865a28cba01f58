"""Which checkpoint the next attempt begins with, and which may go."""

import pytest

from scheduling.domain.checkpoint import Stored, newest, to_drop


def rows(*shown: str) -> list[Stored]:
    """`"7.3"` = fence 7, number 3, whole; `?` not whole, `!` its attempt has ended."""
    return [
        Stored(place, *(int(part) for part in text.strip("?!").split(".")), complete="?" not in text, over="!" in text)
        for place, text in enumerate(shown)
    ]


def test_the_newest_is_of_the_highest_fence_whatever_the_numbers_are() -> None:
    assert newest(rows("1.900", "2.5", "2.7", "2.9?", "1.3")) == (2, 1, 0, 4)
    assert newest([]) == ()


@pytest.mark.parametrize(
    ("shown", "keep", "gone"),
    [
        (["1.1", "1.2", "1.3"], 2, {0}),
        (["1.1", "2.1"], 2, set()),
        (["1.1", "1.2"], 1, {0}),
        (["1.1", "1.2?"], 1, set()),  # it is still coming in
        (["1.1?", "1.2"], 2, {0}),  # a newer one is whole: nobody finishes this
        (["1.1", "2.1?!"], 2, {1}),  # nobody finishes this either
        (["1.1!", "1.2!"], 2, set()),  # an end takes nothing that is whole
        (["1.1"], 0, set()),  # one always stays
    ],
)
def test_what_may_go(shown: list[str], keep: int, gone: set[int]) -> None:
    assert to_drop(rows(*shown), keep=keep) == gone
