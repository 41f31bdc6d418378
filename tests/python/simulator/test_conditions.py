# SPDX-License-Identifier: GPL-2.0-or-later
"""What is looked up around a program's runs."""

from __future__ import annotations

import mmap
import os
from dataclasses import replace
from pathlib import Path

import pytest
from builders.calibration import cost, quick
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.table import Table
from tlbcost.memory import frames, smaps
from tlbcost.simulator import conditions
from tlbcost.simulator.conditions import Conditions
from tlbcost.simulator.core import Core

KEPT = Core((("width", 4), ("l3-half-life-cycles", 1000), ("isolated-pages", 5)))
PLAIN = Core((("width", 4),))
CALIBRATION = replace(quick().calibration, costs=(cost("cycles_per_ns", 4, None),))


def looked_at(core: Core | None, *, own: bool = True, times: int = 2) -> Conditions:
    seen = Conditions(core, CALIBRATION, own=own)
    for _ in range(times):
        seen.measure()
    return seen


def test_how_long_lines_stay_is_measured_each_time() -> None:
    seen = looked_at(KEPT)
    # By the real calibrator: at least one sweep of each look, of 32 ms at most.
    assert 2 <= len(seen.l3_half_lives_ns) <= 8
    assert all(0 < ns <= 32e6 for ns in seen.l3_half_lives_ns)
    assert seen.notes == ()
    core = seen.core_then(None)
    assert core is not None
    kept = dict(core.fields)["l3-half-life-cycles"]
    assert isinstance(kept, tuple)
    assert len(kept) == len(seen.l3_half_lives_ns)


def test_no_more_are_used_than_a_core_takes() -> None:
    seen = looked_at(KEPT, times=0)
    seen.l3_half_lives_ns += [1e6 * (i + 1) for i in range(50)]
    core = seen.core_then(9)
    assert core is not None
    kept = dict(core.fields)["l3-half-life-cycles"]
    assert isinstance(kept, tuple)
    # Of the first as of the last.
    assert 8 <= len(kept) <= 16
    assert kept[-1] > 40 * kept[0]
    assert dict(core.fields)["isolated-pages"] == 9


@pytest.mark.parametrize(("core", "own"), [(None, True), (PLAIN, True), (KEPT, False)])
def test_where_it_is_not_modelled_or_of_another_machine_nothing_is_measured(
    core: Core | None, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "run_calibrator", lambda *_: pytest.fail("measured"))
    seen = looked_at(core, own=own)
    assert seen.core_then(None) == core


def test_without_a_calibrator_the_calibrations_figure_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise TlbcostError("cannot calibrate: no memory", None)

    monkeypatch.setattr(conditions, "run_calibrator", fail)
    seen = looked_at(KEPT)
    assert seen.core_then(None) == KEPT
    assert len(seen.notes) == 1
    assert seen.notes[0].endswith("(cannot calibrate: no memory)")


def test_a_calibrator_that_measured_nothing_is_no_silent_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = formats.SAMPLES.columns
    nothing = Table("samples", {}, columns, (tuple(None for _ in columns),), complete=True)
    monkeypatch.setattr(conditions, "run_calibrator", lambda *_: nothing)
    seen = looked_at(KEPT)
    assert seen.core_then(None) == KEPT
    assert ["no time or memory" in note for note in seen.notes] == [True]


def test_frames_of_a_process_are_those_of_its_own_memory() -> None:
    size = 64 * mmap.PAGESIZE
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(0, size, mmap.PAGESIZE):
        memory[page] = 1
    text = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    mappings = [each for each in smaps.parse(text, "python") if each.resident_bytes]
    pages = sum(each.resident_bytes for each in mappings if each.kind in ("heap", "anonymous"))
    entries = frames.entries_of(os.getpid(), mappings)
    memory.close()
    isolated = None if entries is None else entries.isolated()
    if isolated is None:
        pytest.skip("only root may see frames")
    assert 0 <= isolated <= pages // mmap.PAGESIZE
    nothing = frames.entries_of(os.getpid(), [])
    assert nothing is not None
    assert nothing.isolated() is None


def test_a_process_that_ended_has_no_frames() -> None:
    text = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    mappings = list(smaps.parse(text, "python"))
    # No process has this number.
    assert frames.entries_of(1 << 30, mappings) is None
