# SPDX-License-Identifier: GPL-2.0-or-later
"""Switches of runtimes and servers that ask for huge pages, and their makers' advice."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.allocators.recognise import Owner, Program
from tlbcost.attribution.document import RegionShare
from tlbcost.common import formats, names, paths
from tlbcost.common.formats import read_table
from tlbcost.remedies.remedy import (
    Remedy,
    Situation,
    allowing,
    environment_with,
    own_command,
    pooled,
    transparent,
    trial_by_environment,
    with_environment,
)
from tlbcost.system import hints
from tlbcost.system.machine import FIRST_WITH_HUGETLB

# Read by each Java program, however it is started.
_JAVA_OPTIONS = "JAVA_TOOL_OPTIONS"
_NUMPY = "NUMPY_MADVISE_HUGEPAGE"


@dataclass(frozen=True, slots=True)
class Switch:
    """One row of data/remedies/switches.tsv (doc/format.md); `source`: the address itself."""

    program: str
    code: str
    memory: tuple[str, ...]
    owner: str | None
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
            str(row["code"]),
            tuple(str(row["memory"]).split(",")),
            row["owner"],
            str(row["needs"]),
            str(row["form"]),
            row["text"],
            str(row["words"]),
            table.key(f"source_{row['source']}"),
        )
        for row in table.records()
    )


def cautions_for(regions: Sequence[RegionShare], program: Program) -> tuple[tuple[str, str], ...]:
    return tuple(
        (each.words, each.source) for each in _of(regions, program) if each.form == "caution"
    )


def remedies_for(
    regions: Sequence[RegionShare], owner: Owner | None, program: Program, situation: Situation
) -> list[Remedy]:
    made = (_remedy(each, regions, owner, situation) for each in _of(regions, program))
    return [each for each in made if each is not None]


def _of(regions: Sequence[RegionShare], program: Program) -> list[Switch]:
    held = {region.kind for region in regions}
    return [
        each
        for each in read_switches()
        if each.program == program.runtime and held & set(each.memory)
    ]


def _remedy(
    switch: Switch, regions: Sequence[RegionShare], owner: Owner | None, situation: Situation
) -> Remedy | None:
    if switch.form == "caution" or switch.text is None:
        return None
    # A runtime's switch is for the memory that the runtime maps, not for that of its malloc.
    if switch.owner is not None and owner not in (switch.owner, None):
        return None
    if switch.needs == "pool":
        return _by_pool(switch, regions, situation)
    first = ((), ()) if situation.settings.thp == "always" else allowing(situation)
    if first is None or (switch.needs != "thp" and situation.settings.thp == "always"):
        return None
    variables = _variables(switch, situation)
    if variables is None:
        return None
    steps, undo = first
    command = with_environment(situation, variables)
    argv = situation.argv
    if switch.form == "option" and Path(argv[0]).name == "java":
        command = names.command_line([argv[0], switch.text, *argv[1:]])
    return transparent(
        switch.code,
        "command",
        switch.words,
        (*steps, command),
        regions,
        situation,
        undo=undo,
        source=switch.source,
        caution="objects are made more slowly than by Python's own allocator"
        if switch.needs == "malloc"
        else None,
        proof=trial_by_environment(situation, variables),
        environment=environment_with(situation, variables),
    )


def _variables(switch: Switch, situation: Situation) -> dict[str, str] | None:
    if switch.form == "option":
        return {_JAVA_OPTIONS: str(switch.text)}
    if switch.needs == "malloc" and (situation.glibc or (0, 0)) < FIRST_WITH_HUGETLB:
        return None
    pairs = (each.partition("=") for each in str(switch.text).split())
    variables = {name: value for name, _, value in pairs}
    if _NUMPY in variables:
        # By itself numpy asks, with Linux 4.6 and later.
        off = situation.environment.get(_NUMPY) == "0" or f"{_NUMPY}=0" in situation.argv
        if not off and (situation.settings.kernel or (4, 6)) >= (4, 6):
            return None
    return variables


def _by_pool(switch: Switch, regions: Sequence[RegionShare], situation: Situation) -> Remedy | None:
    """A server's setting by which it takes pages from a pool."""
    mapped = situation.pages_of(sum(region.mapped_bytes for region in regions))
    pages = mapped + max(8, mapped // 16)
    if not situation.can_pool(pages):
        return None
    reserve = hints.as_root(f"{own_command()} pool reserve {pages}")
    return pooled(
        switch.code,
        "server",
        switch.words,
        (reserve, f"# {switch.words}:", str(switch.text)),
        regions,
        situation,
        pages=pages,
        undo=(hints.as_root(f"{own_command()} pool restore"),),
        source=switch.source,
    )
