# SPDX-License-Identifier: GPL-2.0-or-later
"""The core that the simulator times a program on: calibrated and published figures.

The model itself is profiler/timing/; doc/model.md explains it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tlbcost.calibration.calibrator import run_calibrator
from tlbcost.calibration.consistency import (
    LevelLatencies,
    Loads,
    cache_sizes,
    level_latencies,
    loads,
)
from tlbcost.calibration.records import Calibration, cost_at, reported_figures, sysfs_caches
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval
from tlbcost.memory.frames import isolated_pages
from tlbcost.processors.published import (
    Geometry,
    Pipeline,
    TlbLevel,
    assumed,
    published,
)
from tlbcost.system.machine import Machine

# Used where nothing is published: a core of the late 2010s.
_ASSUMED_PIPELINE = Pipeline(width=4, reorder_buffer=224, store_buffer=56, mispredict_cycles=16)
_ASSUMED_WALKERS = 2
# Observed on a kernel after some hours of uptime.
_ASSUMED_ISOLATED = 8192
# Costs of walks are taken where the tables fit L2 and the regions their caches.
_WALK_PAGES = 8192
_MOST_WAYS = 16
_TICKS_PER_CYCLE = 64
# A value of one field of the simulator's --core.
_MOST_CYCLES = (1 << 32) - 1
_MOST_L3_BYTES = 1 << 30
# Measurements each time, which take some 50 ms; the maximum that the core accepts.
_SWEEPS, _LIMIT_S = 4, 1.0
_MOST = 16


@dataclass(frozen=True, slots=True)
class Core:
    """The core to model: fields of the simulator's --core, and its assumed figures."""

    fields: tuple[tuple[str, int | tuple[int, ...]], ...]
    notes: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        return ",".join(
            f"{name}={':'.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value in self.fields
        )


@dataclass(frozen=True, slots=True)
class _Clock:
    cycles_per_ns: float

    def cycles(self, ns: float) -> int:
        return max(1, round(ns * self.cycles_per_ns))

    def ticks(self, ns: float) -> int:
        return max(1, round(ns * self.cycles_per_ns * _TICKS_PER_CYCLE))


def core_for(calibration: Calibration, machine: Machine, geometry: Geometry) -> Core | None:
    """The calibrated core; None if the calibration lacks the cost of loads."""
    found, rate = loads(calibration), cost_at(calibration, "cycles_per_ns", None)
    if found is None or rate is None or rate.value <= 0:
        return None
    sizes = cache_sizes(reported_figures(calibration, sysfs_caches()))
    levels = level_latencies(found, sizes)
    if 1 not in sizes or levels.l1 is None or 2 not in sizes or levels.l2 is None:
        return None
    clock = _Clock(rate.value)
    core, notes = published(machine), []
    pipeline = core.pipeline if core else None
    if pipeline is None:
        taken = _ASSUMED_PIPELINE
        sizes_words = f"{taken.reorder_buffer} instructions, {taken.store_buffer} stores"
        notes.append(f"the size of the core's buffers is assumed: {sizes_words}")
    walkers = core.walkers if core else None
    if walkers is None:
        at_once = _walks_at_once(calibration, machine.base_page_bytes)
        walkers = max(1, round(at_once)) if at_once else _ASSUMED_WALKERS
        if at_once is None:
            notes.append(f"the number of page walkers is assumed: {walkers}")
    directories = core.directories if core else None
    if directories is None:
        entries, ways = (assumed()[f"page_{name}"] for name in ("directories", "directory_ways"))
        directories = TlbLevel(round(entries.value), round(ways.value))
    fields = {
        **pipeline_options(pipeline or _ASSUMED_PIPELINE),
        **_caches(found, levels, sizes, clock),
        "walkers": walkers,
        **{"directories": directories.entries, "directory-ways": directories.ways},
        **_walks(calibration, machine, geometry, levels, walkers, clock),
    }
    if fields["host-shift"] and 1 << fields["host-shift"] == machine.base_page_bytes:
        isolated = isolated_pages()
        if isolated is None:
            isolated = _ASSUMED_ISOLATED
            notes.append(
                f"the scatter of base pages' frames is assumed: {isolated} of them are "
                "isolated (root may look them up)"
            )
        fields["isolated-pages"] = isolated
    if fields["l3-bytes"] and "l3-half-life-cycles" not in fields:
        notes.append(
            "the half-life of lines in the last-level cache is not calibrated: it is assumed to "
            "hold its share of what the program touched"
        )
    return Core(tuple(fields.items()), tuple(notes))


