# SPDX-License-Identifier: GPL-2.0-or-later
"""How is one change to the system undone, without undoing what somebody else did since?"""

from __future__ import annotations

import contextlib
import errno
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.cleanup import signals_deferred
from tlbcost.settings.journal import Announce, Change, Owner, start_ticks
from tlbcost.system import hugetlb
from tlbcost.system.machine import read_text, sys_path


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
    way = {"mount": _unmount, "thp": _switch_back, "write": _write_back}[change.kind]
    return way(change, announce)


def thp_enabled(pid: int) -> str | None:
    """Whether a process may have transparent huge pages, "0" or "1"; None: not known, or gone."""
    found = re.search(
        r"^THP_enabled:\s+([01])", read_text(f"/proc/{pid}/status") or "", re.MULTILINE
    )
    return None if found is None else found[1]


def switch_thp(pid: int, value: str) -> None:
    """Have a process switch that itself. Raises OSError, with the reason of what does it."""
    words = [
        str(paths.libexec("tlbcost-thp")),
        "--pid",
        str(pid),
        "--switch",
        "on" if value == "1" else "off",
    ]
    # Killed in the middle it would leave a thread with registers of ours.
    with signals_deferred():
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        why = done.stderr.strip().rpartition(": ")[2].lower() or f"exit code {done.returncode}"
        raise OSError(errno.EPERM, why)


def _switch_back(change: Change, announce: Announce) -> Change | None:
    pid, start = (int(number) for number in change.path.split())
    if not Owner(pid, start, "").alive():
        return None
    left = None
    for process in (pid, *_started(pid, change.owner.start_ticks)):
        if thp_enabled(process) in (None, change.before):
            continue
        try:
            switch_thp(process, change.before)
        except OSError as error:
            if "VmSize" not in (read_text(f"/proc/{process}/status") or ""):
                # It has ended.
                continue
            announce(
                f"cannot switch huge pages of process {process} "
                f"{'on' if change.before == '1' else 'off'} again: {error.strerror}; "
                "'tlbcost pool restore' tries again"
            )
            left = change
    return left


def _started(pid: int, since: int) -> list[int]:
    """What a process, and all below it, started since then: these inherited its switch."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        children = [int(word) for word in (read_text(str(path)) or "").split()]
        for child in children:
            if (start_ticks(child) or 0) >= since:
                found += [child, *_started(child, since)]
    return found


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
