# SPDX-License-Identifier: GPL-2.0-or-later
"""Does each C file include only what its folder may know, and nothing that includes it again?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from builders.tree import TREE

# What each folder may include from others, itself aside.
KNOWS = {
    "common": (),
    "calibrator": ("common",),
    "profiler/launch": ("common",),
    "profiler/counters": ("common", "profiler/launch"),
    "profiler/trace": ("common",),
    "profiler/thp": ("common", "profiler/launch", "profiler/trace"),
    "profiler/region": ("common", "profiler/launch"),
    "profiler/sites": (),
    "profiler/tlb": (),
    "profiler/timing": (),
    "profiler/numa": ("profiler/timing",),
    "profiler/engine": ("profiler/timing", "profiler/tlb"),
    "profiler/copies": (
        "common",
        "profiler/engine",
        "profiler/launch",
        "profiler/numa",
        "profiler/timing",
        "profiler/tlb",
        "profiler/trace",
    ),
    "profiler/simulator": ("profiler/engine", "profiler/numa", "profiler/timing", "profiler/tlb"),
}
SIMULATOR = "profiler/simulator"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
OF_VALGRIND = re.compile(
    r'^\s*#\s*include\s+["<](?:.*/)?(?:pub_tool_|libvex|valgrind)', re.MULTILINE
)


def files(tree: Path) -> Iterator[Path]:
    for folder in KNOWS:
        yield from sorted((tree / folder).glob("*.[ch]"))


def included(file: Path, tree: Path) -> Iterator[Path]:
    """The project's files that `file` includes, looked for where it may find them first."""
    own = str(file.parent.relative_to(tree))
    text = OF_VALGRIND.sub("", file.read_text(encoding="utf-8"))
    for name in INCLUDE.findall(text):
        folders = (tree / folder for folder in (own, *KNOWS[own], *KNOWS, "profiler"))
        found = next((f / name for f in folders if (f / name).is_file()), None)
        assert found is not None, f'{file}: "{name}" is in no folder of the project'
        yield found.resolve()


def forbidden(tree: Path) -> list[str]:
    """Includes that break the order of folders, and headers of Valgrind outside the simulator."""
    wrong = []
    for file in files(tree):
        own = str(file.parent.relative_to(tree))
        for other in included(file, tree):
            folder = str(other.parent.relative_to(tree))
            if folder != own and folder not in KNOWS[own]:
                wrong.append(f"{own}/{file.name} includes {folder}/{other.name}")
        if own != SIMULATOR and OF_VALGRIND.search(file.read_text(encoding="utf-8")):
            wrong.append(f"{own}/{file.name} includes a header of Valgrind")
    return wrong


def circle(tree: Path) -> list[str]:
    """Modules, a .c and its .h, that include each other in a circle; empty if there is none."""
    graph: dict[str, set[str]] = {}
    for file in files(tree):
        module = str(file.relative_to(tree).with_suffix(""))
        others = {str(o.relative_to(tree).with_suffix("")) for o in included(file, tree)}
        graph.setdefault(module, set()).update(others - {module})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_folders_include_only_what_is_below_them() -> None:
    assert forbidden(TREE) == []


def test_no_modules_include_each_other_in_a_circle() -> None:
    assert circle(TREE) == []


def test_every_folder_of_c_programs_has_its_place() -> None:
    folders = {p.parent.relative_to(TREE) for p in (TREE / "profiler").rglob("*.[ch]")}
    assert {str(folder) for folder in folders} <= KNOWS.keys()