def as_it_ran(
    core: Core, calibration: Calibration, l3_half_lives_ns: Sequence[float], isolated: int | None
) -> Core:
    """The core, updated with the conditions during the program's run.

    `l3_half_lives_ns`: of lines in the last-level cache, at different times; empty: not known.
    `isolated`: the program's pages with isolated frames; None: not known.
    """
    rate = cost_at(calibration, "cycles_per_ns", None)
    assert rate is not None
    fields = dict(core.fields)
    if "l3-half-life-cycles" in fields and l3_half_lives_ns:
        clock = _Clock(rate.value)
        fields["l3-half-life-cycles"] = tuple(
            min(clock.cycles(ns), _MOST_CYCLES) for ns in l3_half_lives_ns
        )
    if "isolated-pages" in fields and isolated is not None:
        fields["isolated-pages"] = isolated
    return Core(tuple(fields.items()), core.notes)


def _walks_at_once(calibration: Calibration, page: int) -> float | None:
    """Walks in flight: as measured, else the time of a walk over the interval between walks."""
    found = cost_at(calibration, "walks_at_once", page, None, _WALK_PAGES)
    if found is not None:
        return found.value
    walk = cost_at(calibration, "walk_ns", page, "serial", _WALK_PAGES)
    interval = cost_at(calibration, "walk_interval_ns", page, None, _WALK_PAGES)
    if walk is None or interval is None or interval.value <= 0:
        return None
    return walk.value / interval.value


def pipeline_options(pipeline: Pipeline) -> dict[str, int]:
    """Of tlbsim's --core."""
    return {
        "width": pipeline.width,
        "reorder-buffer": pipeline.reorder_buffer,
        "store-buffer": pipeline.store_buffer,
        "mispredict": pipeline.mispredict_cycles,
    }


def _cache(name: str, size: int, latency: Interval, clock: _Clock) -> dict[str, int]:
    """Sets are a power of two; ways, which hardly matter, are close to 16."""
    lines = size // 64
    ways = lines
    while ways > _MOST_WAYS and ways % 2 == 0:
        ways //= 2
    return {
        f"{name}-bytes": size,
        f"{name}-ways": ways,
        f"{name}-cycles": clock.cycles(latency.value),
    }


def _caches(
    found: Loads, levels: LevelLatencies, sizes: Mapping[int, int], clock: _Clock
) -> dict[str, int]:
    assert levels.l1 is not None
    assert levels.l2 is not None
    far = levels.memory or levels.l3 or levels.l2
    # Lines evicted by other tenants only add to the cache's latency.
    last = Interval(levels.l3.low, levels.l3.low, levels.l3.low) if levels.l3 else far
    interval = _nearest(found.stream, 16 << 20) or _nearest(found.overlapped, 16 << 20) or last
    memory_interval = _nearest(found.stream, 256 << 20) or interval
    apart = _nearest(found.overlapped, 256 << 20) or memory_interval
    last_level = {"l3-bytes": min(levels.last_level_bytes or sizes.get(3, 0), _MOST_L3_BYTES)}
    half_life = found.l3_half_life_ns
    if half_life is not None and half_life.value > 0 and 3 in sizes:
        last_level = {"l3-bytes": min(sizes[3], _MOST_L3_BYTES)}
        last_level["l3-half-life-cycles"] = min(clock.cycles(half_life.value), _MOST_CYCLES)
    serial = dict(found.serial)
    ratios = [
        serial[size].value / ns.value
        for size, ns in found.overlapped
        if size in serial and ns.value > 0
    ]
    return {
        **_cache("l1", sizes[1], levels.l1, clock),
        **_cache("l2", sizes[2], levels.l2, clock),
        "pairs": 1,
        "fill-buffers": (max(4, round(max(ratios))) if ratios else 10),
        **last_level,
        "l3-cycles": clock.cycles(last.value),
        "l3-interval": clock.ticks(interval.value),
        "memory-cycles": clock.cycles(far.value),
        "memory-interval": clock.ticks(memory_interval.value),
        "memory-apart": clock.ticks(max(apart.value, memory_interval.value)),
    }


def _nearest(points: tuple[tuple[int, Interval], ...], footprint: int) -> Interval | None:
    near = [(abs(math.log(size / footprint)), ns) for size, ns in points]
    return min(near, key=lambda point: point[0])[1] if near else None


