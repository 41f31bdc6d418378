# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a remedy, by transparent huge pages or by a pool, and what is it made of?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from tlbcost.attribution.shares import RegionShare
from tlbcost.common.document import doc
from tlbcost.remedies.cost import Cost, Pages, cost_of
from tlbcost.remedies.situation import Situation
from tlbcost.system import hints
from tlbcost.system.machine import THP

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
    cost: Annotated[Cost, doc("what it costs")]
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
    """A remedy that puts these regions on transparent huge pages."""
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
    """What is typed before memory can ask for transparent huge pages, and how that is undone.

    None: asking changes nothing here, or may not be allowed.
    """
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
    """A mode of transparent huge pages for the whole system; None: it cannot be written here.

    `modes`: what is set now, and what to set.
    """
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
    """Mount a file system of this kind on a new folder."""
    return (
        hints.as_root(f"mkdir -p {folder}"),
        hints.as_root(f"mount -t {kind} -o {options} tlbcost {folder}"),
    )


def unmounting(folder: str) -> tuple[str, ...]:
    """What undoes it."""
    return hints.as_root(f"umount {folder}"), hints.as_root(f"rmdir {folder}")
