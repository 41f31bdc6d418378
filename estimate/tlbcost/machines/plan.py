# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines and page sizes whose TLBs a program's references go through in one simulator run.

A machine is a core of data/machines/, or the one at hand. Everything is decided here before the
program runs, and refused if it is impossible.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tlbcost.calibration.records import Calibration
from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.machines.unknowns import (
    CoreFigures,
    Variant,
    figures_of,
    published_core,
    ranked,
    unknowns_of,
    variants,
)
from tlbcost.processors.published import (
    Geometry,
    PageSizeGeometry,
    PublishedCore,
    TlbLevel,
    cores,
    published,
)
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.counts import MOST_VIEWS, View, options
from tlbcost.simulator.geometry import ASSUMED_BASE, ASSUMED_HUGE, choose_level, geometry_for

BASE_BYTES, HUGE_BYTES, GIB = 4 << 10, 2 << 20, 1 << 30
_HUGE_FROM = 1 << 20
# Where times of a core of data/machines come from.
PUBLISHED = "published"
# Guesses of a machine that are tried one by one; the others are tried together.
MOST_VARIANTS = 12


@dataclass(frozen=True, slots=True)
class PageSize:
    """One page size of a machine.

    `geometry` None: the TLB entries for such pages are unknown, so they are not simulated. `like`:
    the smaller size whose TLB entries hold such pages in pieces. `note` says which it is.
    """

    page_bytes: int
    geometry: PageSizeGeometry | None
    like: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class OtherMachine:
    """A machine to simulate. `costs` says where its times come from; `core` None: `no_core` why.

    `variants`: it with guesses at the ends of their ranges, the most important first.
    """

    name: str
    title: str
    sizes: tuple[PageSize, ...]
    folded: bool
    code_stlb: TlbLevel | None
    core: Core | None
    costs: str
    no_core: str | None = None
    assumed: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()


def names_of(core: PublishedCore) -> tuple[str, ...]:
    """The names of a core: its file's name, and the other names in it."""
    return (core.core, *figures_of(core.core).aliases)


