# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads on images draw the right pixels? Checked against plain Python."""

from __future__ import annotations

import math

import pytest
from builders.workloads import checksum_of, hashed, random_numbers


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


@pytest.mark.parametrize(("order", "radius"), [(1, 3), (13, 0), (13, 1), (9, 4), (5, 12)])
def test_median_is_of_what_is_around(order: int, radius: int) -> None:
    numbers = random_numbers(1)
    picture = {}
    for place in range(order * order):
        draw = next(numbers)
        row, column = divmod(place, order)
        picture[row, column] = row + column if draw & 3 else draw >> 56
    around = range(-radius, radius + 1)
    for _ in range(3):
        picture = {
            (row, column): sorted(
                picture[min(max(row + i, 0), order - 1), min(max(column + k, 0), order - 1)]
                for i in around
                for k in around
            )[(2 * radius + 1) ** 2 // 2]
            for row, column in picture
        }
    found = checksum_of("median", order=order, radius=radius, rounds=3)
    assert found == hashed(list(picture.values()))


def blurred(lines: list[list[int]], radius: int) -> list[list[int]]:
    """Each line by itself; where it has ended, its last number is repeated."""
    result = []
    for line in lines:
        window = range(-radius, radius + 1)
        last = len(line) - 1
        sums = (sum(line[min(max(x + i, 0), last)] for i in window) for x in range(len(line)))
        result.append([total // (2 * radius + 1) for total in sums])
    return result


@pytest.mark.parametrize(
    ("width", "height", "radius", "square"),
    [(1, 1, 0, 1), (9, 5, 2, 2), (5, 9, 12, 1), (40, 30, 6, 4), (3, 2, 1, 4)],
)
def test_photo_is_sharpened_and_made_small(
    width: int, height: int, radius: int, square: int
) -> None:
    numbers = random_numbers(1)
    noise = [[next(numbers) >> 32 for _ in range(width)] for _ in range(height)]
    small: list[list[list[int]]] = []
    for colour in range(3):
        photo = [
            [
                ((x * y >> 10 + colour) + x + y & 0xFF) * 7 // 8 + (noise[y][x] >> 5 * colour & 31)
                for x in range(width)
            ]
            for y in range(height)
        ]
        rows = blurred(photo, radius)
        columns = blurred([list(column) for column in zip(*rows, strict=True)], radius)
        sharp = [
            [min(max(2 * photo[y][x] - columns[x][y], 0), 255) for x in range(width)]
            for y in range(height)
        ]
        small.append(
            [
                [
                    sum(sum(line[x : x + square]) for line in sharp[y : y + square]) // square**2
                    for x in range(0, width - square + 1, square)
                ]
                for y in range(0, height - square + 1, square)
            ]
        )
    found = [
        value
        for lines in zip(*small, strict=True)
        for pixel in zip(*lines, strict=True)
        for value in pixel
    ]
    options = {"width": width, "height": height, "radius": radius, "square": square}
    assert checksum_of("photo", **options) == hashed(found)


Vector = tuple[float, float, float]


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
