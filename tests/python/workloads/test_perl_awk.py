# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads in Perl and awk get it right? Checked against plain Python."""

from __future__ import annotations

import itertools
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from builders.workloads import WORKLOADS, below, printed_by, random_numbers


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
        sender, receiver = pick(accounts), pick(accounts)
        day, cents = pick(360), 1 + pick(500000)
        reference = f"R{pick(2147483647):08X}-{number}"
        entries.setdefault(sender, []).append((day, reference, -cents))
        if not pick(10):
            lost += cents
            continue
        days = pick(5)
        entries.setdefault(receiver, []).append((day + days, reference, cents))
        late[receiver] += days + len(f"from account {sender}")
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
