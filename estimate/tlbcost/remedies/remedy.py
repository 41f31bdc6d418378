# SPDX-License-Identifier: GPL-2.0-or-later
"""A remedy, by transparent huge pages or by a pool: for which program, at what cost."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from tlbcost.attribution.document import RegionShare
from tlbcost.common import names
from tlbcost.common.document import doc
from tlbcost.common.paths import source_tree
from tlbcost.common.units import Interval
from tlbcost.run.outcome import Run, trial_command
from tlbcost.system import hints, huge_pages
from tlbcost.system.environment import joined
from tlbcost.system.huge_pages import HugeSettings
from tlbcost.system.machine import THP, TUNABLES, tunable


@dataclass(frozen=True, slots=True)
class Situation:
    """The program and the system that remedies are for.

    `environment`: what the program is started with. `faults`: ns of the first touch of a base and
    of a huge page. `fault_fraction`: of the run time, what huge pages save of page faults.
    `hugectl`: whether it is installed. `glibc`: this system's; None: another. `mapped`: by the path
    of an executable, the files that its processes map. `can_run_thp`: `tlbcost run --thp` is there.
    `region`: the phase of the program that matters.
    """

    argv: tuple[str, ...]
    settings: HugeSettings
    glibc: tuple[int, int] | None
    hugectl: bool
    runs: tuple[Run, ...] = ()
    faults: tuple[Interval | None, Interval | None] = (None, None)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    fault_fraction: float | None = None
    mapped: Mapping[str, Sequence[str]] = field(default_factory=dict)
    can_run_thp: bool = False
    region: str | None = None

    @property
    def huge_page_bytes(self) -> int:
        return self.settings.huge_page_bytes or 2 << 20

    @property
    def command(self) -> str:
        return names.command_line(self.argv)

    def can_pool(self, pages: int) -> bool:
        spare = huge_pages.spare_bytes()
        has = self.huge_page_bytes in huge_pages.sizes()
        return has and spare is not None and spare >= pages * self.huge_page_bytes

    def pages_of(self, n_bytes: int) -> int:
        return -(-n_bytes // self.huge_page_bytes)


def with_environment(situation: Situation, variables: Mapping[str, str]) -> str:
    """The command line behind variables, whose present values (also of its env(1)) are kept."""
    argv, _ = _split(situation, variables)
    set_to = environment_with(situation, variables)
    parts = [f"{name}={shlex.quote(value)}" for name, value in set_to.items()]
    return " ".join([*parts, names.command_line(argv)])


def environment_with(situation: Situation, variables: Mapping[str, str]) -> dict[str, str]:
    """What the variables are to hold: besides theirs, what they hold already."""
    _, present = _split(situation, variables)
    return dict(joined(_without(present, variables), variables))


def _split(situation: Situation, variables: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command line without such variables set by its env(1), and what all of them hold."""
    argv, present = list(situation.argv), dict(situation.environment)
    for word in argv[1:] if argv[:1] == ["env"] else []:
        name, equals, value = word.partition("=")
        if not equals or name.startswith("-"):
            break
        if name in variables:
            present[name] = value
            argv.remove(word)
    if argv[:1] == ["env"] and len(argv) > 1 and not argv[1].startswith("-") and "=" not in argv[1]:
        argv = argv[1:]
    return argv, present


