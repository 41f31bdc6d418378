# SPDX-License-Identifier: GPL-2.0-or-later
"""What do copies cost the program that is copied, and how long does an estimate take?

Runs each program natively and with copies in turns, and writes to doc/benchmarks.md: the CPU time
that copies add at the default budget, and how much longer than the program an estimate takes. Needs
a quiet machine and twenty minutes. Exits 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import simulator_slowdown
from simulator_slowdown import BUILD, CORE, GEOMETRY, TREE, Case
from tlbcost.answer.record import copied_page_ns
from tlbcost.calibration.file import calibration_for
from tlbcost.common import paths
from tlbcost.copies.run import CopyPlan, copies_tool

PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- copies: begin -->\n", "<!-- copies: end -->\n"
# Of the program's CPU time; seconds beyond the program's.
MOST_ADDED, MOST_S = 0.05, 30.0

# Of the programs of simulator_slowdown.py, what makes them run longer.
LONGER = {"gzip": "text", "xz": "text", "sqlite3": "queries", "python3": "loops", "random": "count"}
# The limit of CPU time added holds for programs that take so long.
LEAST_S = 5.0

NODE = """
const m = new Map();
for (let i = 0; i < 60e6; i++) m.set(i * 7919 % 1000003, {a: i});
console.log(m.size);
"""
JAVA = """
public class Loop {
    public static void main(String[] words) {
        java.util.HashMap<Integer, String> map = new java.util.HashMap<>();
        for (int i = 0; i < 120000000; i++)
            map.put((int) (i * 7919L % 1000003), "x" + i);
        System.out.println(map.size());
    }
}
"""


@dataclass(slots=True)
class Measured:
    """Of one program: paired runs, in seconds."""

    case: Case
    native_cpu_s: list[float] = field(default_factory=list)
    copied_cpu_s: list[float] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    estimate_s: float | None = None

    def added(self) -> float:
        """CPU time that copies add, of the program's own: the median of pairs."""
        return statistics.median(
            copied / native - 1
            for native, copied in zip(self.native_cpu_s, self.copied_cpu_s, strict=True)
        )


def longer(case: Case) -> Case:
    """The same for more than five seconds, on a fast machine too."""
    command, stdin = list(case.command), case.stdin
    if LONGER[case.name] == "queries":
        stdin = simulator_slowdown.SQL + 120 * simulator_slowdown.QUERIES
    elif LONGER[case.name] == "text":
        command += 2 * command[-1:]
    elif LONGER[case.name] == "count":
        command += ["--count", "400000000"]
    else:
        command[-1] = command[-1].replace("3000000", "20000000")
    return Case(case.name, case.what, command, None, stdin)


def cases() -> list[Case]:
    """Programs of five seconds and more, where that is easily said."""
    folder = BUILD / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    found = [longer(each) for each in simulator_slowdown.cases() if each.name in LONGER]
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    for name, march, needed in (
        ("SSE2", "x86-64", "sse2"), ("AVX2", "x86-64-v3", "avx2"),
        ("AVX-512", "x86-64-v4", "avx512f"),
    ):  # fmt: skip
        if f" {needed} " not in flags:
            continue
        program = folder / f"triad-{march}"
        subprocess.run(
            ["cc", "-O3", f"-march={march}", "-mprefer-vector-width=512", "-pthread", "-o", program,
             TREE / "bench" / "triad.c"], check=True,
        )  # fmt: skip
        for threads in (1, 2, 4) if name == "SSE2" else (1,):
            what = f"a = b + s * c, {name}, 192 MiB, {threads} thread{'s'[: threads > 1]}"
            command = [str(program), str(threads), str(192 << 20), "1600"]
            found.append(Case(f"triad {name} {threads}", what, command, None))
    if shutil.which("node"):
        found.append(Case("node", "a map of a million objects", ["node", "-e", NODE], None))
    if shutil.which("javac"):
        (folder / "Loop.java").write_text(JAVA, encoding="utf-8")
        subprocess.run(["javac", "-d", folder, folder / "Loop.java"], check=True)
        java = ["java", "-Xmx600m", "-cp", str(folder), "Loop"]
        found.append(Case("java", "the same in a hash map", java, None))
    return found


