# SPDX-License-Identifier: GPL-2.0-or-later
"""How far are published cores from cores that were calibrated, program by program?

The three guests of data/samples: the same windows of one in five of the suite's compiled programs,
on 4 KiB pages, on the core as published and as calibrated, and on the published one with a group of
figures of the calibrated one. Writes the second table of doc/accuracy-machines.md.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import cost_at
from tlbcost.common import formats, paths
from tlbcost.common.formats import read_table
from tlbcost.machines.plan import BASE_BYTES, OtherMachine, machine_named, of_calibration, plan_pass
from tlbcost.simulator.core import Core
from tlbcost.simulator.run import level_options
from tlbcost.validation.session import SuiteTask, read_suite

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "accuracy-machines.md"
BEGIN, END = "<!-- calibrated: begin -->\n", "<!-- calibrated: end -->"
EACH = 5
COPIES = 12
# References that warm the TLBs before a window.
WARM = 1_000_000
# Guests by their published core.
GUESTS = {
    "amd64_fam19h_zen4": ("Zen 4", "amd-zen-4-guest"),
    "amd64_fam1ah_zen5": ("Zen 5", "amd-zen-5-guest"),
    "emr": ("Emerald Rapids", "emerald-rapids-guest"),
}
# Names of fields when the records were made.
_RENAMED = {
    "window": "reorder-buffer", "stores": "store-buffer", "misses": "fill-buffers",
    "l3-kept": "l3-half-life-cycles", "scattered": "isolated-pages",
}  # fmt: skip
_WALKS = {
    "stlb-cycles", "walkers", "walk-cycles", "huge-walk-cycles", "read-cycles",
    "huge-read-cycles", "directories", "directory-ways", "pointers", "roots", "host-shift",
    "isolated-pages", "walks-first",
}  # fmt: skip
_MEMORY = {
    "l3-bytes", "l3-half-life-cycles", "l3-cycles", "l3-interval", "memory-cycles",
    "memory-interval", "memory-apart", "row-cycles",
}  # fmt: skip
_AGREE = 0.1


@dataclass(frozen=True, slots=True)
class Guest:
    """A core as published, as calibrated, and with groups of the calibrated one's figures."""

    title: str
    clocks: tuple[float, float]  # GHz
    machines: tuple[OtherMachine, ...]


GROUPS = ("near caches and pipeline", "last level and memory", "walks")


def _calibrated(folder: str) -> tuple[Core, float]:
    """The calibrated core and its clock, as the sample has them."""
    own = paths.data("samples", folder)
    if (own / "calibration.tsv").exists():
        calibration = read_calibration(own / "calibration.tsv")
        made = of_calibration(calibration, (BASE_BYTES,), folder)
        clock = cost_at(calibration, "cycles_per_ns", None)
        assert made.core is not None
        assert clock is not None
        return made.core, clock.value
    header = read_table(own / "overlap.tsv", formats.OVERLAP).header
    fields = [part.partition("=") for part in header["core"].split(",")]
    core = Core(tuple((_RENAMED.get(name, name), int(value)) for name, _, value in fields))
    return core, float(header["cycles_per_ns"])


def _group(field: str) -> str:
    return GROUPS[2 if field in _WALKS else 1 if field in _MEMORY else 0]


def _mixed(published: Core, calibrated: Core, group: str) -> Core:
    """The published core with the calibrated one's figures of a group."""
    kept_fields = {n: v for n, v in published.fields if _group(n) != group}
    taken = {n: v for n, v in calibrated.fields if _group(n) == group}
    return Core(tuple({**kept_fields, **taken}.items()))


def guests() -> list[Guest]:
    """The three, each with the same TLBs throughout."""
    found = []
    for name, (title, folder) in GUESTS.items():
        machine = replace(machine_named(name, (BASE_BYTES,), None, None), variants=())
        core, clock = _calibrated(folder)
        assert machine.core is not None
        ghz = _ghz(name)
        cores = [machine.core, core, *(_mixed(machine.core, core, group) for group in GROUPS)]
        machines = tuple(replace(machine, name=f"{name}{i}", core=c) for i, c in enumerate(cores))
        found.append(Guest(title, (ghz, clock), machines))
    return found


