# SPDX-License-Identifier: GPL-2.0-or-later
"""Which program and system are remedies for, and how does one type a command for them?"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tlbcost.common import names
from tlbcost.common.interval import Interval
from tlbcost.common.paths import source_tree
from tlbcost.run.outcome import Run
from tlbcost.run.region import trial_command
from tlbcost.system import hints, hugetlb
from tlbcost.system.environment import joined
from tlbcost.system.glibc import TUNABLES, tunable
from tlbcost.system.huge_pages import HugeSettings


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
        spare = hugetlb.spare_bytes()
        has = self.huge_page_bytes in hugetlb.sizes()
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
    size = hugetlb.size_name(situation.huge_page_bytes)
    return hints.as_root(f"{own_command()} pool reserve --page-size {size} {pages} -- {command}")


def trial_with(situation: Situation, method: str, *, root: bool = False) -> str:
    command = (
        f"{trial_command(situation.region)} --with {shlex.quote(method)} -- {situation.command}"
    )
    return hints.as_root(command) if root else command


def trial_by_environment(situation: Situation, variables: Mapping[str, str]) -> str:
    words = names.command_line(f"{name}={value}" for name, value in variables.items())
    return trial_with(situation, f"env:{words}")
