# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration remembered, and remeasured when what is remembered is of no use?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tlbcost.calibration import cache as module
from tlbcost.calibration.analysis.quantities import Analysis
from tlbcost.calibration.cache import CalibrationRequest, cache_folder, cache_path, look_up, obtain
from tlbcost.calibration.costs import cost_at, find, page_costs
from tlbcost.calibration.file import read_calibration, write_calibration
from tlbcost.calibration.measurement import CpuGoneError, Measured
from tlbcost.calibration.records import Calibration, Cost, Extent
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import SAMPLES
from tlbcost.common.interval import Interval
from tlbcost.common.table import Table
from tlbcost.system.machine import current_machine


def made_up() -> Calibration:
    return Calibration(
        machine=current_machine(),
        date="2026-01-01T00:00:00Z",
        version="0",
        duration_s=9.5,
        costs=(
            Cost("dtlb_entries", 4096, None, None, Interval(64, 60, 70), 0),
            Cost("stlb_entries", 4096, None, None, None, 0),
            Cost("walk_ns", 4096, "serial", 4096, Interval(10, 8, 12), 40),
            Cost("walk_ns", 4096, "serial", 65536, Interval(30, 20, 50), 9),
            Cost("walk_ns", 4096, "overlapped", None, None, 0),
            Cost("walk_ns", 4096, "chains_4", 8192, Interval(5, 4, 6), 12),
            Cost("walk_interval_ns", 4096, None, 8192, Interval(6, 5.5, 6.5), 12),
            Cost("fault_ns", 4096, None, None, Interval(500, 400, 600), 23),
            Cost("load_ns", None, "serial", 256, Interval(1.25, 1.2, 1.3), 3),
            Cost("l3_half_life_ns", None, None, 65536, Interval(3e6, 2e6, 5e6), 9),
            Cost("cycles_per_ns", None, None, None, Interval(3.3, 3.2, 3.4), 99),
        ),
        extent="full",
        cpuid={"cpuid_00000004_03": "1 2 3 4"},
        notes=("first", "second"),
    )


@dataclass
class Measurements:
    """Stands in for the minutes of measuring, and notes what was asked for."""

    asked: list[tuple[Extent, tuple[int, ...]]] = field(default_factory=list)

    def __call__(
        self, extent: Extent, page_sizes: Sequence[int], progress: Callable[[int], None] | None
    ) -> Measured:
        self.asked.append((extent, tuple(page_sizes)))
        if progress:
            progress(50)
        samples = Table("x", {"cpuid_00000002_00": "ff 0 0 0"}, SAMPLES.columns, (), True)
        analysis = Analysis(made_up().costs, (), ("a note",), ())
        return Measured((samples,), analysis, 9.53, ("measured longer",))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measurements:
    measurements = Measurements()
    monkeypatch.setattr(module, "measure", measurements)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return measurements


def get(
    recalibrate: bool = False, extent: Extent | None = None
) -> tuple[module.Obtained, list[str]]:
    said: list[str] = []
    return obtain(CalibrationRequest(extent, recalibrate), said.append), said


def test_it_is_measured_once(measured: Measurements) -> None:
    percents: list[int] = []
    first = obtain(CalibrationRequest(), lambda _: None, percents.append)
    assert percents == [50]
    second, said = get()
    assert measured.asked == [("quick", ())]
    assert said == []
    assert second.calibration == first.calibration
    assert second.notes == ("measured longer", "a note")
    assert second.calibration.cpuid == {"cpuid_00000002_00": "ff 0 0 0"}
    assert second.curve == first.curve
    assert "cached" in second.source
    get(recalibrate=True)
    assert len(measured.asked) == 2


def test_a_full_one_stands_in_for_a_quick_one_and_not_the_other_way(
    measured: Measurements,
) -> None:
    get()
    _, said = get(extent="full")
    assert said == ["the cached calibration is a quick one: measuring, 120 s at most"]
    assert get(extent="quick")[0].calibration.extent == "full"
    assert get()[0].calibration.extent == "full"
    # Measured again it is as full as it was, unless less is asked for.
    assert get(recalibrate=True)[0].calibration.extent == "full"
    assert get(recalibrate=True, extent="quick")[0].calibration.extent == "quick"
    assert [extent for extent, _ in measured.asked] == ["quick", "full", "full", "quick"]


