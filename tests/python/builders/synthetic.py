# SPDX-License-Identifier: GPL-2.0-or-later
"""Curves of made-up machines, to tell how often the analysis finds what is in them.

Everything comes from a seed: a published core (data/machines), how its TLBs replace, what hits and
walks cost, and how the machine disturbs the measurement. Noise is that of recorded curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from tlbcost.calibration.analysis.levels import Knee, confirm, find_levels
from tlbcost.calibration.analysis.samples import Curve, read_samples
from tlbcost.common import formats
from tlbcost.common.bootstrap import Floats
from tlbcost.common.formats import read_table
from tlbcost.processors.published import cores

RECORDED = Path(__file__).parents[3] / "data" / "samples"

# As the probe's group `near`.
LADDER = (
    4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48,
    52, 56, 60, 64, 68, 72, 76, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224,
    256, 288, 320, 352, 384, 416, 448, 512, 576, 640, 704, 768, 832, 896, 1024, 1152, 1280,
    1408, 1536, 1664, 1792, 1920, 2048, 2176, 2304, 2560, 2816, 3072, 3328, 3584, 4096, 4608,
    5120, 6144, 8192, 12288, 16384,
)  # fmt: skip
# As the second pass measures around each knee.
AROUND = (0.45, 0.55, 0.65, 0.75, 0.83, 0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.14, 1.2, 1.3, 1.45,
          1.7, 2.0, 2.4)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tlb:
    """One level, true LRU; `smear` is the spread of its end, in log(lines)."""

    entries: int
    ways: int
    smear: float
    miss_ns: float

    def missing(self, lines: Floats) -> Floats:
        """Share of the accesses of a ring over this many pages, one after the other, that miss."""
        if self.smear == 0:
            return self._sharp(lines)
        offsets = np.linspace(-2, 2, 9)
        weights = np.exp(-(offsets**2) / 2)
        shifted = np.array([self._sharp(lines * math.exp(self.smear * by)) for by in offsets])
        return np.asarray(np.average(shifted, axis=0, weights=weights))

    def _sharp(self, lines: Floats) -> Floats:
        sets = self.entries / self.ways
        # Pages in a row fill the sets evenly: some have one page more than others.
        few = np.floor(lines / sets)
        more = lines / sets - few
        missing = (1 - more) * few * self._set(few) + more * (few + 1) * self._set(few + 1)
        return np.asarray(missing / (lines / sets))

    def _set(self, pages: Floats) -> Floats:
        """Share of misses in a set that this many pages share in turn."""
        return (pages > self.ways + 1e-9).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Machine:
    """A made-up machine: its TLB levels (none, one or two), its caches, and how noisy it is."""

    name: str
    levels: tuple[Tlb, ...]
    l1d_bytes: int
    l2_bytes: int
    beyond_l1_ns: float
    beyond_l2_ns: float
    huge_pages: bool
    noise: float
    bad_sweeps: float
    outliers: float
    drift: float

    def delta_ns(self, lines: Floats) -> Floats:
        """Extra time per access of chains with a page per line, without noise."""
        spread = self._translation(lines, 64 + 8)
        if self.huge_pages:
            return spread
        # Packed chains lie in base pages, and need some of them too.
        return spread - self._translation(np.maximum(lines * 192 / 4096, 1), 192 * 64 / 192)

    def curve(self, seed: int, lines: Floats | None = None, sweeps: int | None = None) -> Curve:
        """The curve that one measurement gives; the lines of LADDER unless others are asked for."""
        random = np.random.default_rng(seed)
        lines = np.array(LADDER, dtype=np.float64) if lines is None else lines
        sweeps = int(random.integers(8, 25)) if sweeps is None else sweeps
        true = self.delta_ns(lines)
        deltas = np.tile(true, (sweeps, 1))
        # Steps are scaled by the clock, which drifts; every other sweep runs downwards.
        way = np.linspace(0, 1, len(lines))
        for sweep in range(sweeps):
            along = (sweep + (way if sweep % 2 == 0 else 1 - way)) / sweeps
            deltas[sweep] *= 1 + self.drift * along
            rough = self.noise * (10 if random.random() < self.bad_sweeps else 1)
            deltas[sweep] += rough * _recorded_noise(random, lines)
        wild = random.random(deltas.shape) < self.outliers
        deltas += wild * random.standard_t(1.5, deltas.shape) * 20
        return Curve(lines, deltas)

    def _translation(self, pages: Floats, bytes_per_page: float) -> Floats:
        time = np.zeros(len(pages))
        misses = np.ones(len(pages))
        for i, level in enumerate(self.levels):
            # What misses this level costs its miss_ns, until it misses the next as well.
            here = np.minimum(level.missing(pages), misses)
            below = self.levels[i - 1].miss_ns if i else 0.0
            time += here * (level.miss_ns - below)
            misses = here
        # Page-table entries that do not fit the caches together with the lines make walks more
        # expensive.
        if self.levels:
            grows = self._beyond(pages, bytes_per_page)
            time += misses * (grows[0] * self.beyond_l1_ns + grows[1] * self.beyond_l2_ns)
        return time

    def _beyond(self, lines: Floats, bytes_per_line: float) -> tuple[Floats, Floats]:
        used = lines * bytes_per_line
        return (
            np.clip(1 - self.l1d_bytes / used, 0, 1) ** 0.5,
            np.clip(1 - self.l2_bytes / used, 0, 1),
        )


def draw_machine(seed: int) -> Machine:
    """A made-up machine: 1 in 12 without any TLB level to see, 1 in 6 with one only.

    For a ring tree-PLRU and round robin are as true LRU: a set with one page too many misses all.
    """
    random = np.random.default_rng([seed, 1])
    core = _published()[int(random.integers(len(_published())))]
    kind = random.choice(["none", "one", "two"], p=[1 / 12, 1 / 6, 3 / 4])
    hit = float(random.uniform(1.2, 6))
    walk = max(float(random.uniform(6, 45)), 2.2 * hit)
    first = _tlb(random, core[1], 0.04, hit)
    levels: tuple[Tlb, ...] = ()
    if kind == "one":
        levels = (replace(first, miss_ns=walk),)
    elif kind == "two":
        levels = (first, _tlb(random, core[2], 0.14, walk))
    return Machine(
        name=core[0],
        levels=levels,
        l1d_bytes=int(random.choice([32, 48, 64])) << 10,
        l2_bytes=int(random.choice([512, 1024, 2048])) << 10,
        beyond_l1_ns=float(random.uniform(1.5, 4)),
        beyond_l2_ns=float(random.uniform(8, 30)),
        huge_pages=bool(random.random() < 0.8),
        noise=float(np.exp(random.uniform(np.log(0.5), np.log(3)))),
        bad_sweeps=float(random.choice([0, 0.05, 0.2])),
        outliers=float(random.choice([0, 0.01, 0.03])),
        drift=float(random.uniform(-0.2, 0.2)),
    )


def _tlb(
    random: np.random.Generator, level: tuple[int, int | None], smear: float, miss_ns: float
) -> Tlb:
    entries, ways = level
    # Not published: as most others of that size.
    ways = ways or (entries if entries < 50 else 4 if entries < 1024 else 8)
    return Tlb(entries, ways, float(random.uniform(0, smear)), miss_ns)


@cache
def _published() -> list[tuple[str, tuple[int, int | None], tuple[int, int | None]]]:
    """Cores of which the entries of both levels are known, for their smallest page size."""
    found = []
    for core in cores():
        size = min(size for _, size in core.levels)
        first, second = core.levels.get(("dtlb", size)), core.levels.get(("stlb", size))
        if first and second and first.entries and second.entries:
            found.append((core.core, (first.entries, first.ways), (second.entries, second.ways)))
    return found


@cache
def _residuals() -> list[tuple[Floats, Floats]]:
    """Of each recorded curve: its lines, and what its sweeps differ from the medians, in ns."""
    found = []
    # Records of trials are in the same folder.
    files = [*RECORDED.glob("*/samples.tsv"), *RECORDED.glob("*/confirmation-*.tsv")]
    for file in sorted(files):
        samples = read_samples([read_table(file, formats.SAMPLES)])
        curve = samples.tlb(samples.base_bytes, "spread", "serial")
        if curve is None:
            continue
        near = curve.lines <= LADDER[-1]
        deltas = curve.deltas[:, near]
        deltas = deltas[~np.isnan(deltas).any(axis=1)]
        found.append((curve.lines[near], deltas - np.median(deltas, axis=0)))
    return found


def _recorded_noise(random: np.random.Generator, lines: Floats) -> Floats:
    """One sweep's noise, taken from a sweep of a recorded curve at footprints like these."""
    pools = _residuals()
    known, residuals = pools[int(random.integers(len(pools)))]
    # The nearest footprint or its neighbour, so that no two curves have quite the same noise.
    at = np.searchsorted(known, lines) + random.integers(-1, 2, len(lines))
    row = residuals[int(random.integers(len(residuals)))]
    return np.asarray(row[np.clip(at, 0, len(known) - 1)])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is reported of one level of a made-up machine; `entries` None: there is no such level.

    `found` None: nothing is reported.
    """

    level: str
    entries: int | None
    found: float | None

    @property
    def right(self) -> bool:
        """Within 15 %."""
        return bool(self.entries and self.found and abs(self.found / self.entries - 1) <= 0.15)


def measure_twice(machine: Machine, seed: int) -> list[Outcome]:
    """The levels that two measurements of a machine show, as the analysis takes them."""
    packed = 0.0 if machine.huge_pages else 192 / 4096
    levels = find_levels(machine.curve(2 * seed), None, packed)
    ends = [end for end in (levels.first, levels.second) if end]
    around = sorted({round(end.value * factor) for end in ends for factor in AROUND})
    second = machine.curve(2 * seed + 1, np.array(around, dtype=np.float64), 12) if around else None
    outcomes = []
    for name, end, i in (("first", levels.first, 0), ("second", levels.second, 1)):
        knee = Knee(name, 4096, "tlb", "spread", "serial", end) if end else None
        confirmed = confirm(knee, second).entries if knee else None
        there = machine.levels[i].entries if i < len(machine.levels) else None
        outcomes.append(Outcome(name, there, confirmed.value if confirmed else None))
    return outcomes
