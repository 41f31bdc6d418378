# SPDX-License-Identifier: GPL-2.0-or-later
"""The layouts of perf 4.19 to 6.19, in any locale and mode: what was written is what is read."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from builders.counting import read, value
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.importing.file import import_file

COUNTS = {
    "cycles": 8_800_118_204, "instructions": 999_000, "dtlb_load_misses.walk_active": 902_118_204,
    "dtlb_store_misses.walk_active": 61_118, "r1531085": 12_118_204, "page-faults": 645,
}  # fmt: skip
CLOCK_NS = 16_061_920_000
# What is between thousands, and before decimals.
LOCALES = {
    "C": ("", "."), "en": (",", "."), "de": (".", ","), "fr": ("\u202f", ","),
    "sv": ("\u00a0", ","), "ch": ("\u2019", "."), "pasted": (" ", ","),
}  # fmt: skip
CPUS = ("CPU0", "CPU1")
CORES = ("S0-D0-C0", "S0-D0-C1")
THREADS = ("GC Thread#0-8812", "VM Periodic Tas-8820", "Web Content-77", "http-nio-8080-e-9")
MODES = {
    "plain": ("",), "cpu": CPUS, "core": CORES, "thread": THREADS, "interval": ("",),
    "interval-thread": THREADS, "repeat": ("",), "cgroup": ("",),
}  # fmt: skip
VERSIONS = ("4.19", "6.1", "6.8", "6.19")
CASES = [
    case
    for case in itertools.product(VERSIONS, ("text", "csv", "json"), MODES)
    if case[:2] != ("4.19", "json")
]


def printed(number: float, decimals: int, locale: str) -> str:
    thousands, point = LOCALES[locale]
    return f"{number:,.{decimals}f}".replace(".", "\0").replace(",", thousands).replace("\0", point)


def cells(mode: str) -> list[tuple[str, str, str, int]]:
    """Time, part, event and count of each row; the counts of an event add up to the known ones."""
    times = ["1.000123456", "2.000234567"] if mode.startswith("interval") else [""]
    places = [(time, part) for time in times for part in MODES[mode]]
    found = []
    for (i, (time, part)), (event, count) in itertools.product(
        enumerate(places), {"task-clock": CLOCK_NS, **COUNTS}.items()
    ):
        # Parts of milliseconds have no more decimals than perf prints.
        own = count // len(places) // 10_000 * 10_000
        found.append((time, part, event, own if i else count - own * (len(places) - 1)))
    return found


def clock(version: str, count: int) -> tuple[float, int, str]:
    """The number, its decimals and its unit."""
    return (count, 0, "") if version == "6.19" else (count / 1e6, 6 if version < "5" else 2, "msec")


def text(version: str, locale: str, mode: str) -> str:
    runs = " (3 runs)" if mode == "repeat" else ""
    intervals = mode.startswith("interval")
    lines = [f" Performance counter stats for './app --n 4'{runs}:", ""]
    if intervals:
        lines = ["#           time             counts unit events"]
    for time, part, event, count in cells(mode):
        number, decimals, unit = float(count), 0, ""
        if event == "task-clock":
            number, decimals, unit = clock(version, count)
        name = event
        if unit and version < "5":
            name, unit = f"{event} (msec)", ""
        head = f"{time:>16} " if time else ""
        head += f"{part:>24} " if mode.endswith("thread") else f"{part:<18} " if part else ""
        head += "   2 " if mode == "core" else ""
        # Without grouping, as the first versions print what has a unit.
        shown = printed(number, decimals, "C" if decimals == 6 else locale)
        if decimals == 6:
            shown = shown.replace(".", LOCALES[locale][1])
        row = f"{head}{shown:>18} {unit:<4} {name:<32}"
        row += f" {'/app.slice/db-1':<16}" if mode == "cgroup" else ""
        row += (
            f" # {printed(1.25, 2, locale):>8}  insn per cycle" if event == "instructions" else ""
        )
        row += f"  #  {printed(0.4, 1, locale)} %  dtlb_miss_rate" if version == "6.19" else ""
        row += f"  ( +- {printed(0.09, 2, locale)}% )" if runs else ""
        lines.append(f"{row}  ({printed(83.33, 2, locale)}%)")
        if event == "instructions":
            stalls = printed(0.15, 2, locale)
            lines.append(f"{head}{'':>50} #   {stalls}  stalled cycles per insn")
    if version > "6.2":
        for name, share in {"TopdownL1": 20.1, "": 4.1}.items():
            lines.append(
                f"{head}{name:>33} {'':<17} #  {printed(share, 1, locale)} %  tma  (88.9%)"
            )
    if not intervals:
        elapsed = "2.202118330 +- 0.0012" if runs else "2.202118330"
        lines += ["", f"{elapsed.replace('.', LOCALES[locale][1]):>18} seconds time elapsed", ""]
        lines += ["Some events weren't counted. Try disabling the NMI watchdog:", "\tperf stat ..."]
    return "\n".join(lines) + "\n"


def csv(version: str, locale: str, mode: str, sign: str) -> str:
    lines = ["# started on Mon Aug 17 19:32:35 2026", ""]
    point = LOCALES[locale][1]
    for time, part, event, count in cells(mode):
        number, decimals, unit = float(count), 0, ""
        if event == "task-clock":
            number, decimals, unit = clock(version, count)
        head = [each for each in (f"{time:>16}" if time else "", part) if each]
        head += ["2"] if mode == "core" else []
        unit = "" if decimals == 6 else unit
        row = [f"{number:.{decimals}f}".replace(".", point), unit, event]
        row += ["/app.slice/db-1"] if mode == "cgroup" else []
        row += [f"0{point}09%"] if mode == "repeat" else []
        row += ["493001128", f"83{point}33", f"1{point}62", "insn per cycle"]
        lines.append(sign.join(head + row))
        if event == "instructions":
            lines.append(sign.join([*head, *[""] * 5, f"0{point}15", "stalled cycles per insn"]))
    return "\n".join(lines) + "\n"


def json(version: str, locale: str, mode: str) -> str:
    lines = []
    point = LOCALES[locale][1]
    key = {"cpu": "cpu", "core": "core"}.get(mode, "thread")
    for time, part, event, count in cells(mode):
        number, unit = float(count), ""
        if event == "task-clock":
            number, _, unit = clock(version, count)
        head = f'"interval" : {time}, ' if time else ""
        head += f'"{key}" : "{part}", ' if part else ""
        group = '"cgroup" : "/app.slice/db-1", ' if mode == "cgroup" else ""
        noise = f'"variance" : 0{point}09, ' if mode == "repeat" else ""
        shown = f"{number:.6f}".replace(".", point)
        lines.append(
            f'{{{head}"counter-value" : "{shown}", "unit" : "{unit}", "event" : "{event}", {group}'
            f'{noise}"event-runtime" : 493001128, "pcnt-running" : 83{point}33, '
            f'"metric-value" : -nan, "metric-unit" : "insn per cycle"}}'
        )
    lines.append('{"metric-value" : "20.1", "metric-unit" : "%  tma_backend_bound"}')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(("version", "form", "mode"), CASES)
def test_what_was_printed_is_read(version: str, form: str, mode: str, locale: str) -> None:
    texts = {"text": [text(version, locale, mode)] if form == "text" else []}
    texts["csv"] = [csv(version, locale, mode, sign) for sign in ",;"] if form == "csv" else []
    texts["json"] = [json(version, locale, mode)] if form == "json" else []
    for written in texts[form]:
        commented = "".join(f"# {line}\n" for line in written.splitlines())
        for found in (read(written), read(commented)):
            assert {c.event: c.value for c in found.counts} == {
                "task-clock": CLOCK_NS, **COUNTS
            }, written  # fmt: skip
            assert found.values()["task_clock_ns"] == CLOCK_NS
            assert found.values()["walk_active_cycles.fetch"] == COUNTS["r1531085"]
            assert {c.running_fraction for c in found.counts} == {0.8333}
            assert not any("no counts" in note for note in found.notes)
            if form == "text" and "seconds time" in written:
                assert found.wall_ns == 2202118330


TITLE = " Performance counter stats for './app':\n\n"


def test_lines_that_nobody_knows_are_skipped_and_said_once() -> None:
    row = "     1,000      cycles\n"
    found = read(f"{TITLE}{row}progress: 42 done!\nready\n{row.replace('cycles', 'faults')}")
    assert value(found, "cycles") == value(found, "faults") == 1000
    assert found.notes == ("2 lines are no counts and were left out, first 4: progress: 42 done!",)
    found = read("hello, world\n5,,cycles,1,100.00,,\nready\n")
    assert found.notes == ("2 lines are no counts and were left out, first 1: hello, world",)
    found = read('ready\n{"counter-value" : "5", "event" : "cycles"}\n')
    assert found.notes == ("1 lines are no counts and were left out, first 1: ready",)


@pytest.mark.parametrize("damaged", ["1,000;  cycles  # 3", "     1,0"])
def test_what_is_left_of_a_count_is_refused(damaged: str) -> None:
    with pytest.raises(TlbcostError, match="file:4: expected a count"):
        read(f"{TITLE}     1,000      cycles\n{damaged}\n")


def test_a_command_may_look_like_the_end_of_a_title() -> None:
    found = read(
        " Performance counter stats for 'python3 -c if x == 'a':\n  y = 1\nprint(y)' (3 runs):\n\n"
        "     1,000      cycles\n"
    )
    assert found.command == "python3 -c if x == 'a':\n  y = 1\nprint(y)"
    assert found.notes == ("the counts are means over 3 runs",)


def test_two_outputs_of_one_command_are_repeats() -> None:
    found = read(f"{TITLE}     1,000      cycles\n\n{TITLE}     1,020      cycles\n")
    assert found.values()["cycles"] == 1010


LIVE = {
    "plain": [], "-x": ["-x,"], "-j": ["-j"], "-r": ["-r", "3"], "-I": ["-I", "10"],
    "--per-thread": ["--per-thread", "-p", str(os.getpid())],
}  # fmt: skip


@pytest.mark.parametrize("mode", LIVE)
def test_what_the_perf_here_prints(mode: str, tmp_path: Path) -> None:
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    output = tmp_path / "counts"
    program = ["sleep", "0.05"] if mode == "-I" else ["true"]
    argv = [perf, "stat", *LIVE[mode], "-o", str(output), "-e", "task-clock,page-faults", *program]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if ran.returncode != 0 or not output.exists() or "counter-value" in ran.stderr:
        pytest.skip(f"perf stat {mode} does not work here: {ran.stderr.strip()[:100]}")
    found = import_file(output, None)
    assert {c.event.partition(":")[0] for c in found.counts} == {"task-clock", "page-faults"}
    assert not any("no counts" in note for note in found.notes)
