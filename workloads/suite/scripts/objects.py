# SPDX-License-Identifier: GPL-2.0-or-later
"""Book transfers between accounts, which are objects in a dict, each with a list of entries.

Small objects lie anywhere on the heap. They come from malloc() if PYTHONMALLOC is "malloc", else
from mappings of Python's own.
"""

from __future__ import annotations

import argparse
import random
import sys


class Account:
    """One account."""

    __slots__ = ("balance", "entries", "name")

    def __init__(self, name: str, balance: int) -> None:
        """Open it."""
        self.name = name
        self.balance = balance
        self.entries: list[tuple[str, int]] = []


def transfer(accounts: dict[str, Account], source: str, target: str, amount: int) -> bool:
    """Book it in both accounts, if there is the money."""
    giver, taker = accounts[source], accounts[target]
    if giver.balance < amount:
        return False
    giver.balance -= amount
    taker.balance += amount
    giver.entries.append((target, -amount))
    taker.entries.append((source, amount))
    return True


def main() -> int:
    """Book, and print a checksum of all accounts."""
    parser = argparse.ArgumentParser(prog="objects", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--accounts", type=int, default=200_000, help="(200000)")
    parser.add_argument("--count", type=int, default=500_000, help="transfers (500000)")
    options = parser.parse_args()
    if options.accounts < 1 or options.count < 1:
        parser.error("--accounts and --count must be at least 1")
    names = [f"account-{number:09}" for number in range(options.accounts)]
    accounts = {name: Account(name, 1000) for name in names}
    pick = random.Random(1).random
    refused = 0
    for _ in range(options.count):
        source = names[int(pick() * options.accounts)]
        target = names[int(pick() * options.accounts)]
        if not transfer(accounts, source, target, int(pick() * 500)):
            refused += 1
    checksum = refused
    for account in accounts.values():
        checksum = (checksum * 31 + account.balance + len(account.entries)) % 2**64
    print(f"checksum {checksum:016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
