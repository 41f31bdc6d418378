# SPDX-License-Identifier: GPL-2.0-or-later
"""Misses by samples of counters: made-up recordings."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import interval
from builders.tree import TREE, there
from tlbcost.attribution import samples
from tlbcost.attribution.backing import Seen
from tlbcost.attribution.document import Attribution, attribution_part
from tlbcost.attribution.samples import FEWEST, Sampled, attribute_samples, sample_misses
from tlbcost.common.console import print_whole
from tlbcost.counters.profile import Hits, SampleHit
from tlbcost.memory import smaps
from tlbcost.processors.events import Pmu, generic_pmu, load_pmu, select
from tlbcost.report.regions import print_sampled
from tlbcost.run.launch import Launcher
from tlbcost.symbols.resolver import source_lines
from tlbcost.system.huge_pages import FileSystem, HugeSettings

APP, OTHER, PERIOD = "/opt/app", "/opt/other", 10_007
SKL, ZEN4 = load_pmu("skl"), load_pmu("amd64_fam19h_zen4")
LOADS, STORES = "sample_load_misses", "sample_store_misses"
SETTINGS = HugeSettings(2 << 20, "madvise", mounts=(FileSystem("/dev/shm", "tmpfs", (0, 25)),))
OBJECTS = (APP, OTHER, "/lib/libc.so.6")
# Of an event's samples: data, data_tlb, samples, and the process and object of the code.
Row = tuple[str, str | None, str | None, int, int, str]
HEAP: Row = (LOADS, "[heap]", None, 900, 1, APP)
FILE: Row = (LOADS, "/dev/shm/x", None, 100, 1, APP)
FAULTS = replace(
    generic_pmu(), name="the kernel", events=tuple(select(generic_pmu(), ["page_faults"]))
)
PLACES = TREE / "tests" / "c"


def recorded(*rows: Row) -> Hits:
    return Hits(
        tuple(
            SampleHit(event, pid, code, None, "user", data, tlb, samples, samples * PERIOD)
            for event, data, tlb, samples, pid, code in rows
        ),
        lost=0,
    )


def mapping(
    name: str, kind: smaps.MappingKind, size: int, permissions: str = "rw-p"
) -> smaps.Mapping:
    """A mapping of this many bytes on base pages, all of them resident."""
    return smaps.Mapping(
        name, kind, None, size, 0, 0, 0, 0, 0, 1 << 40, (1 << 40) + size, permissions,
        page_bytes=4096,
    )  # fmt: skip


def attributed(
    hits: Hits, seen: Seen = (), pmu: Pmu = SKL
) -> tuple[Attribution | None, str | None]:
    run = Sampled(Path(APP), pmu, hits)
    return attribute_samples(run, interval(0.2), seen, SETTINGS)


def memory_of(hits: Hits, seen: Seen = (), pmu: Pmu = SKL) -> Attribution:
    found, why_not = attributed(hits, seen, pmu)
    assert why_not is None
    return there(found)


def test_shares_are_those_of_the_samples_and_sum_to_the_whole() -> None:
    found = memory_of(recorded(HEAP, FILE))
    heap, file = found.regions
    assert (heap.kind, heap.name, heap.samples) == ("heap", "[heap]", 900)
    assert (file.kind, file.name, file.samples) == ("tmpfs", "/dev/shm/x", 100)
    assert (heap.misses_fraction, file.misses_fraction) == (0.9, 0.1)
    share = there(heap.misses_interval)
    assert (share.low, share.high) == pytest.approx((0.88, 0.917), abs=0.01)
    assert found.source == "samples of skl::MEM_INST_RETIRED:STLB_MISS_LOADS:precise=2"
    assert (found.other_fraction, found.costed_by, found.images) == (0.0, None, ())
    # What samples do not tell has no number.
    for region in found.regions:
        assert region.touched_bytes is region.huge_misses_fraction is region.time_fraction is None
    assert heap.gain_fraction is not None
    assert heap.gain_fraction.value == pytest.approx(0.9 * 0.2)
    assert heap.gain_fraction.low < 0.9 * 0.18
    (line,) = found.code
    assert (line.site.object, line.walks_fraction, line.samples) == (APP, 1.0, 1000)
    assert (line.walks, line.huge_walks) == (1000 * PERIOD, None)


def test_what_rests_on_few_samples_has_no_share() -> None:
    few: Row = (STORES, "[stack]", None, FEWEST - 1, 1, OBJECTS[2])
    found = memory_of(recorded(HEAP, few))
    stack = next(region for region in found.regions if region.kind == "stack")
    assert (stack.samples, stack.misses_fraction, stack.gain_fraction) == (FEWEST - 1, None, None)
    assert sum(region.samples or 0 for region in found.regions) == 900 + FEWEST - 1
    assert [line.walks_fraction is None for line in found.code] == [False, True]


def test_samples_of_all_operations_count_where_they_walked() -> None:
    rows: list[Row] = [
        (LOADS, "[heap]", "walk", 90, 1, APP),
        (LOADS, "[heap]", "stlb_hit", 5000, 1, APP),
        (LOADS, "[stack]", "l1_hit", 5000, 1, APP),
        (LOADS, "/dev/shm/x", "walk", 10, 1, APP),
        (LOADS, None, None, 7000, 1, APP),
    ]
    found = memory_of(recorded(*rows), pmu=ZEN4)
    assert [(region.kind, region.samples) for region in found.regions] == [
        ("heap", 90),
        ("tmpfs", 10),
    ]
    assert found.source == "samples of ibs_op:524288"


def test_memory_that_is_not_known_is_a_region() -> None:
    lost: Row = (LOADS, None, None, 60, 1, APP)
    gone: Row = (LOADS, "[unknown]", None, 40, 1, APP)
    found = memory_of(recorded(HEAP, lost, gone))
    assert found.other_fraction == 0.1
    assert [(region.name, region.samples) for region in found.regions] == [
        ("[heap]", 900), ("other memory", 100),
    ]  # fmt: skip


def test_static_data_is_the_executables() -> None:
    rows: list[Row] = [(LOADS, "[bss]", None, 50, 1, APP), (LOADS, APP, None, 30, 1, APP)]
    found = memory_of(recorded(*rows))
    assert [(region.kind, region.name) for region in found.regions] == [
        ("segment", "[bss]"), ("segment", APP),
    ]  # fmt: skip


def test_what_has_no_name_is_what_there_was_most_of() -> None:
    seen = [
        (APP, mapping("/memfd:frames (deleted)", "shared", 4 << 20, "rw-s")),
        (APP, mapping(smaps.UNNAMED, "anonymous", 8 << 20)),
        (APP, mapping("[heap]", "heap", 6 << 20)),
    ]
    rows: list[Row] = [HEAP, (LOADS, "[shared]", None, 50, 1, APP),
                       (LOADS, "[anonymous]", None, 40, 1, APP)]  # fmt: skip
    found = memory_of(recorded(*rows), seen)
    assert [(region.kind, region.name, region.size_bytes) for region in found.regions] == [
        ("heap", "[heap]", 6 << 20),
        ("memfd", "/memfd:frames (deleted)", 4 << 20),
        ("anonymous", "anonymous memory", 8 << 20),
    ]
    assert all(region.backed is not None for region in found.regions)
    # Without a look at it, it is not known to be one of these.
    kinds_ = [region.kind for region in memory_of(recorded(*rows)).regions]
    assert kinds_ == ["heap", "shared", "anonymous"]


def test_processes_are_distinguished_by_their_code() -> None:
    seen = [(name, mapping("[heap]", "heap", 1 << 20)) for name in (APP, OTHER)]
    rows: list[Row] = [HEAP, (LOADS, "[heap]", None, 70, 2, OTHER),
                       (LOADS, "[heap]", None, 30, 2, OBJECTS[2])]  # fmt: skip
    found = memory_of(recorded(*rows), seen)
    assert [(region.program, region.samples) for region in found.regions] == [
        (APP, 900),
        (OTHER, 100),
    ]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "0 misses of data were sampled: too few"),
        ([(LOADS, "[heap]", None, FEWEST - 1, 1, APP)], "9 misses of data were sampled: too few"),
        ([(LOADS, None, None, 500, 1, APP)], "hold no addresses"),
    ],
)
def test_no_share_without_samples_and_their_addresses(rows: list[Row], why: str) -> None:
    found, reason = attributed(recorded(*rows))
    assert found is None
    assert why in str(reason)


def test_the_report_names_its_source(tmp_path: Path) -> None:
    few: Row = (STORES, "[stack]", None, 3, 1, OBJECTS[2])
    found = memory_of(recorded(HEAP, FILE, few))
    file = tmp_path / "report"
    part = there(attribution_part(found))
    with file.open("w", encoding="utf-8") as out:
        print_whole(lambda console: print_sampled(console, part), out)
    text = file.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 80
    heap = next(line for line in text.splitlines() if line.startswith("[heap]"))
    assert heap.split()[1:5] == ["NA", "900", "90", "%"]
    others = next(line for line in text.splitlines() if line.startswith("1 others"))
    assert others.split() == ["1", "others", "3", "0.3", "%"]
    assert "By samples of skl::MEM_INST_RETIRED:STLB_MISS_LOADS" in text


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


def sampled_run(launcher: Launcher, monkeypatch: pytest.MonkeyPatch, *argv: str) -> Sampled:
    """The run with samples after a first one, as an estimate does it."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    monkeypatch.setattr(samples, "addressed", lambda pmu: pmu.events)
    before = launcher.execute(argv, discard=True)
    found = sample_misses(launcher, argv, Path(argv[0]), FAULTS, before)
    if found.hits is None and "perf" in str(found.why_not):
        pytest.skip(str(found.why_not))
    return found


def test_a_real_recording_blames_the_memory_and_the_function(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: Path
) -> None:
    run = sampled_run(launcher, monkeypatch, str(places), "file", "900", str(tmp_path / "mapped"))
    assert run.why_not is None
    found, _ = attribute_samples(run, interval(0.2), (), SETTINGS)
    assert found is not None
    first = found.regions[0]
    assert (first.program, first.name) == (str(places), str(tmp_path / "mapped"))
    assert 899 <= there(first.samples) <= 905
    whole = sum(hit.samples for hit in there(run.hits).hits)
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
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"test ! -e {tmp_path}/done && touch {tmp_path}/done"
    run = sampled_run(launcher, monkeypatch, "/bin/sh", "-c", once)
    assert run.hits is None
    assert run.why_not == "/bin/sh gave 1 in the run with samples, and 0 before"


def test_a_cpu_without_such_an_event_runs_nothing(launcher: Launcher) -> None:
    before = launcher.execute(["/bin/true"], discard=True)
    run = sample_misses(launcher, ["/bin/true"], Path("/bin/true"), generic_pmu(), before)
    assert launcher.runs == 1
    assert run.hits is None
    assert "no event whose samples hold addresses" in str(run.why_not)
