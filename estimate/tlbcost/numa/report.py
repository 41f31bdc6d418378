# SPDX-License-Identifier: GPL-2.0-or-later
"""What a program's pages do on a NUMA machine, for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import grid, print_whole, section, table
from tlbcost.numa.accesses import HotPages
from tlbcost.numa.carrefour import Remedy
from tlbcost.numa.locality import Score, share
from tlbcost.numa.placement_table import cache_within
from tlbcost.numa.study import SizeFigures, Study
from tlbcost.numa.words import decision_sentence, reasons, verdict

if TYPE_CHECKING:
    from rich.console import Console

_REMEDIES: dict[Remedy, str] = {
    "interleave": "interleave the huge pages",
    "migrate": "move each to its main user",
    "split": "split all, move to users",
    "split_hot": "split hot ones, interleave",
    "replicate": "a copy of what is only read",
    "touched_by_users": "users touch first",
}


def print_study(study: Study, file: TextIO) -> None:
    """Print the report, whole."""
    print_whole(lambda console: _fill(console, study), file)


def _fill(console: Console, study: Study) -> None:
    _head(console, study)
    _sizes(console, study)
    _remedies(console, study)
    _real(console, study)
    console.print()
    console.print(verdict(study), style="bold")
    console.print()
    console.print(decision_sentence(study), style="bold")
    console.print()
    rows = grid()
    for reason in reasons(study):
        component, _, text = reason.partition(": ")
        rows.add_row(f"{component}:" if text else "", f"{text or component}.")
    console.print(rows)
    if study.threads > 1:
        console.print(
            "\nThreads are simulated in turn: where two of them race for the first touch of a "
            "page, the winner is the simulator's."
        )


def _head(console: Console, study: Study) -> None:
    rows = grid()
    machine = study.machine
    where = "bare metal" if machine.hypervisor is None else f"virtual ({machine.hypervisor})"
    rows.add_row("machine", f"{machine.cpu_name or 'unknown CPU'}, {where}")
    rows.add_row("nodes", f"{study.nodes.count} ({study.nodes.sentence})")
    rows.add_row("threads", f"{study.threads}, {study.spread} over the nodes")
    plan = study.plan
    l2, l3 = cache_within(plan.l2_bytes)[0], cache_within(plan.l3_bytes)[0]
    caches = f"{units.size(l2)} of L2" + (f" and {units.size(l3)} of L3" if l3 else "")
    rows.add_row("caches", f"{caches} for each thread ({plan.source})")
    followed = "every reference"
    if plan.measured < plan.period:
        followed = (
            f"{units.count(plan.measured)} of each {units.count(plan.period)} references of a "
            f"thread, after {units.count(plan.warm)} to fill its caches"
        )
    rows.add_row("followed", followed)
    rows.add_row("faults", f"priced {study.costs_source}")
    rows.add_row("run", _times(study))
    console.print(f"tlbcost {study.version}: numa {shlex.join(study.argv)}\n", style="bold")
    console.print(rows)


def _times(study: Study) -> str:
    native = f"{units.time(study.run.wall_ns)} natively"
    if study.simulated_ns is None:
        return native
    times = study.simulated_ns / study.run.wall_ns
    return f"{native}, simulated in {units.time(study.simulated_ns)} ({times:.0f} times as long)"


def _sizes(console: Console, study: Study) -> None:
    both = (study.base, study.huge)
    shown = table("by first touch", *(f"{units.size(each.page_size_bytes)} pages" for each in both))
    shown.add_row("local access ratio", *(share(e.first_touch.local_fraction) for e in both))
    shown.add_row("imbalance", *(share(e.first_touch.imbalance) for e in both))
    shown.add_row("hot pages", *(_hot(e.hot) for e in both))
    shown.add_row("false sharing", "-", share(study.false_sharing))
    shown.add_row("interleaved: LAR", *(share(e.interleaved.local_fraction) for e in both))
    shown.add_row("interleaved: imbalance", *(share(e.interleaved.imbalance) for e in both))
    shown.add_row("data page walks", *(units.count(e.data_walks) for e in both))
    shown.add_row("page faults", *(units.count(e.page_faults) for e in both))
    shown.add_row("page-fault time", *(_fault_time(e, study) for e in both))
    section(console, shown)
    console.print(
        f"{units.count(round(study.dram_accesses))} DRAM accesses; hot: more than 6 % of them; "
        "false sharing: those to huge pages whose base pages belong on several nodes."
    )


def _hot(hot: HotPages | None) -> str:
    if hot is None:
        return units.NOT_OBTAINED
    return f"{hot.count}" if not hot.count else f"{hot.count} ({share(hot.fraction)})"


def _fault_time(figures: SizeFigures, study: Study) -> str:
    if figures.fault_time_ns is None:
        return units.NOT_OBTAINED
    part = figures.fault_time_ns / study.run.wall_ns
    return f"{units.time(figures.fault_time_ns)} ({share(part)})"


def _remedies(console: Console, study: Study) -> None:
    shown = table("huge pages, simulated", "LAR", "imbalance")
    rows: list[tuple[str, Score]] = [("as touched first", study.huge.first_touch)]
    rows += [(_REMEDIES[name], score) for name, score in study.remedies.items()]
    rows.append(("as Carrefour-LP decides", study.after))
    for words, score in rows:
        shown.add_row(words, share(score.local_fraction), share(score.imbalance))
    section(console, shown)


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
            share(n_bytes / real.resident_bytes),
            share(asked.get(node, 0) / total) if asked and total else units.NOT_OBTAINED,
        )
    section(console, shown)
    console.print(f"Policy: {', '.join(real.policies)} (numa_maps; pages by move_pages).")
