# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads that keep records find what there is? Small ones against the plain way."""

from __future__ import annotations

import random
import subprocess
import sys
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
)


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


def test_merge_runs_refuses_too_many() -> None:
    program = WORKLOADS / "merge-runs"
    if not program.exists():
        pytest.skip("needs build/workloads/merge-runs (make)")
    done = subprocess.run([program, "--runs", "5000"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "--runs must be at most 4096\n")


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


def test_packages_are_installed_after_what_they_need() -> None:
    count, asked = 200, 60
    pick = random.Random(1).random
    names = [f"package-{int(pick() * 2**32):08x}-{number}" for number in range(count)]
    needs: dict[str, set[str]] = {}
    size = {}
    for number, name in enumerate(names):
        needs[name] = {
            names[int(pick() * pick() * number)] for _ in range(int(pick() * 6)) if number
        }
        size[name] = int(pick() * 1000)
    found: list[int] = []
    installed: list[str] = []
    while len(installed) < count:
        ready = [name for name in set(names) - set(installed) if needs[name] <= set(installed)]
        installed.append(min(ready))
        found.append(size[min(ready)] + len(min(ready)))
    everything: dict[str, set[str]] = {}
    for name in names:
        everything[name] = {name}.union(*(everything[other] for other in needs[name]))
    for number in range(asked):
        found.append(sum(size[name] for name in everything[names[number * 7919 % count]]))
    words = [sys.executable, "{script}", "--packages", str(count), "--count", str(asked)]
    assert printed_by(words, "packages.py") == hashed(found)


def test_friends_of_friends_are_suggested() -> None:
    people, most = 90, 4
    state = 1

    def pick(n: int) -> int:
        nonlocal state
        state = state * 48271 % 2147483647
        return int(state / 2147483647 * n)

    names = [f"person-{pick(1000000)}-{number}" for number in range(1, people + 1)]
    pairs = set()
    for name in names:
        for _ in range(most):
            other = names[pick(1 + pick(people))]
            if other != name:
                pairs |= {(name, other), (other, name)}
    checksum = 0
    for _ in range(300):
        name = names[pick(people)]
        near = {b for a, b in pairs if a == name}
        common = Counter(b for a, b in pairs if a in near and b != name and b not in near)
        best = max(common.values(), default=0)
        other = min((b for b, n in common.items() if n == best), default="-0")
        checksum = (checksum * 31 + best * 1000003 + int(other.split("-")[-1])) % 1099511627689
    words = ["perl", "{script}", "--people", "90", "--friends", "4", "--count", "300"]
    assert printed_by(words, "friends.pl") == checksum


def test_sqlite_reads_addresses_in_order() -> None:
    people, count = 700, 400
    mail = {n: f"{n * 1103515245 % 2147483647:08x}.{n}@example.org" for n in range(1, people + 1)}
    for n in range(1, people + 1, 5):
        mail[n] = f"{n * 69621 % 2147483647:08x}.{n}@example.com"
    for n in range(2, people + 1, 7):
        del mail[n]
    length = {n: max(n % 80 + 1, len(str(n))) for n in mail}
    checksum = 0
    for n in range(1, count + 1):
        least = f"{n * 16807 % 2147483647:08x}"
        later = sorted((text, person) for person, text in mail.items() if text >= least)[:4]
        checksum += (n & 15) * sum(person + length[person] for _, person in later)
    words = ["sqlite3"]
    for key, value in (("people", people), ("count", count)):
        words += ["-cmd", f".parameter set @{key} {value}"]
    found = printed_by([*words, ":memory:", ".read {script}"], "sqlite-mail.sql")
    assert found == checksum & MASK
