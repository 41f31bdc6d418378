# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that search and report find what there is? Small ones against the plain way."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from workload_content import WORKLOADS, below, checksum_of, hashed, random_numbers

Board = tuple[tuple[int, ...], ...]
Vector = tuple[float, float, float]


def runs(board: Board, rows: int, player: int, length: int) -> int:
    """How often this many stones of the player are in a row."""
    stones = {
        (x, y) for x, column in enumerate(board) for y, who in enumerate(column) if who == player
    }
    assert all(y < rows for _, y in stones)
    return sum(
        all((x + k * dx, y + k * dy) in stones for k in range(length))
        for x, y in stones
        for dx, dy in ((0, 1), (1, 0), (1, 1), (1, -1))
    )


def drop(board: Board, column: int, player: int) -> Board:
    return (*board[:column], (*board[column], player), *board[column + 1 :])


def value(board: Board, rows: int, moves: int, player: int) -> int:
    """By all games, without a table or bounds."""
    if moves == 0:
        worth = [runs(board, rows, who, 2) + runs(board, rows, who, 3) for who in (0, 1)]
        return min(worth[player], 63) - min(worth[1 - player], 63)
    values = []
    for column, stones in enumerate(board):
        if len(stones) < rows:
            after = drop(board, column, player)
            won = runs(after, rows, player, 4)
            values.append(64 + moves if won else -value(after, rows, moves - 1, 1 - player))
    return max(values, default=0)


def test_connect_four_plays_as_well_as_one_can() -> None:
    columns, rows, begun, moves = 5, 4, 7, 5
    pick = below(random_numbers(1))
    values = []
    for _ in range(6):
        board: Board = ((),) * columns
        player = 0
        while sum(map(len, board)) < begun:
            column = pick(columns)
            after = drop(board, column, player)
            if len(board[column]) < rows and not runs(after, rows, player, 4):
                board, player = after, 1 - player
        values.append(128 + value(board, rows, moves, player))
    assert len(set(values)) > 2
    for entries in (1, 64, 65536):
        found = checksum_of(
            "connect-four",
            **{"columns": columns, "rows": rows, "begun": begun, "moves": moves, "count": 6},
            entries=entries,
        )
        assert found == hashed(values)


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(a: Vector, far: float, way: Vector) -> Vector:
    return (a[0] + far * way[0], a[1] + far * way[1], a[2] + far * way[2])


def distance(origin: Vector, way: Vector, triangle: list[Vector]) -> float | None:
    """To a triangle: where the ray meets its plane, if that is inside."""
    corner, a, b = triangle
    normal = cross(a, b)
    if dot(normal, way) == 0:
        return None
    far = dot(normal, along(corner, -1, origin)) / dot(normal, way)
    inside = along(along(origin, far, way), -1, corner)
    square = dot(normal, normal)
    u, v = dot(cross(inside, b), normal) / square, dot(cross(a, inside), normal) / square
    return far if far > 1e-9 and u >= 0 and v >= 0 and u + v <= 1 else None


def test_ray_trace_meets_the_nearest_triangles() -> None:
    count, order, mirrors = 64, 12, 2
    numbers = random_numbers(1)

    def point(size: float) -> Vector:
        x, y, z = ((next(numbers) >> 40) / 2**23 - 1 for _ in range(3))
        return (x * size, y * size, z * size)

    triangles = [[point(size) for size in (1, 0.25, 0.25)] for _ in range(count)]
    met = []
    for pixel in range(order * order):
        origin: Vector = (0, 0, -2)
        way: Vector = ((pixel % order + 0.5) / order - 0.5, (pixel // order + 0.5) / order - 0.5, 1)
        numbers_met = []
        for _ in range(mirrors + 1):
            hits = [
                (far, i)
                for i, triangle in enumerate(triangles)
                if (far := distance(origin, way, triangle)) is not None
            ]
            if not hits:
                break
            far, i = min(hits)
            normal = cross(triangles[i][1], triangles[i][2])
            origin = along(origin, far, way)
            way = along(way, -2 * dot(way, normal) / dot(normal, normal), normal)
            numbers_met.append(i + 1)
        met.append(hashed(numbers_met))
    assert len(set(met)) > 10
    found = checksum_of("ray-trace", triangles=count, order=order, mirrors=mirrors)
    assert found == hashed(met)


def test_sales_ranks_customers() -> None:
    script = WORKLOADS / "sales.py"
    if not script.exists():
        pytest.skip("needs build/workloads/sales.py (make)")
    words = ["--sales", "2000", "--customers", "100", "--goods", "3000"]
    done = subprocess.run([sys.executable, script, *words], check=True, capture_output=True)
    random = np.random.default_rng(1)
    customers = random.integers(0, 100, 2000).tolist()
    goods = random.integers(0, 3000, 2000).tolist()
    score = {customer: customer for customer in sorted(set(customers))}
    for column in random.integers(1, 1000, (4, 3000)).tolist():
        bought: dict[int, list[int]] = {customer: [] for customer in score}
        for customer, good in zip(customers, goods, strict=True):
            bought[customer].append(column[good])
        ranks = sorted(score, key=lambda customer: -sum(bought[customer]))
        for rank, customer in enumerate(ranks):
            score[customer] += rank % 1000 + max(bought[customer])
    expected = sum(place * points for place, points in enumerate(score.values(), 1))
    expected += max(Counter(good // 3 for good in goods).values())
    assert done.stdout.decode() == f"checksum {expected:016x}\n"


def test_visits_are_counted(tmp_path: Path) -> None:
    script = WORKLOADS / "visits.awk"
    if not script.exists():
        pytest.skip("needs build/workloads/visits.awk (make)")
    pick = below(random_numbers(1))
    lines = [
        f"10.0.0.{pick(9)} /page/{pick(12)} {200 if pick(5) else 404} {pick(1000)}"
        for _ in range(1000)
    ]
    log = tmp_path / "log"
    log.write_text("\n".join(lines) + "\n")
    expected = 0
    answered = [line.split() for line in lines[:900] if line.split()[2] == "200"]
    for page in {words[1] for words in answered}:
        times = [int(words[3]) for words in answered if words[1] == page]
        visitors = {words[0] for words in answered if words[1] == page}
        expected += len(page) * (len(times) + 31 * len(visitors)) + 7 * sum(times) + max(times)
    expected += sum(
        len(" ".join(words))
        for words in {(words[0], words[1]): words for words in answered}.values()
    )
    done = subprocess.run(
        ["awk", "-v", "most=900", "-f", script, log], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"checksum {expected:016x}\n"
