# SPDX-License-Identifier: GPL-2.0-or-later
"""Misses by samples of real runs: page faults stand in, since kernels sample them everywhere."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import interval
from builders.tree import TREE
from tlbcost.attribution import samples
from tlbcost.attribution.samples import Sampled, attribute_samples, sample_misses
from tlbcost.processors.event_tables import generic_pmu, select
from tlbcost.run.launch import Launcher
from tlbcost.run.stdin import ProgramInput
from tlbcost.symbols.binutils import source_lines
from tlbcost.system.filesystems import FileSystem
from tlbcost.system.huge_pages import HugeSettings

SETTINGS = HugeSettings(2 << 20, "madvise", mounts=(FileSystem("/dev/shm", "tmpfs", (0, 25)),))
FAULTS = replace(
    generic_pmu(), name="the kernel", events=tuple(select(generic_pmu(), ["page_faults"]))
)
PLACES = TREE / "tests" / "c"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose page faults are at known places."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("places") / "places"
    sources = [str(PLACES / "places.c"), str(PLACES / "places_library.c")]
    subprocess.run([compiler, "-O1", "-g", "-o", str(program), *sources, "-lpthread"], check=True)
    return program


@contextlib.contextmanager
def launcher(folder: Path) -> Iterator[Launcher]:
    with contextlib.closing(ProgramInput()) as stdin:
        yield Launcher(folder, stdin)


def sampled_run(folder: Path, monkeypatch: pytest.MonkeyPatch, *argv: str) -> Sampled:
    """The run with samples after a first one, as an estimate does it."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    monkeypatch.setattr(samples, "addressed", lambda pmu: pmu.events)
    with launcher(folder) as own:
        before = own.execute(argv, discard=True)
        found = sample_misses(own, argv, Path(argv[0]), FAULTS, before)
    if found.hits is None and "perf" in str(found.why_not):
        pytest.skip(str(found.why_not))
    return found


def test_a_real_recording_blames_the_memory_and_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: Path
) -> None:
    run = sampled_run(tmp_path, monkeypatch, str(places), "file", "900", str(tmp_path / "mapped"))
    assert run.why_not is None
    found, _ = attribute_samples(run, interval(0.2), (), SETTINGS)
    assert found is not None
    assert run.hits is not None
    first = found.regions[0]
    assert (first.program, first.name) == (str(places), str(tmp_path / "mapped"))
    assert first.samples is not None
    assert 899 <= first.samples <= 905
    whole = sum(hit.samples for hit in run.hits.hits)
    assert sum(region.samples or 0 for region in found.regions) == whole
    known = [
        region.misses_fraction for region in found.regions if region.misses_fraction is not None
    ]
    few = sum(region.samples or 0 for region in found.regions if region.misses_fraction is None)
    assert sum(known) + few / whole == pytest.approx(1)
    site = found.code[0].site
    assert (site.object, site.function) == (str(places), "touch_here")
    assert found.source == "samples of perf::PAGE-FAULTS"


def test_lines_need_debug_information_and_addr2line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: Path
) -> None:
    assert source_lines(str(places), []) == {}
    assert source_lines(str(tmp_path / "none"), [1, 2]) == {}
    assert source_lines(str(places), [1 << 60]) == {}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_lines(str(places), [0x1200]) == {}


def test_a_program_that_ends_otherwise_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"test ! -e {tmp_path}/done && touch {tmp_path}/done"
    run = sampled_run(tmp_path, monkeypatch, "/bin/sh", "-c", once)
    assert run.hits is None
    assert run.why_not == "/bin/sh gave 1 in the run with samples, and 0 before"


def test_a_cpu_without_such_an_event_runs_nothing(tmp_path: Path) -> None:
    with launcher(tmp_path) as own:
        before = own.execute(["/bin/true"], discard=True)
        run = sample_misses(own, ["/bin/true"], Path("/bin/true"), generic_pmu(), before)
        assert own.runs == 1
    assert run.hits is None
    assert "no event whose samples hold addresses" in str(run.why_not)
