# SPDX-License-Identifier: GPL-2.0-or-later
"""Report what a web server's log says: strings are split, counted in dicts and sorted in lists.

Strings, lists and numbers are small objects anywhere on the heap. They come from malloc() if
PYTHONMALLOC is "malloc", else from mappings of Python's own.
"""

from __future__ import annotations

import argparse
import random
import sys


def log_lines(count: int, pages: int) -> list[str]:
    """Requests of some visitors for some pages, few of them often."""
    pick = random.Random(1).random
    return [
        f"10.{int(pick() * 256)}.{int(pick() * 16)}.{int(pick() * 4)} "
        f"/page/{int(pick() * pick() * pages)} {200 if pick() < 0.95 else 404} "
        f"{int(pick() * 10_000)}"
        for _ in range(count)
    ]


def times_by_page(lines: list[str]) -> dict[str, list[int]]:
    """The times of all requests that were answered."""
    times: dict[str, list[int]] = {}
    for line in lines:
        _, page, status, took = line.split()
        if status == "200":
            times.setdefault(page, []).append(int(took))
    return times


def visitors_by_page(lines: list[str]) -> dict[str, set[str]]:
    """Who asked for it."""
    visitors: dict[str, set[str]] = {}
    for line in lines:
        visitor, page, _, _ = line.split()
        visitors.setdefault(page, set()).add(visitor)
    return visitors


def main() -> int:
    """Make a log, and print a checksum of the report."""
    parser = argparse.ArgumentParser(prog="log-report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lines", type=int, default=300_000, help="of the log (300000)")
    parser.add_argument("--pages", type=int, default=50_000, help="that there are (50000)")
    parser.add_argument("--print", action="store_true", help="print the log, not the report")
    options = parser.parse_args()
    if options.lines < 1 or options.pages < 1:
        parser.error("--lines and --pages must be at least 1")
    lines = log_lines(options.lines, options.pages)
    if options.print:
        print(*lines, sep="\n")
        return 0
    times = times_by_page(lines)
    visitors = visitors_by_page(lines)
    checksum = 0
    for page in sorted(visitors, key=lambda page: (-len(visitors[page]), page)):
        slow = sorted(times.get(page, [0]))
        median = slow[len(slow) // 2]
        checksum = (checksum * 31 + len(visitors[page]) + median + len(page)) % 2**64
    print(f"checksum {checksum:016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