@pytest.mark.parametrize("extent", ["quick", "full"])
@pytest.mark.parametrize(
    ("quantity", "words"),
    [
        ("load_ns", "loads"),
        ("walk_interval_ns", "intervals of walks"),
        ("l3_half_life_ns", "the half-life of lines in the last-level cache"),
    ],
)
def test_one_of_before_a_quantity_was_measured_is_made_again(
    measured: Measurements, extent: Extent, quantity: str, words: str
) -> None:
    old = made_up()
    old = replace(old, costs=tuple(c for c in old.costs if c.quantity != quantity), extent=extent)
    path = cache_path(current_machine())
    path.parent.mkdir(parents=True)
    write_calibration(path, old)
    # It can still be read.
    cached, _ = look_up()
    assert cached is not None
    assert cached.calibration.costs == old.costs
    obtained, said = get()
    seconds = {"quick": 12, "full": 120}[extent]
    assert said == [f"the cached calibration has no {words}: measuring, {seconds} s at most"]
    assert obtained.calibration.costs == made_up().costs
    assert measured.asked == [(extent, ())]
    assert get()[1] == []


def test_one_whose_curve_is_lost_is_made_again_where_it_is_wanted(measured: Measurements) -> None:
    get()
    for file in cache_folder().glob("curve-*"):
        file.unlink()
    said: list[str] = []
    assert get()[0].curve is None
    assert obtain(CalibrationRequest(curve=True), said.append).curve is not None
    assert said == ["the curve behind the cached calibration is lost"]
    assert len(measured.asked) == 2


def test_chosen_page_sizes_are_measured_and_not_kept(measured: Measurements) -> None:
    obtained = obtain(CalibrationRequest(page_sizes=(65536,)), lambda _: None)
    assert measured.asked == [("quick", (65536,))]
    assert "not kept" in obtained.notes[-1]
    assert look_up() == (None, "no calibration of this machine is cached")


def test_a_machine_that_changes_during_a_run_is_measured_again(
    measured: Measurements, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(current_machine(), governor="powersave")
    faster = replace(machine, governor="performance")
    answers = iter([machine, machine, faster, faster])
    monkeypatch.setattr(module, "current_machine", lambda: next(answers))
    obtained, said = get()
    assert obtained.calibration.machine == faster
    assert len(measured.asked) == 2
    assert "the frequency governor changed from powersave to performance" in said[1]


def test_a_cpu_that_goes_away_during_a_run_is_not_half_of_a_calibration(
    measured: Measurements, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = iter([True, False])

    def measure(
        extent: Extent, sizes: Sequence[int], progress: Callable[[int], None] | None
    ) -> Measured:
        result = measured(extent, sizes, progress)
        if next(gone):
            raise CpuGoneError("1")
        return result

    monkeypatch.setattr(module, "measure", measure)
    _, said = get()
    assert said[1] == "CPU 1 went offline while it was measured: measuring again"
    assert len(measured.asked) == 2


def test_a_machine_that_goes_on_changing_is_refused(
    measured: Measurements, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = iter(["always", "always", "never", "madvise"])
    machine = current_machine()
    monkeypatch.setattr(module, "current_machine", lambda: replace(machine, thp_mode=next(modes)))
    with pytest.raises(TlbcostError, match=r"changed from never to madvise .* twice"):
        get()
    assert not list(cache_folder().glob("*"))
    assert len(measured.asked) == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text[: text.rindex("# end")], "truncated"),
        (lambda text: text[: text.index("walk_ns") + 30], "cells, expected"),
        (lambda _: "", "not a tlbcost calibration"),
        (lambda _: "\0\1garbage", "not a tlbcost calibration"),
        (lambda text: text.replace("walk_ns", "walk_xs"), "not a calibrated quantity"),
        (lambda text: text.replace("# kernel:", "# colonel:"), "header is not a calibration's"),
        (lambda text: text.replace("# cpu_model: ", "# cpu_model: 9"), "of another machine"),
    ],
    ids=["truncated", "cut in a row", "empty", "garbage", "unknown row", "lost key", "foreign"],
)
def test_a_useless_cache_is_announced_and_remeasured(
    measured: Measurements, spoil: Callable[[str], str], words: str
) -> None:
    get()
    path = cache_path(current_machine())
    path.write_text(spoil(path.read_text()))
    obtained, said = get()
    assert len(measured.asked) == 2
    assert len(said) == 1
    assert words in said[0]
    assert obtained.source == "measured now"
    assert read_calibration(path).machine == current_machine()


