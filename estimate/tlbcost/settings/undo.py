# SPDX-License-Identifier: GPL-2.0-or-later
"""How is one change to the system undone, without undoing what somebody else did since?"""

from __future__ import annotations

import contextlib
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from tlbcost.settings.journal import Announce, Change
from tlbcost.system import hugetlb
from tlbcost.system.machine import sys_path


def value(path: str) -> str:
    """A setting's value, as it would be written. Raises OSError.

    Of "always [madvise] never" that is "madvise". A pool reports its pages including surplus ones;
    the size alone is written.
    """
    text = sys_path(path).read_text(encoding="utf-8").strip()
    if path.endswith("/nr_hugepages") and text.isdigit():
        return str(int(text) - _surplus(path))
    chosen = re.search(r"\[([^\]]+)\]", text)
    return chosen[1] if chosen else text


def undo(change: Change, announce: Announce) -> Change | None:
    """Undo a change; returns what remains to undo another time. Reports errors, raises none."""
    return (_unmount if change.kind == "mount" else _write_back)(change, announce)


def _write_back(change: Change, announce: Announce) -> Change | None:
    path = change.path
    try:
        now = value(path)
        if now == change.before:
            return None
        if not _is_ours(change, now):
            announce(
                f"{path} is {now}, not {change.after} as tlbcost wrote: somebody else changed it "
                f"since, so it is left as it is (it was {change.before})"
            )
            return None
        lent = _surplus(path)
        sys_path(path).write_text(change.before, encoding="utf-8")
        now = value(path)
    except OSError as error:
        announce(f"cannot restore {change.before} in {path}: {error.strerror}")
        return change
    if now != change.before:
        announce(f"{path} is {now} after {change.before} was restored")
        return replace(change, after=now)
    # The kernel does not take pages in use: they become surplus until they are released.
    in_use = _surplus(path) - lent
    if in_use > 0:
        announce(
            f"{in_use} huge page{' is' if in_use == 1 else 's are'} in use by another program; "
            "the kernel takes them out of the pool when that program releases them"
        )
    return None


def _is_ours(change: Change, now: str) -> bool:
    if now == change.after:
        return True
    # We were killed while the kernel was at work on it.
    numbers = (change.before, now, change.after)
    if change.done or not all(number.isdigit() for number in numbers):
        return False
    return int(change.before) < int(now) < int(change.after)


def _surplus(path: str) -> int:
    if not path.endswith("/nr_hugepages"):
        return 0
    file = sys_path(path).with_name("surplus_hugepages")
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def _unmount(change: Change, announce: Announce) -> Change | None:
    folder = change.after
    if any(mount.folder == folder for mount in hugetlb.mounts()):
        try:
            done = subprocess.run(["umount", folder], capture_output=True, text=True, check=False)
            why = done.stderr.strip() if done.returncode else None
        except OSError as error:
            why = f"umount: {error.strerror}"
        if why is not None:
            announce(f"cannot unmount {folder}: {why}; 'tlbcost pool restore' tries again")
            return change
    with contextlib.suppress(OSError):
        Path(sys_path(folder)).rmdir()
    return None