def _without(present: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """What is present, without the tunables that are to be set anew."""
    names = [each.partition("=")[0] for each in variables.get(TUNABLES, "").split(":")]
    kept = [
        part
        for part in present.get(TUNABLES, "").split(":")
        if part and all(tunable(part, name) is None for name in names)
    ]
    return {**present, TUNABLES: ":".join(kept)}


def own_command() -> str:
    """How tlbcost itself is called; under sudo the PATH is often another one."""
    tree = source_tree()
    return shlex.quote(str(tree / "build" / "tlbcost")) if tree is not None else "tlbcost"


def with_pool(situation: Situation, pages: int, command: str) -> str:
    size = huge_pages.size_name(situation.huge_page_bytes)
    return hints.as_root(f"{own_command()} pool reserve --page-size {size} {pages} -- {command}")


def trial_with(situation: Situation, method: str, *, root: bool = False) -> str:
    command = (
        f"{trial_command(situation.region)} --with {shlex.quote(method)} -- {situation.command}"
    )
    return hints.as_root(command) if root else command


def trial_by_environment(situation: Situation, variables: Mapping[str, str]) -> str:
    words = names.command_line(f"{name}={value}" for name, value in variables.items())
    return trial_with(situation, f"env:{words}")


Pages = Literal["transparent", "pool"]

_FORK = {
    # Since Linux 5.8 a write to a shared transparent page splits it (mm/huge_memory.c).
    "transparent": "after a fork, writes split the huge pages again",
    "pool": "after a fork, each write copies a whole huge page and takes another from the pool; a "
    "child that finds none is killed (SIGBUS)",
}
_KHUGEPAGED = "khugepaged may fill holes that the program freed"


@dataclass(frozen=True, slots=True)
class RemedyCost:
    """What one remedy costs; None: not known, or nothing of that kind.

    `pool_pages` of `pool_page_bytes`: to be reserved, and taken from all other programs.
    `growth_bytes`: what the program's memory grows by, since huge pages are touched in part.
    `fault_ns`: of the first touch of a huge page; `base_fault_ns`: of a base page. `sentences`:
    what else to expect.
    """

    pool_pages: Annotated[int | None, doc("huge pages to reserve")]
    pool_page_bytes: Annotated[int | None, doc("size of these")]
    growth_bytes: Annotated[
        int | None,
        doc(
            "what the program's memory grows by, from the regions of a huge page that it touched "
            "in part"
        ),
    ]
    fault_ns: Annotated[Interval | None, doc("first touch of a huge page")]
    base_fault_ns: Annotated[Interval | None, doc("first touch of a base page")]
    sentences: Annotated[tuple[str, ...], doc("what else to expect")]


def growth_bytes(regions: Sequence[RegionShare]) -> int | None:
    """What memory grows by on huge pages, by the regions touched in part; None: not known."""
    total = 0
    for region in regions:
        if region.touched_bytes is None or region.touched_huge_bytes is None:
            return None
        total += max(region.touched_huge_bytes - region.touched_bytes, 0)
    return total


def cost_of(
    regions: Sequence[RegionShare], pages: Pages, situation: Situation, pool: int | None = None
) -> RemedyCost:
    """What huge pages of a kind cost for these regions. `pool`: pages to reserve."""
    settings = situation.settings
    # A fork does not copy shared memory.
    shared = all(region.kind in ("tmpfs", "memfd", "sysv", "shared") for region in regions)
    sentences: list[str] = []
    if pages == "transparent":
        if settings.compaction is not None:
            sentences.append(settings.compaction)
        if settings.thp == "always" and not shared:
            sentences.append(_KHUGEPAGED)
    if not shared:
        sentences.append(_FORK[pages])
    if pages == "pool":
        sentences.append("reserved pages serve nothing else until they are returned")
    base, huge = situation.faults
    growth = growth_bytes(regions) if regions else None
    size = None if pool is None else situation.huge_page_bytes
    return RemedyCost(pool, size, growth, huge, base, tuple(sentences))


Form = Literal["command", "setting", "code", "build", "server"]

# Documentation that several remedies come from.
THP_GUIDE = "https://docs.kernel.org/admin-guide/mm/transhuge.html"
MADVISE = "https://man7.org/linux/man-pages/man2/madvise.2.html"
HUGECTL = "https://man7.org/linux/man-pages/man8/hugectl.8.html"
TMPFS = "https://docs.kernel.org/filesystems/tmpfs.html"
_MADVISE_LINE = "madvise(address, length, MADV_HUGEPAGE);"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do.

    `code`: its name, the same everywhere. `words`: what it does. `steps`: lines to type, or with
    `form` code to write, in their order; those with # explain. `undo`: how a changed system is put
    back. `caution`: what its makers, or the system, say against it. `source`: documentation.
    `proof`: the command that proves it by a trial; None: there is no such method. `environment`:
    variables that are all there is to do, besides a pool.
    """

    code: Annotated[str, doc("its name, the same everywhere")]
    form: Annotated[Form, doc("what its steps are")]
    words: Annotated[str, doc("what it does")]
    steps: Annotated[
        tuple[str, ...],
        doc("lines to type, or of form code to write; those with # explain"),
    ]
    pages: Annotated[Pages, doc("which huge pages")]
    cost: Annotated[RemedyCost, doc("what it costs")]
    undo: Annotated[tuple[str, ...], doc("how a changed system is put back")] = ()
    caution: Annotated[str | None, doc("what its makers, or the system, say against it")] = None
    source: Annotated[str | None, doc("address of the documentation")] = None
    proof: Annotated[str | None, doc("the command that proves it by a trial; null: none does")] = (
        None
    )
    environment: Annotated[
        Mapping[str, str], doc("variables that the program is to be started with")
    ] = field(default_factory=dict)


def transparent(
    code: str,
    form: Form,
    words: str,
    steps: Sequence[str],
    regions: Sequence[RegionShare],
    situation: Situation,
    *,
    source: str | None,
    undo: Sequence[str] = (),
    caution: str | None = None,
    proof: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Remedy:
    cost = cost_of(regions, "transparent", situation)
    return Remedy(
        code, form, words, tuple(steps), "transparent", cost, tuple(undo), caution, source, proof,
        environment or {},
    )  # fmt: skip


def pooled(
    code: str,
    form: Form,
    words: str,
    steps: Sequence[str],
    regions: Sequence[RegionShare],
    situation: Situation,
    *,
    pages: int,
    source: str,
    undo: Sequence[str] = (),
    proof: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Remedy:
    """A remedy that puts these regions on pages of a pool; `pages`: how many to reserve."""
    cost = cost_of(regions, "pool", situation, pages)
    return Remedy(
        code, form, words, tuple(steps), "pool", cost, tuple(undo), None, source, proof,
        environment or {},
    )  # fmt: skip


def advised(
    words: str, regions: Sequence[RegionShare], situation: Situation, source: str = MADVISE
) -> Remedy:
    """A line for a program that can be changed: memory that asks for transparent huge pages."""
    return transparent("madvise", "code", words, [_MADVISE_LINE], regions, situation, source=source)


def mode_setting(mode: str, file: str = "enabled") -> str | None:
    """Write a mode of transparent huge pages; None: that cannot be written here."""
    return hints.write_setting(mode, f"{THP}/{file}")


def allowing(situation: Situation) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Lines that allow asking for huge pages, and lines to undo them; None if asking is in vain."""
    if situation.settings.thp == "madvise":
        return (), ()
    allow, back = mode_setting("madvise"), mode_setting("never")
    if situation.settings.thp != "never" or allow is None:
        return None
    return (allow,), (back,) if back else ()


def mode_remedy(
    code: str,
    words: str,
    modes: tuple[str | None, str],
    regions: Sequence[RegionShare],
    situation: Situation,
    file: str = "enabled",
    caution: str | None = None,
    proof: str | None = None,
) -> Remedy | None:
    """A mode for the whole system, from and to `modes`; None if it cannot be written here."""
    before, after = modes
    set_it = mode_setting(after, file)
    if set_it is None:
        return None
    back = mode_setting(before, file) if before is not None else None
    return transparent(
        code, "setting", words, (set_it, situation.command), regions, situation,
        source=THP_GUIDE, undo=(back,) if back else (), caution=caution, proof=proof,
    )  # fmt: skip


def mounting(kind: str, options: str, folder: str) -> tuple[str, ...]:
    return (
        hints.as_root(f"mkdir -p {folder}"),
        hints.as_root(f"mount -t {kind} -o {options} tlbcost {folder}"),
    )


def unmounting(folder: str) -> tuple[str, ...]:
    return hints.as_root(f"umount {folder}"), hints.as_root(f"rmdir {folder}")
