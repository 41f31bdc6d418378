# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the simulator agree with the article's table? Fills the table of doc/page-sizes.md."""

from __future__ import annotations

import sys
from pathlib import Path

from simulated_pages import PATTERNS, READS, Simulated, direction, simulated, within
from tlbcost.common.errors import FAILED, TlbcostError
from tlbcost.machines.plan import GIB, HUGE_BYTES
from tlbcost.pagesizes.published import published, ratio_of
from tlbcost.run.launch import launcher_of

TREE = Path(__file__).resolve().parent.parent

PAGE = TREE / "doc" / "page-sizes.md"
BEGIN, END = "<!-- simulated: begin -->\n", "<!-- simulated: end -->"
FACTOR = 1.3


def rows(found: list[Simulated]) -> list[str]:
    """The table, simulated alongside published."""
    figures = [each for each in published() if each.machine == "E5-4617"]
    lines = [
        "| pattern | walks per read, 4 KiB | 2 MiB | 1 GiB | 2 MiB / 4 KiB | published | "
        "1 GiB / 4 KiB | published | direction | within 1.3 |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for each in found:
        cells = [str(each.pattern)]
        reads = READS
        for size in each.sizes:
            assert size.counts is not None, "all three sizes of this machine are on file"
            walks = sum(seen.stlb_misses for side, seen in size.counts.items() if side != "fetch")
            cells.append(f"{walks / reads:.2f}")
        agree, near = True, True
        for page in (HUGE_BYTES, GIB):
            figure, ratio = ratio_of(figures, each.pattern, page), each.ratio(page)
            if figure is None or figure.ratio is None or ratio is None:
                raise TlbcostError(f"pattern {each.pattern} has no ratio", None, FAILED)
            cells += [f"{ratio:.2f}", f"{figure.ratio:.2f}"]
            agree = agree and direction(ratio) == direction(figure.ratio)
            near = near and within(ratio, figure.ratio, FACTOR)
        cells += ["yes" if agree else "no", "yes" if near else "no"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Run the ten patterns; returns the exit code."""
    found = []
    with launcher_of(None) as launcher:
        for pattern in PATTERNS:
            print(f"pattern {pattern}", file=sys.stderr)
            found.append(simulated(launcher, TREE / "build/workloads/page-patterns", pattern))
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    text = before + BEGIN + "\n".join(rows(found)) + "\n" + END + after
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TlbcostError as error:
        print(f"bench-page-sizes: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