def run(case: Case, before: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of wall time, and of CPU time of all that was waited for."""
    started, usage = time.monotonic(), os.times()
    subprocess.run(
        [*before, *case.command], input=case.stdin.encode(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=environment, check=True,
    )  # fmt: skip
    now = os.times()
    cpu = now.children_user + now.children_system - usage.children_user - usage.children_system
    return time.monotonic() - started, cpu


def plan() -> CopyPlan:
    """As `tlbcost estimate` has it for these TLBs and this core."""
    calibration = calibration_for(None, recalibrate=False).calibration
    return CopyPlan(GEOMETRY, CORE, 2.5, fault_ns=copied_page_ns(calibration, GEOMETRY))


def tool(folder: Path) -> list[str]:
    name, *options = copies_tool(plan(), folder)
    return [str(paths.libexec(name)), *options]


def copied(case: Case, environment: dict[str, str]) -> tuple[float, int]:
    """CPU seconds of the program alone, and how many copies were followed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "run.tsv"
        run(case, [*tool(folder), "--run", str(table), "--"], environment)
        header, row = (
            line.split("\t")
            for line in table.read_text(encoding="utf-8").splitlines()
            if not line.startswith("#")
        )
        values = dict(zip(header, row, strict=True))
        attempts = (folder / "copies.tsv").read_text(encoding="utf-8")
        cpu = (int(values["user_ns"]) + int(values["system_ns"])) / 1e9
        return cpu, attempts.count("\tfollowed\t")


def measure(case: Case, rounds: int) -> Measured:
    """Fill in all of it."""
    found = Measured(case)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "TLBCOST_WAIT_S": "0"}
    run(case, [], environment)
    for _ in range(rounds):
        found.native_cpu_s.append(run(case, [], environment)[1])
        cpu, copies = copied(case, environment)
        found.copied_cpu_s.append(cpu)
        found.copies.append(copies)
    if not case.stdin:
        options = ["--engine", "copies", "--no-measure", "--runs", "1", "--json", "-"]
        before = [str(TREE / "build" / "tlbcost"), "estimate", *options, "--"]
        native, _ = run(case, [], environment)
        # One run of much memory has too few copies.
        with contextlib.suppress(subprocess.CalledProcessError):
            found.estimate_s = run(case, before, environment)[0] - native
    return found


def programs_table(all_measured: list[Measured]) -> tuple[list[str], list[str]]:
    """Its lines, and what is beyond a limit."""
    lines = [
        "| program | native CPU s | copies | CPU added | estimate: s beyond the program |",
        "| --- |" + " ---: |" * 4,
    ]
    beyond = []
    for each in all_measured:
        native = statistics.median(each.native_cpu_s)
        cells = [
            f"{each.case.name}: {each.case.what}", f"{native:.2f}",
            f"{statistics.median(each.copies):.0f}", f"{100 * each.added():+.1f} %",
            "" if each.estimate_s is None else f"{each.estimate_s:.1f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        if native >= LEAST_S and each.added() > MOST_ADDED:
            beyond.append(f"{each.case.name}: CPU added")
        if each.estimate_s is not None and each.estimate_s > MOST_S:
            beyond.append(f"{each.case.name}: time of the estimate")
    return lines, beyond


def write(lines: list[str]) -> None:
    """Put them into the page's section."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    section = f"{BEGIN}{chr(10).join(lines)}\n{END}"
    PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="this one; writes nothing")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs of each program (3)")
    arguments = parser.parse_args()
    simulator_slowdown.make_text(BUILD / "bench" / "text")
    all_measured = []
    for case in cases():
        if arguments.only is None or case.name in arguments.only:
            all_measured.append(measure(case, arguments.rounds))
            print(programs_table(all_measured)[0][-1], flush=True)
    lines, beyond = programs_table(all_measured)
    if arguments.only is None:
        write(lines)
    if beyond:
        print(f"tlbcost: beyond the limit: {'; '.join(beyond)}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
