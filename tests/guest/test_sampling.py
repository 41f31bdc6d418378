# SPDX-License-Identifier: GPL-2.0-or-later
"""Do samples of the emulated machine's counters land on the loops that miss?"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from machine import BUILD, Results
from test_counting import LOADS, OF_THREADS, code
from tlbcost.common import formats
from tlbcost.common.table import Table, count, parse_table

PERIOD = 1000
# The kernel misses less: in QEMU 11, 8,000 times.
PERIODS = {"hits-kernel": 100}
# Some overflows hit the kernel, or the C library, on a machine that is busy with other things: of
# the 200 that a process has.
SLACK = 20
VISIT = str(BUILD / "riscv64/tests/visit")
# Samples of the making of the pages, where the counters overflow in the kernel's page fault.
FEW = 20
# Of them, or of a program's own, this many are distinguished for certain: one of 44 was seen to
# come late.
MOST = 0.8


def table(results: Results, name: str) -> Table:
    assert code(results, name) == 0
    assert not results.text(f"{name}.err"), results.text(f"{name}.err")
    return parse_table(results.text(f"{name}.tsv"), f"{name}.tsv", formats.HITS)


def samples(results: Results, name: str) -> Counter[tuple[str, int]]:
    """Samples by object and offset."""
    hits = table(results, name)
    found: Counter[tuple[str, int]] = Counter()
    for row in hits.records():
        number, weight = count(row["samples"]) or 0, count(row["weight"])
        assert number > 0
        assert weight == number * PERIODS.get(name, PERIOD)
        found[hits.header[f"object_{row['object']}"], count(row["offset_bytes"]) or 0] += number
    return found


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("hits", 1),
        ("hits-addresses", 1),
        ("hits-children", 3),
        ("hits-threads", 2),
        ("hits-stores", 1),
        ("hits-system", 1),
    ],
)
def test_most_samples_land_in_the_loop_that_misses(
    sampling: Results, name: str, times: int
) -> None:
    (place, most), *_ = samples(sampling, name).most_common()
    assert place[0] == VISIT
    share = OF_THREADS if name == "hits-threads" else None
    assert most == pytest.approx(times * LOADS / PERIOD, rel=share, abs=times * SLACK)


@pytest.mark.parametrize("name", ["hits", "hits-children", "hits-threads"])
def test_samples_add_up_to_the_count(sampling: Results, name: str) -> None:
    counted = count(table(sampling, name).header["count_0"])
    assert counted is not None
    total = samples(sampling, name).total()
    # Each process and processor holds a part of a period back.
    assert total * PERIOD == pytest.approx(counted, abs=8 * PERIOD)


@pytest.mark.parametrize(
    ("name", "symbol"), [("hits", "load_pages"), ("hits-stores", "store_pages")]
)
def test_annotate_names_the_loop(sampling: Results, tmp_path: Path, name: str, symbol: str) -> None:
    (tmp_path / "hits.tsv").write_bytes(sampling.files[f"{name}.tsv"])
    command = [sys.executable, "-m", "tlbcost", "annotate", str(tmp_path / "hits.tsv")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    first = next(line for line in out.splitlines() if "visit" in line)
    assert symbol in first
    assert int(first.split()[0]) == pytest.approx(LOADS / PERIOD, abs=SLACK)


def test_each_child_has_its_own_samples(sampling: Results) -> None:
    by_pid: Counter[str] = Counter()
    for row in table(sampling, "hits-children").records():
        if row["mode"] == "user":
            by_pid[str(row["pid"])] += count(row["samples"]) or 0
    assert len(by_pid) == 3
    for hits in by_pid.values():
        assert hits == pytest.approx(LOADS / PERIOD, abs=SLACK)


def test_threads_are_samples_of_their_process(sampling: Results) -> None:
    hits = table(sampling, "hits-threads").records()
    assert len({row["pid"] for row in hits}) == 1


def test_samples_of_the_kernel_are_distinguished(sampling: Results) -> None:
    kernel = samples(sampling, "hits-kernel")
    assert kernel.total() > FEW
    # A counter's interrupt may come when the kernel has just returned to the program.
    named = sum(n for (name, _), n in kernel.items() if name == "[kernel]")
    assert named >= MOST * kernel.total()
    modes = Counter(row["mode"] for row in table(sampling, "hits-kernel").records())
    assert modes["kernel"] >= MOST * modes.total()


def test_counters_without_addresses_leave_them_out(sampling: Results) -> None:
    # The event names no data address, and the kernel reports 0: that is none, not address 0.
    rows = table(sampling, "hits-addresses").records()
    assert {(row["data"], row["data_tlb"]) for row in rows} == {(None, None)}


@pytest.mark.parametrize("level", [4, 3])
def test_a_user_is_told_that_sampling_is_forbidden(counting: Results, level: int) -> None:
    name = f"paranoid-{level}-sample"
    assert code(counting, name) == 4
    assert not counting.text(f"{name}.out")
    assert "perf_event_paranoid" in counting.text(f"{name}.err")


@pytest.mark.parametrize("level", [2, 1])
def test_a_user_samples_his_own_programs(sampling: Results, level: int) -> None:
    assert code(sampling, f"paranoid-{level}-sample") == 0
    assert samples_of_ten(sampling, f"paranoid-{level}-sample") > 0


def samples_of_ten(results: Results, name: str) -> int:
    """Samples in the program itself, one in ten misses."""
    hits = table(results, name)
    rows = [row for row in hits.records() if hits.header[f"object_{row['object']}"] == VISIT]
    return sum(count(row["samples"]) or 0 for row in rows)
