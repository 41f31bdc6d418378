# SPDX-License-Identifier: GPL-2.0-or-later
"""Change the system's settings so that they are restored, whatever happens, unless others changed
them since.

Pools are resized through sysfs, not by hugeadm, which also lowers nr_overcommit_hugepages when it
raises a pool (libhugetlbfs 2.23); nothing would restore that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.cleanup import signals_deferred, signals_raise
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.paths import sys_path
from tlbcost.common.progress import say
from tlbcost.common.sudo import calling_user
from tlbcost.settings import journal
from tlbcost.settings.journal import Announce, Change, Owner
from tlbcost.system import hints, huge_pages
from tlbcost.system.process import below_root, children, start_ticks, status, thp_enabled

_WAIT_S = 30.0
_COMPACT = "/proc/sys/vm/compact_memory"


@contextlib.contextmanager
def system_settings(announce: Announce = say, wait_s: float = _WAIT_S) -> Iterator[Settings]:
    """The right to change settings: changes are undone on leaving, however that happens.

    First undoes the changes of a killed tlbcost. Only from the main thread, and as root. Raises
    TlbcostError, with exit code 4 without them or if another tlbcost does not end within `wait_s`
    seconds, and 1 if the journal cannot be read or written.
    """
    if os.geteuid() != 0 and not os.environ.get("TLBCOST_ROOT"):
        raise TlbcostError(
            "cannot change this system's settings: that needs root",
            hints.again_as_root(),
            CANNOT_MEASURE,
        )
    with contextlib.ExitStack() as stack:
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            stack.enter_context(signals_raise())
        stack.enter_context(journal.lock(announce, wait_s))
        settings = Settings(announce)
        settings.restore_left()
        try:
            yield settings
        finally:
            settings.restore()


class Settings:
    """The system's settings, for the one that holds the lock: see system_settings.

    `found`: there were changes of any tlbcost in this boot that were not undone.
    """

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._changes = journal.read_journal()
        self._owner = journal.myself()
        self.found = bool(self._changes)
        self._outlives = False

    def write(self, path: str, text: str) -> None:
        """Write a setting, if it differs. Raises TlbcostError, 4 if the kernel refuses."""
        before = self._read(path)
        if before == text:
            return
        self._do(Change("write", path, before, text, self._owner), lambda: self._put(path, text))

    @contextlib.contextmanager
    def temporarily(self) -> Iterator[None]:
        """Changes within it are undone at its end; earlier changes stay."""
        first = len(self._changes)
        try:
            yield
        finally:
            self._undo(lambda index, _: index >= first)

    def reserve(self, page_size_bytes: int, pages: int, least: int | None = None) -> int:
        """Add pages to a pool; returns how many we have now: `pages`.

        With `least`, between that and `pages`. Raises TlbcostError with exit code 4 if there are
        fewer, and then none is kept.
        """
        huge_pages.check_spare(page_size_bytes, pages)
        first = len(self._changes)
        try:
            got = self._grow(page_size_bytes, pages)
            if got < pages:
                self._announce(f"{got} of {pages} huge pages at once; memory is compacted for more")
                with contextlib.suppress(OSError):
                    # A request, not a setting: there is nothing to restore.
                    sys_path(_COMPACT).write_text("1", encoding="utf-8")
                got += self._grow(page_size_bytes, pages - got)
        except BaseException:
            self._undo(lambda index, _: index >= first)
            raise
        if got < (pages if least is None else least):
            self._undo(lambda index, _: index >= first)
            what = huge_pages.describe(pages, page_size_bytes)
            raise TlbcostError(
                f"cannot reserve {what}: memory is fragmented, and there were only {got}",
                "reserve fewer; end programs that use memory; or reserve them at boot: "
                f"hugepagesz={huge_pages.size_name(page_size_bytes)} hugepages={pages} on the "
                "kernel's command line",
                CANNOT_MEASURE,
            )
        return got

    def mount_hugetlbfs(self, page_size_bytes: int) -> Path:
        """A hugetlbfs of this page size that the calling user can write to, mounted if need be.

        Raises TlbcostError, with exit code 4 if it cannot be mounted.
        """
        user = calling_user()
        for mount in reversed(huge_pages.mounts()):
            with contextlib.suppress(OSError):
                found = sys_path(mount.folder).stat()
                usable = user is None or found.st_uid == user.uid or found.st_mode & 0o002
                if mount.page_size_bytes == page_size_bytes and usable:
                    return Path(mount.folder)
        size = huge_pages.size_name(page_size_bytes)
        name = f"{journal.FOLDER}/hugetlbfs-{size}"
        if user is not None:
            name += f"-{user.uid}"
        owner = "" if user is None else f",uid={user.uid},gid={user.gid}"
        command = ["mount", "-t", "hugetlbfs", "-o", f"pagesize={size},mode=0700{owner}"]
        change = Change("mount", name, "", name, self._owner)
        self._do(change, lambda: _mount([*command, "tlbcost", name], name))
        return Path(name)

    def switch_thp(self, pid: int, start_ticks: int, *, on: bool) -> None:
        """Switch THP for a process, if need be. Raises TlbcostError, 4 if it may not be traced."""
        before, after = thp_enabled(pid), "1" if on else "0"
        if before in (None, after):
            return
        change = Change("thp", f"{pid} {start_ticks}", before or "", after, self._owner)
        try:
            self._do(change, partial(switch_thp, pid, after))
        except OSError as error:
            raise TlbcostError(
                f"cannot switch huge pages of process {pid}: {error.strerror}", None, CANNOT_MEASURE
            ) from error

    def outlive(self) -> None:
        """Changes made here stay when we leave, until our process opens its settings once more and
        leaves them without this, or has ended: then any tlbcost undoes them.
        """
        self._outlives = True

    def keep(self) -> None:
        """Changes stay until 'tlbcost pool restore', unless this raises TlbcostError."""
        with signals_deferred():
            before = list(self._changes)
            self._changes = [
                replace(change, kept=True) if change.owner == self._owner else change
                for change in before
            ]
            try:
                self._save()
            except TlbcostError:
                self._changes = before
                raise

    def restore(self) -> None:
        if not self._outlives:
            self._undo(lambda _, change: change.owner == self._owner and not change.kept)

    def restore_left(self, *, kept: bool = False) -> int:
        """Undo changes of killed tlbcosts, or all; returns how many cannot be undone now."""

        def left(change: Change) -> bool:
            return (kept and change.kept) or (not change.kept and not change.owner.alive())

        killed = {each.owner.pid: each.owner for each in self._changes if left(each)}
        for owner in killed.values():
            self._announce(f"undoing what process {owner.pid} changed ({owner.command})")
        self._undo(lambda _, change: left(change))
        return sum(left(change) for change in self._changes)

    def _do(self, change: Change, act: Callable[[], None]) -> None:
        self._changes.append(change)
        index = len(self._changes) - 1
        try:
            self._save()
        except TlbcostError:
            del self._changes[index]
            raise
        act()
        after = self._read(change.path) if change.kind == "write" else change.after
        self._changes[index] = replace(change, after=after, done=True)
        with contextlib.suppress(TlbcostError):
            # The journal on disk is enough to undo it.
            self._save()

    def _undo(self, chosen: Callable[[int, Change], bool]) -> None:
        """Undo the chosen changes, the latest first; signals to end wait for it."""
        with signals_deferred():
            left: list[Change] = []
            for index in reversed(range(len(self._changes))):
                change: Change | None = self._changes[index]
                assert change is not None
                if chosen(index, change):
                    change = undo(change, self._announce)
                if change is not None:
                    left.insert(0, change)
            undone = left != self._changes
            self._changes = left
            if undone:
                try:
                    journal.write_journal(left)
                except OSError as error:
                    self._announce(
                        f"{sys_path(journal.FOLDER)} cannot be written ({error.strerror}): what "
                        "was restored is still recorded there; 'tlbcost pool restore' fixes that"
                    )

    def _save(self) -> None:
        try:
            journal.write_journal(self._changes)
        except OSError as error:
            raise journal.unwritable(error) from error

    def _grow(self, page_size_bytes: int, pages: int) -> int:
        """Add pages, as evenly over memory nodes as possible; returns how many there were."""
        files = huge_pages.size_files(page_size_bytes)
        missing = pages
        shares = [(file, len(files) - i) for i, file in enumerate(files)]
        for file, parts in [*shares, *((file, 1) for file in files[: len(files) - 1])]:
            wanted = -(-missing // parts)
            if wanted <= 0:
                continue
            # The written number is that of permanent pages; the kernel first turns surplus pages
            # into these, so they are counted here and subtracted in `value`.
            now = int(sys_path(file).read_text(encoding="utf-8"))
            text = str(now + wanted)
            change = Change("write", file, self._read(file), text, self._owner)
            self._do(change, partial(self._put, file, text))
            missing -= int(sys_path(file).read_text(encoding="utf-8")) - now
        return pages - missing

    def _read(self, path: str) -> str:
        try:
            return value(path)
        except OSError as error:
            raise TlbcostError(
                f"cannot read {path}: {error.strerror}", None, CANNOT_MEASURE
            ) from error

    def _put(self, path: str, text: str) -> None:
        try:
            sys_path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise TlbcostError(
                f"cannot write {text} to {path}: {error.strerror}",
                "run tlbcost on the host, or in a container that may change settings",
                CANNOT_MEASURE,
            ) from error


def _mount(command: list[str], name: str) -> None:
    if os.environ.get("TLBCOST_ROOT"):
        raise TlbcostError("cannot mount hugetlbfs: TLBCOST_ROOT is set", "unset TLBCOST_ROOT")
    try:
        Path(name).mkdir(mode=0o755, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        words = done.stderr.strip().splitlines() if done.returncode else None
    except OSError as error:
        words = [f"{error.filename}: {error.strerror}"]
    if words is not None:
        raise TlbcostError(
            f"cannot mount hugetlbfs: {re.sub('^mount: ', '', (words or ['mount failed'])[-1])}",
            None,
            CANNOT_MEASURE if os.geteuid() == 0 else FAILED,
        )


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
            if "VmSize" not in status(below_root(process)):
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
    for child in children(pid) or ():
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
    if any(mount.folder == folder for mount in huge_pages.mounts()):
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
