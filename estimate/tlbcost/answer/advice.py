# SPDX-License-Identifier: GPL-2.0-or-later
"""What should be done after an estimate, and what is to be typed for it?"""

from __future__ import annotations

import os
import shlex

from tlbcost.answer.record import Estimate
from tlbcost.answer.words import decider
from tlbcost.common import units
from tlbcost.remedies.advice import Advice, advise
from tlbcost.remedies.situation import Situation
from tlbcost.system import hints
from tlbcost.system.glibc import FIRST_WITH_HUGETLB, HUGETLB, TUNABLES, tunable
from tlbcost.system.machine import THP


def advice_for(estimate: Estimate) -> tuple[Advice, ...]:
    """What to do about each region; empty if there is nothing to do, or nothing was attributed."""
    if estimate.gain.verdict in ("not_worth_it", "already_huge"):
        return ()
    around = estimate.given.surroundings
    attribution = estimate.attribution
    if around is None or around.settings is None or attribution is None:
        return ()
    faults = tuple(
        None if costs is None else costs.fault_ns
        for costs in (estimate.base_costs, estimate.huge_costs)
    )
    situation = Situation(
        estimate.given.argv,
        around.settings,
        around.glibc,
        around.hugectl,
        estimate.given.runs,
        (faults[0], faults[1]),
        {**os.environ, TUNABLES: around.glibc_tunables or ""},
        None if estimate.gain.fault_fraction is None else estimate.gain.fault_fraction.value,
        _mapped(estimate),
        around.can_run_thp,
    )
    return advise(attribution.regions, situation)


def _mapped(estimate: Estimate) -> dict[str, tuple[str, ...]]:
    """By the path of each executable, the names of what its processes mapped."""
    names: dict[str, dict[str, None]] = {}
    for program, mapping in estimate.given.seen:
        names.setdefault(program, {})[mapping.name] = None
    return {program: tuple(found) for program, found in names.items()}


def first_steps(estimate: Estimate) -> list[str]:
    """The simplest remedy of each region, as lines to type; lines with # explain."""
    if not estimate.advice:
        return next_steps(estimate)
    steps = narrower(estimate)
    for advice in estimate.advice:
        for remedy in advice.remedies[:1]:
            steps += [f"# {remedy.words}:", *remedy.steps]
    return steps


def next_steps(estimate: Estimate) -> list[str]:
    """Commands to type, each of which works on this system; lines with # explain."""
    if estimate.gain.verdict in ("not_worth_it", "already_huge"):
        return ["# Nothing to configure for this program."]
    steps = narrower(estimate)
    if estimate.given.surroundings is None or estimate.given.machine is None:
        steps.append("# where the program runs, transparent huge pages for malloc:")
        return [*steps, _with_tunable(estimate, "1")]
    glibc = estimate.given.surroundings.glibc
    if glibc is None or glibc < FIRST_WITH_HUGETLB:
        found = f"glibc {glibc[0]}.{glibc[1]}" if glibc else "no glibc"
        steps += [
            f"# malloc has no switch for huge pages here ({found}; glibc 2.35 brought it):",
            "# call madvise(MADV_HUGEPAGE) on the program's large blocks.",
        ]
        return steps
    mode = estimate.given.machine.thp_mode
    if mode == "never":
        steps += [
            "# transparent huge pages are off; to allow them where they are asked for:",
            hints.write_setting("madvise", f"{THP}/enabled")
            or "# (this system does not let it be set)",
        ]
    if mode is not None:
        steps += ["# transparent huge pages for malloc:", _with_tunable(estimate, "1")]
    else:
        size = estimate.given.huge_page_bytes
        pages = _huge_pages(estimate)
        steps += [
            f"# huge pages from a pool of {units.size(pages * size)}:",
            hints.as_root(f"sysctl vm.nr_hugepages={pages + max(8, pages // 16)}"),
            _with_tunable(estimate, "2"),
        ]
    return steps


def narrower(estimate: Estimate) -> list[str]:
    """What narrows the interval of a close call; empty where nothing does."""
    if decider(estimate) == "runs":
        return ["# a narrower interval:", f"tlbcost estimate --runs 10 -- {_command(estimate)}"]
    return []


def _huge_pages(estimate: Estimate) -> int:
    """As many as the program's memory needs at most."""
    return 0 if estimate.footprint is None else estimate.footprint.anonymous_huge_pages


def _command(estimate: Estimate) -> str:
    return shlex.join(estimate.given.argv)


def _with_tunable(estimate: Estimate, value: str) -> str:
    surroundings = estimate.given.surroundings
    present = (surroundings.glibc_tunables if surroundings else None) or ""
    kept = [part for part in present.split(":") if part and tunable(part, HUGETLB) is None]
    tunables = ":".join([*kept, f"{HUGETLB}={value}"])
    return f"GLIBC_TUNABLES={shlex.quote(tunables)} {_command(estimate)}"
