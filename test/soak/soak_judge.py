"""The bounds of the soak test, and the statistics by which a run is judged.

Resident bytes. Judged are the samples of the steady state: those that lie SETTLE_SECONDS after the start and after the shape last said
that it changes. Each may have 1.25 times the live bytes and 32 MiB; live is the most of the last SETTLE_SECONDS, because that is the
time an allocator has to give memory back. One sample in fifty may be over: a busy machine can starve the thread that gives back.

Slope. What is looked at is the overhead, resident less live bytes, in the last half of the run. Neighbouring samples are not
independent (a shape goes in rounds), and least squares over all of them would claim far too small an error. So the half is cut into at
most twelve blocks, each of whole rounds where rounds are slow, and the line goes through the blocks' means. Growth counts when it is
beyond the limit of 0.2 % of the resident bytes an hour even at the lower end of the slope's one-sided 99.9 % interval (Student's t
with blocks - 2 degrees of freedom). A half under thirty minutes can't tell such a slope from a heap that still settles: there the
whole half may show RESOLUTION_BYTES more. The upper end of the interval is reported too: only where that is within the limit has
the run shown that the shape is flat.

Mappings. Never more than 20000: less than a third of what Linux allows a process, and room for what the limit on moved pages leaves."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from soak_watch import Sample, Watched

MIB = 1 << 20
LIVE_FACTOR, ALLOWANCE_BYTES = 1.25, 32 * MIB
SETTLE_SECONDS = 2.5  # SOAK_SETTLE_MS in soak.h
OVER_SHARE, JUDGED_MIN = 0.02, 5
SLOPE_LIMIT = 0.002 / 3600  # of the resident bytes, a second
RESOLUTION_BYTES, RESOLUTION_SECONDS = 1 * MIB, 1800
BLOCKS_MIN, BLOCKS_MAX = 5, 12
MAPPINGS_MAX = 20000
# Student's t, one-sided 99.9 %, by degrees of freedom.
STUDENT = {3: 10.215, 4: 7.173, 5: 5.893, 6: 5.208, 7: 4.785, 8: 4.501, 9: 4.297, 10: 4.144}


@dataclass(frozen=True)
class Slope:
    """Growth of the overhead in bytes a second, with its interval; `share` makes it percent of the resident bytes an hour."""

    value: float
    low: float
    high: float
    blocks: int
    seconds: float
    resident: float

    def share(self, value: float) -> float:
        return value * 3600 / self.resident * 100 if self.resident else 0.0

    @property
    def allowed(self) -> float:
        """The most that the slope may be, in bytes a second."""
        settling = RESOLUTION_BYTES / self.seconds if self.seconds < RESOLUTION_SECONDS else 0.0
        return SLOPE_LIMIT * self.resident + settling

    @property
    def verdict(self) -> str:
        if self.low > self.allowed:
            return "grows"
        return "flat" if self.high <= SLOPE_LIMIT * self.resident else "not seen to grow"


@dataclass
class Judgement:
    shape: str
    allocator: str
    live: float = 0.0
    resident: float = 0.0
    worst_ratio: float = 0.0
    worst_room: float = 0.0  # bytes left to the bound in the sample that counts; negative: broken
    judged: int = 0
    over: int = 0
    slope: Optional[Slope] = None
    mappings: int = 0
    calls: int = 0
    broken: Tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        return not self.broken


def bounds(samples: Sequence[Sample]) -> List[float]:
    """The most resident bytes for each sample."""
    most: List[float] = []
    recent: deque = deque()  # falling live bytes of the last SETTLE_SECONDS
    for sample in samples:
        while recent and recent[-1].live <= sample.live:
            recent.pop()
        recent.append(sample)
        while recent[0].seconds < sample.seconds - SETTLE_SECONDS:
            recent.popleft()
        most.append(LIVE_FACTOR * max(0, recent[0].live) + ALLOWANCE_BYTES)
    return most


def steady_indexes(samples: Sequence[Sample]) -> List[int]:
    """The samples that are to be judged."""
    found, since = [], samples[0].seconds if samples else 0.0
    for index, sample in enumerate(samples):
        if not sample.steady:
            since = sample.seconds
        elif sample.seconds - since >= SETTLE_SECONDS:
            found.append(index)
    return found


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def blocks_of(half: Sequence[Sample]) -> List[List[Sample]]:
    """The half in blocks of equal length, of whole rounds where the rounds are slow."""
    rounds: List[List[Sample]] = []
    for sample in half:
        if not rounds or rounds[-1][-1].cycles != sample.cycles:
            rounds.append([])
        rounds[-1].append(sample)
    complete = rounds[1:-1]
    passed = half[-1].cycles - half[0].cycles if half else 0
    if passed >= 5 * BLOCKS_MAX or passed == 0:  # fast rounds, or none: any cut is as good
        count = min(BLOCKS_MAX, len(half) // 3)
        edges = [round(len(half) * at / count) for at in range(count + 1)] if count else []
        return [list(half[low:high]) for low, high in zip(edges, edges[1:])]
    each = max(1, math.ceil(len(complete) / BLOCKS_MAX))
    groups = [complete[at:at + each] for at in range(0, len(complete) - each + 1, each)]
    return [[sample for one in group for sample in one] for group in groups]


def slope_of(samples: Sequence[Sample]) -> Optional[Slope]:
    """The line through the blocks of the last half; None when there are too few of them."""
    if not samples:
        return None
    middle = (samples[0].seconds + samples[-1].seconds) / 2
    half = [sample for sample in samples if sample.seconds >= middle]
    blocks = blocks_of(half)
    if len(blocks) < BLOCKS_MIN:
        return None
    xs = [mean([sample.seconds for sample in block]) for block in blocks]
    ys = [mean([sample.resident - sample.live for sample in block]) for block in blocks]
    x_mean, y_mean = mean(xs), mean(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    value = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys)) / spread
    left = sum((y - y_mean - value * (x - x_mean)) ** 2 for x, y in zip(xs, ys))
    freedom = len(blocks) - 2
    margin = STUDENT[freedom] * math.sqrt(left / freedom / spread)
    return Slope(value, value - margin, value + margin, len(blocks), half[-1].seconds - half[0].seconds,
                 mean([sample.resident for sample in half]))


def judge_resident(samples: Sequence[Sample], result: Judgement) -> List[str]:
    most, chosen = bounds(samples), steady_indexes(samples)
    result.judged = len(chosen)
    if result.judged < JUDGED_MIN:
        return [f"only {result.judged} samples of the steady state"]
    room = sorted(most[index] - samples[index].resident for index in chosen)
    result.live = mean([samples[index].live for index in chosen])
    result.resident = mean([samples[index].resident for index in chosen])
    result.worst_ratio = max(samples[index].resident * LIVE_FACTOR / max(1.0, most[index] - ALLOWANCE_BYTES) for index in chosen)
    result.over = sum(1 for left in room if left < 0)
    result.worst_room = room[int(len(room) * OVER_SHARE)]
    if result.worst_room < 0:
        return [f"RSS {-result.worst_room / MIB:.1f} MiB over the bound, {result.over} of {result.judged} samples over"]
    return []


def judge_mappings(samples: Sequence[Sample], result: Judgement) -> List[str]:
    result.mappings = max(sample.mappings for sample in samples)
    return [f"{result.mappings} mappings, {MAPPINGS_MAX} are allowed"] if result.mappings > MAPPINGS_MAX else []


def judge(watched: Watched) -> Judgement:
    result = Judgement(watched.shape, watched.allocator, calls=watched.calls)
    broken = [watched.failure] if watched.failure else []
    if not watched.samples:
        result.broken = tuple(broken or ["no samples"])
        return result
    broken += judge_resident(watched.samples, result)
    result.slope = slope_of(watched.samples)
    if result.slope and result.slope.verdict == "grows":
        slope = result.slope
        broken.append(f"grows by {slope.value * 60 / MIB:.2f} MiB a minute, at least {slope.low * 60 / MIB:.2f}")
    broken += judge_mappings(watched.samples, result)
    result.broken = tuple(broken)
    return result
