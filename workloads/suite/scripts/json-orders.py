# SPDX-License-Identifier: GPL-2.0-or-later
"""Read orders from lines of JSON, change some of them, and write all again.

Each order is a dict with a list of dicts, which lie anywhere on the heap and are visited out of
order. Small objects come from malloc() if PYTHONMALLOC is "malloc", else from mappings of
Python's own.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import zlib
from typing import Any


def make_lines(count: int) -> list[str]:
    """As a program that takes orders might write them."""
    pick = random.Random(1).random
    lines = []
    for number in range(count):
        things = ", ".join(
            f'{{"thing": "thing-{int(pick() * 100_000)}", "pieces": {1 + int(pick() * 9)}}}'
            for _ in range(1 + int(pick() * 4))
        )
        customer = f"customer-{int(pick() * count)}"
        lines.append(f'{{"id": {number}, "customer": "{customer}", "things": [{things}]}}')
    return lines


def change(orders: list[dict[str, Any]], count: int) -> None:
    """One more piece of each thing, or one more thing, or one thing less."""
    pick = random.Random(2).random
    for step in range(count):
        order = orders[int(pick() * len(orders))]
        things = order["things"]
        if step % 3 == 0:
            for thing in things:
                thing["pieces"] += 1
        elif step % 3 == 1:
            things.append({"thing": f"thing-{step}", "pieces": 1})
        elif things:
            del things[int(pick() * len(things))]


def main() -> int:
    """Print a checksum of what is written, and of what each customer gets."""
    parser = argparse.ArgumentParser(prog="json-orders", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=150_000, help="changes (150000)")
    parser.add_argument("--orders", type=int, default=80_000, help="that are read (80000)")
    options = parser.parse_args()
    if options.orders < 1 or options.count < 1:
        parser.error("--orders and --count must be at least 1")
    orders = [json.loads(line) for line in make_lines(options.orders)]
    change(orders, options.count)
    pieces: dict[str, int] = {}
    checksum = 0
    for order in orders:
        text = json.dumps(order)
        checksum = (checksum * 31 + zlib.crc32(text.encode())) % 2**64
        ordered = sum(thing["pieces"] for thing in order["things"])
        pieces[order["customer"]] = pieces.get(order["customer"], 0) + ordered
    for customer in sorted(pieces):
        checksum = (checksum * 31 + pieces[customer]) % 2**64
    print(f"checksum {checksum:016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
