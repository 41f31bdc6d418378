# SPDX-License-Identifier: GPL-2.0-or-later
"""Are first touches of memory as slow as an estimate says, when memory is fragmented?

Writes doc/stalls.md. Ten states of memory (bench/fragment.c): whole huge pages that are free,
others of which every other base page is, movable or locked, and the kernel's `defrag`. In each,
what an estimate would say, and what three programs see that time their own touches.
As root, with 5 GiB free; seven minutes, in which a pool of huge pages holds the rest of memory. All
settings are put back. Exits 1 if fewer than 8 in 10 shares on huge pages are as predicted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tlbcost.common.cleanup import until_stopped
from tlbcost.common.gnuplot import draw_by
from tlbcost.measured.fault_times import fault_times, printed, recorder
from tlbcost.memory.first_touch import Stalls, first_touches
from tlbcost.settings.change import Settings, system_settings
from tlbcost.system.machine import THP, meminfo_bytes

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "stalls.md"
BEGIN, END = "<!-- stalls: begin -->\n", "<!-- stalls: end -->\n"
# States stay as they are: the host takes larger blocks alone, locked pages do not move, and nothing
# is compacted in the background. A kernel may not have all of these.
STEADY = {
    "/sys/module/page_reporting/parameters/page_reporting_order": "10",
    "/proc/sys/vm/compact_unevictable_allowed": "0",
    "/proc/sys/vm/compaction_proactiveness": "0",
}
HUGE, LEFT, RESERVE, PROGRAM = 2 << 20, 3 << 30, 300 << 20, 512 << 20
# Whole huge pages that are free, split ones, locked, defrag.
STATES = (
    (450, 0, False, "madvise"),
    (256, 300, False, "madvise"),
    (128, 600, False, "madvise"),
    (64, 700, False, "madvise"),
    (0, 900, False, "madvise"),
    (128, 600, True, "madvise"),
    (0, 900, True, "madvise"),
    (64, 700, False, "defer"),
    (64, 700, False, "never"),
    (64, 700, False, "always"),
)
# By what they are compared with. The first runs twice: how far do the states themselves differ?
PROGRAMS = {"predicted": ("plain", "plain", "arenas"), "predicted, forked": ("forked",)}
# Factors for p99, p99.9 and the worst; points of the share on huge pages.
FACTORS, POINTS = (1.5, 1.5, 3.0), 0.10


@dataclass(frozen=True, slots=True)
class Touches:
    """What a program saw: times in ns, the share of its memory on huge pages."""

    p99: int
    p999: int
    worst: int
    share: float
    total_ns: int


class Fragmenter:
    """Memory in a state; the process holds it."""

    def __init__(self, tool: str, touches: str) -> None:
        self.touches, self.made = touches, False
        self.process = subprocess.Popen(
            [tool, str(RESERVE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def make(self, whole: int, split: int, locked: bool) -> None:
        """Bring memory into a state, all of it at hand: a host may have taken what was free."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.made:
            run(self.touches, "plain", "base")
        self.process.stdin.write(f"{whole} {split} {int(locked)}\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise SystemExit("fragment made no state: is there too little memory?")
        self.made = True

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def run(tool: str, program: str, size: str, recorder: Sequence[str] = ()) -> Touches:
    words = [*recorder, tool, program, str(PROGRAM), size]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *times, total, huge = done.stdout.splitlines()
    sorted_ns = sorted(map(int, times))
    n = len(sorted_ns)
    return Touches(
        sorted_ns[n * 99 // 100], sorted_ns[n * 999 // 1000], sorted_ns[-1],
        int(huge.split()[1]) / PROGRAM, int(total.split()[1]),
    )  # fmt: skip


def timed(tool: str, folder: Path) -> float:
    """What an estimate's own timing of a program's faults is off, at most: p99, p99.9 and worst."""
    file = folder / "faults.data"
    own = run(tool, "plain", "huge", recorder(file))
    # The program times the first touch of each huge page, in which the long faults are.
    slowest = sorted(fault_times(printed(file)), reverse=True)[: PROGRAM // HUGE]
    n = len(slowest)
    pairs = (
        (own.p99, slowest[n - 1 - n * 99 // 100]),
        (own.p999, slowest[n - 1 - n * 999 // 1000]),
        (own.worst, slowest[0]),
    )
    return max(abs(x - y) / x for x, y in pairs)


def row(touches: Touches) -> str:
    times = (touches.p99, touches.p999, touches.worst)
    return " | ".join([*map(ms, times), f"{100 * touches.share:.0f} %"])


def ms(ns: int) -> str:
    return f"{ns / 1e6:.2f}"


def predicted(said: Stalls | None, *, forked: bool) -> Touches:
    """The same of an estimate; the total is how much longer huge pages take."""
    if said is None or said.huge is None or said.huge_fraction is None:
        raise SystemExit("no first touches were obtained")
    base, huge = said.base, said.huge
    # The other base pages of what came onto none, of which one page was touched.
    rest = round((1 - said.huge_fraction) * (base.touches - huge.touches))
    if forked:
        if said.base_forked is None or said.huge_forked is None:
            raise SystemExit("the calibrator could not fork")
        base, huge, rest = said.base_forked, said.huge_forked, 0
    if base.total_ns is None or huge.total_ns is None:
        raise SystemExit("the calibrator is an earlier one")
    longer = huge.total_ns - base.total_ns + rest * base.total_ns // base.touches
    return Touches(huge.p99_ns, huge.p999_ns, huge.worst_ns, said.huge_fraction, longer)


def alike(one: Touches, other: Touches) -> list[bool]:
    """Whether p99, p99.9, the worst and the share are within their limits."""
    pairs = ((one.p99, other.p99), (one.p999, other.p999), (one.worst, other.worst))
    near = [
        max(pair) <= factor * max(min(pair), 1) for pair, factor in zip(pairs, FACTORS, strict=True)
    ]
    return [*near, abs(one.share - other.share) <= POINTS]


def measure(settings: Settings, folder: Path) -> tuple[list[str], bool]:
    """Lines of the page, and whether enough shares on huge pages are as predicted."""
    tools = {}
    for name in ("fragment", "touches"):
        tools[name] = str(folder / name)
        subprocess.run(
            ["cc", "-O2", "-o", tools[name], str(TREE / f"bench/{name}.c")], check=True
        )  # fmt: skip
    lines = [
        "| free, split | defrag | program | p99 | p99.9 | worst | on huge pages | all touches |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    results: list[list[bool]] = []
    again: list[list[bool]] = []
    shares: list[list[str]] = []
    errors: list[float] = []
    fragmenter = Fragmenter(tools["fragment"], tools["touches"])
    try:
        # A host may have taken the memory of the first state.
        fragmenter.make(*STATES[0][:3])
        for whole, split, locked, defrag in STATES:
            with settings.temporarily():
                settings.write(f"{THP}/defrag", defrag)
                fragmenter.make(whole, split, locked)
                found = first_touches(PROGRAM, ended=True)
                state = f"{whole}, {split}{' locked' if locked else ''} | {defrag}"
                seen: list[Touches] = []
                for words, programs in PROGRAMS.items():
                    said = predicted(found, forked=programs == ("forked",))
                    lines.append(f"| {state} | {words} | {row(said)} | |")
                    print(lines[-1], flush=True)
                    for program in programs:
                        fragmenter.make(whole, split, locked)
                        seen.append(run(tools["touches"], program, "huge"))
                        fragmenter.make(whole, split, locked)
                        base = run(tools["touches"], program, "base")
                        slower = seen[-1].total_ns > base.total_ns
                        results.append([*alike(said, seen[-1]), (said.total_ns > 0) == slower])
                        totals = f"{ms(seen[-1].total_ns)} (base {ms(base.total_ns)})"
                        lines.append(f"| | | {program} | {row(seen[-1])} | {totals} |")
                        print(lines[-1], results[-1], flush=True)
                parts = [str(100 * each.share) for each in (said, *seen)]
                shares.append([state.replace(" | ", ", "), *parts])
                again.append(alike(*seen[:2]))
                if shutil.which("perf"):
                    fragmenter.make(whole, split, locked)
                    errors.append(timed(tools["touches"], folder))
                    print(f"timed by an estimate: {100 * errors[-1]:.1f} % off", flush=True)
    finally:
        fragmenter.end()
    names = ("p99", "p99.9", "the worst", "the share on huge pages", "which size is touched faster")
    right = [sum(each[i] for each in results) for i in range(len(names))]
    lines += [
        "",
        f"Times in ms. Within their limits, of {len(results)}: "
        + ", ".join(f"{name} {n}" for name, n in zip(names, right, strict=True))
        + ". Two runs of the same program in the same state agree as far, of "
        f"{len(again)}: "
        + ", ".join(f"{name} {sum(each[i] for each in again)}" for i, name in enumerate(names[:4]))
        + ".",
    ]
    if errors:
        lines[-1] += (
            " p99, p99.9 and the worst of the faults of one run, timed by an estimate and by the "
            f"program, differ by {100 * median(errors):.1f} % at most in half of {len(errors)} "
            f"runs, and by {100 * max(errors):.1f} % in the worst."
        )
    print(lines[-1])
    draw_by("stalls.gp", PAGE.with_suffix(".png"), {"states": len(shares)}, {"shares": shares})
    return lines, right[3] >= 0.8 * len(results)


def main() -> int:
    if os.geteuid() != 0:
        print("stalls: as root alone", file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory() as folder, system_settings() as settings:
        for path, text in STEADY.items():
            if Path(path).exists():
                settings.write(path, text)
        rest = (meminfo_bytes("MemAvailable") or 0) - LEFT
        settings.reserve(HUGE, max(rest // HUGE, 0), least=0)
        lines, enough = measure(settings, Path(folder))
    text = PAGE.read_text(encoding="utf-8")
    head, _, tail = text.partition(BEGIN)
    _, _, tail = tail.partition(END)
    PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail, encoding="utf-8")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(until_stopped(main))
