# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads on graphs and game trees find the best way? Checked against plain Python."""

from __future__ import annotations

import heapq

from builders.workloads import below, checksum_of, hashed, random_numbers


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


Board = tuple[tuple[int, ...], ...]


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
