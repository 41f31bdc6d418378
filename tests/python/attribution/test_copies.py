# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose are the walks that windows of copies saw? Tables as tlbcost-copies writes them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders.tree import write_table as write
from tlbcost.attribution.code_profile import folded
from tlbcost.attribution.copies import copied_attributions
from tlbcost.common import formats
from tlbcost.copies.estimator import CopyTables, Weighed, read_tables, weigh
from tlbcost.memory import smaps
from tlbcost.run.outcome import Run
from tlbcost.simulator.memory_tables import Block, ImageAttribution

PROGRAM = "/opt/app"
RUN = Run(2_000_000_000, 1_000_000_000, 0, 100, 0, 1 << 20)
Row = dict[str, object]


def mapping(number: int, start: int, inode: int = 0, execute: str = "no") -> Row:
    return {
        "mapping": number, "pid": 100, "start": start, "end": start + 0x10000, "inode": inode,
        "writable": "no" if execute == "yes" else "yes", "executable": execute, "shared": "no",
    }  # fmt: skip


def walk(window: int, where: int, base: int, huge: int = 0, **more: int) -> Row:
    return {
        "window": window, "mapping": where, "base_data_walks": base, "huge_data_walks": huge, **more
    }  # fmt: skip


def two_windows(folder: Path) -> tuple[CopyTables, Weighed]:
    """Window 1 stands for twice the time of window 0. Their walks are on the heap and on bss."""
    write(folder, formats.COPIES, [
        {"window": i, "result": "followed", "error": "NA", "stands_for_ns": 1000 * (i + 1)}
        for i in range(2)
    ], "# cpu_ns: 1000000000\n# fault_ns: 1200\n# whole: 0")  # fmt: skip
    write(folder, formats.COPY_WINDOWS, [
        {"window": i, "ended": "enough", "call": "NA", "references": 1000, "base_cycles": 4000,
         "timed_references": 1000, "huge_cycles": 2000} for i in range(2)
    ], "# core: width=4")  # fmt: skip
    write(folder, formats.COPY_COUNTS, [])
    write(
        folder, formats.COPY_MAPPINGS,
        [mapping(0, 0x400000, 7, "yes"), mapping(1, 0x900000), mapping(2, 0x600000)],
        f"# mapping_0: {PROGRAM}\n# mapping_1: [heap]\n# mapping_2: [bss]",
    )  # fmt: skip
    write(folder, formats.COPY_MEMORY, [
        walk(0, 1, 100, 10, base_waited_cycles=800), walk(1, 1, 100, base_waited_cycles=800),
        walk(1, 2, 50),
    ])  # fmt: skip
    write(folder, formats.COPY_CODE, [
        walk(0, 0, 100, 10, address=0x401000), walk(1, 0, 150, address=0x401000),
    ])  # fmt: skip
    write(folder, formats.COPY_STACKS, [
        {"window": 0, "stack": 2, "address": 0x401000, "base_walks": 100, "huge_walks": 10},
        {"window": 1, "stack": 1, "address": 0x401000, "base_walks": 150},
    ])  # fmt: skip
    write(folder, formats.COPY_FRAMES, [
        {"stack": 1, "below": 0, "mapping": 0, "address": 0x400100},
        {"stack": 2, "below": 1, "mapping": 0, "address": 0x400200},
    ])  # fmt: skip
    tables = read_tables([folder])
    return tables, weigh(tables, [RUN], 2.0)


def test_places_are_of_the_run_with_most_windows(folders: list[Path]) -> None:
    for run, folder in enumerate(folders):
        write(folder, formats.COPY_BLOCKS, [
            {"window": 0, "address": (run + 1) << 21, "resident_bytes": 4096, "base_walks": 7},
            {"window": 1, "address": (run + 1) << 21, "resident_bytes": 8192, "base_walks": 5},
            {"window": 1, "address": (run + 9) << 21, "resident_bytes": 2 << 20, "huge_walks": 3},
            # The program had ended.
            {"window": 1, "address": 21 << 21, "resident_bytes": "NA", "base_walks": 3},
        ])  # fmt: skip
    image, weighed = image_of(*folders)
    first, second = (weighed.weights[0, window] for window in (0, 1))
    assert image.blocks == (
        Block(8192, pytest.approx(7 * first + 5 * second), 0, 0, 1 << 21),
        Block(2 << 20, 0, pytest.approx(3 * second), 0, 9 << 21),
        Block(None, pytest.approx(3 * second), 0, 0, 21 << 21),
    )


