# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate --machine, --page-size: one run of the simulator, and the gains by page size.

Times are relative: modelled core cycles on a size over those on the machine's first size. There is
no native run on such a machine to scale them by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from tlbcost.calibration.file import calibration_for, read_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.common import units
from tlbcost.common.document import amount, doc, now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.paths import version
from tlbcost.common.units import Interval
from tlbcost.machines import plan as plans
from tlbcost.machines.unknowns import OTHERS, Variant
from tlbcost.measured.record import WORTHWHILE_FRACTION
from tlbcost.model import overlap
from tlbcost.run.launch import check_simulatable, launcher_of, native_runs, resolve
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import NO_MISSES, Side, SideCounts, total_counts
from tlbcost.simulator.memory_tables import MEASURED, WARM, ImageWindows, Window, WindowPlan
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.symbols.region import region_of

Verdict = Literal["faster", "slower", "alike", "unknown"]
Sides = Mapping[Side, SideCounts]
# The model's own error on a core whose figures are all known: as a share of the time on the first
# size, and of the translation that the larger pages save or add. Judged by the published tables of
# doc/accuracy-machines.md.
MODEL_POINTS = 0.03
MODEL_TRANSLATION = 0.25

# For each process image, for each of its windows: references and cycles.
Column = list[list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """What not knowing a figure does to a time ratio."""

    figure: Annotated[str, doc("name of the figure, or others: all that are left")]
    value: Annotated[float | None, doc("as assumed; null: several figures")]
    low: Annotated[float | None, doc("its plausible values, from")]
    high: Annotated[float | None, doc("to")]
    below: Annotated[float, amount("by so much the ratio may be lower")]
    above: Annotated[float, amount("by so much it may be higher")]


@dataclass(frozen=True, slots=True)
class SizeResult:
    """One page size of one machine.

    `counts` None: it was not simulated. `cycles_per_reference` and `time_ratio` (to the first
    size) are modelled; None: not obtained. `effects`: of the guesses on the ratio.
    """

    size: plans.PageSize
    counts: Sides | None
    cycles_per_reference: float | None
    time_ratio: Interval | None
    verdict: Verdict
    effects: tuple[UnknownEffect, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineResult:
    """One machine: `no_times` says why there are none."""

    machine: plans.OtherMachine
    sizes: tuple[SizeResult, ...]
    windows: int
    no_times: str | None


@dataclass(frozen=True, slots=True)
class MachineCaveat:
    """What to know before relying on it (doc/caveats.md)."""

    code: Annotated[str, doc("M and a number, as in doc/caveats.md")]
    text: Annotated[str, doc("what is so")]


@dataclass(frozen=True, slots=True)
class MachineEstimates:
    """The result of one run of the simulator for other machines and page sizes."""

    version: str
    date: str
    argv: tuple[str, ...]
    run: Run | None
    simulated_ns: int | None
    machines: tuple[MachineResult, ...]
    region: str | None = None

    @property
    def caveats(self) -> tuple[MachineCaveat, ...]:
        found = []
        assumed = [each.machine.name for each in self.machines if each.machine.assumed]
        if assumed:
            text = (
                f"Figures of {', '.join(assumed)} are assumed or unchecked (--details); a "
                "calibration taken on such a machine is better (--calibration)."
            )
            found.append(MachineCaveat("M01", text))
        sizes = [size for each in self.machines for size in each.sizes]
        if any(each.size.page_bytes >= plans.GIB and each.counts is not None for each in sizes):
            text = (
                "Mappings of 1 GiB and more are assumed to be on 1 GiB pages, and all other memory "
                "on base pages; the program decides which memory gets them."
            )
            found.append(MachineCaveat("M02", text))
        found += [MachineCaveat("M03", text) for text in filter(None, map(_narrow, self.machines))]
        return tuple(found)


def _narrow(result: MachineResult) -> str | None:
    """Which measurement would help most to decide; None: decided, or nothing is a guess."""
    open_ = [size for size in result.sizes if size.verdict == "alike" and size.effects]
    known = [each for size in open_ for each in size.effects if each.value is not None]
    if not known:
        return None
    most = max(known, key=lambda each: max(each.below, each.above))
    return (
        f"Not proven on {result.machine.name}: of its unchecked figures, {most.figure} "
        f"({most.low:g} to {most.high:g}) matters most. 'tlbcost calibrate --json FILE' there "
        "measures it."
    )


def results(
    machines: Sequence[plans.OtherMachine], plan: plans.Pass, simulation: Simulation
) -> tuple[MachineResult, ...]:
    number_of = {cell: number for number, cell in enumerate(plan.cells)}
    return tuple(
        _result(
            machine, [number_of.get((m, s)) for s in range(len(machine.sizes))], plan, simulation
        )
        for m, machine in enumerate(machines)
    )


def _result(
    machine: plans.OtherMachine,
    numbers: Sequence[int | None],
    plan: plans.Pass,
    simulation: Simulation,
) -> MachineResult:
    """One machine; `numbers` are the cells of its sizes, None: not simulated."""
    first = numbers[0]
    assert first is not None
    base = _column(plan, simulation, first)
    sizes, reason = [], machine.no_core
    windows = 0
    for s, (size, number) in enumerate(zip(machine.sizes, numbers, strict=True)):
        if number is None:
            sizes.append(SizeResult(size, None, None, None, "unknown"))
            continue
        column = _column(plan, simulation, number)
        ratio: Interval | None = None
        effects: tuple[UnknownEffect, ...] = ()
        if size.page_bytes >= plans.GIB and _none_fits(plan, simulation, first, number):
            notes = [note for note in (size.note, _NONE_FITS) if note is not None]
            size = replace(size, note="; ".join(notes))
        elif machine.core is not None:
            saving, windows, why = saving_of(simulation, base, column)
            reason = reason or why
            if saving is not None:
                effects = _effects(machine, s, plan, simulation, (base, column))
                ratio = ratio_of(saving, effects, published=machine.costs == plans.PUBLISHED)
                ratio = Interval(1.0, 1.0, 1.0) if number == first else ratio
        sizes.append(
            SizeResult(
                size,
                _counts(plan, simulation, first if size.like is not None else number),
                _cycles(column) if machine.core is not None and ratio else None,
                ratio,
                _verdict(ratio),
                effects,
            )
        )
    return MachineResult(machine, tuple(sizes), windows, reason)


_NONE_FITS = "no mapping in which the program misses is as large as such a page: no time"


def _none_fits(plan: plans.Pass, simulation: Simulation, base: int, number: int) -> bool:
    """Whether all memory remained on base pages, since no mapping spans a larger one."""
    return number != base and _counts(plan, simulation, base) == _counts(plan, simulation, number)


def _column(plan: plans.Pass, simulation: Simulation, number: int) -> Column:
    if plan.first and number < 2:
        finished = [image for image in simulation.windows if image.references is not None]
        return [
            [(w.references, w.huge_cycles if number else w.base_cycles) for w in image.windows]
            for image in finished
        ]
    return _of_view(simulation, number - 2 if plan.first else number)


def _of_view(simulation: Simulation, view: int) -> Column:
    return [
        [(references, cycles[view]) for references, cycles in image.windows]
        for image in simulation.views
    ]


def _counts(plan: plans.Pass, simulation: Simulation, number: int) -> Sides:
    if plan.first and number < 2:
        bytes_ = (plan.geometry.base, plan.geometry.huge)[number].page_size_bytes
        total = total_counts(simulation.processes)
        return {side: seen for (size, side), seen in total.items() if size == bytes_}
    view = number - 2 if plan.first else number
    sums: dict[Side, SideCounts] = {}
    for image in simulation.views:
        for side, seen in image.counts[view].items():
            sums[side] = sums.get(side, NO_MISSES) + seen
    return sums


def _cycles(column: Column) -> float | None:
    references = sum(n for image in column for n, _ in image)
    return sum(c for image in column for _, c in image) / references if references else None


def _effects(
    machine: plans.OtherMachine,
    size: int,
    plan: plans.Pass,
    simulation: Simulation,
    columns: tuple[Column, Column],
) -> tuple[UnknownEffect, ...]:
    references = [image.references for image in simulation.views]
    if not plan.varied or size == 0:
        return ()
    m = plan.machines.index(machine)
    base, column = columns
    assumed = over(column, base, references)
    found = []
    for v, variant in enumerate(machine.variants):
        low, high = plan.varied.get((m, v, 0)), plan.varied.get((m, v, size))
        if low is None and high is None:
            continue
        tried = over(
            column if high is None else _of_view(simulation, high),
            base if low is None else _of_view(simulation, low),
            references,
        )
        if assumed is not None and tried is not None:
            found.append(effect_of(variant, assumed, tried))
    return tuple(sorted(found, key=lambda each: -max(each.below, each.above)))


def _verdict(ratio: Interval | None) -> Verdict:
    if ratio is None:
        return "unknown"
    if ratio.high < 1 - WORTHWHILE_FRACTION:
        return "faster"
    if ratio.low > 1 + WORTHWHILE_FRACTION:
        return "slower"
    return "alike"


def sentence(result: SizeResult, base: SizeResult) -> str:
    pages, first = units.size(result.size.page_bytes), units.size(base.size.page_bytes)
    ratio = result.time_ratio
    if result.counts is None:
        return f"{pages} pages: not available (NA)."
    if ratio is None:
        return f"{pages} pages: only misses are known."
    times = f"{ratio.value:.2f} times that of {first} pages ({ratio.low:.2f} to {ratio.high:.2f})"
    if result.verdict == "slower":
        return f"{pages} pages would make this slower: the time should be {times}."
    if result.verdict == "faster":
        return f"{pages} pages should be faster: the time should be {times}."
    return f"{pages} pages: not proven; the time should be {times}."


def effect_of(variant: Variant, assumed: float, tried: float) -> UnknownEffect:
    """From the ratio with the figures as assumed, and with the variant's at their tried ends."""
    change = tried - assumed
    ends = (change, change * variant.opposite)
    one = variant.unknowns[0] if variant.name != OTHERS else None
    return UnknownEffect(
        variant.name,
        one.value if one else None,
        one.low if one else None,
        one.high if one else None,
        max(0.0, -min(ends)),
        max(0.0, max(ends)),
    )


def spread(effects: Sequence[UnknownEffect]) -> tuple[float, float]:
    """By how much the ratio may be lower and higher because of all of them.

    The effects are independent of each other, so their squares add up.
    """
    return math.hypot(*(each.below for each in effects)), math.hypot(
        *(each.above for each in effects)
    )


def model_error(ratio: float) -> float:
    """Of a ratio on a published core: an error of translation changes a ratio near 0 little."""
    return MODEL_POINTS + MODEL_TRANSLATION * abs(1 - ratio) * min(1.0, ratio)


def total(column: Column, references: Sequence[int]) -> float | None:
    """Cycles of all windows, weighted by what they stand for; None: there are no windows."""
    cycles = 0.0
    for image, all_of_it in zip(column, references, strict=True):
        seen = sum(n for n, _ in image)
        if seen:
            cycles += all_of_it / seen * sum(c for _, c in image)
    return cycles or None


def saving_of(
    simulation: Simulation, base: Column, column: Column
) -> tuple[Interval | None, int, str | None]:
    """Saved share of the first size's time, the number of windows, and why there is none."""
    if not simulation.windows:
        return None, 0, overlap.shortfall(None)
    images = [
        ImageWindows(
            image.pid,
            image.program,
            image.references,
            image.core,
            tuple(Window(n, b, h) for (n, b), (_, h) in zip(lows, highs, strict=True)),
        )
        for image, lows, highs in zip(
            [image for image in simulation.windows if image.references is not None],
            base,
            column,
            strict=True,
        )
    ]
    sample = overlap.sample_of(images)
    if sample is None or sample.saving is None:
        return None, sample.windows if sample else 0, overlap.shortfall(sample)
    return sample.saving, sample.windows, None


def ratio_of(saving: Interval, effects: Sequence[UnknownEffect], *, published: bool) -> Interval:
    value = 1 - saving.value
    margin = overlap.MODEL_POINTS + overlap.MODEL_RELATIVE * abs(saving.value)
    if published:
        margin = model_error(value)
    below, above = spread(effects)
    low = value - math.hypot(saving.high - saving.value, margin, below)
    high = value + math.hypot(saving.value - saving.low, margin, above)
    return Interval(value, max(0.0, low), high)


def over(column: Column, base: Column, references: Sequence[int]) -> float | None:
    one, other = total(column, references), total(base, references)
    return None if one is None or other is None else one / other


# Windows modelled for one machine on two sizes; fewer for more, since each is modelled on every
# machine and size.
_USUAL_CELLS = 2
# The simulator keeps at least half of these, and the overlap model needs ten.
_FEWEST_WINDOWS, _MOST_WINDOWS = 20, 64


@dataclass(frozen=True, slots=True)
class MachinesRequest:
    """The program to estimate for other machines, separated by commas, and page sizes.

    `names` None: this machine, or that of `calibration`. `page_sizes` empty: 4 KiB and 2 MiB.
    """

    argv: tuple[str, ...]
    names: str | None = None
    page_sizes: tuple[int, ...] = ()
    calibration: Path | None = None
    recalibrate: bool = False
    prepare: str | None = None
    ignore_failure: bool = False
    region: str | None = None


def chosen(request: MachinesRequest) -> list[plans.OtherMachine]:
    sizes = request.page_sizes or (plans.BASE_BYTES, plans.HUGE_BYTES)
    if not request.names:
        obtained = calibration_for(request.calibration, recalibrate=request.recalibrate)
        return [plans.of_calibration(obtained.calibration, sizes, obtained.source)]
    names = [name for name in request.names.split(",") if name]
    if len(set(names)) < len(names) or not names:
        raise TlbcostError(
            f"not a list of different machines: {request.names}", "tlbcost machines", USAGE
        )
    brought = _brought(request, names)
    source = str(request.calibration) if request.calibration else None
    return [plans.machine_named(name, sizes, brought, source) for name in names]


def _brought(request: MachinesRequest, names: list[str]) -> Calibration | None:
    if request.calibration is None:
        return None
    if len(names) > 1:
        raise TlbcostError(
            "--calibration is for one machine, and several are named",
            "name only that machine, or drop --calibration",
            USAGE,
        )
    try:
        return read_calibration(request.calibration)
    except TlbcostError as error:
        raise TlbcostError(f"cannot use the calibration: {error}", None, TOOL_FAILED) from error


def estimate_machines(request: MachinesRequest) -> MachineEstimates:
    path: Path = resolve(request.argv[0])
    region = None if request.region is None else region_of(request.region, path)
    machines = chosen(request)
    check_simulatable(path)
    valgrind = find_valgrind()
    if any(m.sizes[0].page_bytes != plans.BASE_BYTES for m in machines):
        raise TlbcostError(
            f"base pages of {units.size(machines[0].sizes[0].page_bytes)} are not simulated here",
            exit_code=CANNOT_MEASURE,
        )
    plan = plans.plan_pass(machines)
    core = next((m.core.option for m in machines if m.core is not None), None)
    with launcher_of(request.prepare) as launcher:
        launcher.region = region
        native = native_runs(launcher, request.argv, path, 1, ignore_failure=request.ignore_failure)
        runs = [outcome.run for outcome in native if outcome.run is not None]
        windows = None if core is None else windows_for(len(plan.cells))
        simulation = simulate(
            launcher, valgrind, plan.geometry, request.argv, native[0], windows,
            plan.core.option if plan.core is not None else core, plan.options,
        )  # fmt: skip
    ran = simulation.outcome.run
    return MachineEstimates(
        version(),
        now(),
        request.argv,
        runs[0] if runs else None,
        ran.wall_ns if ran is not None else None,
        results(machines, plan, simulation),
        request.region,
    )


def windows_for(cells: int) -> WindowPlan:
    """Fewer and shorter windows if each is timed on more machines and sizes.

    The run time here has no say: the answer for another machine must not depend on this one.
    """
    if cells <= _USUAL_CELLS:
        return WindowPlan(most=_MOST_WINDOWS)
    most = max(_FEWEST_WINDOWS, round(_MOST_WINDOWS * math.sqrt(_USUAL_CELLS / cells)))
    return WindowPlan(warm=WARM * 3 // 4, measured=MEASURED // 2, most=most)
