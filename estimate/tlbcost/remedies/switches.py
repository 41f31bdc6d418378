# SPDX-License-Identifier: GPL-2.0-or-later
"""Which switch of a runtime or server asks for huge pages, and what do its makers say?"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.attribution.shares import RegionShare
from tlbcost.common import formats, paths
from tlbcost.common.table import read_table
from tlbcost.remedies.program_facts import Facts
from tlbcost.remedies.remedy import Remedy, mode_setting, pooled, transparent
from tlbcost.remedies.situation import (
    TUNABLES,
    Situation,
    own_command,
    tunables,
    with_environment,
    with_pool,
)
from tlbcost.system import hints
from tlbcost.system.glibc import FIRST_WITH_HUGETLB, HUGETLB
from tlbcost.system.hugetlb import pool_pages


@dataclass(frozen=True, slots=True)
class Switch:
    """One row of data/remedies/switches.tsv (doc/format.md); `source`: the address itself."""

    program: str
    memory: tuple[str, ...]
    needs: str
    form: str
    text: str | None
    words: str
    source: str


@functools.cache
def read_switches(path: Path | None = None) -> tuple[Switch, ...]:
    """The table. Raises TlbcostError naming the file and its defect."""
    table = read_table(path or paths.data("remedies", "switches.tsv"), formats.SWITCHES)
    return tuple(
        Switch(
            str(row["program"]),
            tuple(str(row["memory"]).split(",")),
            str(row["needs"]),
            str(row["form"]),
            row["text"],
            str(row["words"]),
            table.key(f"source_{row['source']}"),
        )
        for row in table.records()
    )


def cautions_for(regions: Sequence[RegionShare], facts: Facts) -> tuple[tuple[str, str], ...]:
    """What the makers of the program advise, and where."""
    return tuple(
        (each.words, each.source) for each in _of(regions, facts) if each.form == "caution"
    )


def remedies_for(
    regions: Sequence[RegionShare], facts: Facts, situation: Situation
) -> list[Remedy]:
    """The switches of the program that work here."""
    made = (_remedy(each, regions, situation) for each in _of(regions, facts))
    return [each for each in made if each is not None]


def _of(regions: Sequence[RegionShare], facts: Facts) -> list[Switch]:
    held = {region.kind for region in regions}
    return [
        each
        for each in read_switches()
        if each.program == facts.runtime and held & set(each.memory)
    ]


def _remedy(switch: Switch, regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    if switch.form == "caution" or switch.text is None:
        return None
    if switch.needs == "pool":
        return _by_pool(switch, regions, situation)
    thp = situation.settings.thp
    if thp is None or (switch.needs == "thp_madvise" and thp != "madvise"):
        return None
    variables: dict[str, str] = {}
    if switch.form == "variable":
        name, _, value = switch.text.partition("=")
        if name == "NUMPY_MADVISE_HUGEPAGE" and not _numpy_is_told_not_to(situation, name):
            return None
        variables[name] = value
    if switch.needs == "malloc":
        if situation.glibc is None or situation.glibc < FIRST_WITH_HUGETLB or thp != "madvise":
            return None
        variables[TUNABLES] = tunables(situation, HUGETLB, "1")
    steps, undo = _steps(switch, variables, situation, thp)
    if steps is None:
        return None
    return transparent(
        f"{switch.program}-{switch.needs}",
        "setting" if switch.form == "system" else "command",
        switch.words,
        steps,
        regions,
        situation,
        undo=undo,
        source=switch.source,
    )


def _steps(
    switch: Switch, variables: Mapping[str, str], situation: Situation, thp: str
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    if switch.form == "system":
        if thp == switch.text:
            return None, ()
        set_it, back = mode_setting(str(switch.text)), mode_setting(thp)
        return (None, ()) if set_it is None else ((set_it,), (back,) if back else ())
    before: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    if thp == "never":
        set_it = mode_setting("madvise")
        if set_it is None:
            return None, ()
        before, undo = (set_it,), tuple(filter(None, [mode_setting("never")]))
    if switch.form == "option":
        return (*before, _with_option(str(switch.text), situation)), undo
    argv = [word for word in situation.argv if word.partition("=")[0] not in variables]
    if argv[:1] == ["env"] and len(argv) > 1 and "=" not in argv[1]:
        argv = argv[1:]
    return (*before, with_environment(situation, variables, shlex.join(argv))), undo


def _numpy_is_told_not_to(situation: Situation, name: str) -> bool:
    """By itself numpy asks, with Linux 4.6 and later."""
    kernel = situation.settings.kernel
    told = situation.environment.get(name) == "0" or f"{name}=0" in situation.argv
    return told or (kernel is not None and kernel < (4, 6))


def _with_option(option: str, situation: Situation) -> str:
    """The option behind the program's name, or where all its programs read it."""
    argv = situation.argv
    if Path(argv[0]).name == "java":
        return shlex.join([argv[0], option, *argv[1:]])
    return with_environment(situation, {"JAVA_TOOL_OPTIONS": option})


def _by_pool(switch: Switch, regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    """What takes pages from a pool: as many as the program had memory at most."""
    mapped = situation.pages_of(sum(region.mapped_bytes for region in regions))
    if switch.form == "setting":
        pages = mapped + max(8, mapped // 16)
    elif situation.runs:
        most = max(situation.runs, key=lambda run: run.max_rss_bytes)
        pages = max(pool_pages(most.max_rss_bytes, situation.huge_page_bytes), mapped)
    else:
        return None
    if not situation.can_pool(pages):
        return None
    if switch.form == "setting":
        reserve = hints.as_root(f"{own_command()} pool reserve {pages}")
        steps: tuple[str, ...] = (reserve, f"# {switch.words}:", str(switch.text))
        undo: tuple[str, ...] = (hints.as_root(f"{own_command()} pool restore"),)
    else:
        steps = (with_pool(situation, pages, _with_option(str(switch.text), situation)),)
        undo = ()
    return pooled(
        f"{switch.program}-pool",
        "server" if switch.form == "setting" else "command",
        switch.words,
        steps,
        regions,
        situation,
        pages=pages,
        undo=undo,
        source=switch.source,
    )
