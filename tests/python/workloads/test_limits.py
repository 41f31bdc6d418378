# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the workloads refuse what they cannot do, and say why?"""

from __future__ import annotations

import subprocess
import sys

import pytest
from builders.workloads import WORKLOADS, refused


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("aho-corasick", {"words": 2**30}, "--words is too large"),
        ("barnes-hut", {"percent": 2000}, "--stars or --percent is too large"),
        ("column-scan", {"names": 2**32}, "--names and --rows must be below 4G"),
        ("cuckoo", {"buckets": 12}, "--buckets must be a power of two, and at most 4G"),
        ("log-store", {"keys": 2**32 + 1}, "--size is too large for 32-bit indices"),
        ("median", {"radius": 2000}, "--order or --radius is too large"),
        ("merge-runs", {"runs": 5000}, "--runs must be at most 4096"),
        ("particles", {"edge": 1025}, "--edge must be at most 1024, and --particles below 4G"),
        (
            "photo",
            {"radius": 1001},
            "--width and --height must be at most 1M, --radius and --square 1000",
        ),
        ("robin-hood", {"slots": 1000}, "--slots must be a power of two, and at most 1024G"),
        ("suffix-automaton", {"size": 2**30}, "--size must be below 1G"),
        ("triangular", {"elements": 2000}, "--rows or --elements is too large"),
        ("versions", {"keys": 2**32}, "--nodes, --keys and --versions must be below 4G"),
    ],
)
def test_options_out_of_range_are_refused(name: str, options: dict[str, int], message: str) -> None:
    assert refused(name, **options) == (2, f"{message}\n")


def test_cuckoo_says_when_its_table_is_full() -> None:
    message = "no place for a connection: the table is too small\n"
    assert refused("cuckoo", buckets=16, keys=200) == (1, message)


def test_versions_says_when_there_is_no_room() -> None:
    message = "no place for a node: --nodes is too small\n"
    assert refused("versions", nodes=20, keys=100, count=1000) == (1, message)


def test_json_orders_refuses_none() -> None:
    script = WORKLOADS / "json-orders.py"
    if not script.exists():
        pytest.skip("needs build/workloads/json-orders.py (make)")
    words = [sys.executable, str(script), "--orders", "0"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("--orders and --count must be at least 1\n")
