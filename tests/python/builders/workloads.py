# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of workloads share: running one, its random numbers, and how it adds up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
from builders.tree import BUILD

WORKLOADS = BUILD / "workloads"
MASK = 2**64 - 1


def checksum_of(name: str, **options: int) -> int:
    """What the workload prints."""
    program = WORKLOADS / name
    if not program.exists():
        pytest.skip(f"needs build/workloads/{name} (make)")
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    done = subprocess.run([program, *words], check=True, capture_output=True, text=True)
    return int(done.stdout.removeprefix("checksum "), 16)


def printed_by(words: list[str], script: str) -> int:
    """What a script prints; its place comes after the words that run it, and before its options."""
    if not (WORKLOADS / script).exists():
        pytest.skip(f"needs build/workloads/{script} (make)")
    words = [word.replace("{script}", str(WORKLOADS / script)) for word in words]
    # Whatever the hashes.
    environment = {k: v for k, v in os.environ.items() if not k.endswith("HASHSEED")}
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    return int(done.stdout.removeprefix("checksum "), 16)


def refused(name: str, **options: int) -> tuple[int, str]:
    """The exit code, and what the workload says."""
    program = WORKLOADS / name
    if not program.exists():
        pytest.skip(f"needs build/workloads/{name} (make)")
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def random_numbers(seed: int) -> Iterator[int]:
    """The same as workload_random()."""
    x = (seed + 1) * 0x9E3779B97F4A7C15 & MASK
    while True:
        x ^= x << 13 & MASK
        x ^= x >> 7
        x ^= x << 17 & MASK
        yield x


def below(numbers: Iterator[int]) -> Callable[[int], int]:
    """The same as workload_below()."""
    return lambda n: (next(numbers) >> 32) * n >> 32


def hashed(numbers: list[int]) -> int:
    """How workloads add up what they found, where the order matters."""
    result = 0
    for number in numbers:
        result = result * 31 + number & MASK
    return result