def _ghz(name: str) -> float:
    table = read_table(paths.data("machines", f"{name}.tsv"), formats.MACHINE)
    return float(table.key("core_ghz").split()[0])


def programs() -> list[SuiteTask]:
    """One in five of those that are compiled here and have no threads; loop accesses no memory."""
    own = [
        task
        for task in read_suite()
        if Path(task.argv[0]).parent == paths.workloads()
        and Path(task.argv[0]).name not in ("threads", "loop")
    ]
    return own[::EACH]


def ns_of(task: SuiteTask, all_of_them: list[Guest]) -> list[list[float]]:
    """Of each guest, nanoseconds of a reference on its cores, in windows of a few copies."""
    machines = [machine for guest in all_of_them for machine in guest.machines]
    plan = plan_pass(machines)
    assert machines[0].core is not None
    levels = [word for option in level_options(plan.geometry) for word in option]
    views = [word for option in plan.options[1:] for word in option.split("=", 1)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [str(paths.libexec("tlbcost-copies")), "--out", folder, "--discard",
             "--copies", str(COPIES), "--warm", str(WARM), "--most-warm", str(WARM),
             "--core", str(machines[0].core.option), *levels, *views,
             "--", *task.argv],
            check=True,
        )  # fmt: skip
        cycles, references = _totals(Path(folder), len(machines))
    result, view = [], 0
    for guest in all_of_them:
        clocks = (guest.clocks[0], guest.clocks[1], *[guest.clocks[0]] * len(GROUPS))
        seen = cycles[view : view + len(clocks)]
        result.append([c / references / ghz for c, ghz in zip(seen, clocks, strict=True)])
        view += len(clocks)
    return result


def _totals(folder: Path, views: int) -> tuple[list[int], int]:
    """Cycles of each view in all windows that were timed, and their references."""
    cycles, references = [0] * views, 0
    for path in folder.glob("copy_view_cycles.*.tsv"):
        seen = read_table(path, formats.COPY_VIEW_CYCLES).records()
        other = path.with_name(path.name.replace("view_cycles", "windows"))
        for window in read_table(other, formats.COPY_WINDOWS).records():
            if window["base_cycles"] is None:
                continue
            references += int(str(window["timed_references"]))
            for row in seen:
                if row["window"] == window["window"]:
                    cycles[int(str(row["view"]))] += int(str(row["cycles"]))
    return cycles, references


def cause(seen: list[float]) -> str:
    """Whose figures bring the published core nearest to the calibrated one."""
    published, calibrated, *mixed = seen
    if abs(published / calibrated - 1) <= _AGREE:
        return ""
    left = {
        group: abs(math.log(each / calibrated)) for group, each in zip(GROUPS, mixed, strict=True)
    }
    return min(left, key=lambda group: left[group])


def text_of(found: Mapping[str, list[list[float]]], all_of_them: list[Guest]) -> str:
    """The table."""
    titles = [guest.title for guest in all_of_them]
    lines = [
        f"| program | {' | '.join(f'{title} | cause' for title in titles)} |",
        f"| --- {'| ---: | --- ' * len(titles)}|",
    ]
    for name, seen in found.items():
        cells = [f"{own[0] / own[1]:.2f} | {cause(own)}" for own in seen]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    ratios = [[seen[i][0] / seen[i][1] for seen in found.values()] for i in range(len(titles))]
    cells = [
        f"{median(own):.2f} | {sum(abs(r - 1) <= _AGREE for r in own)} of {len(own)} within 10 %"
        for own in ratios
    ]
    lines.append(f"| median | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    """Put the table into the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    _, after = rest.split(END, 1)
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


def main() -> int:
    """Run them, and write what is known after each; returns the exit code."""
    known = guests()
    found = {}
    for task in programs():
        print(task.name, file=sys.stderr)
        found[task.name] = ns_of(task, known)
        write(text_of(found, known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