def named(name: str) -> PublishedCore:
    """The core of this name. Raises TlbcostError with exit code 2 that names the nearest."""
    known = {each: core for core in cores() for each in names_of(core)}
    found = known.get(name.lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise TlbcostError(
        f"no machine is called '{name}'", f"{hint}tlbcost machines lists them", USAGE
    )


def machine_named(
    name: str,
    sizes: Sequence[int],
    calibration: Calibration | None,
    source: str | None,
    product: Mapping[str, float] | None = None,
) -> OtherMachine:
    """A core of data/machines/, by a calibration taken there, or by published figures.

    `product`: figures of one product with that core, in place of the file's. Raises TlbcostError
    if the machine has no pages of a size, or the calibration is of another.
    """
    core = named(name)
    known = figures_of(core.core).of_product(product or {})
    if calibration is not None:
        found = published(calibration.machine)
        if found is None or found.core != core.core:
            whose = found.name if found else calibration.machine.cpu_name or "an unknown CPU"
            raise TlbcostError(
                f"the calibration is of {whose}, not of {core.name}",
                f"tlbcost estimate --machine {name} without --calibration, or one from there",
                USAGE,
            )
        made = of_calibration(calibration, sizes, f"calibrated there ({source})", known.code_stlb)
        return replace(made, name=name, title=core.name)
    pages, assumed = [], []
    for size in sizes:
        page, notes = _published_size(core, size)
        pages.append(page)
        assumed += notes
    timed = published_core(known)
    missing = ", ".join(known.missing())
    figures = known.figures if timed else {}
    names = [name for name, figure in figures.items() if not figure.verified]
    return OtherMachine(
        name,
        core.name,
        tuple(pages),
        core.stlb_folded,
        known.code_stlb,
        timed,
        PUBLISHED if timed else "none",
        None if timed else f"not published, or not on file here: {missing or 'its pipeline'}",
        (*assumed, *([f"not checked against a source: {', '.join(names)}"] if names else [])),
        _variants(core, known, pages) if timed else (),
    )


def _variants(
    core: PublishedCore, known: CoreFigures, pages: Sequence[PageSize]
) -> tuple[Variant, ...]:
    value = {name: figure.value for name, figure in known.figures.items()}
    simulated = [page.geometry for page in pages]
    given = [geometry for geometry in simulated if geometry is not None]
    if not given:
        return ()
    found = unknowns_of(core, known, [page.page_bytes for page in pages])
    order = [each for each, _ in ranked(found, value, given[0], given[-1])]
    return variants(order, value, simulated, MOST_VARIANTS)


def _published_size(core: PublishedCore, size: int) -> tuple[PageSize, list[str]]:
    has = {each for level, each in core.levels if level == "dtlb"}
    if size not in has and BASE_BYTES < size < HUGE_BYTES and BASE_BYTES in has:
        base, notes = _geometry(core, BASE_BYTES)
        note = (
            f"its TLBs hold {units.size(size)} pages as {units.size(BASE_BYTES)} ones: "
            "only page faults are saved"
        )
        geometry = replace(base, page_size_bytes=size, entry_bytes=BASE_BYTES)
        return PageSize(size, geometry, BASE_BYTES, note), notes
    if size not in has:
        return _unknown_size(core, size), []
    geometry, notes = _geometry(core, size)
    return PageSize(size, geometry), notes


def machine_size(core: PublishedCore, size: int) -> PageSizeGeometry | None:
    """A core's TLBs for pages of a size, by published figures alone; None: not known."""
    return _published_size(core, size)[0].geometry


def _unknown_size(core: PublishedCore, size: int) -> PageSize:
    note = f"the TLBs of {core.name} for {units.size(size)} pages are not on file"
    return PageSize(size, None, None, note)


def _geometry(core: PublishedCore, size: int) -> tuple[PageSizeGeometry, list[str]]:
    assumed = ASSUMED_BASE if size < _HUGE_FROM else ASSUMED_HUGE
    found = {
        name: choose_level(name, size, core, None, None, assumed[name])
        for name in ("dtlb", "itlb", "stlb")
    }
    dtlb, itlb = found["dtlb"][0], found["itlb"][0]
    assert dtlb is not None
    assert itlb is not None
    notes = [
        f"{name} for {units.size(size)} pages: {source.sentence}"
        for name, (_, source) in found.items()
        if source.kind == "assumed" or "not published" in source.sentence
    ]
    return PageSizeGeometry(size, dtlb, itlb, found["stlb"][0]), notes


def of_calibration(
    calibration: Calibration, sizes: Sequence[int], costs: str, code_stlb: TlbLevel | None = None
) -> OtherMachine:
    """The calibrated machine, on each size: what a TLB entry covers was measured."""
    machine = calibration.machine
    base = machine.base_page_bytes
    pages: list[PageSize] = []
    core, why = None, None
    huge = next((size for size in sizes if size > base), HUGE_BYTES)
    whole = geometry_for(calibration, machine, HUGE_BYTES if base < HUGE_BYTES else huge)
    core = core_for(calibration, machine, whole)
    if core is None:
        why = "the calibration lacks the cost of loads"
    for size in sizes:
        if size < base:
            raise TlbcostError(
                f"no {units.size(size)} pages: base pages have {units.size(base)} here",
                exit_code=CANNOT_MEASURE,
            )
        pages.append(_calibrated_size(calibration, size, whole))
    known = published(machine)
    return OtherMachine(
        "here",
        (known.name if known else machine.cpu_name) or "this machine",
        tuple(pages),
        whole.stlb_folded,
        code_stlb,
        core,
        costs,
        why,
        core.notes if core else (),
    )


def _calibrated_size(calibration: Calibration, size: int, whole: Geometry) -> PageSize:
    machine = calibration.machine
    base = machine.base_page_bytes
    if size == base:
        return PageSize(size, whole.base)
    splintered = whole.huge.entry_bytes == base
    core = published(machine)
    held = core is not None and ("dtlb", size) in core.levels
    if splintered or (size < HUGE_BYTES and not held):
        why = (
            "the host backs this virtual machine with smaller pages"
            if splintered
            else f"its TLBs hold {units.size(size)} pages as smaller ones"
        )
        geometry = replace(whole.base, page_size_bytes=size, entry_bytes=base)
        return PageSize(size, geometry, base, f"{why}: it misses as on {units.size(base)} pages")
    if core is not None and size != HUGE_BYTES and not held:
        return _unknown_size(core, size)
    return PageSize(size, geometry_for(calibration, machine, size).huge)


@dataclass(frozen=True, slots=True)
class Pass:
    """What one run of the simulator does: `cells` are machine and size, by number.

    Sizes whose TLBs are not known have none.

    Cell i is view i - 2, after those of the machine at hand, if `first` (its two sizes are the
    first two cells); else view i. `varied`: the view of a machine's variant on one of its sizes.
    """

    geometry: Geometry
    core: Core | None
    cells: tuple[tuple[int, int], ...]
    views: tuple[View, ...]
    first: bool
    machines: tuple[OtherMachine, ...] = ()
    varied: Mapping[tuple[int, int, int], int] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        """The simulator's options, besides those of the geometry and the core."""
        return ("--attribute=no", *options(self.views))


def plan_pass(machines: Sequence[OtherMachine]) -> Pass:
    """All machines in one run.

    Raises TlbcostError with exit code 2 if they are too many, and 4 if too little is known: not
    the first size of each machine, with which its others are compared, or none of the others.
    """
    unknown = [m.sizes[0] for m in machines if m.sizes[0].geometry is None]
    others = [size for m in machines for size in m.sizes[1:]]
    if others and all(size.geometry is None for size in others):
        unknown += others
    if unknown:
        raise TlbcostError(
            f"no estimate: {unknown[0].note}",
            "'tlbcost machines NAME' shows what is known of a machine",
            CANNOT_MEASURE,
        )
    cells = [
        (m, s)
        for m, machine in enumerate(machines)
        for s, size in enumerate(machine.sizes)
        if size.geometry is not None
    ]
    lead = machines[0]
    first = lead.sizes[0].geometry
    assert first is not None
    usual = [size.page_bytes for size in lead.sizes[:2]] == [BASE_BYTES, HUGE_BYTES]
    second = (lead.sizes[1].geometry if usual else None) or replace(
        first, page_size_bytes=first.page_size_bytes * 512, entry_bytes=None
    )
    usual = usual and lead.sizes[1].geometry is not None
    whole = usual and lead.code_stlb is None and (len(machines) == 1 or lead.core is not None)
    skipped = 2 if whole else 0
    views = []
    for m, s in cells[skipped:]:
        size = machines[m].sizes[s]
        assert size.geometry is not None
        views.append(_view(machines[m], size.geometry, _rest(cells, skipped, m, s, machines)))
    if len(views) > MOST_VIEWS:
        raise TlbcostError(
            f"{len(cells)} machines and page sizes are too many for one run",
            f"give at most {MOST_VIEWS}",
            USAGE,
        )
    varied = {}
    for m, v, s in _tried(machines, MOST_VIEWS - len(views)):
        variant = machines[m].variants[v]
        geometry = variant.geometries[s]
        assert geometry is not None
        varied[m, v, s] = len(views)
        rest = _rest(cells, skipped, m, s, machines)
        views.append(_view(machines[m], geometry, rest, variant.core))
    return Pass(
        Geometry(first, second, {}, lead.folded),
        lead.core,
        tuple(cells),
        tuple(views),
        whole,
        tuple(machines),
        varied,
    )


def _view(
    machine: OtherMachine, geometry: PageSizeGeometry, rest: int | None, core: Core | None = None
) -> View:
    chosen = core or machine.core
    option = None if chosen is None else chosen.option
    return View(geometry, machine.folded, machine.code_stlb, option, rest)


def _rest(
    cells: Sequence[tuple[int, int]], skipped: int, m: int, s: int, machines: Sequence[OtherMachine]
) -> int | None:
    """The view that has what this machine cannot have on such pages; None: all is on them.

    If its entries hold pieces, this shows whether such pages are possible at all.
    """
    if machines[m].sizes[s].page_bytes < GIB or s == 0:
        return None
    base = next(i for i, cell in enumerate(cells) if cell[0] == m)
    return base - skipped if base >= skipped else -1


def _tried(machines: Sequence[OtherMachine], space: int) -> list[tuple[int, int, int]]:
    """The variants that there is space for: machine, variant and size, of each machine as many."""
    found: list[tuple[int, int, int]] = []
    for v in range(MOST_VARIANTS + 1):
        of_this = [
            (m, v, s)
            for m, machine in enumerate(machines)
            if v < len(machine.variants)
            for s in range(len(machine.sizes))
            if machine.variants[v].geometries[s] is not None
        ]
        if len(found) + len(of_this) > space:
            break
        found += of_this
    return found
