# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that calculate get it right? Checked against plain Python."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from builders.workloads import MASK, below, checksum_of, hashed, random_numbers


def double_of(bits: int) -> float:
    """The number that a program printed the bits of."""
    number: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return number


def test_fft_correlates() -> None:
    pick = below(random_numbers(3))
    signal = [pick(8) for _ in range(64)]
    expected = [sum(signal[i] * signal[i - lag] for i in range(64)) for lag in range(64)]
    assert checksum_of("fft", bits=6, seed=3) == hashed(expected)


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


@pytest.mark.parametrize("elements", [0, 1, 5])
def test_triangular_systems_are_solved(elements: int) -> None:
    rows, rounds = 150, 2
    numbers = random_numbers(1)
    lower = np.diag([1 + i % 5 / 4 for i in range(rows)])
    for i in range(rows):
        for k in range(elements):
            draw = next(numbers)
            far = i if k & 1 or i < 64 else 64
            if i:
                lower[i, i - 1 - ((draw >> 32) * far >> 32)] += (draw & 0xFF) / (256 * elements)
    weights = np.array([i % 3 + 1 for i in range(rows)])
    expected = sum(
        weights @ np.linalg.solve(lower @ lower.T, [float(i % 7 + more) for i in range(rows)])
        for more in range(rounds)
    )
    found = checksum_of("triangular", rows=rows, elements=elements, rounds=rounds)
    assert double_of(found) == pytest.approx(expected, rel=1e-9)
    assert math.isfinite(expected)


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


def energy_of_stars(count: int, rounds: int) -> float:
    """With each star pulled by each other."""
    numbers = random_numbers(1)
    places, masses = [], []
    for _ in range(count):
        places.append([((next(numbers) >> 12) + (next(numbers) >> 12)) / 2**53 for _ in range(2)])
        masses.append(1 + ((next(numbers) >> 32) * 10 >> 32))
    at, mass = np.array(places), np.array(masses, dtype=float)
    speed = np.zeros((count, 2))
    for _ in range(rounds):
        apart = at[None, :, :] - at[:, None, :]
        square = (apart**2).sum(axis=2) + 1e-6
        speed += (1e-4 * mass[None, :, None] * apart / square[:, :, None] ** 1.5).sum(axis=1)
        at = at + 1e-4 * speed
    return float((mass * (speed**2).sum(axis=1) / 2).sum())


@pytest.mark.parametrize(("percent", "error"), [(0, 1e-9), (70, 0.05)])
def test_barnes_hut_comes_near_to_gravity(percent: int, error: float) -> None:
    exact = energy_of_stars(300, 3)
    energy = double_of(checksum_of("barnes-hut", stars=300, rounds=3, percent=percent))
    assert energy == pytest.approx(exact, rel=error)
    # What is far was taken together.
    assert (abs(energy / exact - 1) > 1e-6) == (percent > 0)


def toward_zero(number: int, divisor: int) -> int:
    """As C divides."""
    return number // divisor if number >= 0 else -(-number // divisor)


@pytest.mark.parametrize(("particles", "edge", "rounds"), [(1, 3, 4), (120, 3, 5), (150, 5, 5)])
def test_particles_push_each_other_away(particles: int, edge: int, rounds: int) -> None:
    numbers = random_numbers(1)
    length = edge * 1024
    places: list[list[int]] = []
    speeds: list[list[int]] = []
    for _ in range(particles):
        draws = [next(numbers) for _ in range(3)]
        places.append([(draw >> 32) * length >> 32 for draw in draws])
        speeds.append([(draw & 127) - 64 for draw in draws])
    pushed = 0
    for _ in range(rounds):
        moved = []
        for one, speed in zip(places, speeds, strict=True):
            force = [0, 0, 0]
            for other in places:
                # The shortest of the ways there are, through a border or not.
                way = [
                    min((a - b + shift for shift in (0, -length, length)), key=abs)
                    for a, b in zip(one, other, strict=True)
                ]
                square = sum(part * part for part in way)
                if square < 1024 * 1024:
                    strength = 1024 - square // 1024
                    force = [f + part * strength for f, part in zip(force, way, strict=True)]
                    pushed += square > 0
            speed[:] = [v + toward_zero(f, 65536) for v, f in zip(speed, force, strict=True)]
            moved.append([(a + v) % length for a, v in zip(one, speed, strict=True)])
        places = moved
    assert particles == 1 or pushed > 100
    checksum = 0
    for place, speed in zip(places, speeds, strict=True):
        key = 0
        for a, v in zip(place, speed, strict=True):
            key = (key * 1000003 + a) * 1000003 + v
        checksum += key * key
    found = checksum_of("particles", particles=particles, edge=edge, rounds=rounds)
    assert found == checksum & MASK
