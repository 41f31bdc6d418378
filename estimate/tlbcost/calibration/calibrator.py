# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of the calibrator, the load on the machine during the run, and the lock around it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats, units
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.files import lock_file
from tlbcost.common.formats import Table, count, parse_table
from tlbcost.common.paths import libexec
from tlbcost.common.sudo import as_calling_user
from tlbcost.system.hints import cannot_run
from tlbcost.system.machine import cpu_ticks, read_line

# The calibrator keeps to its time limit; one that takes this much longer hangs.
_GRACE_S = 40
# Interrupted timings are taken again, so that half of the time is enough for most figures; but the
# caches and TLBs are another task's after each of its turns: walks cost a third more.
_MOST_WAITED = 0.25
# Steal interrupts timings unseen. A few percent are usual, and medians bear it.
_MOST_STOLEN = 0.10
# From here on a figure that is missing is missing because of others.
_SOME = 0.05

_PATIENCE_VARIABLE = "TLBCOST_WAIT_S"
_PATIENCE_S, _MOST_PATIENCE_S = 20, 3600
_LOOKS, _LOOK_S = 4, 0.25
_POLL_S = 0.1
# A poor calibration of everything has 30 KiB.
_MOST_BYTES = 1 << 20


def run_calibrator(
    options: Sequence[str], limit_s: float, progress: Callable[[int], None] | None
) -> Table:
    """Run tlbcost-calibrate for `limit_s` seconds at most; its `samples` table.

    `progress` gets the percentage. Raises TlbcostError with the calibrator's own words and hint.
    However this ends, the calibrator has ended too.
    """
    program = libexec("tlbcost-calibrate")
    reader, writer = os.pipe()
    ends = ["--time-limit", f"{limit_s:.2f}", "--output", "-", "--progress-fd", str(writer)]
    try:
        # It writes to a pipe, so that no file is left if either of us is killed.
        process = subprocess.Popen(
            [program, *options, *ends],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[writer],
            text=True,
        )
    except OSError as error:
        os.close(reader)
        raise cannot_run(str(program), error) from error
    finally:
        os.close(writer)
    thread = threading.Thread(target=_follow, args=(reader, progress), daemon=True)
    thread.start()
    try:
        samples, complaint = process.communicate(timeout=limit_s + _GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise TlbcostError(
            f"cannot calibrate: the calibrator did not end within {limit_s + _GRACE_S:.0f} s",
            "try again when the machine is less busy",
        ) from error
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        thread.join(timeout=1)
    if process.returncode != 0:
        raise _failure(process.returncode, complaint)
    return parse_table(samples, "the calibrator's samples", formats.SAMPLES)


def _follow(reader: int, progress: Callable[[int], None] | None) -> None:
    with os.fdopen(reader, encoding="ascii", errors="replace") as lines:
        for line in lines:
            word, _, percent = line.strip().partition(" ")
            if progress and word == "progress" and percent.isdigit():
                progress(int(percent))


def _failure(code: int, complaint: str) -> TlbcostError:
    if code < 0:
        name = signal.Signals(-code).name
        hint = "end programs that use the memory" if name == "SIGKILL" else None
        return TlbcostError(f"cannot calibrate: the calibrator was killed by {name}", hint)
    message, hint = "cannot calibrate: no reason was given", None
    for line in complaint.splitlines():
        text = line.removeprefix("tlbcost: ")
        if text.startswith("hint: "):
            hint = text.removeprefix("hint: ")
        elif text:
            message = text
    return TlbcostError(message, hint, CANNOT_MEASURE if code == CANNOT_MEASURE else 1)


@dataclass(frozen=True, slots=True)
class Load:
    """Time that others took while the calibrator measured; None where the kernel reports none.

    The load average shows nothing of it: on two CPUs another task may keep one of them busy all
    the time and disturb nothing.
    """

    measured_ns: int
    waited_ns: int | None
    stolen_ns: int | None

    @property
    def waited_fraction(self) -> float | None:
        """Of the time, runnable but without a CPU."""
        return _share(self.waited_ns, self.measured_ns)

    @property
    def stolen_fraction(self) -> float | None:
        """Of the time, the hypervisor ran something else on the CPU."""
        return _share(self.stolen_ns, self.measured_ns)

    @property
    def reasons(self) -> tuple[str, ...]:
        waited, stolen = self.waited_fraction or 0.0, self.stolen_fraction or 0.0
        found = []
        if waited > _MOST_WAITED:
            found.append(f"the calibrator waited for a CPU {units.percent(waited)} of the time")
        if stolen > _MOST_STOLEN:
            found.append(f"the hypervisor took the CPU {units.percent(stolen)} of the time (steal)")
        return tuple(found)

    @property
    def disturbed(self) -> bool:
        return max(self.waited_fraction or 0.0, self.stolen_fraction or 0.0) > _SOME


def load_of(samples: Sequence[Table]) -> Load:
    return Load(
        sum(_key(table, "measured_ns") or 0 for table in samples),
        _sum([_key(table, "waited_ns") for table in samples]),
        _sum([_key(table, "stolen_ns") for table in samples]),
    )


def patience_s() -> int:
    """Seconds to wait for a quiet machine: TLBCOST_WAIT_S, else 20. Raises TlbcostError."""
    text = os.environ.get(_PATIENCE_VARIABLE) or str(_PATIENCE_S)
    if not (text.isascii() and text.isdigit()) or int(text) > _MOST_PATIENCE_S:
        raise TlbcostError(
            f"{_PATIENCE_VARIABLE} is {text!r}, not a number of seconds up to {_MOST_PATIENCE_S}",
            f"{_PATIENCE_VARIABLE}=0 to calibrate without waiting for a quiet machine",
            USAGE,
        )
    return int(text)


def wait_for_quiet(most_s: float, announce: Callable[[str], None]) -> bool:
    """Whether a CPU is free within `most_s` seconds; true if the kernel does not report it."""
    end = time.monotonic() + most_s
    announced = False
    while True:
        busy = _busy()
        if busy is None:
            return True
        if not announced:
            announced = True
            announce(f"the machine is busy (load: {busy}): waiting up to {most_s:.0f} s for quiet")
        if time.monotonic() >= end:
            return False


def _busy() -> str | None:
    """What keeps all CPUs busy, over one second, as words; None: nothing."""
    cpus = os.cpu_count() or 1
    others = []
    before = _stolen_fraction_since(None)
    for _ in range(_LOOKS):
        time.sleep(_LOOK_S)
        others.append(_others_running())
    known = [n for n in others if n is not None]
    running = statistics.median_low(known) if known else 0
    stolen = _stolen_fraction_since(before)[0]
    if running < cpus and stolen <= _MOST_STOLEN:
        return None
    words = f"{running} other runnable task{'' if running == 1 else 's'} on {cpus} CPU"
    return f"{words}{'' if cpus == 1 else 's'}, steal {units.percent(stolen)}"


def _others_running() -> int | None:
    """Runnable tasks but for us, now: '0.1 0.2 0.3 3/120 4711'."""
    words = (read_line("/proc/loadavg") or "").split()
    running = words[3].partition("/")[0] if len(words) > 3 else ""
    return max(0, int(running) - 1) if running.isdigit() else None


_Ticks = tuple[float, int, int]


def _stolen_fraction_since(before: _Ticks | None) -> _Ticks:
    """Share of all CPUs' time that was stolen since `before`; and their ticks: steal, and all."""
    ticks = cpu_ticks()
    if ticks is None:
        return 0.0, 0, 0
    stolen, whole = ticks[7], sum(ticks)
    if before is None or whole <= before[2]:
        return 0.0, stolen, whole
    return max(0, stolen - before[1]) / (whole - before[2]), stolen, whole


def _key(table: Table, name: str) -> int | None:
    text = table.header.get(name, "NA")
    return count(None if text == "NA" else text)


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(part: int | None, whole: int) -> float | None:
    return part / whole if part is not None and whole > 0 else None


class Turn:
    """Our turn: whether we `waited` for it, and what was `left` to us, if anything."""

    def __init__(self, fd: int | None, waited: bool, left: str) -> None:
        self._fd = fd
        self.waited = waited
        self.left = left

    def leave(self, text: str) -> None:
        """Leave a text for processes that wait now, not for later ones."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, text.encode(), 0)


@contextlib.contextmanager
def our_turn(path: Path, most_s: float, announce: Callable[[str], None]) -> Iterator[Turn]:
    """Wait until no other process has the lock on `path`; hold it during the block.

    A process that gets the lock at once calibrates. One that has waited finds the calibration in
    the cache, or what the other process left for it in the file: a poor one, which the cache does
    not keep. The file is removed afterwards; one that a killed process left behind is not locked,
    and the next process takes it over.

    If no lock is available (an unwritable folder, a file system without locks), or the other one
    has it for more than `most_s` seconds, it is our turn all the same.
    """
    with contextlib.ExitStack() as stack:
        fd, waited = _locked(path, most_s, announce)
        left = ""
        if fd is not None:
            stack.callback(os.close, fd)
            stack.callback(_remove, path, fd)
            if waited:
                left = _text(fd)
            with contextlib.suppress(OSError):
                if _is(path, fd):
                    os.ftruncate(fd, 0)
        yield Turn(fd, waited, left)


def _locked(path: Path, most_s: float, announce: Callable[[str], None]) -> tuple[int | None, bool]:
    end = time.monotonic() + most_s
    waited = False
    while True:
        fd = _open(path)
        if fd is None:
            return None, waited
        got = _lock(fd)
        while got is False and time.monotonic() < end:
            if not waited:
                waited = True
                announce("another tlbcost is calibrating this machine: waiting for it")
            time.sleep(_POLL_S)
            got = _lock(fd)
        if not got:
            os.close(fd)
            if got is False:
                announce("the other tlbcost does not end: measuring alongside it")
            return None, waited
        # Removed: its holder has finished, with or without a result for us.
        if _is(path, fd) or (waited and _text(fd)):
            return fd, waited
        os.close(fd)


def _lock(fd: int) -> bool | None:
    """Whether we have the lock now; None: this file system has none."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _open(path: Path) -> int | None:
    with as_calling_user(), contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return lock_file(path)
    return None


def _is(path: Path, fd: int) -> bool:
    with as_calling_user(), contextlib.suppress(OSError):
        return os.path.samestat(path.lstat(), os.fstat(fd))
    return False


def _remove(path: Path, fd: int) -> None:
    if _is(path, fd):
        with as_calling_user(), contextlib.suppress(OSError):
            path.unlink()


def _text(fd: int) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return os.pread(fd, _MOST_BYTES, 0).decode()
    return ""
