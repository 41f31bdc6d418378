# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the later workloads compute what they say? What is small is computed again, the plain way."""

from __future__ import annotations

import bisect
import hashlib
import math
import struct
from itertools import accumulate

import numpy as np
import pytest
from workload_content import MASK, below, checksum_of, hashed, random_numbers


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


def test_conjugate_gradients_solve() -> None:
    order, n = 6, 6**3
    pick = below(random_numbers(1))
    rest = [float(pick(100)) for _ in range(n)]
    cells = [(z, y, x) for z in range(order) for y in range(order) for x in range(order)]
    matrix = np.array(
        [
            [{0: 6, 1: -1}.get(sum(abs(a - b) for a, b in zip(one, other, strict=True)), 0)]
            for one in cells
            for other in cells
        ],
        dtype=float,
    ).reshape(n, n)
    expected = math.fsum(np.linalg.solve(matrix, rest))
    bits = checksum_of("conjugate-gradient", order=order, rounds=100)
    assert struct.unpack("<d", struct.pack("<Q", bits))[0] == pytest.approx(expected, rel=1e-9)


def test_k_means_finds_the_nearest_centres() -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    models = [[pick(240) for _ in range(128)] for _ in range(3)]
    points = []
    for _ in range(100):
        model = models[pick(3)]
        noise = [next(numbers) for _ in range(8)]
        points.append(
            [byte + (noise[i // 16] >> 4 * (i % 16) & 15) for i, byte in enumerate(model)]
        )
    centres = points[:3]
    sums = []
    for _ in range(4):
        members: list[list[list[int]]] = [[], [], []]
        sums.append(0)
        for point in points:
            far = [sum((a - b) ** 2 for a, b in zip(point, c, strict=True)) for c in centres]
            sums[-1] += min(far)
            members[far.index(min(far))].append(point)
        centres = [
            [sum(column) // len(group) for column in zip(*group, strict=True)] if group else centre
            for group, centre in zip(members, centres, strict=True)
        ]
    assert checksum_of("k-means", points=100, clusters=3, rounds=4) == hashed(sums)


@pytest.mark.parametrize("degrees", [0, 20, 180])
def test_rotate_turns_a_picture(degrees: int) -> None:
    order, one = 17, 65536
    numbers = random_numbers(1)
    old = {
        (y, x): [x >> 4, y >> 4, next(numbers) >> 56, (x ^ y) >> 3]
        for y in range(order)
        for x in range(order)
    }
    cosine, sine = (round(f(math.radians(degrees)) * one) for f in (math.cos, math.sin))
    pixels: list[int] = []
    for up in range(-(order // 2), order - order // 2):
        for right in range(-(order // 2), order - order // 2):
            x = order // 2 * one + right * cosine - up * sine
            y = order // 2 * one + right * sine + up * cosine
            column, row, a, b = x // one, y // one, x % one, y % one
            if not (0 <= column < order - 1 and 0 <= row < order - 1):
                pixels += [0, 0, 0, 0]
                continue
            for channel in range(4):
                corners = [old[row + i, column + k][channel] for i in (0, 1) for k in (0, 1)]
                parts = [(one - a) * (one - b), a * (one - b), (one - a) * b, a * b]
                pixels.append(sum(c * p for c, p in zip(corners, parts, strict=True)) >> 32)
    assert checksum_of("rotate", order=order, degrees=degrees, rounds=1) == hashed(pixels)


def test_mark_sweep_loses_nothing_that_is_needed() -> None:
    numbers = random_numbers(1)
    pick = below(numbers)

    def tree(objects: int) -> int:
        """What reading it sums up to."""
        random = next(numbers)
        total = 2 * (random & 0xFFFF) + 2
        objects -= 1
        for i in range(3):
            part = objects // (3 - i)
            if part:
                total += (i + 1) * tree(part)
            elif i == 0:
                total += 2 * ((random >> 32) * 50 >> 32) + 2
            objects -= part
        return total

    documents = [tree(1 + pick(20)) for _ in range(100)]
    sums = []
    for _ in range(2000):
        which = pick(100)
        sums.append(documents[which])
        documents[which] = tree(1 + pick(20))
    same = {"documents": 100, "words": 50, "most": 20, "count": 2000}
    for objects in (2100, 3001, 100000):
        assert checksum_of("mark-sweep", objects=objects, **same) == hashed(sums)


def test_interpreter_counts_prime_factors() -> None:
    factors = [0, 0]
    for n in range(2, 2001):
        least = next(d for d in range(2, n + 1) if n % d == 0)
        factors.append(factors[n // least] + 1)
    for last, total in enumerate(accumulate(factors)):
        if last % 97 == 1:
            assert checksum_of("interpreter", last=last) == total


def test_dedup_knows_chunks_by_their_sha_256() -> None:
    size = 3 << 20
    numbers = random_numbers(1)
    gears = [next(numbers) for _ in range(256)]
    data = bytearray()
    while len(data) < size:
        random = next(numbers)
        length = 1 + ((random >> 32) * 2**20 >> 32)
        start = next(numbers) % len(data) if data else 0
        length = min(length, size - len(data))
        if random & 1 and length <= len(data) - start:
            data += data[start : start + length]
        else:
            data += bytes(next(numbers) >> 56 for _ in range(length))
    digests: list[int] = []
    fresh = done = 0
    while done < size:
        end, rolling = done, 0
        while end < min(size, done + 65536):
            rolling = (rolling << 1) + gears[data[end]] & MASK
            end += 1
            if end - done >= 2048 and rolling >> 51 == 0:
                break
        digest = int.from_bytes(hashlib.sha256(data[done:end]).digest()[:8])
        fresh += (end - done) * (digest not in digests)
        digests.append(digest)
        done = end
    assert len(set(digests)) < len(digests)
    assert checksum_of("dedup", size=size) == (hashed(digests) + fresh) & MASK


@pytest.mark.parametrize("size", [1, 55, 56, 63, 64, 119, 120])
def test_dedup_pads_short_chunks(size: int) -> None:
    numbers = random_numbers(1)
    for _ in range(256 + 1):
        next(numbers)
    data = bytes(next(numbers) >> 56 for _ in range(size))
    digest = int.from_bytes(hashlib.sha256(data).digest()[:8])
    assert checksum_of("dedup", size=size) == (digest + size) & MASK
