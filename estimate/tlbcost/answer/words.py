# SPDX-License-Identifier: GPL-2.0-or-later
"""The sentences of a report: the verdict with its reason, and what to type next."""

from __future__ import annotations

import shlex

from tlbcost.answer.content import Content
from tlbcost.common import units
from tlbcost.model.gain import WORTHWHILE_FRACTION, PredictedGain, total_interval
from tlbcost.numa.locality import direction_words, placement_words, translation_direction
from tlbcost.system import hints
from tlbcost.system.glibc import FIRST_WITH_HUGETLB, HUGETLB, tunable

_THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def verdict_sentence(estimate: PredictedGain, huge_page_bytes: int) -> str:
    """One sentence: worth trying, not worth it or too close to call, and why."""
    pages = f"{units.size(huge_page_bytes)} pages"
    total = total_interval(estimate)
    threshold = f"{100 * WORTHWHILE_FRACTION:.0f} %"
    # Of the simple model costs alone are uncertain.
    least, most = "even at the lowest costs", "even at the highest costs"
    if estimate.model == "overlap":
        least, most = "at the least", "at the most"
    if estimate.verdict == "worth_trying":
        return (
            f"Worth trying: {pages} should save {units.percent(total.value)} of the run time, "
            f"and {units.percent(total.low)} {least}; mostly "
            f"{_main_part(estimate)}."
        )
    if estimate.verdict == "already_huge":
        return (
            "Already there: the program was timed with most of its memory on huge pages, so that "
            "the shares above are what it may have gained, not what is left to gain."
        )
    if estimate.verdict == "not_worth_it":
        if total.high <= 0:
            return f"Not worth it: {most} {pages} would save nothing."
        if units.percent(total.high) == units.ABOUT_ZERO:
            return f"Not worth it: {most} {pages} would save next to nothing."
        return (
            f"Not worth it: {most} {pages} would save "
            f"{units.percent(total.high)} of the run time, less than the {threshold} that are "
            "worth a change."
        )
    return (
        f"Too close to call: {pages} should save between {units.percent(total.low)} and "
        f"{units.percent(total.high)} of the run time, and {threshold} are worth a change; "
        "only a trial can tell."
    )


def placement_sentence(content: Content) -> str | None:
    """What huge pages do on several NUMA nodes, beside what they do for translation; None: unasked.

    Directions alone: what a remote access costs is not calibrated.
    """
    placed, expected = content.placed, content.estimate.expected_fraction
    if placed is None:
        return None
    translation = translation_direction(expected.low, expected.high, WORTHWHILE_FRACTION)
    words = direction_words(translation, placed.direction)
    but = content.estimate.verdict == "worth_trying" and placed.direction == "slower"
    sentence = (
        f"{'But on' if but else 'On'} {placed.nodes} NUMA nodes ({placed.source}): {words} "
        f"({placement_words(placed.base, placed.huge)})."
    )
    if placed.direction == "slower":
        sentence += " tlbcost numa tells which remedies there are."
    return sentence


def _main_part(estimate: PredictedGain) -> str:
    fault = estimate.fault_fraction.value if estimate.fault_fraction else 0.0
    if fault > estimate.expected_fraction.value:
        return "by fewer page faults"
    return "by cheaper address translation"


def next_steps(content: Content) -> list[str]:
    """Commands to type, each of which works on this system; lines with # explain."""
    if content.estimate.verdict in ("not_worth_it", "already_huge"):
        return ["# Nothing to configure for this program."]
    steps = narrower(content)
    if content.surroundings is None or content.machine is None:
        steps.append("# where the program runs, transparent huge pages for malloc:")
        return [*steps, _with_tunable(content, "1")]
    glibc = content.surroundings.glibc
    if glibc is None or glibc < FIRST_WITH_HUGETLB:
        found = f"glibc {glibc[0]}.{glibc[1]}" if glibc else "no glibc"
        steps += [
            f"# malloc has no switch for huge pages here ({found}; glibc 2.35 brought it):",
            "# call madvise(MADV_HUGEPAGE) on the program's large blocks.",
        ]
        return steps
    mode = content.machine.thp_mode
    if mode == "never":
        steps += [
            "# transparent huge pages are off; to allow them where they are asked for:",
            hints.write_setting("madvise", _THP) or "# (this system does not let it be set)",
        ]
    if mode is not None:
        steps += ["# transparent huge pages for malloc:", _with_tunable(content, "1")]
    else:
        size = content.huge_page_bytes
        pages = _huge_pages(content)
        steps += [
            f"# huge pages from a pool of {units.size(pages * size)}:",
            hints.as_root(f"sysctl vm.nr_hugepages={pages + max(8, pages // 16)}"),
            _with_tunable(content, "2"),
        ]
    return steps


def narrower(content: Content) -> list[str]:
    """What narrows the interval of a close call; empty where nothing does."""
    if content.estimate.verdict == "too_close_to_call" and 0 < len(content.runs) < 10:
        return ["# a narrower interval:", f"tlbcost estimate --runs 10 -- {_command(content)}"]
    return []


def _huge_pages(content: Content) -> int:
    """As many as the program's memory needs at most."""
    return 0 if content.footprint is None else content.footprint.anonymous_huge_pages


def _command(content: Content) -> str:
    return shlex.join(content.argv)


def _with_tunable(content: Content, value: str) -> str:
    surroundings = content.surroundings
    present = (surroundings.glibc_tunables if surroundings else None) or ""
    kept = [part for part in present.split(":") if part and tunable(part, HUGETLB) is None]
    tunables = ":".join([*kept, f"{HUGETLB}={value}"])
    return f"GLIBC_TUNABLES={shlex.quote(tunables)} {_command(content)}"
