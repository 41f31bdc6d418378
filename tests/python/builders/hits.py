# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording of sampled events, and profiles of it."""

from __future__ import annotations

from pathlib import Path

from tlbcost.common import formats
from tlbcost.common.table import format_table
from tlbcost.counters.hits import Hits
from tlbcost.counters.profile import Profile

HEADER = {
    "event_0": "cycles counted 0 libpfm4 0x0 0x0 0x0",
    "period_0": "50000", "frequency_0": "NA", "count_0": "31640000000",
    "enabled_ns_0": "2000", "running_ns_0": "2000",
    "event_1": "dtlb_misses counted 0 code 0x4 0x704 0x0",
    "period_1": "1000", "frequency_1": "NA", "count_1": "9864000",
    "enabled_ns_1": "2000", "running_ns_1": "1000",
    "event_2": "gone unsupported 2 NA NA NA NA",
    "period_2": "NA", "frequency_2": "1000", "count_2": "NA",
    "enabled_ns_2": "NA", "running_ns_2": "NA",
    "lost": "0", "throttled": "3", "duration_ns": "13690000000", "scope": "program",
    "mode": "both", "kernel": "6.1", "boot_id": "one",
    "object_0": "/home/mel/stream", "build_id_0": "00", "object_1": "/lib/libc-2.9.so",
    "object_2": "[kernel]", "data_0": "[heap]",
}  # fmt: skip
ROWS: list[list[str | int | None]] = [
    ["cycles", 8, 0, "user", 4096, None, None, 622512, 622512 * 50000],
    ["dtlb_misses", 8, 0, "user", 4096, 0, "walk", 9000, 9000000],
    ["dtlb_misses", 8, 0, "user", 4100, 0, "stlb_hit", 651, 651000],
    ["dtlb_misses", 9, 2, "kernel", 18446744071586526058, None, None, 181, 181000],
    ["cycles", 8, 1, "user", 77, None, None, 4170, 4170 * 50000],
    ["cycles", None, None, None, 12, None, None, 1, 50000],
]


def hits_table(tmp_path: Path, header: dict[str, str] = HEADER) -> Path:
    path = tmp_path / "hits.tsv"
    path.write_text(format_table(formats.HITS, header, ROWS), encoding="utf-8")
    return path


def profile_of(hits: Hits, **options: object) -> Profile:
    names = tuple(None if hit.mode is None else f"f{hit.offset_bytes}" for hit in hits.hits)
    return Profile(hits, names, **({"by": "object"} | options))  # type: ignore[arg-type]
