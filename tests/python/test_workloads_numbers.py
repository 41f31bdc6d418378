# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that compute and match get it right? Small ones against the plain way."""

from __future__ import annotations

import math
import struct
import subprocess

import numpy as np
import pytest
from workload_content import WORKLOADS, below, checksum_of, hashed, random_numbers


def double_of(bits: int) -> float:
    """The number that a program printed the bits of."""
    number: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return number


def times_found(text: str, word: str) -> int:
    """Overlapping or not."""
    return sum(text.startswith(word, place) for place in range(len(text)))


@pytest.mark.parametrize(("words", "rounds"), [(1, 1), (40, 1), (300, 2)])
def test_aho_corasick_finds_each_word(words: int, rounds: int) -> None:
    pick = below(random_numbers(1))
    known = []
    for _ in range(words):
        length = 4 + pick(21)
        # What an argument's argument picks comes first.
        known.append("".join(chr(97 + pick(pick(26) + 1)) for _ in range(length)))
    text = ""
    while len(text) < 6000:
        word = known[pick(words)]
        part = 1 + pick(len(word))
        text += word[:part] + chr(97 + part % 26)
    text = text[:6000]
    expected = [(number + 1) * times_found(text, word) for number, word in enumerate(known)]
    assert sum(expected) > 0
    found = checksum_of("aho-corasick", words=words, size=6000, rounds=rounds)
    assert found == rounds * sum(expected)


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


def edits(one: str, other: str) -> int:
    """How many letters to change, add or remove."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, row[0] = row[0], i
        for k, its in enumerate(other, 1):
            last, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, last + (letter != its))
    return row[-1]


@pytest.mark.parametrize("errors", [0, 1, 2, 4])
def test_spell_finds_words_like_it(errors: int) -> None:
    words, count = 250, 40
    pick = below(random_numbers(1))

    def letter() -> str:
        return chr(97 + pick(pick(26) + 1))

    known = ["".join(letter() for _ in range(3 + pick(10))) for _ in range(words)]
    first = {word: known.index(word) + 1 for word in known}
    sums = []
    for _ in range(count):
        word = known[pick(words)]
        for _ in range(2):
            place = pick(len(word))
            how = pick(3)
            new = letter() if how != 1 else ""
            word = word[:place] + new + word[place + (how < 2) :]
        near = {other: edits(word, other) for other in first}
        sums.append(sum(first[w] * (far + 1) for w, far in near.items() if far <= errors))
    assert (len(set(sums)) > 3) == (errors > 0)
    assert checksum_of("spell", words=words, count=count, errors=errors) == hashed(sums)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("robin-hood --slots 1000", "--slots must be a power of two, and at most 1024G"),
        ("aho-corasick --words 1G", "--words is too large"),
        ("barnes-hut --percent 2000", "--stars or --percent is too large"),
        ("median --radius 2000", "--order or --radius is too large"),
        ("triangular --elements 2000", "--rows or --elements is too large"),
    ],
)
def test_what_cannot_be_done_is_refused(command: str, message: str) -> None:
    name, *words = command.split()
    if not (WORKLOADS / name).exists():
        pytest.skip(f"needs build/workloads/{name} (make)")
    done = subprocess.run([WORKLOADS / name, *words], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"{message}\n")
