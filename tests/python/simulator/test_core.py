# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a calibration become the core that programs are timed on?"""

from __future__ import annotations

import mmap
import os
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import GEOMETRY, MACHINE
from builders.calibration import BASE, HUGE, cost, quick
from builders.tree import there
from tlbcost.calibration.records import Calibration, Cost, ReportedFigure
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Table
from tlbcost.memory import frames, smaps
from tlbcost.processors.published import Geometry
from tlbcost.simulator import core
from tlbcost.simulator.core import Conditions, Core, as_it_ran, core_for
from tlbcost.system.machine import Machine

KNOWN = replace(MACHINE, cpu_name="Intel(R) Xeon(R) Processor", cpu_stepping="2")
UNKNOWN = replace(MACHINE, cpu_vendor="Nobody", cpu_family="1", cpu_model="1")
GUEST = replace(KNOWN, hypervisor="kvm")
SPLINTERED = replace(GEOMETRY, huge=replace(GEOMETRY.huge, entry_bytes=BASE))
# A clock of 4 cycles per ns; caches of 1.25, 4, 25 ns and memory of 100.
COSTS = (
    cost("cycles_per_ns", 4, None),
    cost("stlb_hit_ns", 2, BASE, "serial", 384),
    *(
        cost("load_ns", ns, None, "serial", lines)
        for lines, ns in ((256, 1.25), (8192, 4), (65536, 25), (262144, 25), (4194304, 100))
    ),
    cost("load_ns", 100, None, "serial"),
    *(cost("load_ns", ns, None, "overlapped", at) for at, ns in ((65536, 2.5), (4194304, 8))),
    *(cost("stream_ns", ns, None, None, at) for at, ns in ((262144, 2), (4194304, 4))),
    cost("walk_ns", 12, BASE, "serial", 8192),
    cost("walk_ns", 6, HUGE, "serial", 8192),
    cost("walk_interval_ns", 5, BASE, None, 8192),
    cost("walk_interval_ns", 4, HUGE, None, 8192),
)
HALF_LIFE = (cost("l3_half_life_ns", 3e6, None, None, 65536),)
KEPT = Core((("width", 4), ("l3-half-life-cycles", 1000), ("isolated-pages", 5)))
PLAIN = Core((("width", 4),))
CALIBRATION = replace(quick().calibration, costs=(cost("cycles_per_ns", 4, None),))


@pytest.fixture(autouse=True)
def known_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"l1d_bytes": 48 << 10, "l2_bytes": 2 << 20, "l3_bytes": 32 << 20}
    reported = tuple(ReportedFigure(name, None, "cpuid", size) for name, size in sizes.items())
    monkeypatch.setattr(core, "reported_figures", lambda *_: reported)
    monkeypatch.setattr(core, "isolated_pages", lambda: 1234)


def calibrated(*without: str, costs: tuple[Cost, ...] = COSTS) -> Calibration:
    kept = tuple(one for one in costs if one.quantity not in without)
    return Calibration(quick().calibration.machine, "2026-01-01", "0", 9.0, kept)


def found(
    machine: Machine, *without: str, geometry: Geometry = GEOMETRY, more: tuple[Cost, ...] = ()
) -> Core:
    return there(core_for(calibrated(*without, costs=COSTS + more), machine, geometry))


def test_ns_become_cycles_of_the_calibration() -> None:
    fields = dict(found(KNOWN).fields)
    assert (fields["l1-cycles"], fields["l2-cycles"]) == (5, 16)
    # The low end: neighbours only add.
    assert fields["l3-cycles"] == 97
    assert (fields["memory-cycles"], fields["stlb-cycles"]) == (400, 8)
    assert (fields["l1-bytes"], fields["l1-ways"]) == (48 << 10, 12)
    assert (fields["l2-bytes"], fields["l2-ways"]) == (2 << 20, 16)
    # Ticks are 64ths of a cycle.
    assert fields["l3-interval"] == 2 * 4 * 64
    assert fields["memory-interval"] == 4 * 4 * 64
    assert fields["memory-apart"] == 8 * 4 * 64
    # 100 over 8 ns is more than 25 over 2.5.
    assert fields["fill-buffers"] == 12


def test_the_last_level_is_shared_by_time_where_that_is_known() -> None:
    fields = dict(found(KNOWN).fields)
    # Half-way from 25 to 100 ns, between 16 and 256 MiB.
    assert 16 << 20 < fields["l3-bytes"] < 256 << 20
    assert "l3-half-life-cycles" not in fields
    made = found(KNOWN, more=HALF_LIFE)
    fields = dict(made.fields)
    assert (fields["l3-bytes"], fields["l3-half-life-cycles"]) == (32 << 20, 12_000_000)
    assert made.notes == ()


def test_what_is_published_of_the_core_is_used() -> None:
    made = found(KNOWN)
    fields = dict(made.fields)
    known = ("width", "reorder-buffer", "store-buffer", "walkers")
    assert [fields[name] for name in known] == [6, 512, 114, 4]
    # Only the time is missing that the last-level cache keeps lines.
    assert [note for note in made.notes if "last-level cache" not in note] == []
    assert len(made.notes) == 1
    assert made.option.startswith("width=6,reorder-buffer=512,store-buffer=114,")


def test_page_directories_are_those_of_the_core() -> None:
    zen4 = replace(MACHINE, cpu_vendor="AuthenticAMD", cpu_family="25", cpu_model="17")
    fields = dict(found(zen4).fields)
    assert (fields["directories"], fields["directory-ways"]) == (1536, 24)
    fields = dict(found(UNKNOWN).fields)
    assert (fields["directories"], fields["directory-ways"]) == (32, 4)


