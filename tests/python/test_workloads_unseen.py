# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the ten workloads written after all others get it right? Small ones against the plain way."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path

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


@pytest.mark.parametrize(("size", "count"), [(1, 3), (40, 5), (700, 20)])
def test_suffix_automaton_finds_what_is_in_the_text(size: int, count: int) -> None:
    numbers = random_numbers(1)
    pick = below(numbers)
    text: list[int] = []
    while len(text) < size:
        end = len(text) + 1 + pick(300)
        draw = next(numbers)
        source = (draw >> 32) * (len(text) + 1) >> 32
        while len(text) < min(end, size):
            again = draw & 1 and source < len(text)
            text.append(text[source] if again else next(numbers) >> 32 & 3)
            source += 1
    whole = bytes(text)
    sums = []
    for _ in range(count):
        place = pick(size)
        read = b""
        found = []
        for step in range(150):
            draw = next(numbers)
            letter = text[(place + step) % size]
            read += bytes([draw >> 40 & 3 if not draw >> 32 & 15 else letter])
            start = next(i for i in range(len(read) + 1) if read[i:] in whole)
            found.append(len(read) - start)
        sums.append(hashed(found))
    different = {whole[i:j] for i in range(size) for j in range(i + 1, size + 1)}
    expected = hashed([*sums, len(different)])
    assert checksum_of("suffix-automaton", size=size, count=count) == expected


@pytest.mark.parametrize(("rows", "names"), [(1, 1), (3000, 5), (9000, 2000)])
def test_column_scan_adds_up_by_customer(rows: int, names: int) -> None:
    numbers = random_numbers(1)
    dictionary = []
    for _ in range(names):
        draw = next(numbers)
        dictionary.append([97 + (draw >> 4 * i & 15) for i in range(16)])
    table = []
    for row in range(rows):
        draw = next(numbers)
        most = 1 + ((draw >> 32) * names >> 32)
        day = row * 1000 // rows if draw & 63 else (draw >> 16 & 0xFFFFFFFF) * 1000 >> 32
        table.append(((draw & 0xFFFFFFFF) * most >> 32, day, draw >> 8 & 0xFFFF))
    sums = []
    for _ in range(60):
        draw = next(numbers)
        first = (draw >> 32) * 1000 >> 32
        last = first + ((draw & 0xFFFFFFFF) * 1000 >> 32)
        fits = [
            (name, amount)
            for name, day, amount in table
            if first <= day <= last and dictionary[name][0] == 97 + (draw & 15)
        ]
        totals = [0] * names
        for name, amount in fits:
            totals[name] += amount
        best = dictionary[totals.index(max(totals))]
        sums.append(hashed([sum(totals), len(fits), *best]))
    assert checksum_of("column-scan", rows=rows, names=names, count=60) == hashed(sums)


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


def test_versions_says_when_there_is_no_room() -> None:
    message = "no place for a node: --nodes is too small\n"
    assert refused("versions", nodes=20, keys=100, count=1000) == (1, message)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("suffix-automaton", {"size": 2**30}, "--size must be below 1G"),
        ("column-scan", {"names": 2**32}, "--names and --rows must be below 4G"),
        ("particles", {"edge": 1025}, "--edge must be at most 1024, and --particles below 4G"),
        ("versions", {"keys": 2**32}, "--nodes, --keys and --versions must be below 4G"),
        (
            "photo",
            {"radius": 1001},
            "--width and --height must be at most 1M, --radius and --square 1000",
        ),
        ("log-store", {"keys": 2**32 + 1}, "--size is too large for 32-bit indices"),
    ],
)
def test_what_numbers_do_not_hold_is_refused(
    name: str, options: dict[str, int], message: str
) -> None:
    assert refused(name, **options) == (2, f"{message}\n")


def blurred(lines: list[list[int]], radius: int) -> list[list[int]]:
    """Each line by itself; where it has ended, its last number goes on."""
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


# Segments so small that the oldest is written again and again.
@pytest.mark.parametrize(("keys", "segment"), [(1, 1024), (60, 1024), (500, 5000)])
def test_log_store_keeps_the_newest(keys: int, segment: int) -> None:
    numbers = random_numbers(1)
    texts: dict[int, int] = {}
    found = []
    for _ in range(20000):
        draw = next(numbers)
        most = 1 + ((draw >> 32) * keys >> 32)
        number = (draw & 0xFFFFFFFF) * most >> 32
        what = next(numbers)
        if what & 15 == 0:
            texts.pop(number, None)
        elif what & 1:
            texts[number] = hashed([97 + what % 26] * (20 + (what >> 4 & 255)))
        else:
            found.append(texts.get(number, 0))
    found.append(len(texts))
    options = {"keys": keys, "segment": segment, "count": 20000}
    assert checksum_of("log-store", **options) == hashed(found)


