# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the right geometry chosen, with its source, and a damaged table of views refused?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.tree import there
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.calibration.records import Calibration, Cost
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval
from tlbcost.processors.published import Geometry, PublishedCore, TlbLevel, cores
from tlbcost.simulator.counts import read_views
from tlbcost.simulator.geometry import geometry_for
from tlbcost.system.machine import Machine

K4, M2 = 4096, 2 << 20
NOBODY = Machine(None, None, None, None, None, None, None, None, K4, None, None)
SKYLAKE = replace(NOBODY, cpu_vendor="GenuineIntel", cpu_family="6", cpu_model="94")
SANDY_BRIDGE = replace(SKYLAKE, cpu_model="42")
ZEN4 = replace(NOBODY, cpu_vendor="AuthenticAMD", cpu_family="25", cpu_model="17")


def calibration(
    machine: Machine, **entries: tuple[float, float, float] | float | None
) -> Calibration:
    """Entries by level and page size: `dtlb_4=64`, `stlb_2048=(1500, 1400, 1600)`."""
    costs = []
    for key, figure in entries.items():
        level, kib = key.split("_")
        if isinstance(figure, tuple):
            interval = Interval(*figure)
        else:
            interval = None if figure is None else Interval(figure, figure, figure)
        quantity = {"tlb-entry": "tlb_entry_bytes", "dtlb-ways": "dtlb_ways",
                    "stlb-ways": "stlb_ways"}.get(level, f"{level}_entries")  # fmt: skip
        costs.append(Cost(quantity, int(kib) * 1024, None, None, interval, 9))
    return Calibration(machine, "2026-01-01T00:00:00Z", "0", 1.0, tuple(costs))


def test_published_without_measurement() -> None:
    geometry = geometry_for(None, SKYLAKE, M2)
    assert geometry.base.dtlb == TlbLevel(64, 4)
    assert geometry.base.itlb == TlbLevel(128, 8)
    assert geometry.base.stlb == TlbLevel(1536, 12)
    assert geometry.huge.dtlb == TlbLevel(32, 4)
    assert geometry.huge.stlb == TlbLevel(1536, 12)
    assert set(geometry.sources) == {
        (level, size) for level in ("dtlb", "itlb", "stlb") for size in (K4, M2)
    }
    assert geometry.sources["dtlb", K4].sentence.startswith("published for Intel Skylake")
    assert "WikiChip" in geometry.sources["dtlb", K4].sentence


@pytest.mark.parametrize("measured", [64, 56, 75, (90, 60, 110)])
def test_measurement_confirms(measured: float | tuple[float, float, float]) -> None:
    geometry = geometry_for(calibration(SKYLAKE, dtlb_4=measured), SKYLAKE, M2)
    assert geometry.base.dtlb == TlbLevel(64, 4)
    value = measured[0] if isinstance(measured, tuple) else measured
    assert f"confirmed by measurement ({value} entries)" in geometry.sources["dtlb", K4].sentence
    assert geometry.sources["dtlb", K4].confirmed
    assert geometry.sources["dtlb", K4].kind == "published"


def test_measurement_contradicts() -> None:
    geometry = geometry_for(calibration(SKYLAKE, dtlb_4=96, stlb_4=2048), SKYLAKE, M2)
    assert geometry.base.dtlb == TlbLevel(96, 3)
    assert geometry.base.stlb == TlbLevel(2048, 16)
    sentence = geometry.sources["stlb", K4].sentence
    assert sentence.startswith("measured (2048 entries, modelled as 2048 entries, 16-way)")
    assert "contradicts the 1536 entries published" in sentence
    # What was not measured stays as published.
    assert geometry.huge.stlb == TlbLevel(1536, 12)


def test_odd_measured_size_is_modelled_in_whole_sets() -> None:
    stlb = there(geometry_for(calibration(SKYLAKE, stlb_4=1111), SKYLAKE, M2).base.stlb)
    sets = stlb.entries // stlb.ways
    assert sets & (sets - 1) == 0
    assert abs(stlb.entries - 1111) <= 0.05 * 1111


def test_fully_associative_stays_so_when_the_size_differs() -> None:
    geometry = geometry_for(calibration(ZEN4, dtlb_4=40), ZEN4, M2)
    assert geometry.base.dtlb == TlbLevel(40, 40)
    assert geometry.base.stlb == TlbLevel(3072, 24)


def test_a_level_that_holds_no_huge_pages() -> None:
    geometry = geometry_for(None, SANDY_BRIDGE, M2)
    assert geometry.base.stlb == TlbLevel(512, 4)
    assert geometry.huge.stlb is None
    assert "holds no 2 MiB pages" in geometry.sources["stlb", M2].sentence


def test_measured_huge_second_level_wins_over_published_absence() -> None:
    geometry = geometry_for(calibration(SANDY_BRIDGE, stlb_2048=512), SANDY_BRIDGE, M2)
    assert there(geometry.huge.stlb).entries == 512


def test_ways_that_are_not_published_are_announced() -> None:
    landing = geometry_for(None, replace(SKYLAKE, cpu_model="87"), M2)
    assert "ways not published, 16 assumed" in landing.sources["stlb", K4].sentence


