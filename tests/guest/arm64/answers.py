# SPDX-License-Identifier: GPL-2.0-or-later
"""What did the steps in an emulated arm64 machine say?"""

from __future__ import annotations

import json
from typing import Any

from machine import Results

MIB = 1 << 20
BASE, HUGE = 4096, 2 * MIB
CANNOT_MEASURE = 4


def code(results: Results, step: str) -> int:
    return int(results.text(f"{step}.code"))


def said(results: Results, step: str) -> str:
    """What a step printed on standard error, without its line ends."""
    return " ".join(results.text(f"{step}.err").split())


def document(results: Results, step: str) -> dict[str, Any]:
    assert code(results, step) == 0, said(results, step)
    found: dict[str, Any] = json.loads(results.text(f"{step}.json"))
    return found


def checks(results: Results) -> dict[str, dict[str, Any]]:
    """What tlbcost doctor found, by name. There is no estimate without --machine, which it says."""
    assert code(results, "doctor") == CANNOT_MEASURE, said(results, "doctor")
    return {check["name"]: check for check in json.loads(results.text("doctor.json"))["checks"]}


def page_bytes(results: Results) -> tuple[int, int]:
    """The kernel's base page and its huge page."""
    base = int(checks(results)["cpu"]["values"]["base_page_bytes"])
    return base, base * base // 8


def walks(results: Results, step: str) -> dict[int, int]:
    """Page walks of loads and stores, by page size."""
    (machine,) = document(results, step)["machines"]
    assert machine["name"] == "neoverse-v2"
    return {
        size["page_size_bytes"]: sum(size["misses"][s]["page_walks"] for s in ("load", "store"))
        for size in machine["page_sizes"]
    }


def added(results: Results, step: str) -> dict[int, int]:
    """What the longer of two runs has more of: the start of every program is the same."""
    less, more = walks(results, step), walks(results, f"{step}-more")
    return {size: more[size] - less[size] for size in less}
