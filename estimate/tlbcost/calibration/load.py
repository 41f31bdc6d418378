# SPDX-License-Identifier: GPL-2.0-or-later
"""Did others disturb the calibrator, and when is the machine quiet again?

The witness is what the calibrator itself waited for its CPU, and the CPU's steal. The load average
is none: on two CPUs another task may keep one of them busy all the time and disturb nothing.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tlbcost.common import units
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.table import Table, count
from tlbcost.system.machine import read_line, read_text

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


@dataclass(frozen=True, slots=True)
class Load:
    """What others took while the calibrator measured; None: the kernel does not report it."""

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
        """Why figures measured during that time are not to be trusted; empty: they are."""
        waited, stolen = self.waited_fraction or 0.0, self.stolen_fraction or 0.0
        found = []
        if waited > _MOST_WAITED:
            found.append(f"the calibrator waited for a CPU {units.percent(waited)} of the time")
        if stolen > _MOST_STOLEN:
            found.append(f"the hypervisor took the CPU {units.percent(stolen)} of the time (steal)")
        return tuple(found)

    @property
    def disturbed(self) -> bool:
        """Whether others took enough time that figures may be missing because of it."""
        return max(self.waited_fraction or 0.0, self.stolen_fraction or 0.0) > _SOME


def load_of(samples: Sequence[Table]) -> Load:
    """What the headers of the calibrator's samples say, together."""
    return Load(
        sum(_key(table, "measured_ns") or 0 for table in samples),
        _sum([_key(table, "waited_ns") for table in samples]),
        _sum([_key(table, "stolen_ns") for table in samples]),
    )


def patience_s() -> int:
    """How long to wait for a quiet machine, in s: TLBCOST_WAIT_S, else 20.

    Raises TlbcostError if the variable is no such number.
    """
    text = os.environ.get(_PATIENCE_VARIABLE) or str(_PATIENCE_S)
    if not (text.isascii() and text.isdigit()) or int(text) > _MOST_PATIENCE_S:
        raise TlbcostError(
            f"{_PATIENCE_VARIABLE} is {text!r}, not a number of seconds up to {_MOST_PATIENCE_S}",
            f"{_PATIENCE_VARIABLE}=0 to calibrate without waiting for a quiet machine",
            USAGE,
        )
    return int(text)


def wait_for_quiet(most_s: float, announce: Callable[[str], None]) -> bool:
    """Wait until a CPU is free, `most_s` seconds at most; whether one is.

    `announce` gets a sentence if there is anything to wait for. A kernel that does not report what
    runs is taken for quiet.
    """
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
    line = (read_text("/proc/stat") or "").partition("\n")[0].split()
    # user nice system idle iowait irq softirq steal; guests' time is in the first two.
    ticks = [int(word) for word in line[1:9] if word.isdigit()]
    if len(ticks) < 8:
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
