# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts of a report: the run, the memory that misses, why it is not on huge pages."""

from __future__ import annotations

from statistics import median

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.answer.words import waits_words
from tlbcost.attribution.document import RegionShare, words
from tlbcost.common import names, units
from tlbcost.common.units import middle
from tlbcost.measured.record import WORTHWHILE_FRACTION
from tlbcost.memory.eligibility import MemoryKind
from tlbcost.memory.first_touch import SLOW_NS
from tlbcost.remedies.advice import RegionName

_MODES = {"user": "user mode", "kernel": "kernel mode", "both": "user and kernel mode"}
_KINDS: dict[MemoryKind, str] = {
    "anonymous": "anonymous",
    "heap": "heap",
    "stack": "stack",
    "shared": "shared memory",
}
_NAME_COLUMNS = 30
# Nobody waits for less; and of this part that came onto base pages it is said.
_SOME_PART = 0.02
# An allocation site has most of the misses.
_MOST = 0.5


def mode_words(mode: str | None) -> str:
    return _MODES.get(mode or "", "mode not known")


def run_words(document: EstimateDocument) -> str | None:
    """The native runs' times and page faults; None: nothing ran here."""
    runs = document.program.runs
    if not runs:
        return None
    walls = [run.wall_ns for run in runs]
    others = [
        min(walls), max(walls), median([run.user_ns for run in runs]),
        median([run.system_ns for run in runs]),
    ]  # fmt: skip
    wall, (low, high, user, kernel) = units.times_in_unit_of(median(walls), others)
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    spread = number if low == high else f"{low} to {high}, {number}"
    faults = units.count(int(median([run.minor_faults + run.major_faults for run in runs])))
    text = f"{wall} ({spread}): {user} user, {kernel} kernel; {faults} faults"
    waits = waits_words(runs)
    return text if waits is None else f"{text}; {waits}"


def counted_words(document: EstimateDocument) -> str | None:
    counters = document.counters
    if document.program.runs or counters is None:
        return None
    return f"{counters.source}: {counters.pmu_name}, {mode_words(counters.mode)}"


def memory_words(document: EstimateDocument, columns: int) -> str | None:
    """The memory that misses most, in this many columns if possible; None: not known."""
    region = None
    if document.what_to_do:
        first = document.what_to_do[0]
        region = region_of(document, first.program, first.regions[0])
    elif document.attribution is not None and document.attribution.memory:
        region = max(document.attribution.memory, key=lambda each: each.misses_fraction or 0.0)
    if region is None:
        return None
    size = region.touched_bytes or region.size_bytes
    start = "" if size is None else f"{units.size(size)} "
    start += _KINDS.get(
        region.kind, middle(names.shown(region.name.rpartition("/")[2]), _NAME_COLUMNS)
    )
    end = ", code" if region.code else ""
    if region.backed is not None and region.backed.page_bytes:
        end += f", on {units.size(region.backed.page_bytes)} pages"
    what = "walks" if region.samples is None else "misses sampled"
    end += f": {units.percent(region.misses_fraction or 0.0)} of the {what}"
    sites = [f" ({site})" for site in _sites(region)]
    fitting = (site for site in sites if len(start + site + end) <= columns)
    return start + next(fitting, "") + end


def stall_words(document: EstimateDocument) -> str | None:
    """How long getting a page takes, where it is not quick; None: it is, or is not known."""
    found = document.stalls
    if found is None or found.huge is None:
        return None
    missed = 1 - (found.huge_fraction or 0.0)
    some = f"; {units.percent(missed)} got none" if missed >= _SOME_PART else ""
    whole = found.huge_forked_fraction or 0.0
    copied = f"; {units.percent(whole)} copied as huge pages" if whole >= _SOME_PART else ""
    own = (found.base_faults, found.huge_faults)
    number = " -> ".join(f"{each.touches:,}" for each in own if each is not None)
    without = (found.huge_kernel or {}).get("thp_fault_fallback", 0)
    number += f" of them, {without:,} without a huge page" if without else " of them"
    rows = (
        ("its own page faults on base -> huge pages", *own, f"; {number}"),
        ("first touch of base -> huge pages", found.base, found.huge, some),
        ("a write after a fork", found.base_forked, found.huge_forked, copied),
    )
    said = []
    for name, base, huge, end in rows:
        if base is None or huge is None or huge.worst_ns < SLOW_NS:
            continue
        pairs = {
            "median": (base.median_ns, huge.median_ns),
            "p99": (base.p99_ns, huge.p99_ns),
            "p99.9": (base.p999_ns, huge.p999_ns),
            "worst": (base.worst_ns, huge.worst_ns),
        }
        times = (f"{of} {units.time(x)} -> {units.time(y)}" for of, (x, y) in pairs.items())
        said.append(f"{name}: {', '.join(times)}{end}")
    return "; ".join(said) or None


def region_of(document: EstimateDocument, program: str, name: RegionName) -> RegionShare | None:
    for found in (document.attribution, document.sampled_attribution):
        for region in () if found is None else found.memory:
            if (region.program, region.name, region.kind, region.code) == (
                program, name.name, name.kind, name.code
            ):  # fmt: skip
                return region
    return None


def _sites(region: RegionShare) -> list[str]:
    first = next((site for site in region.sites if site.misses_fraction >= _MOST), None)
    if first is None or region.kind in ("file", "stack"):
        return []
    # Without the arguments of C++, which are long.
    function = (first.function or "").partition("(")[0]
    if not function:
        return [words(first)]
    file = (first.object or "").rpartition("/")[2]
    where = f"{first.file}:{first.line}" if first.file and first.line else f"in {file}"
    return [f"{function}, {where}", function]


def cause_words(document: EstimateDocument) -> str | None:
    """Why the memory is not on huge pages, or why that hardly matters; None: not known."""
    if document.verdict.code == "already_huge":
        return "its memory is on huge pages already, by its own request or the system's"
    if document.verdict.code == "not_worth_it":
        base, huge = (walks(document, size) for size in page_sizes(document))
        if base is None or huge is None:
            return None
        if document.bound_fraction.value < WORTHWHILE_FRACTION:
            return f"few page walks: {units.count(base)}"
        if 2 * huge > base:
            size = units.size(document.huge_page_bytes)
            return f"{units.count(base)} page walks, and {units.count(huge)} on {size} pages"
        return f"{units.count(base)} page walks, which overlap with other work"
    if document.what_to_do and document.what_to_do[0].why_not_huge is not None:
        return document.what_to_do[0].why_not_huge
    mode = document.machine.thp_mode if document.machine is not None else None
    return None if mode is None else f'THP is "{mode}" here'


def page_sizes(document: EstimateDocument) -> tuple[int, int]:
    """The base and the huge pages that were simulated; of no simulation, of 4 KiB."""
    if document.simulation is None:
        return 4096, document.huge_page_bytes
    base, huge = document.simulation.geometry
    return base.page_size_bytes, huge.page_size_bytes


def walks(document: EstimateDocument, page_size: int) -> int | None:
    """Page walks on pages of this size, by the simulation; None: not simulated."""
    if document.simulation is None:
        return None
    counts = document.simulation.counts
    return sum(each.stlb_misses for each in counts if each.page_size_bytes == page_size)
