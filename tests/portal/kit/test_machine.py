"""The crank of all machines."""

from enum import StrEnum

import pytest

from portal.kit.errors import InvalidTransition
from portal.kit.machine import step


class Light(StrEnum):
    RED = "red"
    GREEN = "green"


class Push(StrEnum):
    GO = "go"


class Ring(StrEnum):
    BELL = "bell"


TABLE = {(Light.RED, Push.GO): (Light.GREEN, (Ring.BELL,))}


def test_a_known_pair() -> None:
    assert step(TABLE, Light.RED, Push.GO) == (Light.GREEN, (Ring.BELL,))


def test_an_unknown_pair_names_both() -> None:
    with pytest.raises(InvalidTransition, match="go is not possible while green"):
        step(TABLE, Light.GREEN, Push.GO)
