# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the sales of each customer with numpy: sort columns, gather by them, sum groups.

What is known of goods is gathered for each sale, then put in the order of customers: both go
anywhere in a column, the rest goes through columns in order.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np


def main() -> int:
    """Make the sales, and print a checksum of the report."""
    parser = argparse.ArgumentParser(prog="sales", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sales", type=int, default=5_000_000, help="that there are (5000000)")
    parser.add_argument("--customers", type=int, default=200_000, help="who bought (200000)")
    parser.add_argument("--goods", type=int, default=1_000_000, help="that have a price (1000000)")
    options = parser.parse_args()
    if options.sales < 1 or options.customers < 1 or options.goods < 1:
        parser.error("--sales, --customers and --goods must be at least 1")
    pick = np.random.default_rng(1)
    customer = pick.integers(0, options.customers, options.sales)
    goods = pick.integers(0, options.goods, options.sales)
    # What there is to know of goods: a price, a weight, a tax and a margin.
    columns = pick.integers(1, 1000, (4, options.goods))

    order = np.argsort(customer, kind="stable")
    in_order = np.take(customer, order)
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    score = in_order[starts]
    values, grouped = np.empty_like(goods), np.empty_like(goods)
    for column in columns:
        np.take(column, goods, out=values, mode="clip")
        np.take(values, order, out=grouped, mode="clip")
        totals = np.add.reduceat(grouped, starts)
        best = np.maximum.reduceat(grouped, starts)
        # Who bought most comes first.
        score[np.argsort(-totals, kind="stable")] += np.arange(len(starts)) % 1000
        score += best
    sold = np.histogram(goods, bins=1000, range=(0, options.goods))[0]
    checksum = (int(score @ np.arange(1, len(score) + 1)) + int(sold.max())) % 2**64
    print(f"checksum {checksum:016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