@pytest.mark.parametrize(("courses", "students"), [(1, 1), (30, 40), (200, 500)])
def test_timetable_gives_each_exam_an_hour(courses: int, students: int) -> None:
    pick = random.Random(1).random
    names = [f"course-{int(pick() * 2**32):08x}-{number}" for number in range(courses)]
    choices = []
    for _ in range(students):
        places = [pick() * (0.2 + 0.8 * pick()) for _ in range(5)]
        choices.append({names[int(place * courses)] for place in places})
    known = {name for chosen in choices for name in chosen}
    others = {
        name: {other for chosen in choices if name in chosen for other in chosen} - {name}
        for name in known
    }
    hours: dict[str, int] = {}
    while len(hours) < len(known):
        taken = {n: {hours[o] for o in others[n] if o in hours} for n in known - hours.keys()}
        name = min(taken, key=lambda n: (-len(taken[n]), -len(others[n]), n))
        hours[name] = min(set(range(courses)) - taken[name])
    assert all(hours[name] != hours[other] for name in known for other in others[name])
    expected = hashed([hours[name] * 1000 + len(others[name]) for name in sorted(known)])
    words = [sys.executable, "{script}", "--courses", str(courses), "--students", str(students)]
    assert printed_by(words, "timetable.py") == expected


@pytest.mark.parametrize(("accounts", "transfers"), [(1, 1), (7, 300), (100, 2000)])
def test_ledger_adds_up_accounts(accounts: int, transfers: int) -> None:
    state = 1

    def pick(n: int) -> int:
        nonlocal state
        state = state * 48271 % 2147483647
        return int(state / 2147483647 * n)

    entries: dict[int, list[tuple[int, str, int]]] = {}
    late: Counter[int] = Counter()
    lost = 0
    for number in range(1, transfers + 1):
        payer, payee = pick(accounts), pick(accounts)
        day, cents = pick(360), 1 + pick(500000)
        reference = f"R{pick(2147483647):08X}-{number}"
        entries.setdefault(payer, []).append((day, reference, -cents))
        if not pick(10):
            lost += cents
            continue
        days = pick(5)
        entries.setdefault(payee, []).append((day + days, reference, cents))
        late[payee] += days + len(f"from account {payer}")
    found = []
    for account in sorted(entries):
        balance = least = 0
        for _, _, cents in sorted(entries[account]):
            balance += cents
            least = min(least, balance)
        found.append(balance - least + 1000003 * late[account])
    checksum = 0
    for value in [*found, lost]:
        checksum = (checksum * 31 + value) % 1099511627689
    words = ["perl", "{script}", "--accounts", str(accounts), "--transfers", str(transfers)]
    assert printed_by(words, "ledger.pl") == checksum


def test_paths_of_visitors_are_counted(tmp_path: Path) -> None:
    script = WORKLOADS / "paths.awk"
    if not script.exists():
        pytest.skip("needs build/workloads/paths.awk (make)")
    pick = random.Random(1).randrange
    log = [
        (f"10.0.0.{pick(9)}", f"/page/{pick(30) ** 2}", 200 if pick(8) else 404)
        for _ in range(3000)
    ]
    ways: dict[str, list[str]] = {}
    for visitor, page, status in log:
        if status == 200:
            ways.setdefault(visitor, []).append(page)
    pairs = Counter(pair for way in ways.values() for pair in itertools.pairwise(way))
    expected = 0
    for (page, after), count in pairs.items():
        remainders = int(page[6:]) % 1009 + 3 * (int(after[6:]) % 1013)
        expected += count**2 * remainders
    for page, count in Counter(way[0] for way in ways.values()).items():
        expected += 5 * count**2 + len(page)
    expected += sum(7 * n**2 for n in Counter(way[-1] for way in ways.values()).values())
    lines = tmp_path / "log"
    lines.write_text("".join(f"{visitor} {page} {status} 5\n" for visitor, page, status in log))
    words = ["awk", "-f", str(script), str(lines)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout == f"checksum {expected:016x}\n"


@pytest.mark.parametrize(("meters", "days"), [(1, 5), (40, 100), (7, 33)])
def test_sqlite_reads_meters(meters: int, days: int) -> None:
    readings: dict[str, list[tuple[int, int]]] = {}
    for n in range(meters * days):
        if (n + 1) * 69621 % 2147483647 % 20 == 0:
            continue
        meter = f"{(n % meters + 1) * 1103515245 % 2147483647:08x}-{n % meters}"
        value = n // meters * 500 + (n + 1) * 48271 % 2147483647 % 500
        readings.setdefault(meter, []).append((n // meters, value))
    months: dict[int, Counter[str]] = {}
    checksum = 0
    for meter, lines in readings.items():
        amounts: list[int] = []
        before = 0
        for day, value in lines:
            amounts.append(value - before)
            before = value
            week = sum(amounts[-7:])
            checksum += (day % 31 + 1) * week + (amounts[-1] * 7 > week * 2)
            months.setdefault(day // 30, Counter())[meter] += amounts[-1]
    for used in months.values():
        best = sorted(used, key=lambda meter: (-used[meter], meter))[:10]
        checksum += sum(place * (used[m] + len(m)) for place, m in enumerate(best, 1))
    words = ["sqlite3"]
    for key, number in (("meters", meters), ("days", days)):
        words += ["-cmd", f".parameter set @{key} {number}"]
    found = printed_by([*words, ":memory:", ".read {script}"], "sqlite-meters.sql")
    assert found == checksum
