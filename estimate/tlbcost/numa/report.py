# SPDX-License-Identifier: GPL-2.0-or-later
"""The report on a program's pages on a NUMA machine: sentences and tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import names, units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.common.units import percent
from tlbcost.numa import carrefour
from tlbcost.numa.carrefour import DecisionCode, Remedy, Split
from tlbcost.numa.locality import (
    INTERLEAVE_ABOVE,
    SPLIT_GAIN,
    Score,
    direction_words,
    placement_words,
)
from tlbcost.numa.placement import HOT_FRACTION, HotPages
from tlbcost.numa.placement_table import cache_within
from tlbcost.numa.study import SizeFigures, Study

if TYPE_CHECKING:
    from rich.console import Console

_COMMAND_COLUMNS, _MOST_REMEDIES = 70, 3
_REMEDIES: dict[Remedy, str] = {
    "interleave": "interleave the huge pages",
    "migrate": "move each to its main user",
    "split": "split all, move to users",
    "split_hot": "split hot ones, interleave",
    "replicate": "a copy of what is only read",
    "touched_by_users": "users touch first",
}
_CODES: dict[Split, DecisionCode] = {
    "shared": "split_shared", "hot": "split_hot", "none": "keep_large",
}  # fmt: skip


def print_study(study: Study, file: TextIO, *, details: bool) -> None:
    print_whole(lambda console: _fill(console, study, details=details), file)


def _fill(console: Console, study: Study, *, details: bool) -> None:
    console.print(study.verdict, style="bold")
    console.print(study.carrefour_lp.sentence, style="bold")
    _sizes(console, study, details=details)
    _remedies(console, study, details=details)
    console.print()
    _head(console, study, details=details)
    if details:
        _real(console, study)
        console.print()
        rows = grid()
        for reason in study.carrefour_lp.reasons:
            component, _, text = reason.partition(": ")
            rows.add_row(f"{component}:" if text else "", f"{text or component}.")
        console.print(rows)
        if study.threads > 1:
            console.print(
                "Threads are simulated in turn: where two race for the first touch of a page, the "
                "simulator decides which one wins."
            )


def _head(console: Console, study: Study, *, details: bool) -> None:
    rows = grid()
    machine = study.machine
    rows.add_row("program", units.middle(names.command_line(study.argv), _COMMAND_COLUMNS))
    times = f"{units.time(study.run.wall_ns)} natively"
    if study.simulated_ns is not None:
        factor = study.simulated_ns / study.run.wall_ns
        times += f", simulated in {units.time(study.simulated_ns)} ({factor:.0f} times as long)"
    rows.add_row("run", times)
    rows.add_row("nodes", f"{study.nodes.count} ({study.nodes.sentence})")
    if not details:
        console.print(rows)
        return
    where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
    rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
    rows.add_row("threads", f"{study.threads}, {study.spread} over the nodes")
    sample = study.sample
    l2, l3 = cache_within(sample.l2_bytes)[0], cache_within(sample.l3_share_bytes)[0]
    caches = f"{units.size(l2)} of L2" + (f" and {units.size(l3)} of L3" if l3 else "")
    rows.add_row("caches", f"{caches} for each thread ({sample.caches_source})")
    followed = "every reference"
    if sample.measured_references < sample.period_references:
        followed = (
            f"{units.count(sample.measured_references)} of each "
            f"{units.count(sample.period_references)} references of a "
            f"thread, after {units.count(sample.warm_references)} to fill its caches"
        )
    rows.add_row("followed", followed)
    rows.add_row("faults", f"costs: {study.costs_source}")
    console.print(rows)


def _sizes(console: Console, study: Study, *, details: bool) -> None:
    both = study.page_sizes
    shown = table("by first touch", *(f"{units.size(each.page_size_bytes)} pages" for each in both))
    shown.add_row("local access ratio", *(percent(e.first_touch.local_fraction) for e in both))
    shown.add_row("imbalance", *(percent(e.first_touch.imbalance) for e in both))
    if details or any(e.hot_pages is None or e.hot_pages.count for e in both):
        shown.add_row("hot pages", *(_hot(e.hot_pages) for e in both))
    if details or study.false_sharing_fraction:
        shown.add_row("false sharing", "-", percent(study.false_sharing_fraction))
    if details:
        shown.add_row("interleaved: LAR", *(percent(e.interleaved.local_fraction) for e in both))
        shown.add_row("interleaved: imbalance", *(percent(e.interleaved.imbalance) for e in both))
    shown.add_row("data page walks", *(units.count(e.data_walks) for e in both))
    shown.add_row("page faults", *(units.count(e.page_faults) for e in both))
    shown.add_row("page-fault time", *(_fault_time(e, study) for e in both))
    section(console, shown)
    accesses = f"{units.count(round(study.dram_accesses))} DRAM accesses"
    if not details:
        console.print(f"{accesses}. Details: --details")
        return
    console.print(
        f"{accesses}; hot: a page with more than {100 * HOT_FRACTION:g} % of them; false sharing: "
        "those to huge pages whose base pages belong on several nodes; LAR: local access ratio."
    )


def _hot(hot: HotPages | None) -> str:
    if hot is None:
        return units.NOT_OBTAINED
    return f"{hot.count}" if not hot.count else f"{hot.count} ({percent(hot.fraction)})"


def _fault_time(figures: SizeFigures, study: Study) -> str:
    if figures.fault_time_ns is None:
        return units.NOT_OBTAINED
    part = figures.fault_time_ns / study.run.wall_ns
    return f"{units.time(figures.fault_time_ns)} ({percent(part)})"


def _remedies(console: Console, study: Study, *, details: bool) -> None:
    first = study.huge.first_touch
    rows: list[tuple[str, Score]] = [("as touched first", first)]
    rows += [(_REMEDIES[name], score) for name, score in study.remedies.items()]
    rows.append(("as Carrefour-LP decides", study.carrefour_lp.after))
    if not details:
        rows = [row for row in rows[1:] if _shown(row[1]) != _shown(first)]
        rows = sorted(rows, key=lambda row: -(row[1].local_fraction or 0))[:_MOST_REMEDIES]
    if not rows:
        return
    shown = table("huge pages, simulated", "local accesses", "imbalance")
    for words, score in rows:
        shown.add_row(words, *_shown(score))
    section(console, shown)


def _shown(score: Score) -> tuple[str, str]:
    return percent(score.local_fraction), percent(score.imbalance)


def _real(console: Console, study: Study) -> None:
    real = study.real
    if real is None:
        console.print(f"\nWhere the memory really lay: NA: {study.why_not_real}.")
        return
    shown = table("memory of the native run", "bytes", "share", "of pages asked about")
    asked = real.sampled_pages
    total = sum(asked.values()) if asked else 0
    for node, n_bytes in sorted(real.bytes_on.items()):
        shown.add_row(
            f"node {node}",
            units.size(n_bytes),
            percent(n_bytes / real.resident_bytes),
            percent(asked.get(node, 0) / total) if asked and total else units.NOT_OBTAINED,
        )
    section(console, shown)
    console.print(f"Policy: {', '.join(real.policies)} (numa_maps; pages by move_pages).")


def worded(study: Study) -> Study:
    maptu = study.dram_accesses_per_us_and_node
    rate = (
        f"rate: {units.known(maptu, units.nanoseconds)} DRAM accesses "
        f"per µs and node in the native run here; it acts from {carrefour.ACT_FROM_MAPTU:g} and "
        f"splits from {carrefour.SPLIT_FROM_MAPTU:g}, which is not applied, since the rate is this "
        "machine's"
    )
    size = units.size(study.huge.page_size_bytes)
    words = direction_words(study.directions.translation, study.directions.placement)
    verdict = (
        f"{size} pages by first touch on {study.nodes.count} nodes: {words} "
        f"({placement_words(study.base.first_touch, study.huge.first_touch)}; page walks cause "
        f"{percent(study.walk_l2_miss_fraction)} of the L2 misses on "
        f"{units.size(study.base.page_size_bytes)} pages)."
    )
    decision = study.carrefour_lp
    if decision.split == "shared":
        what = "split all shared huge pages, and move their base pages to their users"
    elif decision.split == "hot":
        what = "split the hot huge pages, and interleave their base pages"
    elif decision.interleave:
        what = "keep the huge pages, and interleave them"
    elif decision.migrate:
        what = "keep the huge pages, and move them to their users"
    else:
        what = "leave the huge pages as they are"
    decided = replace(
        decision,
        code=_CODES[decision.split],
        sentence=f"Carrefour-LP would {what}.",
        reasons=(*_reactive(study), *_conservative(study), rate),
    )
    return replace(study, verdict=verdict, carrefour_lp=decided)


def _reactive(study: Study) -> list[str]:
    decision, whole = study.carrefour_lp, study.huge.first_touch
    found = []
    if decision.lar_split is None:
        found.append(
            "reactive: the run has fewer than two intervals "
            f"({units.count(study.sample.interval_references)} references each) to compare LARs in"
        )
    elif study.intervals:
        gain = max(each.split_lar - each.migrated_lar for each in study.intervals)
        met = "twice in a row" if decision.lar_split else "not twice in a row"
        found.append(
            f"reactive: splitting would raise the LAR by {_points(gain)} points at most "
            f"({_points(SPLIT_GAIN)} are asked for twice in a row: {met})"
        )
    if decision.vetoed:
        found.append(
            f"reactive: in {decision.vetoed} of {len(study.intervals)} intervals moving huge pages "
            "has to be tried first, or hardly any access is local"
        )
    hot = study.huge.hot_pages
    if hot is not None:
        found.append(
            f"reactive: {hot.count} hot huge {'page' if hot.count == 1 else 'pages'} "
            f"(above {percent(HOT_FRACTION)} of the accesses), {percent(hot.fraction)} of all"
        )
    found.append(
        f"Carrefour: imbalance {percent(whole.imbalance)}, "
        f"{'interleaves' if decision.interleave else 'does not interleave'} "
        f"(above {percent(INTERLEAVE_ABOVE)}); LAR {percent(whole.local_fraction)}, "
        f"{'moves pages' if decision.migrate else 'does not move pages'} "
        f"(below {percent(carrefour.MIGRATE_BELOW)})"
    )
    return found


def _points(fraction: float) -> str:
    return f"{100 * fraction:.1f}".removesuffix(".0")


def _conservative(study: Study) -> list[str]:
    decision = study.carrefour_lp
    walks = percent(study.walk_l2_miss_fraction)
    faults = percent(study.base.largest_thread_fault_fraction)
    promote = {True: "wants huge pages", False: "does not promote", None: "cannot tell"}
    allocate = {True: "allocates huge pages", False: "need not allocate them", None: "cannot tell"}
    found = [
        f"conservative: page walks cause {walks} of the L2 misses on base pages, "
        f"{promote[decision.promote]} (from {percent(carrefour.PROMOTE_FROM)})",
        f"conservative: a thread spends {faults} of the run in page faults on base pages at most, "
        f"{allocate[decision.allocate]} (from {percent(carrefour.ALLOCATE_FROM)})",
    ]
    if decision.promote and decision.split == "shared":
        found.append("the components disagree: what one splits, the other promotes again")
    return found