def test_without_a_place_for_the_cache_it_goes_on(
    measured: Measurements, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    obtained, said = get()
    assert measured.asked
    assert obtained.calibration.costs
    assert any("could not be saved" in sentence for sentence in said)
    assert any("could not be saved" in note for note in obtained.notes)


def test_written_and_read_it_is_the_same(tmp_path: Path) -> None:
    write_calibration(tmp_path / "c.tsv", made_up())
    assert read_calibration(tmp_path / "c.tsv") == made_up()


def test_costs_between_footprints() -> None:
    at = lambda pages: cost_at(made_up(), "walk_ns", 4096, "serial", pages)  # noqa: E731
    assert at(10) == Interval(10, 8, 12)
    assert at(4096) == Interval(10, 8, 12)
    assert at(16384) == Interval(20, 14, 31)
    assert at(1 << 20) == Interval(30, 20, 50)
    assert cost_at(made_up(), "walk_ns", 4096, "overlapped", 9) is None
    assert cost_at(made_up(), "walk_ns", 2 << 20, "serial", 9) is None
    assert cost_at(made_up(), "fault_ns", 4096, None, 9) == Interval(500, 400, 600)
    assert [cost.pages for cost in find(made_up(), "walk_ns", 4096, "serial")] == [4096, 65536]


def test_machines_have_caches_of_their_own() -> None:
    machine = current_machine()
    assert cache_path(machine) == cache_path(machine)
    for change in ({"microcode": "x"}, {"kernel": "x"}, {"thp_mode": None}, {"governor": "x"}):
        assert cache_path(replace(machine, **change)) != cache_path(machine)


def test_the_cache_is_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "tlbcost"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play sudo")
def test_under_sudo_the_cache_is_the_users(
    measured: Measurements, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    nobody = pwd.getpwnam("nobody")
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    for parent in (folder, *folder.parents):
        if not parent.stat().st_mode & 1 and parent.stat().st_uid == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    monkeypatch.setenv("SUDO_UID", str(nobody.pw_uid))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    obtained, said = get()
    assert measured.asked
    assert not any("could not be saved" in sentence for sentence in said)
    assert obtained.calibration.costs
    path = cache_path(current_machine())
    assert (path.stat().st_uid, path.stat().st_gid) == (nobody.pw_uid, nobody.pw_gid)
    assert os.geteuid() == 0


def test_a_hit_of_a_piece_costs_what_a_hit_of_its_entry_costs() -> None:
    hit = Cost("stlb_hit_ns", 4096, "serial", 400, Interval(2, 1.9, 2.1), 9)
    calibration = replace(made_up(), costs=(*made_up().costs, hit))
    assert page_costs(calibration, 2 << 20, 4096, 1 << 30).stlb_hit_serial_ns == hit.interval
    assert page_costs(calibration, 2 << 20, 2 << 20, 1 << 30).stlb_hit_serial_ns is None


def test_a_quantitys_earlier_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    write_calibration(path, made_up())
    text = path.read_text()
    path.write_text(text.replace("l3_half_life_ns", "l3_stay_ns"))
    assert path.read_text() != text
    assert read_calibration(path) == made_up()
