# SPDX-License-Identifier: GPL-2.0-or-later
"""A launcher that keeps what programs print."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tlbcost.common.files import temporary_folder
from tlbcost.common.sudo import calling_user
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome
from tlbcost.run.stdin import ProgramInput

# The shell opens the file, and is replaced by the program.
_TO_FILE = ("sh", "-c", 'exec "$@" >"$0"')


@dataclass(slots=True)
class Listener(Launcher):
    """A launcher that keeps each run's command and standard output, and shows none."""

    heard: list[tuple[tuple[str, ...], str]] = field(default_factory=list, init=False)

    def execute(
        self,
        argv: Sequence[str],
        *,
        discard: bool,
        **options: Any,  # noqa: ANN401
    ) -> Outcome:
        file = self.folder / f"heard{self.runs + 1}"
        # No super(): the decorator makes another class, the one that has the slots.
        outcome = Launcher.execute(self, [*_TO_FILE, str(file), *argv], discard=discard, **options)
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        self.heard.append((tuple(argv), text))
        return outcome


@contextlib.contextmanager
def listener() -> Iterator[Listener]:
    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        # An estimate, too, is of the program on base pages.
        launcher = Listener(folder, stdin, calling_user(), transparent=False)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        yield launcher