def test_what_is_assumed_is_named() -> None:
    made = found(UNKNOWN, "walk_interval_ns")
    assert dict(made.fields)["reorder-buffer"] == 224
    assert any("assumed: 224 instructions" in note for note in made.notes)
    assert any("page walkers is assumed: 2" in note for note in made.notes)


def test_walks_measured_at_once_stand_for_walkers() -> None:
    made = found(UNKNOWN, more=(cost("walks_at_once", 2.9, BASE, None, 8192),))
    assert dict(made.fields)["walkers"] == 3


def test_walks_as_long_as_several_intervals_need_as_many_walkers() -> None:
    # 12 ns each, one every 5 ns.
    made = found(UNKNOWN)
    assert dict(made.fields)["walkers"] == 2
    assert not any("walkers" in note for note in made.notes)


def test_reads_take_what_walks_leave_for_them() -> None:
    # 12 - 2 - 4 ns of base pages, 6 - 2 - 1.25 of huge ones.
    fields = dict(found(KNOWN).fields)
    assert fields["read-cycles"] == (4 * 6)
    assert fields["huge-read-cycles"] == round(4 * 2.75)
    # Four walkers at 5 ns each, less the read.
    assert fields["walk-cycles"] == (4 * (4 * 5 - (4 + 6)))
    assert fields["huge-walk-cycles"] == round(4 * (4 * 4 - (1.25 + 2.75)))
    assert fields["host-shift"] == 0
    assert "isolated-pages" not in fields


def test_without_intervals_of_walks_a_walker_is_busy_with_its_reads() -> None:
    fields = dict(found(KNOWN, "walk_interval_ns").fields)
    assert (fields["walk-cycles"], fields["huge-walk-cycles"]) == (0, 0)


def test_under_a_hypervisor_the_host_is_read_too() -> None:
    whole, pieces = found(GUEST), found(GUEST, geometry=SPLINTERED)
    assert dict(whole.fields)["host-shift"] == 21
    assert dict(pieces.fields)["host-shift"] == 12
    # Two reads share what the walks leave: of either page size, the smaller.
    left = (12 - 2 - 8) / 2, (6 - 2 - 5.25) / 2
    assert left[1] < 0 < left[0]
    assert dict(pieces.fields)["read-cycles"] == 0
    assert dict(pieces.fields)["huge-read-cycles"] == 0


def test_what_was_seen_when_the_program_ran_replaces_what_was_before() -> None:
    known = calibrated(costs=COSTS + HALF_LIFE)
    made = found(GUEST, geometry=SPLINTERED, more=HALF_LIFE)
    assert ",l3-half-life-cycles=12000000," in made.option
    ran = as_it_ran(made, known, [1e6, 2.5e6, 2e9], 77)
    # Cycles, as many as one field takes.
    assert f",l3-half-life-cycles=4000000:10000000:{(1 << 32) - 1}," in ran.option
    assert ran.option.endswith("isolated-pages=77")
    assert as_it_ran(made, known, [], None) == made
    # A core without these fields is not given any.
    plain = found(KNOWN)
    assert as_it_ran(plain, known, [1e6], 77) == plain


def test_frames_that_lie_apart_matter_where_the_host_has_base_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert dict(found(GUEST, geometry=SPLINTERED).fields)["isolated-pages"] == 1234
    assert "isolated-pages" not in dict(found(GUEST).fields)
    monkeypatch.setattr(core, "isolated_pages", lambda: None)
    unseen = found(GUEST, geometry=SPLINTERED)
    assert any("root may look" in note for note in unseen.notes)


@pytest.mark.parametrize("missing", ["load_ns", "cycles_per_ns"])
def test_without_loads_or_clock_there_is_no_core(missing: str) -> None:
    # A stream alone does not show what a load costs.
    assert core_for(calibrated(missing), KNOWN, GEOMETRY) is None


def test_frames_side_by_side_are_not_isolated() -> None:
    assert frames.isolated(list(range(800))) == 0
    assert frames.isolated(list(range(0, 8 * 800, 8))) == 800
    half = [*range(400), *range(8000, 8000 + 8 * 400, 8)]
    assert frames.isolated(half) == 400


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
    core = there(seen.core_then(None))
    kept = dict(core.fields)["l3-half-life-cycles"]
    assert isinstance(kept, tuple)
    assert len(kept) == len(seen.l3_half_lives_ns)


def test_no_more_are_used_than_a_core_takes() -> None:
    seen = looked_at(KEPT, times=0)
    seen.l3_half_lives_ns += [1e6 * (i + 1) for i in range(50)]
    core = there(seen.core_then(9))
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
    monkeypatch.setattr("tlbcost.simulator.core.run_calibrator", lambda *_: pytest.fail("measured"))
    seen = looked_at(core, own=own)
    assert seen.core_then(None) == core


def test_without_a_calibrator_the_calibrations_figure_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise TlbcostError("cannot calibrate: no memory", None)

    monkeypatch.setattr("tlbcost.simulator.core.run_calibrator", fail)
    seen = looked_at(KEPT)
    assert seen.core_then(None) == KEPT
    assert len(seen.notes) == 1
    assert seen.notes[0].endswith("(cannot calibrate: no memory)")


def test_a_calibrator_that_measured_nothing_is_no_silent_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = formats.SAMPLES.columns
    nothing = Table("samples", {}, columns, (tuple(None for _ in columns),), complete=True)
    monkeypatch.setattr("tlbcost.simulator.core.run_calibrator", lambda *_: nothing)
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
    assert there(frames.entries_of(os.getpid(), [])).isolated() is None


def test_a_process_that_ended_has_no_frames() -> None:
    text = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    mappings = list(smaps.parse(text, "python"))
    # No process has this number.
    assert frames.entries_of(1 << 30, mappings) is None