def _walks(
    calibration: Calibration,
    machine: Machine,
    geometry: Geometry,
    levels: LevelLatencies,
    walkers: int,
    clock: _Clock,
) -> dict[str, int]:
    assert levels.l1 is not None
    assert levels.l2 is not None
    base = machine.base_page_bytes
    hit = cost_at(calibration, "stlb_hit_ns", base, "serial")
    hit_ns = max(hit.value, 0.0) if hit else 0.0
    host = 0
    if machine.hypervisor:
        # log2 of the host's pages, as shown by a TLB entry.
        covered = geometry.huge.entry_bytes or geometry.huge.page_size_bytes
        host = covered.bit_length() - 1
    # Where entries are if tables are small: the last level's in L2, a directory's in L1.
    last, directory = levels.l2.value, levels.l1.value
    reads_base, reads_huge = [last], [directory]
    if host:
        beyond = last if 1 << host == base else directory
        reads_base, reads_huge = [*reads_base, beyond], [*reads_huge, beyond]
    sizes = (base, reads_base), (geometry.huge.page_size_bytes, reads_huge)
    left = [_left(calibration, size, reads, hit_ns) for size, reads in sizes]
    known = [ns for ns in left if ns is not None]
    if 1 << host == base:
        # Scattered frames make walks of base pages longer; the model knows that.
        left = [min(known, default=0.0)] * 2
    fields = {"stlb-cycles": clock.cycles(hit_ns) if hit else 0, "host-shift": host}
    for prefix, (size, reads), own in zip(("", "huge-"), sizes, left, strict=True):
        # Figures missing for one page size are taken from the other.
        added = own if own is not None else (known[0] if known else 0.0)
        interval = cost_at(calibration, "walk_interval_ns", size, None, _WALK_PAGES)
        read_ns = sum(reads) + len(reads) * added
        busy = max(0.0, interval.value * walkers - read_ns) if interval else 0.0
        fields[f"{prefix}read-cycles"] = round(added * clock.cycles_per_ns)
        fields[f"{prefix}walk-cycles"] = round(busy * clock.cycles_per_ns)
    return fields


def _left(calibration: Calibration, size: int, reads: list[float], hit_ns: float) -> float | None:
    """ns of each of a walk's reads beyond the cache's latency; None if its walks were not timed."""
    walk = cost_at(calibration, "walk_ns", size, "serial", _WALK_PAGES)
    if walk is None:
        return None
    return max(0.0, (walk.value - hit_ns - sum(reads)) / len(reads))


@dataclass(slots=True)
class Conditions:
    """Measures the machine between a program's runs, for the core on which it will be timed.

    The half-life of lines in a shared last-level cache changes within seconds, five- to tenfold on
    one host; so it is measured around each run, not only in the calibration.

    `own`: whether the calibration is of this machine; otherwise its figure is kept.
    """

    core: Core | None
    calibration: Calibration
    own: bool
    l3_half_lives_ns: list[float] = field(default_factory=list, init=False)
    _failure: str | None = field(default=None, init=False)

    @property
    def frames_matter(self) -> bool:
        return self.core is not None and "isolated-pages" in dict(self.core.fields)

    @property
    def notes(self) -> tuple[str, ...]:
        if self._failure is None or self.l3_half_lives_ns:
            return ()
        return (
            "the half-life of lines in the last-level cache is the calibration's; it could "
            f"not be measured alongside the runs ({self._failure})",
        )

    def measure(self) -> None:
        """What is the lines' half-life now? Takes some 60 ms, or nothing if it is not modelled."""
        if self.core is None or not self.own or "l3-half-life-cycles" not in dict(self.core.fields):
            return
        page = str(self.calibration.machine.base_page_bytes)
        try:
            samples = run_calibrator(
                ["--measure", "residency", "--sweeps", str(_SWEEPS), "--page-size", page],
                _LIMIT_S,
                None,
            )
        except TlbcostError as error:
            self._failure = str(error)
            return
        rows = [(row["probe"], row["ns"]) for row in samples.records()]
        found = [float(ns) for probe, ns in rows if probe == "residency" and ns is not None]
        if not found:
            self._failure = "the calibrator had no time or memory for it"
        self.l3_half_lives_ns += found

    def core_then(self, isolated: int | None) -> Core | None:
        """The core, as measured then; `isolated`: the program's pages with isolated frames."""
        if self.core is None:
            return None
        # The same number for each time.
        step = max(1, -(-len(self.l3_half_lives_ns) // _MOST))
        return as_it_ran(self.core, self.calibration, self.l3_half_lives_ns[::step], isolated)
