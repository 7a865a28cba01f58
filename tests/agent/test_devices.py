"""Device plug-ins: virtual cards here; NVIDIA where a driver is (elsewhere it finds none)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.devices.found import Devices
from agent.devices.nvidia import NvidiaCards
from agent.devices.plugin import Attachment
from agent.devices.virtual import VirtualCards
from agent.protocol import DeviceInfo


class Ill(VirtualCards):
    def check(self, id: str) -> str:
        return "too hot"


class Bound(VirtualCards):
    """A maker whose cards have nodes."""

    kind = "bound"

    def probe(self) -> list[DeviceInfo]:
        return [DeviceInfo("bound-0", "bound", "B1", 4096)]

    def attach(self, ids: Sequence[str]) -> Attachment:
        return Attachment((("/dev/null", "/dev/bound0"), ("/dev/null", "/dev/bound0")), {"BOUND": ",".join(ids)})

    def check(self, id: str) -> str:
        return ""


def test_virtual_cards_come_from_the_environment() -> None:
    assert [d.id for d in VirtualCards.from_environment({"IDLEWILD_VIRTUAL_CARDS": "2"}).probe()] == [
        "virtual-0",
        "virtual-1",
    ]
    assert VirtualCards.from_environment({}).probe() == []
    assert all(d.virtual and d.model == "virtual" for d in VirtualCards(3).probe())


@pytest.mark.parametrize("text", ["-1", "two", "1.5", "65"])
def test_a_wrong_number_names_the_variable(text: str) -> None:
    with pytest.raises(ValueError, match="IDLEWILD_VIRTUAL_CARDS must be a whole number"):
        VirtualCards.from_environment({"IDLEWILD_VIRTUAL_CARDS": text})


def test_a_virtual_card_binds_nothing_and_has_no_metrics() -> None:
    cards = VirtualCards(1)
    assert cards.attach(["virtual-0"]).binds == ()
    assert cards.benchmark("virtual-0") is None
    assert cards.sample(["virtual-0"])["virtual-0"].load_ppm is None
    assert cards.check("virtual-0") == ""
    assert cards.check("virtual-7") == "no virtual card virtual-7"


def test_several_makers_in_one_job() -> None:
    devices = Devices([VirtualCards(2), Bound(1)])
    assert [d.id for d in devices.probe()] == ["virtual-0", "virtual-1", "bound-0"]
    attachment = devices.attach(["virtual-1", "bound-0"])
    assert attachment.binds == (("/dev/null", "/dev/bound0"),)
    assert attachment.environment == {"IDLEWILD_VIRTUAL_CARDS_ATTACHED": "virtual-1", "BOUND": "bound-0"}


def test_an_unknown_or_ill_card_is_refused_by_name() -> None:
    devices = Devices([VirtualCards(1)])
    devices.probe()
    with pytest.raises(OSError, match="no card virtual-9 on this node"):
        devices.attach(["virtual-9"])
    ill = Devices([Ill(1)])
    ill.probe()
    with pytest.raises(OSError, match="card virtual-0: too hot"):
        ill.attach(["virtual-0"])


def test_nvidia_without_a_driver_finds_nothing() -> None:
    cards = NvidiaCards()
    if cards.probe():
        pytest.skip("this machine has an NVIDIA card")
    assert cards.sample(["x"])["x"].load_ppm is None
    assert cards.check("x") == "the NVIDIA driver does not answer"
    assert cards.benchmark("x") is None
    with pytest.raises(OSError, match="does not answer"):
        cards.attach(["x"])