def image_of(
    *folders: Path, seen: Sequence[tuple[str, smaps.Mapping]] = ()
) -> tuple[ImageAttribution, Weighed]:
    tables = read_tables(folders)
    weighed = weigh(tables, [RUN], 2.0)
    (image,) = copied_attributions(tables, weighed, "app", PROGRAM, seen)
    return image, weighed


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Of two runs."""
    made = [tmp_path / "first", tmp_path / "second"]
    for folder in made:
        two_windows(folder)
    return made


@pytest.fixture
def only(tmp_path: Path) -> tuple[ImageAttribution, float]:
    """The image of one run, and what its first window stands for."""
    two_windows(tmp_path)
    image, weighed = image_of(tmp_path)
    return image, weighed.weights[0, 0]


def test_walks_weigh_by_what_their_window_stands_for(only: tuple[ImageAttribution, float]) -> None:
    image, weight = only
    walks = {(place.kind, place.name): place.base.walks for place in image.regions}
    assert walks[("heap", None)] == round(100 * weight + 100 * 2 * weight)
    assert walks[("segment", "[bss]")] == round(50 * 2 * weight)
    heap = next(place for place in image.regions if place.kind == "heap")
    assert heap.huge.walks == round(10 * weight)
    assert heap.modelled_base.waited_cycles == round(800 * 3 * weight)


def test_memory_that_workers_and_runs_see_again_counts_once(folders: list[Path]) -> None:
    for run, folder in enumerate(folders):
        # Another worker saw the heap, which had grown by then; in each run it is elsewhere.
        text = (folder / "copy_mappings.0.tsv").read_text(encoding="utf-8")
        text = text.replace(str(0x910000), str(0x918000))
        (folder / "copy_mappings.1.tsv").write_text(text, encoding="utf-8")
        shutil.copy(folder / "copy_memory.0.tsv", folder / "copy_memory.1.tsv")
        for worker in (0, 1):
            path = folder / f"copy_mappings.{worker}.tsv"
            text = path.read_text(encoding="utf-8")
            for address in (0x900000, 0x910000, 0x918000):
                text = text.replace(str(address), str(address + 0x100000 * run))
            path.write_text(text, encoding="utf-8")
    image, _ = image_of(*folders)
    heap = [place for place in image.regions if place.kind == "heap"]
    assert len(heap) == 4
    assert sum(place.most_bytes for place in heap) == 0x18000
    # How much of it is there was not seen.
    assert [place.touched_pages for place in heap if place.most_bytes] == [None]
    assert sum(place.base.walks for place in heap) > 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("/dev/shm/table", "file"), ("/dev/zero (deleted)", "shared"),
     ("/memfd:heap (deleted)", "memfd"), ("/SYSV00000000 (deleted)", "sysv")],
)  # fmt: skip
def test_shared_memory_is_a_file_only_if_it_has_one(tmp_path: Path, name: str, kind: str) -> None:
    two_windows(tmp_path)
    path = tmp_path / "copy_mappings.0.tsv"
    text = path.read_text(encoding="utf-8").replace("# mapping_1: [heap]", f"# mapping_1: {name}")
    lines = text.splitlines(keepends=True)
    shared = [
        line.replace("yes\tno\tno\n", "yes\tno\tyes\n") if line.startswith("1\t") else line
        for line in lines
    ]
    path.write_text("".join(shared), encoding="utf-8")
    image, _ = image_of(tmp_path)
    assert kind in {place.kind for place in image.regions}


def test_the_size_of_memory_is_of_the_run_that_met_most_of_it(folders: list[Path]) -> None:
    large = 0x4000000
    path = folders[1] / "copy_mappings.0.tsv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(str(0x910000), str(0x900000 + large)), encoding="utf-8")
    # The first run's mapping was seen in memory, but is hardly any of it.
    seen = smaps.parse("900000-910000 rw-p 00000000 00:00 0  [heap]\nSize: 64 kB\nRss: 64 kB\n")
    image, _ = image_of(*folders, seen=[(PROGRAM, each) for each in seen])
    heap = [place for place in image.regions if place.kind == "heap"]
    assert sorted(place.most_bytes for place in heap) == [0, large]


def test_instructions_of_a_file_are_known_by_their_object(
    only: tuple[ImageAttribution, float],
) -> None:
    image, weight = only
    (line,) = image.lines
    assert line.site.object == PROGRAM
    assert line.address == 0x401000
    assert line.base.data.walks == round((100 + 150 * 2) * weight)


def test_stacks_have_the_walks_of_code(only: tuple[ImageAttribution, float]) -> None:
    image, weight = only
    assert sorted((len(stack.frames), stack.base_walks) for stack in image.stacks) == [
        (2, round(300 * weight)),
        (3, round(100 * weight)),
    ]
    # Their file has no symbols: objects instead of functions.
    assert folded([image]) == (
        f"app;[app];[app] {round(300 * weight)}\napp;[app];[app];[app] {round(100 * weight)}\n"
    )


def test_names_of_code_come_from_its_file(tmp_path: Path) -> None:
    executable = str(Path(sys.executable).resolve())
    tables, weighed = two_windows(tmp_path)
    tables.mappings.loc[tables.mappings["mapping"] == 0, "name"] = executable
    (image,) = copied_attributions(tables, weighed, "python3", executable, ())
    assert image.lines[0].site.object == executable


def test_a_program_without_misses_has_no_attribution(tmp_path: Path) -> None:
    two_windows(tmp_path)
    write(tmp_path, formats.COPY_MEMORY, [])
    tables = read_tables([tmp_path])
    weighed = weigh(tables, [RUN], 2.0)
    assert copied_attributions(tables, weighed, "app", PROGRAM, ()) == ()
