"""Decay: hardware and nodes are learned, a tenant's wrong work is not, and sums fade."""

import math
import random

import pytest

from marketplace.domain.scu import Sums
from scheduling.domain.learning import Known, corrected, error, learn, middle, name_mean, terms


def test_the_error_of_an_attempt():
    assert error(work_scu_h=1.0, seconds=3_600, scu=1.0) == 0
    assert error(work_scu_h=1.0, seconds=7_200, scu=1.0) == pytest.approx(math.log(0.5))
    for bad in ({"scu": 0.0}, {"seconds": 0.5}, {"work_scu_h": 0.0}, {"work_scu_h": 1e9}):
        assert error(**{"work_scu_h": 1.0, "seconds": 3_600, "scu": 1.0, **bad}) is None


class Book:
    """What a portal would remember."""

    def __init__(self):
        self.names, self.hardware, self.nodes = {}, {}, {}

    def attempt(self, name, hardware, node, y):
        names = self.names.setdefault(name, {})
        known = Known(dict(names), self.hardware.get(hardware, Sums()), self.nodes.get(node, Sums()))
        made = learn(y, hardware_type=hardware, known=known)
        names[hardware], self.hardware[hardware], self.nodes[node] = made.name, made.hardware, made.node
        return made

    def decay(self, hardware, node):
        return math.exp(sum(terms(self.hardware.get(hardware, Sums()), self.nodes.get(node, Sums()))))


def test_a_name_seen_on_one_type_teaches_nothing():
    book = Book()
    for _ in range(20):
        assert not book.attempt("liar", "V100", "n1", math.log(0.25)).taught
    assert book.decay("V100", "n1") == 1.0


def test_a_names_wrong_work_moves_no_decay():
    honest, lying = Book(), Book()
    for book, lie in ((honest, 0.0), (lying, math.log(3))):
        for _ in range(30):
            for hardware, node, truth in (("V100", "n1", -0.2), ("K80", "n2", 0.2)):
                book.attempt("job", hardware, node, truth + lie)
    for hardware, node in (("V100", "n1"), ("K80", "n2")):
        assert lying.decay(hardware, node) == pytest.approx(honest.decay(hardware, node))
    assert corrected(10.0, lying.names["job"]) == pytest.approx(10.0 / 3, rel=1e-6), (
        "its finish times are corrected instead"
    )


def test_hardware_and_a_lame_node_are_told_apart():
    random.seed(4)
    book = Book()
    for _ in range(200):
        for hardware, truth in (("V100", -0.3), ("K80", 0.3)):
            for node in range(4):
                lame = -0.5 if (hardware, node) == ("V100", 0) else 0.0
                book.attempt(
                    f"job{random.randrange(3)}", hardware, f"{hardware}{node}", truth + lame + random.gauss(0, 0.05)
                )
    healthy, lame = book.decay("V100", "V1001"), book.decay("V100", "V1000")
    assert lame / healthy == pytest.approx(math.exp(-0.5), rel=0.12)
    assert book.decay("K80", "K801") / healthy == pytest.approx(math.exp(0.6), rel=0.2)


def test_clamps():
    low, high = terms(Sums(-1e6, 10), Sums(-1e6, 10)), terms(Sums(1e6, 10), Sums(1e6, 10))
    assert low == (math.log(0.2), math.log(0.3))
    assert high == (math.log(5.0), math.log(1.2))


def test_means_and_middles():
    assert name_mean({}) is None
    assert name_mean({"a": Sums(2.0, 2.0), "b": Sums(9.0, 3.0), "c": Sums()}) == 2.0
    assert corrected(5.0, {}) == 5.0
    assert (middle([3.0, 1.0, 2.0]), middle([4.0, 1.0])) == (2.0, 2.5)
