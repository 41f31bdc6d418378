# SPDX-License-Identifier: GPL-2.0-or-later
"""Which programs does the suite run, how, and are they here?"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import NOT_FOUND, USAGE, TlbcostError
from tlbcost.common.table import read_table


@dataclass(frozen=True, slots=True)
class Task:
    """One program of a suite: its name, its command, and how it gets huge pages."""

    name: str
    argv: tuple[str, ...]
    method: str


def read_suite(only: Sequence[str] = ()) -> list[Task]:
    """The programs of data/suite.tsv; with `only`, those of these names.

    Raises TlbcostError: 2 for an unknown name.
    """
    file = paths.data("suite.tsv")
    table = read_table(file, formats.SUITE)
    tasks = [
        Task(row["name"] or "", command_of(table.key(f"command_{row['program']}")),
             row["method"] or "")
        for row in table.records()
    ]  # fmt: skip
    known = [task.name for task in tasks]
    for name in only:
        if name not in known:
            raise TlbcostError(
                f"the suite has no program {name}", f"--only with some of {', '.join(known)}", USAGE
            )
    return [task for task in tasks if not only or task.name in only]


def command_of(text: str) -> tuple[str, ...]:
    """The words of a command, with its placeholders replaced."""
    places = {"{workloads}": str(paths.workloads()), "{python}": sys.executable}
    words = shlex.split(text)
    for place, here in places.items():
        words = [word.replace(place, here) for word in words]
    return tuple(words)


def check_there(argv: Sequence[str]) -> None:
    """Refuse a command, perhaps behind env(1), whose program or input is not on this system.

    Raises TlbcostError with exit code 127; the message suffices without the hint.
    """
    name = next((word for word in argv if word != "env" and "=" not in word), argv[0])
    if "/" not in name and shutil.which(name) is None:
        installs = "scripts/install-deps --accuracy"
        raise TlbcostError(f"{name} is not installed ({installs})", installs, NOT_FOUND)
    inputs = paths.workloads() / "inputs"
    for word in argv:
        if Path(word).parent == inputs and not Path(word).exists():
            made = "make accuracy-inputs"
            raise TlbcostError(f"inputs/{Path(word).name} is not made ({made})", made, NOT_FOUND)


def portable_command(task: Task) -> str:
    """For a record that is read elsewhere, where this system's folders mean nothing."""
    command = shlex.join(word.replace(f"{paths.workloads()}/", "") for word in task.argv)
    return command.replace(sys.executable, "python3")
