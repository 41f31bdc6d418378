# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that keep rows and records add up right? Checked against plain Python."""

from __future__ import annotations

import pytest
from builders.workloads import below, checksum_of, hashed, random_numbers


@pytest.mark.parametrize(("rows", "names"), [(1, 1), (3000, 5), (9000, 2000)])
def test_column_scan_adds_up_by_customer(rows: int, names: int) -> None:
    numbers = random_numbers(1)
    dictionary = []
    for _ in range(names):
        draw = next(numbers)
        dictionary.append([97 + (draw >> 4 * i & 15) for i in range(16)])
    table = []
    for row in range(rows):
        draw = next(numbers)
        most = 1 + ((draw >> 32) * names >> 32)
        day = row * 1000 // rows if draw & 63 else (draw >> 16 & 0xFFFFFFFF) * 1000 >> 32
        table.append(((draw & 0xFFFFFFFF) * most >> 32, day, draw >> 8 & 0xFFFF))
    sums = []
    for _ in range(60):
        draw = next(numbers)
        first = (draw >> 32) * 1000 >> 32
        last = first + ((draw & 0xFFFFFFFF) * 1000 >> 32)
        fits = [
            (name, amount)
            for name, day, amount in table
            if first <= day <= last and dictionary[name][0] == 97 + (draw & 15)
        ]
        totals = [0] * names
        for name, amount in fits:
            totals[name] += amount
        best = dictionary[totals.index(max(totals))]
        sums.append(hashed([sum(totals), len(fits), *best]))
    assert checksum_of("column-scan", rows=rows, names=names, count=60) == hashed(sums)


@pytest.mark.parametrize("customers", [1, 30, 4000])
def test_group_by_adds_up_sales(customers: int) -> None:
    pick = below(random_numbers(1))
    sales: dict[str, list[int]] = {}
    for _ in range(2000):
        number = pick(customers)
        name = f"customer-{number * 2654435761 & 0xFFFFFFFF:08x}-{number}"
        sales.setdefault(name, []).append(1 + pick(1000))
    found = []
    for name in sorted(sales, key=lambda name: (-sum(sales[name]), name)):
        prices = sales[name]
        found += [sum(prices), len(prices) * 1000 + max(prices), ord(name[-1])]
    assert checksum_of("group-by", customers=customers, count=2000) == hashed(found)


@pytest.mark.parametrize("runs", [1, 2, 7, 20])
def test_merge_runs_keeps_the_youngest(runs: int) -> None:
    numbers = random_numbers(1)
    merged: dict[int, int] = {}
    for _ in range(runs):
        key = 0
        for _ in range(300):
            draw = next(numbers)
            key += 1 + ((draw >> 32) * 2 * runs >> 32)
            merged[key] = (draw >> 3 & 0xFFFF) + 1 if draw & 7 else 0
    rest = [word for pair in sorted(merged.items()) if pair[1] for word in pair]
    assert checksum_of("merge-runs", runs=runs, records=300) == hashed(rest)


# Segments so small that the oldest is written again and again.
@pytest.mark.parametrize(("keys", "segment"), [(1, 1024), (60, 1024), (500, 5000)])
def test_log_store_keeps_the_newest(keys: int, segment: int) -> None:
    numbers = random_numbers(1)
    texts: dict[int, int] = {}
    found = []
    for _ in range(20000):
        draw = next(numbers)
        most = 1 + ((draw >> 32) * keys >> 32)
        number = (draw & 0xFFFFFFFF) * most >> 32
        what = next(numbers)
        if what & 15 == 0:
            texts.pop(number, None)
        elif what & 1:
            texts[number] = hashed([97 + what % 26] * (20 + (what >> 4 & 255)))
        else:
            found.append(texts.get(number, 0))
    found.append(len(texts))
    options = {"keys": keys, "segment": segment, "count": 20000}
    assert checksum_of("log-store", **options) == hashed(found)
