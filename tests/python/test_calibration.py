# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration remembered, and remeasured when what is remembered is of no use?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tlbcost import calibration as module
from tlbcost import probe as probe_module
from tlbcost.calibration import (
    cache_folder,
    cache_path,
    obtain,
    read_calibration,
    write_calibration,
)
from tlbcost.costs import cost_at, find
from tlbcost.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.machine import current_machine
from tlbcost.records import Calibration, Cost, Interval

SAMPLES = Path(__file__).parents[2] / "data" / "samples" / "emerald-rapids-guest" / "samples.tsv"


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
            Cost("fault_ns", 4096, None, None, Interval(500, 400, 600), 23),
        ),
    )


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A calibrator that answers at once with recorded samples; it counts its runs."""
    program = tmp_path / "probe"
    program.write_text(f"#!/bin/bash\necho run >>{tmp_path}/runs\necho progress 50 >&$4\n"
                       f"cat {SAMPLES}\n")  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setattr(probe_module, "libexec", lambda _: program)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return program


def runs(probe: Path) -> int:
    log = probe.parent / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def get(recalibrate: bool = False) -> tuple[module.Obtained, list[str]]:
    said: list[str] = []
    return obtain(recalibrate=recalibrate, announce=said.append), said


def test_it_is_measured_once(probe: Path) -> None:
    percents: list[int] = []
    first = obtain(recalibrate=False, announce=lambda _: None, progress=percents.append)
    assert percents == [50]
    second, said = get()
    assert runs(probe) == 1
    assert said == []
    assert [cost.quantity for cost in second.calibration.costs] == [
        cost.quantity for cost in first.calibration.costs
    ]
    assert second.notes == first.notes
    assert second.curve == first.curve
    assert "cached" in second.source
    get(recalibrate=True)
    assert runs(probe) == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text[: text.rindex("# end")], "truncated"),
        (lambda text: text[: len(text) // 2], "measuring again"),
        (lambda _: "", "not a tlbcost calibration"),
        (lambda _: "\0\1garbage", "not a tlbcost calibration"),
        (lambda text: text.replace("walk_ns", "walk_xs"), "not a calibrated quantity"),
        (lambda text: text.replace("# kernel:", "# colonel:"), "header is not a calibration's"),
        (lambda text: text.replace("# cpu_model: ", "# cpu_model: 9"), "of another machine"),
    ],
    ids=["truncated", "cut in a row", "empty", "garbage", "unknown row", "lost key", "foreign"],
)
def test_a_useless_cache_is_announced_and_remeasured(probe: Path, spoil, words: str) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    get()
    path = cache_path(current_machine())
    path.write_text(spoil(path.read_text()))
    obtained, said = get()
    assert runs(probe) == 2
    assert len(said) == 1
    assert words in said[0]
    assert obtained.source == "measured now"
    assert read_calibration(path).machine == current_machine()


def test_without_a_place_for_the_cache_it_goes_on(
    probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (probe.parent / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(probe.parent / "file"))
    obtained, said = get()
    assert obtained.calibration.costs
    assert any("could not be saved" in sentence for sentence in said)
    assert any("could not be saved" in note for note in obtained.notes)


def test_failures_of_the_calibrator_are_told(probe: Path) -> None:
    probe.write_text("#!/bin/sh\necho 'tlbcost: no room: 3 MiB' >&2\n"
                     "echo 'tlbcost: hint: buy some' >&2\nexit 4\n")  # fmt: skip
    with pytest.raises(TlbcostError, match=r"^no room: 3 MiB$") as caught:
        get()
    assert caught.value.exit_code == CANNOT_MEASURE
    assert caught.value.hint == "buy some"
    probe.write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(TlbcostError, match="killed by SIGKILL"):
        get()
    probe.write_text(f"#!/bin/sh\nhead -c 3000 {SAMPLES}\n")
    with pytest.raises(TlbcostError, match=r"expected 7|truncated"):
        get()
    probe.unlink()
    with pytest.raises(TlbcostError, match="cannot start") as caught:
        get()
    assert caught.value.hint
    assert not (probe.parent / "cache").exists()


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
def test_under_sudo_the_cache_is_the_users(probe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    tmp_path = probe.parent
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
    assert not any("could not be saved" in sentence for sentence in said)
    assert obtained.calibration.costs
    path = cache_path(current_machine())
    assert (path.stat().st_uid, path.stat().st_gid) == (nobody.pw_uid, nobody.pw_gid)
    assert os.geteuid() == 0
