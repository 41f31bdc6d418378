# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads compute what they say? What is small is computed here again, the plain way."""

from __future__ import annotations

import heapq

from workload_content import below, checksum_of, hashed, random_numbers


def test_fft_correlates() -> None:
    pick = below(random_numbers(3))
    signal = [pick(8) for _ in range(64)]
    expected = [sum(signal[i] * signal[i - lag] for i in range(64)) for lag in range(64)]
    assert checksum_of("fft", bits=6, seed=3) == hashed(expected)


def test_suffix_array_transforms_a_text() -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    text: list[int] = []
    while len(text) < 5000:
        length = 1 + pick(60)
        start = pick(len(text))
        again = len(text) > 1000 and next(numbers) & 1
        for k in range(length):
            text.append(text[start + k] if again else ord("a") + pick(20))
    del text[5000:]
    order = sorted(range(5000), key=lambda place: text[place:])
    expected = [text[place - 1] if place else 0 for place in order]
    assert checksum_of("suffix-array", size=5000) == hashed(expected)


def test_dijkstra_finds_the_shortest_ways() -> None:
    order = 40
    numbers = random_numbers(1)
    roads: dict[int, list[tuple[int, int]]] = {i: [] for i in range(order * order)}
    for i in range(order * order):
        for wanted, to in (((i + 1) % order, i + 1), (i + order < order * order, i + order)):
            if not wanted:
                continue
            random = next(numbers)
            if random & 7:
                length = 20 + ((random >> 32) * 100 >> 32)
                roads[i].append((to, length))
                roads[to].append((i, length))
    distance = [2**32 - 1] * (order * order)
    heap = [(0, 0)]
    while heap:
        far, here = heapq.heappop(heap)
        if far < distance[here]:
            distance[here] = far
            for to, length in roads[here]:
                heapq.heappush(heap, (far + length, to))
    assert checksum_of("dijkstra", order=order) == hashed(distance)


def test_union_find_sees_what_is_connected() -> None:
    pick = below(random_numbers(1))
    sets = {i: {i} for i in range(300)}
    joined = []
    for edge in range(250):
        a, b = pick(300), pick(300)
        if sets[a] is not sets[b]:
            sets[a] |= sets[b]
            for node in sets[b]:
                sets[node] = sets[a]
            joined.append(edge)
    expected = hashed(joined) + len({id(one) for one in sets.values()})
    assert checksum_of("union-find", nodes=300, edges=250) == expected


def test_life_goes_on() -> None:
    order = 20
    numbers = random_numbers(1)
    alive = {(i // order, i % order) for i in range(order * order) if next(numbers) >> 62 == 0}
    for _ in range(3):
        around: dict[tuple[int, int], int] = {}
        for y, x in alive:
            for k in (0, 1, 2, 3, 5, 6, 7, 8):
                there = ((y + k // 3 - 1) % order, (x + k % 3 - 1) % order)
                around[there] = around.get(there, 0) + 1
        alive = {c for c, n in around.items() if n == 3 or (n == 2 and c in alive)}
    cells = [int((i // order, i % order) in alive) for i in range(order * order)]
    assert checksum_of("life", order=order, rounds=3) == hashed(cells)


def test_kd_tree_finds_the_nearest() -> None:
    pick = below(random_numbers(1))
    points = [[pick(2**20) for _ in range(3)] for _ in range(300)]
    sums = []
    for _ in range(100):
        asked = [pick(2**20) for _ in range(3)]
        squares = [sum((a - b) ** 2 for a, b in zip(asked, p, strict=True)) for p in points]
        sums.append(sum(sorted(squares)[:5]))
    assert checksum_of("kd-tree", points=300, count=100, wanted=5) == hashed(sums)
