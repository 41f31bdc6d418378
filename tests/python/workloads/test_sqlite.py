# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads in SQL get it right? Checked against plain Python."""

from __future__ import annotations

from collections import Counter

import pytest
from builders.workloads import MASK, printed_by


@pytest.mark.parametrize(("sales", "shops"), [(1, 1), (3000, 30), (3000, 400)])
def test_sqlite_adds_up_groups(sales: int, shops: int) -> None:
    money: Counter[str] = Counter()
    by_day: dict[int, list[tuple[str, int]]] = {}
    notes = 0
    for n in range(1, sales + 1):
        shop = f"shop {n * 48271 % 2147483647 % shops * 1103515245 % 2147483647:08x}"
        price = n * 16807 % 2147483647 % 1000
        money[shop] += price
        by_day.setdefault(n * 69621 % 2147483647 % 365, []).append((shop, price))
        notes += "77" in str(n)
    best = sorted(money, key=lambda shop: (-money[shop], shop))[:100]
    checksum = sum(money[shop] * place for place, shop in enumerate(best, 1))
    for day, sold in by_day.items():
        different = len({shop for shop, _ in sold})
        checksum += (day + 1) * (different + sum(price for _, price in sold))
    words = ["sqlite3"]
    for key, value in (("sales", sales), ("shops", shops)):
        words += ["-cmd", f".parameter set @{key} {value}"]
    found = printed_by([*words, ":memory:", ".read {script}"], "sqlite-groups.sql")
    assert found == checksum + notes & MASK


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
