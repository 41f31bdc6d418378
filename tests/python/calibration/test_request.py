# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration remembered, and remeasured when what is remembered is of no use?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from builders.calibration import of_this_machine
from builders.tree import GOLDEN, fails, there
from tlbcost.calibration import file
from tlbcost.calibration.analysis.quantities import Analysis
from tlbcost.calibration.file import (
    CalibrationRequest,
    cache_folder,
    cache_path,
    calibration_for,
    look_up,
    obtain,
    read_calibration,
    write_calibration,
)
from tlbcost.calibration.measurement import CpuGoneError, Measured
from tlbcost.calibration.records import Calibration, Cost, Extent, Obtained
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.formats import SAMPLES, Table
from tlbcost.common.units import Interval
from tlbcost.system.machine import current_machine


@dataclass
class Measurements:
    """Stands in for the minutes of measuring, and notes what was asked for."""

    patch: pytest.MonkeyPatch
    asked: list[tuple[Extent, tuple[int, ...]]] = field(default_factory=list)
    poor: tuple[str, ...] = ()
    patience_s: float = 0

    def pretend(self, name: str, answer: Callable[..., object]) -> None:
        self.patch.setattr(file, name, answer)

    def __call__(
        self,
        extent: Extent,
        page_sizes: Sequence[int],
        announce: Callable[[str], None],
        progress: Callable[[int], None] | None,
        patience_s: float,
    ) -> Measured:
        self.asked.append((extent, tuple(page_sizes)))
        self.patience_s = patience_s
        if self.poor:
            announce("the machine is busy")
        if progress:
            progress(50)
        samples = Table("x", {"cpuid_00000002_00": "ff 0 0 0"}, SAMPLES.columns, (), True)
        analysis = Analysis(of_this_machine().costs, (), ("a note",), ())
        return Measured((samples,), analysis, 9.53, ("measured longer",), self.poor)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measurements:
    measurements = Measurements(monkeypatch)
    measurements.pretend("measure", measurements)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return measurements


def kept(calibration: Calibration) -> None:
    """What an earlier version put into the cache."""
    cache_folder().mkdir(parents=True)
    write_calibration(cache_path(current_machine()), calibration)


def get(recalibrate: bool = False, extent: Extent | None = None) -> tuple[Obtained, list[str]]:
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


def test_a_full_one_stands_in_for_a_quick_one_and_not_the_other_way(measured: Measurements) -> None:
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
    [("load_ns", "loads"), ("walk_interval_ns", "intervals of walks"),
     ("l3_half_life_ns", "the half-life of lines in the last-level cache")],
)  # fmt: skip
def test_one_of_before_a_quantity_was_measured_is_made_again(
    measured: Measurements, extent: Extent, quantity: str, words: str
) -> None:
    old = of_this_machine()
    old = replace(old, costs=tuple(c for c in old.costs if c.quantity != quantity), extent=extent)
    kept(old)
    # It can still be read.
    cached, _ = look_up()
    assert cached is not None
    assert cached.calibration.costs == old.costs
    obtained, said = get()
    seconds = {"quick": 12, "full": 120}[extent]
    assert said == [f"the cached calibration has no {words}: measuring, {seconds} s at most"]
    assert obtained.calibration.costs == of_this_machine().costs
    assert measured.asked == [(extent, ())]
    assert get()[1] == []


def test_one_whose_curve_is_lost_is_made_again_where_it_is_wanted(measured: Measurements) -> None:
    get()
    for curve in cache_folder().glob("curve-*"):
        curve.unlink()
    said: list[str] = []
    assert get()[0].curve is None
    assert obtain(CalibrationRequest(curve=True), said.append).curve is not None
    assert said == ["the curve behind the cached calibration is lost: measuring, 12 s at most"]
    assert len(measured.asked) == 2


def test_chosen_page_sizes_are_measured_and_not_kept(measured: Measurements) -> None:
    obtained = obtain(CalibrationRequest(page_sizes=(65536,)), lambda _: None)
    assert measured.asked == [("quick", (65536,))]
    assert "not kept" in obtained.notes[-1]
    assert look_up() == (None, "no calibration of this machine is cached")


def test_a_machine_that_changes_during_a_run_is_measured_again(measured: Measurements) -> None:
    machine = replace(current_machine(), governor="powersave")
    faster = replace(machine, governor="performance")
    answers = iter([machine, machine, machine, faster, faster])
    measured.pretend("current_machine", lambda: next(answers))
    obtained, said = get()
    assert obtained.calibration.machine == faster
    assert len(measured.asked) == 2
    assert "the frequency governor changed from powersave to performance" in said[1]


def test_an_emulated_cpu_is_not_measured(measured: Measurements) -> None:
    measured.pretend("emulation", lambda _: "its name is QEMU")
    words = r"this CPU is emulated .its name is QEMU.: no costs"
    with fails(words, CANNOT_MEASURE, "--machine NAME"):
        get()
    assert measured.asked == []
    assert look_up()[0] is None


