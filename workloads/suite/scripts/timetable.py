# SPDX-License-Identifier: GPL-2.0-or-later
"""Find an hour for the exam of each course, so that nobody has two at once: a graph is coloured.

Courses with a student in common are in each other's sets, in a dict by their names. The next course
is always one with most hours already taken by others, from a heap of tuples. Small objects come
from malloc() if PYTHONMALLOC is "malloc", else from mappings of Python's own.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sys


def choose_courses(students: int, courses: int) -> list[list[str]]:
    """Of each student; some courses have many of them."""
    pick = random.Random(1).random
    names = [f"course-{int(pick() * 2**32):08x}-{number}" for number in range(courses)]
    return [
        sorted({names[int(pick() * (0.2 + 0.8 * pick()) * courses)] for _ in range(5)})
        for _ in range(students)
    ]


def find_conflicts(choices: list[list[str]]) -> dict[str, set[str]]:
    """The courses that may not be at the same hour as one."""
    conflicts: dict[str, set[str]] = {}
    for chosen in choices:
        for name in chosen:
            conflicts.setdefault(name, set())
        for one, other in itertools.combinations(chosen, 2):
            conflicts[one].add(other)
            conflicts[other].add(one)
    return conflicts


def find_hours(conflicts: dict[str, set[str]]) -> dict[str, int]:
    """First the one with most hours taken; of those, with most conflicts; of those, by name."""
    taken: dict[str, set[int]] = {name: set() for name in conflicts}
    waiting = [(0, -len(others), name) for name, others in conflicts.items()]
    heapq.heapify(waiting)
    hours: dict[str, int] = {}
    while waiting:
        less, _, name = heapq.heappop(waiting)
        # What was said of it when fewer hours were taken is of no use any more.
        if name in hours or -less != len(taken[name]):
            continue
        hour = next(hour for hour in itertools.count() if hour not in taken[name])
        hours[name] = hour
        for other in conflicts[name]:
            if other not in hours and hour not in taken[other]:
                taken[other].add(hour)
                heapq.heappush(waiting, (-len(taken[other]), -len(conflicts[other]), other))
    return hours


def main() -> int:
    """Print a checksum of the hours of all courses."""
    parser = argparse.ArgumentParser(prog="timetable", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--courses", type=int, default=12_000, help="to choose from (12000)")
    parser.add_argument("--students", type=int, default=40_000, help="with five each (40000)")
    options = parser.parse_args()
    if options.courses < 1 or options.students < 1:
        parser.error("--courses and --students must be at least 1")
    conflicts = find_conflicts(choose_courses(options.students, options.courses))
    hours = find_hours(conflicts)
    checksum = 0
    for name in sorted(hours):
        checksum = (checksum * 31 + hours[name] * 1000 + len(conflicts[name])) % 2**64
    print(f"checksum {checksum:016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
