# SPDX-License-Identifier: GPL-2.0-or-later
"""In what order can packages be installed, and what does one need? Objects, dicts, sets and a heap.

Packages name others in lists of strings; each name is looked up in a dict. Small objects lie
anywhere on the heap. They come from malloc() if PYTHONMALLOC is "malloc", else from mappings of
Python's own.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys


class Package:
    """One package, and what it needs by name."""

    __slots__ = ("name", "needs", "size", "wanted_by")

    def __init__(self, name: str, size: int, needs: list[str]) -> None:
        """Nobody is known to want it yet."""
        self.name = name
        self.size = size
        self.needs = needs
        self.wanted_by: list[Package] = []


def make_archive(count: int) -> dict[str, Package]:
    """Each needs at most five others, which came before it: few of those are needed often."""
    pick = random.Random(1).random
    names = [f"package-{int(pick() * 2**32):08x}-{number}" for number in range(count)]
    archive = {}
    for number, name in enumerate(names):
        needs = {names[int(pick() * pick() * number)] for _ in range(int(pick() * 6)) if number}
        archive[name] = Package(name, int(pick() * 1000), sorted(needs))
    return archive


def install_order(archive: dict[str, Package]) -> list[Package]:
    """Each after what it needs, and else by name."""
    missing: dict[str, int] = {}
    for package in archive.values():
        missing[package.name] = len(package.needs)
        for name in package.needs:
            archive[name].wanted_by.append(package)
    ready = [name for name, count in missing.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        package = archive[heapq.heappop(ready)]
        order.append(package)
        for other in package.wanted_by:
            missing[other.name] -= 1
            if not missing[other.name]:
                heapq.heappush(ready, other.name)
    return order


def total_size(archive: dict[str, Package], name: str) -> int:
    """Of a package, and of all that it needs to work."""
    seen = {name}
    waiting = [name]
    size = 0
    while waiting:
        package = archive[waiting.pop()]
        size += package.size
        for other in package.needs:
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return size


def main() -> int:
    """Put an archive in order, ask for some of its packages, and print a checksum."""
    parser = argparse.ArgumentParser(prog="packages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="packages asked for (1000)")
    parser.add_argument("--packages", type=int, default=180_000, help="of the archive (180000)")
    options = parser.parse_args()
    if options.packages < 1 or options.count < 1:
        parser.error("--packages and --count must be at least 1")
    archive = make_archive(options.packages)
    checksum = 0
    for package in install_order(archive):
        checksum = (checksum * 31 + package.size + len(package.name)) % 2**64
    names = list(archive)
    for number in range(options.count):
        name = names[number * 7919 % options.packages]
        checksum = (checksum * 31 + total_size(archive, name)) % 2**64
    print(f"checksum {checksum:016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
