"""From counters to what a chart shows."""

from scheduling.domain.metrics import Point, Sample, points

MIB = 1 << 20


def test_use_is_the_growth_between_two_samples() -> None:
    samples = [Sample(0, 0, MIB, 0), Sample(10, 5_000_000, 3 * MIB, 0), Sample(20, 25_000_000, 2 * MIB, 40_000)]
    assert points(samples) == [Point(10, 500, 3 * MIB, 0), Point(20, 2_000, 2 * MIB, 4_000)]


def test_nothing_falls_below_nought_and_no_time_is_no_point() -> None:
    assert points([]) == []
    assert points([Sample(0, 5, MIB, 5)]) == []
    assert points([Sample(0, 5_000_000, MIB, 9), Sample(0, 6_000_000, MIB, 9), Sample(1, 0, MIB, 0)]) == [
        Point(1, 0, MIB, 0)
    ]


def test_a_long_run_is_thinned_out_and_keeps_its_end() -> None:
    samples = [Sample(float(n), n * 1_000_000, MIB, n) for n in range(1_000)]
    found = points(samples, most=100)
    assert len(found) <= 101
    assert found[-1].at_s == 999
    assert {point.cores_milli for point in found} == {1_000}
