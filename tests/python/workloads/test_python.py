# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads in Python get it right? Checked against plain Python."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from collections import Counter

import numpy as np
import pytest
from builders.workloads import WORKLOADS, hashed, printed_by


def orders_by_hand(count: int, changes: int) -> list[tuple[str, list[tuple[str, int]]]]:
    """Customers, and names of things with how many of them."""
    pick = random.Random(1).random
    orders = []
    for _ in range(count):
        things = []
        for _ in range(1 + int(pick() * 4)):
            name = f"thing-{int(pick() * 100_000)}"
            things.append((name, 1 + int(pick() * 9)))
        orders.append((f"customer-{int(pick() * count)}", things))
    pick = random.Random(2).random
    for step in range(changes):
        _, things = orders[int(pick() * count)]
        if step % 3 == 0:
            things[:] = [(name, pieces + 1) for name, pieces in things]
        elif step % 3 == 1:
            things.append((f"thing-{step}", 1))
        elif things:
            things.pop(int(pick() * len(things)))
    return orders


def test_json_orders_are_written_as_they_were_changed() -> None:
    orders = orders_by_hand(300, 1000)
    assert any(not things for _, things in orders)
    pieces: Counter[str] = Counter()
    found = []
    for number, (customer, things) in enumerate(orders):
        inner = ", ".join(f'{{"thing": "{name}", "pieces": {n}}}' for name, n in things)
        text = f'{{"id": {number}, "customer": "{customer}", "things": [{inner}]}}'
        found.append(zlib.crc32(text.encode()))
        pieces[customer] += sum(n for _, n in things)
    found += [pieces[customer] for customer in sorted(pieces)]
    words = [sys.executable, "{script}", "--orders", "300", "--count", "1000"]
    assert printed_by(words, "json-orders.py") == hashed(found)


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
