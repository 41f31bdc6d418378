# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that look things up find what is there? Checked against plain Python."""

from __future__ import annotations

import bisect
from collections import deque

import pytest
from builders.workloads import below, checksum_of, hashed, random_numbers


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


@pytest.mark.parametrize("keys", [100, 400, 1100, 3000])
def test_robin_hood_knows_who_is_signed_in(keys: int) -> None:
    numbers = random_numbers(1)
    most = 512 - 64
    there = {}
    for key in range(1, keys + 1, 2):
        if len(there) < most:
            there[key] = key & 0xFF
    found = []
    for _ in range(20000):
        draw = next(numbers)
        key = 1 + ((draw >> 32) * keys >> 32)
        was = there.get(key, 0)
        if draw & 3 == 0:
            if key not in there:
                was = int(len(there) < most)
            if key in there or was:
                there[key] = draw >> 2 & 0xFFFF
        elif draw & 3 == 1:
            there.pop(key, None)
        elif key in there:
            there[key] += 1
        found.append(was)
    assert (len(there) > most - 100) == (keys > 1000)
    assert checksum_of("robin-hood", slots=512, keys=keys, count=20000) == hashed(
        [*found, len(there)]
    )


def test_skip_list_keeps_records_in_order() -> None:
    numbers = random_numbers(1)
    keys = [4 * i for i in range(200)]
    text = {key: key // 4 & 127 for key in keys}
    for _ in keys:
        levels = 1
        random = next(numbers)
        while levels < 12 and random & 3 == 0:
            random, levels = random >> 2, levels + 1
    found = []
    for _ in range(3000):
        random = next(numbers)
        key = (random >> 32) * 800 >> 32
        at = bisect.bisect_left(keys, key)
        there = key in text
        if random & 3 == 0:
            found.append(text.get(key, 0))
            text[key] = random >> 2 & 127
            if not there:
                keys.insert(at, key)
        elif random & 3 == 1:
            found.append(text.pop(key, 0))
            if there:
                del keys[at]
        else:
            found.append(sum(one + text[one] for one in keys[at : at + 8]))
    assert checksum_of("skip-list", records=200, count=3000) == hashed(found)


@pytest.mark.parametrize("longest", [1, 1 << 32])
def test_calendar_knows_what_overlaps(longest: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)

    def book(number: int) -> tuple[int, int]:
        begin = (next(numbers) >> 40 << 16) + number
        end = begin + 1 + pick(longest)
        next(numbers)
        return begin, end

    current = [book(number) for number in range(200)]
    sums = []
    for number in range(200, 1700):
        place = pick(200)
        current[place] = book(number)
        asked = next(numbers) >> 24
        sums.append(
            sum(end - begin for begin, end in current if begin < asked + longest and end > asked)
        )
    assert (len(set(sums)) > 100) == (longest > 1)
    assert checksum_of("calendar", bookings=200, count=1500, longest=longest) == hashed(sums)


def test_bitmap_index_counts_rows() -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    bitmaps = []
    for index in range(7):
        rows: set[int] = set()
        for word in range(5):
            bits = next(numbers)
            for _ in range(index % 3):
                bits &= next(numbers)
            rows |= {64 * word + bit for bit in range(64) if bits >> bit & 1}
        bitmaps.append(rows)
    counts = []
    for _ in range(50):
        a, b, c, d = (bitmaps[pick(7)] for _ in range(4))
        counts.append(len((a | (b & c)) - d))
    assert len(set(counts)) > 10
    assert checksum_of("bitmap-index", rows=5 * 64, properties=7, count=50) == hashed(counts)


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


# So few nodes that the space is full some dozens of times.
@pytest.mark.parametrize(
    ("keys", "versions", "nodes"), [(1, 1, 8), (50, 4, 400), (200, 12, 1600), (200, 1, 250)]
)
def test_versions_can_still_be_asked(keys: int, versions: int, nodes: int) -> None:
    pick = below(random_numbers(1))
    newest: dict[int, int] = {}
    known: deque[dict[int, int]] = deque([{} for _ in range(versions)], maxlen=versions)
    found = []
    for step in range(3000):
        if step and step % 20 == 0:
            # What is newest is changed from now on; the version before stays as it is.
            known.append({})
        key = pick(keys)
        newest = {**newest, key: step + 1}
        known[-1] = newest
        # The first version is at place 0 of a ring, the one after it at 1.
        place = pick(versions)
        age = (step // 20 - place) % versions
        found.append(known[-1 - age].get(pick(keys), 0))
    options = {"keys": keys, "versions": versions, "nodes": nodes, "every": 20, "count": 3000}
    assert checksum_of("versions", **options) == hashed(found)


def test_kd_tree_finds_the_nearest() -> None:
    pick = below(random_numbers(1))
    points = [[pick(2**20) for _ in range(3)] for _ in range(300)]
    sums = []
    for _ in range(100):
        asked = [pick(2**20) for _ in range(3)]
        squares = [sum((a - b) ** 2 for a, b in zip(asked, p, strict=True)) for p in points]
        sums.append(sum(sorted(squares)[:5]))
    assert checksum_of("kd-tree", points=300, count=100, wanted=5) == hashed(sums)