def test_unknown_machine() -> None:
    geometry = geometry_for(None, NOBODY, M2)
    assert geometry.base == replace(
        geometry.base, dtlb=TlbLevel(64, 4), itlb=TlbLevel(64, 8), stlb=TlbLevel(1536, 12)
    )
    assert geometry.huge.dtlb == TlbLevel(32, 4)
    assert geometry.huge.itlb == TlbLevel(8, 8)
    assert geometry.huge.stlb == TlbLevel(1536, 12)
    assert all(source.kind == "assumed" for source in geometry.sources.values())


def test_unknown_machine_measured() -> None:
    geometry = geometry_for(calibration(NOBODY, dtlb_4=96, stlb_4=2048, dtlb_2048=8), NOBODY, M2)
    assert geometry.base.dtlb.entries == 96
    assert geometry.base.stlb == TlbLevel(2048, 16)
    assert geometry.huge.dtlb == TlbLevel(8, 8)
    assert "nothing is published for this CPU" in geometry.sources["dtlb", K4].sentence


def test_other_page_sizes() -> None:
    machine = replace(
        NOBODY, cpu_vendor="0x41", cpu_family="8", cpu_model="0xd0c", base_page_bytes=65536
    )
    geometry = geometry_for(None, machine, 512 << 20)
    assert geometry.base.dtlb == TlbLevel(48, 48)
    assert geometry.huge.stlb == TlbLevel(1280, 5)
    assert ("dtlb", 65536) in geometry.sources
    assert ("stlb", 512 << 20) in geometry.sources
    # One that nobody lists is assumed.
    assert geometry_for(None, SKYLAKE, 32 << 20).huge.stlb == TlbLevel(1536, 12)


def test_huge_pages_in_pieces() -> None:
    made = calibration(SKYLAKE, dtlb_4=64, dtlb_2048=101, **{"tlb-entry_2048": 4096})
    geometry = geometry_for(made, SKYLAKE, M2)
    assert geometry.huge == replace(geometry.base, page_size_bytes=M2, entry_bytes=K4)
    assert "one entry covers 4 KiB of a 2 MiB page" in geometry.sources["dtlb", M2].sentence
    assert len(geometry.sources) == 6


@pytest.mark.parametrize(
    "figures", [{"dtlb_4": None}, {"tlb-entry_2048": None}, {"tlb-entry_2048": M2}]
)
def test_what_was_not_obtained_or_is_whole_changes_nothing(figures: dict[str, int | None]) -> None:
    made = calibration(SKYLAKE, **figures)
    assert geometry_for(made, SKYLAKE, M2) == geometry_for(None, SKYLAKE, M2)


def levels(geometry: Geometry) -> list[TlbLevel]:
    pages = (geometry.base, geometry.huge)
    found = [level for page in pages for level in (page.dtlb, page.itlb, page.stlb)]
    return [level for level in found if level is not None]


@given(entries=st.floats(min_value=0, max_value=20000), core=st.sampled_from([None, *cores()]))
def test_every_choice_can_be_simulated(entries: float, core: PublishedCore | None) -> None:
    machine = NOBODY
    if core is not None:
        machine = replace(
            NOBODY,
            cpu_vendor=core.processors.vendor,
            cpu_family=str(core.processors.family),
            cpu_model=str(min(core.processors.models or ())),
        )
    made = calibration(machine, dtlb_4=entries, stlb_4=entries, stlb_2048=entries)
    for level in levels(geometry_for(made, machine, M2)):
        assert level.entries > 0
        assert level.ways > 0
        assert level.entries % level.ways == 0


def test_measured_ways_stand_in_for_what_is_not_published() -> None:
    figures = {"stlb_4": 2048, "stlb-ways_4": 8, "dtlb_4": 64, "dtlb-ways_4": 8}
    landing = replace(SKYLAKE, cpu_model="87")
    geometry = geometry_for(calibration(landing, **{**figures, "stlb_4": 256}), landing, M2)
    assert geometry.base.stlb == TlbLevel(256, 8)
    assert "8 as measured" in geometry.sources["stlb", K4].sentence
    unknown = replace(SKYLAKE, cpu_vendor="Nobody")
    assert geometry_for(calibration(unknown, **figures), unknown, M2).base.dtlb == TlbLevel(64, 8)
    # What is published stays, and the contradiction is reported.
    skylake = geometry_for(calibration(SKYLAKE, **figures), SKYLAKE, M2)
    assert skylake.base.dtlb == TlbLevel(64, 4)
    assert "; 8 ways measured" in skylake.sources["dtlb", K4].sentence


@pytest.mark.parametrize("wrong", ["0\tload\t1\t0\tNA\n# end: 1", "0\tload\t1\t0\n# end: 1", ""])
def test_a_damaged_table_of_views_is_refused(tmp_path: Path, wrong: str) -> None:
    header = "# tlbcost views 1\n# pid: 1\n# program: app\n# state: exited\n"
    (tmp_path / "views.1.0.tsv").write_text(
        f"{header}view\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n{wrong}\n"
    )
    with pytest.raises(TlbcostError, match="not a table of the simulator"):
        read_views(tmp_path)
