import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle import stats

positive = st.floats(min_value=1e-6, max_value=1e9, allow_nan=False, allow_infinity=False)
samples = st.lists(positive, min_size=1, max_size=40)


@given(samples)
def test_median_is_that_of_the_standard_library(values):
    assert stats.median(values) == pytest.approx(statistics.median(values))


@given(st.lists(positive, min_size=2, max_size=40))
def test_interval_holds_the_median_and_ignores_the_order(values):
    estimate = stats.estimate(values)
    assert estimate.low <= estimate.median <= estimate.high
    assert stats.estimate(list(reversed(values))) == estimate


@given(st.lists(positive, min_size=2, max_size=5))
def test_few_values_never_give_less_than_their_range(values):
    estimate = stats.estimate(values)
    assert estimate.low <= min(values) and estimate.high >= max(values)


@given(st.lists(positive, min_size=2, max_size=40), st.floats(min_value=0.001, max_value=1000))
def test_scaling_values_scales_everything(values, factor):
    one, other = stats.estimate(values), stats.estimate([value * factor for value in values])
    for name in ("low", "median", "high"):
        if math.isfinite(getattr(one, name)):
            assert getattr(other, name) == pytest.approx(getattr(one, name) * factor, rel=1e-6)


def test_ranks_are_those_of_the_published_tables():
    # Smallest samples with a 95 % interval, and the usual table for some sizes.
    assert [stats.order_statistic_rank(count) for count in range(1, 6)] == [None] * 5
    known = {6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6, 25: 8, 50: 18}
    assert {count: stats.order_statistic_rank(count) for count in known} == known


def test_one_value_has_no_interval_and_no_verdict():
    estimate = stats.estimate([2.0])
    assert not estimate.has_interval
    assert stats.compare_to_one(estimate) == 0


def test_nothing_is_an_error():
    with pytest.raises(ValueError):
        stats.estimate([])
    with pytest.raises(ValueError):
        stats.ratio_estimate([1.0], [1.0, 2.0])


def test_zeros_are_survived():
    assert stats.estimate([0.0, 0.0, 1.0]).median == 0.0
    assert stats.ratio_estimate([1.0, 2.0], [0.0, 1.0]) is None


@pytest.mark.parametrize("count", [3, 5, 6, 10])
def test_equal_programs_are_rarely_called_different(count):
    """Lognormal noise that drifts by round: the false verdicts stay near the promised 5 %."""
    generator = random.Random(count)
    wrong, trials = 0, 2000
    for _ in range(trials):
        drift = [generator.lognormvariate(0, 0.3) for _ in range(count)]
        first = [d * generator.lognormvariate(0, 0.05) for d in drift]
        second = [d * generator.lognormvariate(0, 0.05) for d in drift]
        wrong += stats.compare_to_one(stats.ratio_estimate(first, second)) != 0
    assert wrong / trials < 0.065


@pytest.mark.parametrize("count", [4, 6, 10])
def test_a_clear_difference_is_found_in_spite_of_drift(count):
    generator = random.Random(count)
    found, trials = 0, 300
    for _ in range(trials):
        drift = [generator.lognormvariate(0, 0.3) for _ in range(count)]
        first = [0.7 * d * generator.lognormvariate(0, 0.03) for d in drift]
        second = [d * generator.lognormvariate(0, 0.03) for d in drift]
        found += stats.compare_to_one(stats.ratio_estimate(first, second)) == -1
    assert found / trials > 0.95


@given(st.lists(positive, min_size=2, max_size=30))
def test_a_program_against_itself_is_the_same(values):
    assert stats.compare_to_one(stats.ratio_estimate(values, values)) == 0


def test_a_negligible_difference_is_none():
    assert stats.compare_to_one(stats.Estimate(1.002, 1.001, 1.003, 10)) == 0
    assert stats.compare_to_one(stats.Estimate(1.02, 1.01, 1.03, 10)) == 1
    assert stats.compare_to_one(stats.Estimate(0.98, 0.97, 0.99, 10)) == -1
    assert stats.compare_to_one(stats.Estimate(0.98, 0.97, 1.01, 10)) == 0
