# SPDX-License-Identifier: GPL-2.0-or-later
"""Views of one run of the simulator for all machines, page sizes and guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.machines.plan import BASE_BYTES, GIB, HUGE_BYTES, MOST_VARIANTS, OtherMachine
from tlbcost.processors.published import Geometry, PageSizeGeometry
from tlbcost.simulator.core import Core
from tlbcost.simulator.counts import MOST_VIEWS, View, options


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
    _check_known(machines)
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
    for number, (m, s) in enumerate(cells):
        if number < skipped:
            continue
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


def _check_known(machines: Sequence[OtherMachine]) -> None:
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
