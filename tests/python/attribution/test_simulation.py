# SPDX-License-Identifier: GPL-2.0-or-later
"""Walks by memory and code: shares sum to the whole; memory, sites and best places are named."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from builders import answer as sample
from builders.tree import TREE, fails, there
from tlbcost.attribution import code_profile
from tlbcost.attribution.code_profile import (
    code_rows,
    code_text,
    describe,
    folded,
    is_code_table,
    read_code,
)
from tlbcost.attribution.document import (
    Attribution,
    allocation_site,
    curve_of,
    curve_sentence,
    words,
)
from tlbcost.attribution.pprof import pprof
from tlbcost.attribution.simulation import attribute, code_lines
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.units import Interval
from tlbcost.simulator.memory_tables import (
    Block,
    ImageAttribution,
    Line,
    Misses,
    ModelledMisses,
    Phase,
    RegionMisses,
    SidedMisses,
    SiteGain,
    SourceLocation,
    Stack,
    read_attributions,
)
from tlbcost.system.huge_pages import FileSystem

APP = "/opt/app"
LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"
MAIN = SourceLocation(APP, "main", "app.c", 10)
TABLE = SourceLocation(APP, "make_table", "app.c", 20)
MALLOC = SourceLocation(LIBC, "malloc", "malloc.c", 3315)
EXPECTED = Interval(0.1, -0.02, 0.2)


def place(
    kind: str, walks: int, left: int = 0, waited: tuple[int, int] = (0, 0), **more: object
) -> RegionMisses:
    made = RegionMisses(
        kind, False, None, None, (), None, 64 << 20, 100, 2,
        SidedMisses(Misses(5, walks)), SidedMisses(Misses(1, left)),
        ModelledMisses(Misses(0, walks // 10), waited[0]),
        ModelledMisses(Misses(0, left // 10), waited[1]),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def image(*places: RegionMisses, pid: int = 7, **more: object) -> ImageAttribution:
    lines = (Line(APP, 4096, MAIN, SidedMisses(Misses(1, 90)), SidedMisses(Misses(0, 9))),)
    stacks = (Stack((TABLE, MAIN), 60, 6), Stack((), 30, 3))
    phases = (Phase(0, Misses(1, 10), Misses(0, 1)), Phase(65536, Misses(0, 80), Misses(0, 8)))
    made = ImageAttribution(pid, APP, places, lines, stacks, phases, 100_000, 65536)
    return replace(made, **more)  # type: ignore[arg-type]


def attributed(
    *places: RegionMisses, splintered: bool = False, expected: Interval | None = EXPECTED
) -> Attribution:
    found = attribute(
        [image(*places)], (sample.BASE_COSTS, sample.HUGE_COSTS), expected, sample.BASE,
        sample.HUGE, (FileSystem("/dev/shm", "tmpfs", (0, 25)),), splintered=splintered,
    )  # fmt: skip
    return there(found)


@pytest.mark.parametrize("splintered", [False, True])
@pytest.mark.parametrize("waited", [(0, 0), (9000, 100), (100, 9000)])
def test_shares_sum_to_the_whole(splintered: bool, waited: tuple[int, int]) -> None:
    found = attributed(
        place("heap", 1000, 500, waited),
        place("anonymous", 90_000, 10, (50_000, 10)),
        place("stack", 3),
        place("segment", 400, 400, (0, 5), code=True, name=APP,
              base=SidedMisses(Misses(), Misses(9, 400)),
              huge=SidedMisses(Misses(), Misses(9, 400))),
        splintered=splintered,
    )  # fmt: skip
    for shares in (
        [region.misses_fraction for region in found.regions],
        [region.huge_misses_fraction for region in found.regions],
        [region.time_fraction for region in found.regions],
        [region.huge_time_fraction for region in found.regions],
    ):
        assert sum(share or 0.0 for share in shares) == pytest.approx(1)
    gains = [region.gain_fraction for region in found.regions]
    assert sum(gain.value for gain in gains if gain) == pytest.approx(EXPECTED.value)


def test_memory_that_the_core_waits_for_pays_more_than_its_walks() -> None:
    cheap = place("heap", 10_000, 0, (1000, 0))
    dear = place("anonymous", 10_000, 0, (99_000, 0))
    found = attributed(cheap, dear)
    assert found.costed_by == "windows"
    assert [region.kind for region in found.regions] == ["anonymous", "heap"]
    assert found.regions[0].misses_fraction == 0.5
    assert there(found.regions[0].time_fraction) > 0.85


def test_memory_that_no_window_saw_has_the_mean_cost() -> None:
    seen = place("heap", 10_000, 0, (50_000, 0))
    unseen = place("anonymous", 10_000, modelled_base=ModelledMisses())
    times = [region.time_fraction for region in attributed(seen, unseen).regions]
    assert times == pytest.approx([0.5, 0.5], rel=0.01)


def test_without_windows_prices_tell() -> None:
    found = attributed(place("heap", 300), place("anonymous", 100))
    assert found.costed_by == "prices"
    assert found.regions[0].time_fraction == pytest.approx(0.75, rel=0.02)


def test_the_gain_is_of_data_that_huge_pages_make_cheaper() -> None:
    helped = place("anonymous", 10_000, 0, (50_000, 0))
    not_helped = place("heap", 10_000, 10_000, (50_000, 50_000))
    code = place("file", 0, 0, name=LIBC, code=True, base=SidedMisses(Misses(), Misses(0, 5000)))
    gains = {p.kind: p.gain_fraction for p in attributed(helped, not_helped, code).regions}
    assert there(gains["anonymous"]).value == pytest.approx(EXPECTED.value, rel=0.05)
    assert there(gains["file"]).value == pytest.approx(0, abs=1e-4)
    assert attributed(helped, expected=None).regions[0].gain_fraction is None


def test_places_of_one_name_are_one_region_with_their_sites() -> None:
    one = place("anonymous", 900, stack=(MALLOC, TABLE, MAIN))
    other = place("anonymous", 100, stack=(MALLOC, MAIN))
    (region,) = attributed(one, other).regions
    assert region.name == "anonymous memory"
    assert [site.function for site in region.sites] == ["make_table", "main"]
    assert [site.misses_fraction for site in region.sites] == [0.9, 0.1]
    assert region.sites[0].line == TABLE.line
    assert region.touched_bytes == 200 * sample.BASE
    assert region.touched_huge_bytes == 4 * sample.HUGE


def test_a_static_variable_is_a_site_by_its_name() -> None:
    (region,) = attributed(place("segment", 10, name="[bss]", variable="table")).regions
    assert words(region.sites[0]) == "table"


@pytest.mark.parametrize(
    ("path", "device", "kind"),
    [("/dev/shm/abc", (0, 25), "tmpfs"), ("/dev/shm/abc (deleted)", (0, 25), "tmpfs"),
     ("/dev/shm/abc", None, "tmpfs"), ("/var/data", (8, 1), "file")],
)  # fmt: skip
def test_files_are_of_their_file_system(
    path: str, device: tuple[int, int] | None, kind: str
) -> None:
    (region,) = attributed(place("file", 10, name=path, device=device)).regions
    assert region.kind == kind
    assert region.name == path


def test_what_is_not_known_is_reported() -> None:
    found = attributed(place("unknown", 1), place("heap", 99))
    assert found.other_fraction == 0.01
    assert {region.name for region in found.regions} == {"other memory", "[heap]"}


def test_no_image_is_no_attribution() -> None:
    costs = (sample.BASE_COSTS, sample.HUGE_COSTS)
    assert attribute([], costs, None, 4096, 1 << 21, (), splintered=False) is None


@pytest.mark.parametrize(
    "inner",
    [
        [MALLOC],
        [SourceLocation("/lib/ld-linux-x86-64.so.2", "__minimal_malloc", None, None)],
        [
            MALLOC,
            SourceLocation("/usr/lib/libstdc++.so.6", "operator new(unsigned long)", None, None),
        ],
        [MALLOC, SourceLocation(APP, "operator new[](unsigned long)", None, None)],
        [MALLOC, SourceLocation(APP, "allocate", "new_allocator.h", 137),
         SourceLocation(APP, "vector", "stl_vector.h", 566)],
        [MALLOC, SourceLocation(APP, "xmalloc", "util.c", 5)],
        [MALLOC, SourceLocation("/usr/bin/python3.11", "_PyObject_Malloc", None, None),
         SourceLocation("/usr/bin/python3.11", "PyMem_RawCalloc", None, None)],
        [MALLOC, SourceLocation(APP, "alloc::raw_vec::finish_grow", None, None)],
    ],
)  # fmt: skip
def test_the_site_is_the_programs_own_frame(inner: list[SourceLocation]) -> None:
    assert allocation_site([*inner, TABLE, MAIN]) == TABLE
    # An allocator's own alone is better than nothing.
    assert allocation_site(inner) == inner[-1]


def test_a_function_that_only_sounds_like_one_is_a_site() -> None:
    site = SourceLocation(APP, "malloc_statistics", "app.c", 3)
    assert allocation_site([MALLOC, site, MAIN]) == site
    assert allocation_site([]) is None


def test_lines_of_one_site_are_one() -> None:
    line = image().lines[0]
    other = replace(line, address=4100, base=SidedMisses(Misses(), Misses(0, 10)))
    (found,) = code_lines([line, other])
    assert (found.walks, found.huge_walks, found.walks_fraction) == (100, 9 + 9, 1.0)


def test_folded_stacks() -> None:
    semicolon = Stack(
        (SourceLocation(APP, "a;b", None, None), SourceLocation(APP, None, None, None)), 5, 0
    )
    text = folded([image(), image(stacks=(semicolon,))])
    assert text.splitlines() == ["app;[app];a:b 5", "app;[unknown] 30", "app;main;make_table 60"]


def test_functions_with_more_walks_are_named_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def line(walks: int, number: int, site: SourceLocation = TABLE) -> Line:
        place = replace(site, line=number)
        return Line(APP, number, place, SidedMisses(Misses(0, walks)), SidedMisses())

    before = [line(900, 20), line(100, 10, MAIN)]
    now = [line(200, 30), line(800, 31), line(90, 10, MAIN)]
    assert code_profile.describe_since(before, before).endswith(" 1,000 before, 1,000 now (0 %)\n")
    assert [one.name for one in code_profile.regressions(before, now)] == ["make_table"]
    assert code_profile.describe_since(before, now).splitlines()[1:] == [
        "         +100      11 %  make_table  app.c:31"
    ]
    monkeypatch.chdir(tmp_path)
    words = "::make_table: 100 more page walks than before (11 %25)\n"
    assert code_profile.github_warnings(before, now) == f"::warning{words}"
    (tmp_path / "src").mkdir()
    (tmp_path / "src/app.c").touch()
    assert code_profile.github_warnings(before, now) == f"::warning file=src/app.c,line=31{words}"


@pytest.mark.long
def test_go_reads_the_stacks_as_a_profile(tmp_path: Path) -> None:
    go = shutil.which("go") or pytest.skip("needs go")
    file = tmp_path / "walks.pb.gz"
    site = SiteGain(SourceLocation(APP, "sparse", "app.c", 5), 0.2, 1 << 28, 7 << 20, ("1",))
    file.write_bytes(pprof([replace(image(), sites=(site,))], 2e9))
    cache = {"HOME": str(tmp_path), "GOCACHE": str(TREE / "build/go-cache")}
    words = [go, "tool", "pprof", "-sample_index=stall", "-raw", file]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | cache)
    raw = " ".join(done.stdout.split())
    assert "walks/count[dflt] huge_walks/count stall/nanoseconds waste/bytes" in raw
    assert "1333333333 0: 1 2" in raw
    assert f" 0 0 0 {7 << 20}: " in raw
    assert "make_table" in raw
    assert "sparse" in raw


def test_the_table_of_code_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "code.tsv"
    unknown = Line(APP, 1, SourceLocation(None, None, None, None), SidedMisses(), SidedMisses())
    lines = (*image().lines, unknown)
    file.write_text(code_text("./app", [image(lines=lines)]), encoding="utf-8")
    assert is_code_table(file)
    assert read_code(file) == lines
    file.write_text(file.read_text(encoding="utf-8").replace("\t90\t", "\t-\t"), encoding="utf-8")
    with pytest.raises(TlbcostError, match="not a count: -"):
        read_code(file)
    assert not is_code_table(tmp_path / "none.tsv")


def test_the_profile_of_code() -> None:
    line = image().lines[0]
    second = replace(line, site=replace(MAIN, line=11), base=SidedMisses(Misses(0, 10)))
    rows = code_rows([line, second], "symbol")
    assert [(row.walks, row.line) for row in rows] == [(100, 10)]
    assert len(code_rows([line, second], "line")) == 2
    text = describe([line, second], "line", 1)
    assert "90   90.00   10.00  app           app           main  app.c:10" in text
    assert "(1 more; --limit 2 shows all)" in text
    assert describe([], "symbol", 20).startswith("page walks on base pages, simulated: 0")


def test_an_image_that_was_killed_is_left_out(tmp_path: Path) -> None:
    header = "# pid: 7\n# program: /opt/app\n# state: running\n"
    (tmp_path / "mappings.7.0.tsv").write_text(f"# tlbcost mappings 1\n{header}", encoding="utf-8")
    assert read_attributions(tmp_path) == ()


def test_a_table_of_garbage_is_named(tmp_path: Path) -> None:
    (tmp_path / "mappings.7.0.tsv").write_text("garbage\n", encoding="utf-8")
    with fails(r"mappings\.7\.0\.tsv:1: not a tlbcost mappings", TOOL_FAILED):
        read_attributions(tmp_path)


HUGE = 2 << 20


def test_dense_and_hot_comes_first_and_sparse_and_cold_last() -> None:
    blocks = [
        *[Block(4096, 10, 0)] * 10,
        *[Block(HUGE, 900, 0)] * 2,
        *[Block(HUGE // 2, 600, 0)] * 3,
        *[Block(HUGE, 0, 0)] * 5,
    ]
    curve = there(curve_of(blocks))
    assert (curve.blocks, curve.growth_bytes) == (20, 3 * HUGE // 2 + 10 * (HUGE - 4096))
    # 1,800 and 600 a piece of 3,700.
    assert (curve.knee.blocks, curve.knee.growth_bytes) == (4, HUGE)
    assert curve.points[1].gain_fraction == 1800 / 3700
    assert [point.blocks for point in curve.points] == list(range(1, 21))
    assert curve.points[-1].gain_fraction == 1
    assert curve_sentence(curve) == (
        "Of 20 places of 2 MiB with page walks, 4 have 81 % of what huge pages save there, and add "
        "2 MiB of the 23 MiB that all would add."
    )


def test_where_no_walk_is_removed_each_gets_cheaper() -> None:
    curve = there(curve_of([Block(HUGE, 100 * n, 100 * n) for n in range(1, 42)]))
    assert curve.points[-1].blocks == 41
    assert len(curve.points) <= 20
    # From 41 down: 21 of them are 66 of 86 hundreds and more.
    assert curve.knee.blocks == 21
    assert curve_sentence(curve).endswith("; none adds memory.")


def test_of_little_nothing_is_said() -> None:
    assert curve_of([Block(HUGE, 1000, 0)] * 7) is None
    assert curve_of([Block(HUGE, 10, 0)] * 50) is None
    assert curve_of([]) is None