def test_times_without_a_tlb_level_are_no_calibration(measured: Measurements) -> None:
    nothing = Cost("walk_ns", 4096, "serial", 4096, None)
    measured.pretend("without_negative", lambda _: ((nothing, Cost("fault_ns", 4096)), ()))
    with fails(r"no TLB level shows.*as on an emulated CPU", CANNOT_MEASURE):
        get()
    assert len(measured.asked) == 1
    assert look_up()[0] is None


def test_a_cpu_that_goes_away_during_a_run_is_no_half_calibration(measured: Measurements) -> None:
    gone = iter([True, False])

    def measure(*asked: object) -> Measured:
        result = measured(*asked)  # type: ignore[arg-type]
        if next(gone):
            raise CpuGoneError("1")
        return result

    measured.pretend("measure", measure)
    _, said = get()
    assert said[1] == "CPU 1 went offline while it was measured: measuring again"
    assert len(measured.asked) == 2


def test_a_machine_that_goes_on_changing_is_refused(measured: Measurements) -> None:
    modes = iter(["always", "always", "always", "never", "madvise"])
    machine = current_machine()
    measured.pretend("current_machine", lambda: replace(machine, thp_mode=next(modes)))
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


def test_a_poor_one_is_reported_used_and_not_kept(measured: Measurements) -> None:
    measured.poor = ("the calibrator waited for a CPU 73 % of the time",)
    obtained, said = get()
    assert said[-1] == (
        "poor calibration: repeat it when the machine is quiet "
        "(the calibrator waited for a CPU 73 % of the time)"
    )
    assert obtained.calibration.grade == "poor"
    assert "not kept for later" in obtained.notes[-1]
    assert not list(cache_folder().glob("*"))
    # The next one measures again, and is kept if it is good.
    measured.poor = ()
    assert get()[0].calibration.grade == "good"
    assert len(measured.asked) == 2
    assert get()[1] == []


def test_a_poor_one_takes_no_good_ones_place(measured: Measurements) -> None:
    good = get()[0].calibration
    measured.poor = ("steal",)
    obtained, said = get(recalibrate=True)
    assert obtained.calibration == good
    assert said[-1] == f"the good calibration of {good.date} stays, and is used"
    # A quick one is not what was asked for here; it stays nevertheless.
    obtained, said = get(extent="full")
    assert (obtained.calibration.extent, obtained.calibration.grade) == ("full", "poor")
    cached, _ = look_up()
    assert there(cached).calibration == good


@pytest.mark.usefixtures("measured")
def test_a_poor_one_in_the_cache_is_measured_again() -> None:
    old = of_this_machine()
    contradiction = Cost("walk_ns", 4096, "serial", 8192, Interval(236, 230, 240), 40)
    kept(replace(old, costs=(*old.costs, contradiction), extent="quick"))
    obtained, said = get()
    assert said == [
        "the cached calibration is poor (a walk on 4 KiB pages takes 10 ns with 4,096 pages, but "
        "236 ns with 8,192): measuring, 12 s at most"
    ]
    assert obtained.calibration.grade == "good"
    assert get()[1] == []


def test_how_long_to_wait_for_quiet(measured: Measurements) -> None:
    measured.patch.delenv("TLBCOST_WAIT_S", raising=False)
    get(recalibrate=True)
    assert measured.patience_s == 20
    measured.patch.setenv("TLBCOST_WAIT_S", "0")
    get(recalibrate=True)
    assert measured.patience_s == 0
    for wrong in ("-1", "soon", "99999", "1.5"):
        measured.patch.setenv("TLBCOST_WAIT_S", wrong)
        with fails("TLBCOST_WAIT_S is", 2):
            get()


def test_without_a_place_for_the_cache_it_goes_on(measured: Measurements, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    measured.patch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    obtained, said = get()
    assert measured.asked
    assert obtained.calibration.costs
    assert any("could not be saved" in sentence for sentence in said)
    assert any("could not be saved" in note for note in obtained.notes)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can play sudo")
def test_under_sudo_the_cache_is_the_users(measured: Measurements, tmp_path: Path) -> None:
    import pwd

    nobody = pwd.getpwnam("nobody")
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    for parent in (folder, *folder.parents):
        if not parent.stat().st_mode & 1 and parent.stat().st_uid == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    measured.patch.setenv("SUDO_UID", str(nobody.pw_uid))
    measured.patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    obtained, said = get()
    assert measured.asked
    assert not any("could not be saved" in sentence for sentence in said)
    assert obtained.calibration.costs
    path = cache_path(current_machine())
    assert (path.stat().st_uid, path.stat().st_gid) == (nobody.pw_uid, nobody.pw_gid)
    assert os.geteuid() == 0


def test_options_exclude_each_other() -> None:
    with fails("exclude", 2):
        calibration_for(GOLDEN / "calibration.tsv", recalibrate=True)
