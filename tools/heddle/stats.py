"""Medians, their confidence intervals, and ratios of paired rounds.

From six values on, the interval is the order-statistic one: it holds whatever the distribution is. With fewer values
no such interval reaches 95 %, so it is the wider of the full range and Student's t interval of the logarithms.
One value has no interval, and nothing is ever concluded from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

CONFIDENCE = 0.95
# Below this a difference is nothing that anybody would act on, however repeatable it is.
NEGLIGIBLE = 0.005
# Two-sided 95 % quantiles of Student's t for 1 to 4 degrees of freedom; more values use order statistics.
T_QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % interval; low and high are None where there are too few values to tell."""

    median: float
    low: Optional[float]
    high: Optional[float]
    count: int

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None


def median(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("median of nothing")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return ordered[middle - 1] + (ordered[middle] - ordered[middle - 1]) / 2


def order_statistic_rank(count: int, confidence: float = CONFIDENCE) -> Optional[int]:
    """The largest k for which [k-th smallest, k-th largest] covers the median; None if even the range does not."""
    best, tail = None, 0
    for rank in range(1, count // 2 + 1):
        tail += math.comb(count, rank - 1)
        if 1.0 - 2.0 * tail / 2.0 ** count < confidence:
            break
        best = rank
    return best


def _small_interval(ordered: Sequence[float]):
    """Range and t interval together; on logarithms where all values are positive."""
    count = len(ordered)
    use_logs = ordered[0] > 0
    numbers = [math.log(value) for value in ordered] if use_logs else list(ordered)
    mean = math.fsum(numbers) / count
    deviation = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / (count - 1))
    half = T_QUANTILES[count - 1] * deviation / math.sqrt(count)
    low, high = mean - half, mean + half
    if use_logs:
        # Two wild values can leave the range of floats; infinity says the same.
        low, high = math.exp(low), math.exp(high) if high < 700 else math.inf
    return min(low, ordered[0]), max(high, ordered[-1])


def estimate(values: Sequence[float]) -> Estimate:
    """The median of some values with its interval. Raises ValueError if there are none."""
    ordered = sorted(values)
    middle = median(ordered)
    count = len(ordered)
    if count == 1:
        return Estimate(middle, None, None, count)
    rank = order_statistic_rank(count)
    if rank is not None:
        return Estimate(middle, ordered[rank - 1], ordered[count - rank], count)
    low, high = _small_interval(ordered)
    return Estimate(middle, low, high, count)


def ratio_estimate(values: Sequence[float], baseline: Sequence[float]) -> Optional[Estimate]:
    """The median of the per-round ratios; None if the baseline is zero somewhere or there is nothing to compare."""
    if len(values) != len(baseline):
        raise ValueError("paired values differ in number")
    if not values or any(value <= 0 for value in baseline):
        return None
    return estimate([value / base for value, base in zip(values, baseline)])


def compare_to_one(ratio: Optional[Estimate]) -> int:
    """-1: surely less, 1: surely more, 0: no difference shown (or too small to matter)."""
    if ratio is None or not ratio.has_interval:
        return 0
    if ratio.high < 1.0 and ratio.low < 1.0 - NEGLIGIBLE:
        return -1
    if ratio.low > 1.0 and ratio.high > 1.0 + NEGLIGIBLE:
        return 1
    return 0
