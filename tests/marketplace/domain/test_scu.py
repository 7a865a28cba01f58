"""SCU: the test values of the design, degree 1, and what is unknown stays unknown."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketplace.domain.scu import (
    REFERENCE,
    WEIGHTS,
    Profile,
    Sums,
    decay,
    hardware_term,
    node_term,
    of_cores,
    scu,
    scu_raw,
)

NETWORK = 1.25
TABLE = [
    ("A100-80 SXM", 312, 2.039, 1, 1, 1, 1),
    ("A100-40 SXM", 312, 1.555, 0.763, 0.922, 0.850, 0.873),
    ("H100 SXM", 989, 3.35, 5.208, 2.319, 1.904, 1.439),
    ("H200 SXM", 989, 4.8, 7.462, 2.583, 2.363, 1.722),
    ("L40S", 362, 0.864, 0.492, 0.845, 0.625, 0.661),
    ("RTX 4090", 165, 1.008, 0.261, 0.552, 0.541, 0.660),
    ("T4", 65, 0.320, 0.033, 0.224, 0.206, 0.339),
    ("V100 SXM", 125, 0.897, 0.176, 0.452, 0.464, 0.605),
    ("MI300X", 1307, 5.3, 10.889, 3.146, 2.726, 1.861),
]
POSITIVE = st.floats(0.001, 10_000)


@pytest.mark.parametrize(("card", "tflops", "tbps", "raw", "training", "inference", "data"), TABLE)
def test_values_of_the_design(card, tflops, tbps, raw, training, inference, data):
    profile = Profile(tflops, tbps, NETWORK)
    assert round(scu_raw(profile), 3) == raw
    assert [round(scu(profile, t), 3) for t in ("training", "inference", "data")] == [training, inference, data]


def test_weights_of_each_type_sum_to_one():
    for weights in WEIGHTS.values():
        assert math.isclose(sum(weights), 1.0)


@given(POSITIVE, POSITIVE, POSITIVE, st.floats(0.1, 10), st.sampled_from(sorted(WEIGHTS)))
def test_it_is_of_degree_one(compute, memory, network, factor, task_type):
    one = scu(Profile(compute, memory, network), task_type)
    more = scu(Profile(compute * factor, memory * factor, network * factor), task_type)
    if task_type in ("simulation", "render", "custom"):
        more = scu(Profile(compute * factor, memory * factor, None), task_type)
    assert math.isclose(more, one * factor, rel_tol=1e-9)


@pytest.mark.parametrize("missing", [None, 0.0, -1.0, math.nan, math.inf])
def test_a_metric_that_counts_and_is_unknown_means_no_scu(missing):
    assert scu(Profile(missing, 1.0, 1.0), "training") is None
    assert scu(Profile(1.0, 1.0, missing), "training") is None
    assert scu(Profile(1.0, 1.0, missing), "render") is not None, "the network does not count there"


def test_raw_needs_both_metrics():
    assert scu_raw(Profile(None, 1.0)) is None
    assert scu_raw(Profile(1.0, -1.0)) is None
    assert scu_raw(REFERENCE) == 1.0


def test_cores_get_their_part():
    assert of_cores(4.0, 2000, 8000) == 1.0
    assert of_cores(None, 2000, 8000) is None
    assert of_cores(4.0, 2000, 0) is None


def test_decay_follows_what_was_seen_and_is_clamped():
    sums = Sums()
    for _ in range(20):
        sums = sums.with_attempt(math.log(0.5))
    assert 0.5 < math.exp(hardware_term(sums)) < 0.56
    slow = Sums()
    for _ in range(200):
        slow = slow.with_attempt(math.log(0.01))
    assert math.isclose(decay(hardware_term(slow), node_term(slow)), 0.2 * 0.3)
    fast = Sums(1e6, 1e3)
    assert math.isclose(decay(hardware_term(fast), node_term(fast)), 5 * 1.2)
    assert decay(hardware_term(Sums()), node_term(Sums())) == 1.0
