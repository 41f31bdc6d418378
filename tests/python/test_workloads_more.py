# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that came last get it right? Small ones against the plain way."""

from __future__ import annotations

import heapq
import random
import subprocess
import sys
import zlib
from collections import Counter

import pytest
from workload_content import (
    MASK,
    WORKLOADS,
    below,
    checksum_of,
    hashed,
    printed_by,
    random_numbers,
    refused,
)


# With 900 keys, about four fifths of all slots are taken: many keys are turned out.
@pytest.mark.parametrize("keys", [1, 300, 900])
def test_cuckoo_counts_the_bytes_of_connections(keys: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    known = dict.fromkeys(range(2, keys + 1, 2), 1)
    before = []
    most = 0
    for _ in range(20000):
        key = 1 + pick(keys)
        draw = next(numbers)
        size = 40 + (draw & 0x3FF)
        before.append(known.get(key, 0))
        if key in known and not draw >> 10 & 7:
            del known[key]
        else:
            known[key] = known.get(key, 0) + size
        most = max(most, len(known))
    assert keys < 900 or most > 256 * 4 * 0.75
    assert checksum_of("cuckoo", buckets=256, keys=keys, count=20000) == hashed(before)


def test_cuckoo_says_when_its_table_is_full() -> None:
    message = "no place for a connection: the table is too small\n"
    assert refused("cuckoo", buckets=16, keys=200) == (1, message)
    message = "--buckets must be a power of two, and at most 4G\n"
    assert refused("cuckoo", buckets=12) == (2, message)


@pytest.mark.parametrize(("rows", "elements"), [(1, 1), (5, 9), (40, 3), (60, 12)])
def test_sparse_product_is_the_one_of_full_matrices(rows: int, elements: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    matrices: list[list[list[tuple[int, int]]]] = []
    for _ in range(2):
        matrix = []
        for _ in range(rows):
            drawn = [next(numbers) for _ in range(pick(2 * elements))]
            matrix.append([((draw >> 32) * rows >> 32, (draw & 15) - 7) for draw in drawn])
        matrices.append(matrix)
    first, second = matrices
    found = []
    for row in first:
        product = [0] * rows
        columns = {column for middle, _ in row for column, _ in second[middle]}
        for middle, factor in row:
            for column, value in second[middle]:
                product[column] += factor * value
        squares = (value * value * (1 + place % 7) for place, value in enumerate(product))
        found += [len(columns), sum(squares)]
    assert checksum_of("sparse-product", rows=rows, elements=elements) == hashed(found)


@pytest.mark.parametrize(("players", "points"), [(1, 1), (50, 1000), (300, 64), (100, 777)])
def test_ranking_knows_each_place(players: int, points: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    current = [1 + pick(points) for _ in range(players)]
    found = []
    for _ in range(500):
        player, place = pick(players), pick(players)
        current[player] = 1 + pick(points)
        found.append(sum(other <= current[player] for other in current))
        found.append(sorted(current)[place])
    assert checksum_of("ranking", players=players, points=points, count=500) == hashed(found)


@pytest.mark.parametrize(("lines", "longest"), [(1, 1), (7, 20), (300, 40)])
def test_editor_moves_blocks_of_lines(lines: int, longest: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)

    def new_line() -> str:
        length, letter = 1 + pick(80), pick(26)
        return "".join(chr(97 + (letter + place * place) % 26) for place in range(length))

    text = []
    for _ in range(lines):
        # A random number for the tree, which comes first.
        next(numbers)
        text.append(new_line())
    found = []
    for _ in range(700):
        begin = pick(lines)
        end = min(begin + 1 + pick(longest), lines)
        block, rest = text[begin:end], text[:begin] + text[end:]
        place = pick(len(rest) + 1)
        text = rest[:place] + block + rest[place:]
        place = pick(lines)
        text[place] = new_line()
        place = pick(lines)
        found += [hashed([ord(letter) for letter in line]) for line in text[place : place + 3]]
    assert checksum_of("editor", lines=lines, longest=longest, count=700) == hashed(found)


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


@pytest.mark.parametrize("size", [1, 64, 9999])
def test_huffman_decodes_what_it_coded(size: int) -> None:
    numbers = random_numbers(1)
    text = []
    for _ in range(size):
        draw = next(numbers)
        most = 1 + ((draw >> 32) * 64 >> 32)
        most = 1 + ((draw & 0xFFFFFFFF) * most >> 32)
        text.append((draw >> 16 & 0xFFFFFFFF) * most >> 32)
    # However ties are broken, the sum of the weights of all inner nodes is the least.
    counts = Counter(text)
    weights = [counts[letter] for letter in range(64)]
    heapq.heapify(weights)
    bits = 0
    while len(weights) > 1:
        weight = heapq.heappop(weights) + heapq.heappop(weights)
        bits += weight
        heapq.heappush(weights, weight)
    assert checksum_of("huffman", size=size) == hashed([*text, bits])


def orders_by_hand(count: int, changes: int) -> list[tuple[str, list[tuple[str, int]]]]:
    """Customers, and names of things with how many of them."""
    pick = random.Random(1).random
    orders = []
    for _ in range(count):
        things = []
        for _ in range(1 + int(pick() * 4)):
            name = f"thing-{int(pick() * 100_000)}"
            things.append((name, 1 + int(pick() * 9)))
        orders.append((f"customer-{int(pick() * count)}", things))
    pick = random.Random(2).random
    for step in range(changes):
        _, things = orders[int(pick() * count)]
        if step % 3 == 0:
            things[:] = [(name, pieces + 1) for name, pieces in things]
        elif step % 3 == 1:
            things.append((f"thing-{step}", 1))
        elif things:
            things.pop(int(pick() * len(things)))
    return orders


def test_json_orders_are_written_as_they_were_changed() -> None:
    orders = orders_by_hand(300, 1000)
    assert any(not things for _, things in orders)
    pieces: Counter[str] = Counter()
    found = []
    for number, (customer, things) in enumerate(orders):
        inner = ", ".join(f'{{"thing": "{name}", "pieces": {n}}}' for name, n in things)
        text = f'{{"id": {number}, "customer": "{customer}", "things": [{inner}]}}'
        found.append(zlib.crc32(text.encode()))
        pieces[customer] += sum(n for _, n in things)
    found += [pieces[customer] for customer in sorted(pieces)]
    words = [sys.executable, "{script}", "--orders", "300", "--count", "1000"]
    assert printed_by(words, "json-orders.py") == hashed(found)


def test_json_orders_refuses_none() -> None:
    script = WORKLOADS / "json-orders.py"
    if not script.exists():
        pytest.skip("needs build/workloads/json-orders.py (make)")
    words = [sys.executable, str(script), "--orders", "0"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("--orders and --count must be at least 1\n")


@pytest.mark.parametrize(("sales", "shops"), [(1, 1), (3000, 30), (3000, 400)])
def test_sqlite_adds_up_groups(sales: int, shops: int) -> None:
    money: Counter[str] = Counter()
    by_day: dict[int, list[tuple[str, int]]] = {}
    notes = 0
    for n in range(1, sales + 1):
        shop = f"shop {n * 48271 % 2147483647 % shops * 1103515245 % 2147483647:08x}"
        price = n * 16807 % 2147483647 % 1000
        money[shop] += price
        by_day.setdefault(n * 69621 % 2147483647 % 365, []).append((shop, price))
        notes += "77" in str(n)
    best = sorted(money, key=lambda shop: (-money[shop], shop))[:100]
    checksum = sum(money[shop] * place for place, shop in enumerate(best, 1))
    for day, sold in by_day.items():
        different = len({shop for shop, _ in sold})
        checksum += (day + 1) * (different + sum(price for _, price in sold))
    words = ["sqlite3"]
    for key, value in (("sales", sales), ("shops", shops)):
        words += ["-cmd", f".parameter set @{key} {value}"]
    found = printed_by([*words, ":memory:", ".read {script}"], "sqlite-groups.sql")
    assert found == checksum + notes & MASK
