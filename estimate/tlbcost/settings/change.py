# SPDX-License-Identifier: GPL-2.0-or-later
"""How are the system's settings changed so that they are restored, whatever happens?

Pools are resized through sysfs, not by hugeadm, which also lowers nr_overcommit_hugepages when it
raises a pool (libhugetlbfs 2.23); nothing would restore that.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from tlbcost.common.cleanup import signals_deferred, signals_raise
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.common.progress import say
from tlbcost.common.sudo import calling_user
from tlbcost.settings import journal
from tlbcost.settings.journal import Announce, Change
from tlbcost.settings.undo import switch_thp, thp_enabled, undo, value
from tlbcost.system import hints, hugetlb
from tlbcost.system.machine import sys_path

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
        """Write a setting; one that already has this value is not touched.

        Raises TlbcostError, with exit code 4 if the kernel refuses.
        """
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
        hugetlb.check_spare(page_size_bytes, pages)
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
            what = hugetlb.describe(pages, page_size_bytes)
            raise TlbcostError(
                f"cannot reserve {what}: memory is fragmented, and there were only {got}",
                "reserve fewer; end programs that use memory; or reserve them at boot: "
                f"hugepagesz={hugetlb.size_name(page_size_bytes)} hugepages={pages} on the "
                "kernel's command line",
                CANNOT_MEASURE,
            )
        return got

    def mount_hugetlbfs(self, page_size_bytes: int) -> Path:
        """A hugetlbfs of this page size that the calling user can write to, mounted if need be.

        Raises TlbcostError, with exit code 4 if it cannot be mounted.
        """
        user = calling_user()
        for mount in reversed(hugetlb.mounts()):
            with contextlib.suppress(OSError):
                found = sys_path(mount.folder).stat()
                usable = user is None or found.st_uid == user.uid or found.st_mode & 0o002
                if mount.page_size_bytes == page_size_bytes and usable:
                    return Path(mount.folder)
        size = hugetlb.size_name(page_size_bytes)
        name = f"{journal.FOLDER}/hugetlbfs-{size}"
        if user is not None:
            name += f"-{user.uid}"
        owner = "" if user is None else f",uid={user.uid},gid={user.gid}"
        command = ["mount", "-t", "hugetlbfs", "-o", f"pagesize={size},mode=0700{owner}"]
        change = Change("mount", name, "", name, self._owner)
        self._do(change, lambda: _mount([*command, "tlbcost", name], name))
        return Path(name)

    def switch_thp(self, pid: int, start_ticks: int, *, on: bool) -> None:
        """Have a process switch transparent huge pages for itself; as it was, nothing is done.

        Raises TlbcostError, with exit code 4 if it may not be traced.
        """
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
        """Changes made here stay when we leave, until 'tlbcost pool restore'.

        Raises TlbcostError if that cannot be recorded; then they do not stay.
        """
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
        """Undo the changes made here, except those kept; also done on leaving."""
        if not self._outlives:
            self._undo(lambda _, change: change.owner == self._owner and not change.kept)

    def restore_left(self, *, kept: bool = False) -> int:
        """Undo the changes of killed tlbcosts, and with `kept` also those meant to stay.

        Returns the number of changes that cannot be undone now.
        """

        def left(change: Change) -> bool:
            return (kept and change.kept) or (not change.kept and not change.owner.alive())

        killed = {each.owner.pid: each.owner for each in self._changes if left(each)}
        for owner in killed.values():
            self._announce(f"undoing what process {owner.pid} changed ({owner.command})")
        self._undo(lambda _, change: left(change))
        return sum(left(change) for change in self._changes)

    def _do(self, change: Change, act: Callable[[], None]) -> None:
        """Record a change, make it, and record the result."""
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
        files = hugetlb.size_files(page_size_bytes)
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
