# SPDX-License-Identifier: GPL-2.0-or-later
"""Does code that runs on 64-bit Arm take 4 KiB for the base page, or 2 MiB for the huge one?

There they are 4, 16 or 64 KiB, and 2, 32 or 512 MiB. Every line with such a number has to be on the
list, with the reason why it is right with other pages; a reason whose line is gone has to go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from builders.tree import TREE

NUMBER = re.compile(
    r"\b(4096u?|4097|0x1000|0xfffu?|0xFFF|2097152|4 << 10|1 << 12|2u? << 20|1 << 21)\b"
    r"|(<<|>>) ?(12|21)\b|\b4 \* (_?KIB|1024)\b|\b2 \* (_?MIB)\b"
)
# Folders that are built for x86-64 alone, or are no part of what is installed.
X86_ALONE = ("profiler/copies/", "profiler/sites/", "profiler/thp/", "profiler/trace/")
FOLDERS = {
    "calibrator": "*.[ch]",
    "common": "*.[ch]",
    "profiler": "*.[ch]",
    "estimate/tlbcost": "*.py",
}

NO_PAGE = "a number of something else"
BUFFER = "bytes of a buffer"
FOOTPRINTS = "footprints in pages, of any size"
LEAST = "the least page that there is: what a user may name"
DEFAULT = "the default of an option that tlbcost always gives"
MODELLED = "pages of a modelled machine, whatever this kernel's are"
NAMES = "sizes by the names that tables give them"
UNKNOWN = "assumed of a machine that is not this one, or of a kernel that does not say"
MULTIPLE = "what is a multiple of any base page is one of 4 KiB"
ARTICLE = "strides of the article's patterns, which are not the system's pages"
X86 = "of x86 alone"
POOL = "written for hosts with 2 MiB pages alone; the line for the kernel's command line is for all"

# file: (a part of the line, why that is right)
ALLOWED: dict[str, list[tuple[str, str]]] = {
    "calibrator/arena.c": [("char there[4096]", BUFFER)],
    "calibrator/groups.c": [(" 4096, ", FOOTPRINTS), ("OCTAVE(4096u)", FOOTPRINTS)],
    "calibrator/plan.c": [("LEAST_FOOTPRINT 4096", FOOTPRINTS)],
    "calibrator/point.c": [("SAMPLE 4096", NO_PAGE)],
    "profiler/counters/targets.c": [("line[4096]", BUFFER)],
    "profiler/engine/parse.c": [("bytes < 4096", LEAST)],
    "profiler/launch/tail.h": [("TAIL_BYTES 4096", BUFFER)],
    "profiler/numa/placement.c": [("FIRST_TOUCHES", NO_PAGE)],
    "profiler/simulator/code.h": [("MOST_STACKS 4096u", NO_PAGE)],
    "profiler/simulator/memory_tables.c": [("(device ", NO_PAGE)],
    "profiler/simulator/options.c": [
        (".l2 = { 2 << 20", NO_PAGE),
        (".l3_bytes = 2 << 20", NO_PAGE),
        ("--base-page=BYTES", DEFAULT),
        ("--huge-page=BYTES", DEFAULT),
        ("[1048576:16,2097152:16]", NO_PAGE),
    ],
    "profiler/simulator/region.c": [("IN_PAGE", X86)],
    "profiler/timing/branches.h": [("BRANCH_TARGETS 4096u", NO_PAGE)],
    "profiler/timing/core.h": [("CORE_FORWARDS 4096u", NO_PAGE)],
    "profiler/timing/memory.c": [("MEMORY_BANKS", NO_PAGE)],
    "profiler/timing/wrong_paths.h": [("WRONG_PATHS_BRANCHES 4096u", NO_PAGE)],
    "estimate/tlbcost/answer/estimate.py": [("_USUAL_HUGE_BYTES.get(", UNKNOWN)],
    "estimate/tlbcost/attribution/document.py": [("_BASE_BYTES, HUGE_BYTES = ", X86)],
    "estimate/tlbcost/attribution/copies.py": [("_HUGE_BYTES = ", X86)],
    "estimate/tlbcost/attribution/sites.py": [
        ("& -4096", X86),
        ("or 0) + 4096)", X86),
        ("_PAGE_BYTES, ", X86),
    ],
    "estimate/tlbcost/calibration/measurement.py": [("_WALKS = (4096,", FOOTPRINTS)],
    "estimate/tlbcost/commands/calibrate.py": [("_LEAST_PAGE = 4096", LEAST)],
    "estimate/tlbcost/counters/importing/printed_counts.py": [("event <= 0xFFF", NO_PAGE)],
    "estimate/tlbcost/fleet/sources.py": [("file.read(4096)", BUFFER)],
    "estimate/tlbcost/machines/document.py": [("minimum=4096", LEAST)],
    "estimate/tlbcost/machines/list_document.py": [("_PAGES = (", MODELLED)],
    "estimate/tlbcost/machines/unknowns.py": [("_DIRECTORY_BYTES = ", MODELLED)],
    "estimate/tlbcost/machines/plan.py": [("BASE_BYTES, HUGE_BYTES, GIB =", MODELLED)],
    "estimate/tlbcost/memory/frames.py": [("_RUN_PAGES = 1 << 18, 1 << 12", NO_PAGE)],
    "estimate/tlbcost/memory/peak_sampler.py": [("_PAGE = 7, 2, 4096", MULTIPLE)],
    "estimate/tlbcost/model/gain.py": [("SURE_PAGES = 4096", NO_PAGE)],
    "estimate/tlbcost/numa/node_memory.py": [("_PAGES = 4096", NO_PAGE)],
    "estimate/tlbcost/numa/watch/kernel.py": [("_MADV_COLD)", X86)],
    "estimate/tlbcost/numa/watch/session.py": [("huge_page_bytes() or", UNKNOWN)],
    "estimate/tlbcost/pagesizes/published.py": [("Pattern(", ARTICLE)],
    "estimate/tlbcost/processors/cpuid.py": [
        ("_4K, _2M, _4M, _1G =", X86),
        ("(half & 0xFFF) * unit, half >> 12", X86),
    ],
    "estimate/tlbcost/processors/events.py": [('"4K": 4 << 10', NAMES)],
    "estimate/tlbcost/remedies/remedy.py": [("huge_page_bytes or 2 << 20", UNKNOWN)],
    "estimate/tlbcost/report/facts.py": [("return 4096, document.huge_page_bytes", UNKNOWN)],
    "estimate/tlbcost/review/deployment.py": [("_DEFAULT_POOL = 2 << 20", POOL)],
    "estimate/tlbcost/measured/catalog.py": [("n_bytes < 4096", LEAST)],
}


def lines() -> Iterator[tuple[str, str]]:
    """Files and their lines with such a number, without comments."""
    for folder, pattern in FOLDERS.items():
        for path in sorted((TREE / folder).rglob(pattern)):
            name = str(path.relative_to(TREE))
            if not name.startswith(X86_ALONE):
                for line in path.read_text(encoding="utf-8").splitlines():
                    code = line.split(" # ")[0] if path.suffix == ".py" else line
                    if NUMBER.search(code) and not code.lstrip().startswith(("*", "/*", "#:")):
                        yield name, code.strip()


def test_no_page_size_is_assumed() -> None:
    left = [
        f"{name}: {line}"
        for name, line in lines()
        if not any(part in line for part, _ in ALLOWED.get(name, []))
    ]
    assert left == [], "read the size from the system, or say here why the number is right"


def test_each_reason_is_of_a_line_that_is_there() -> None:
    found = list(lines())
    gone = [
        (name, part)
        for name, allowed in ALLOWED.items()
        for part, _ in allowed
        if not any(name == file and part in line for file, line in found)
    ]
    assert gone == []
