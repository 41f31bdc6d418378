# SPDX-License-Identifier: GPL-2.0-or-later
"""What do copies cost the program that is copied, and how long does an estimate take?

Runs each program natively and with copies in turns, and writes to doc/benchmarks.md: the CPU time
that copies add at the default budget, how much longer than the program an estimate takes, and how
much slower a program runs that is followed itself, against Valgrind. Last, redis under
redis-benchmark with copies and without, in turns of a minute. Needs a quiet machine and three
quarters of an hour.
Exits 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import simulator_slowdown
from simulator_slowdown import BUILD, CORE, GEOMETRY, TREE, Case
from tlbcost.answer.run_plan import copied_page_ns
from tlbcost.calibration.request import calibration_for
from tlbcost.common import paths
from tlbcost.copies.run import CopyPlan, copies_tool
from tlbcost.run.outcome import Run
from tlbcost.simulator.run import find_valgrind, simulator_command
from tlbcost.simulator.windows import plan_for

PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- copies: begin -->\n", "<!-- copies: end -->\n"
# Of the program's CPU time; seconds beyond the program's; of Valgrind's slowdown.
MOST_ADDED, MOST_S, MOST_SLOWDOWN = 0.05, 30.0, 0.5
FEWEST_WINDOWS = 20  # of a million references, in a minute of redis
PORT = 16379
# How often redis is asked for its requests; what counts as a copy's time around its life.
ASK_S, BEFORE_S, AFTER_S = 0.02, 0.05, 0.1
REDIS_LOAD = ["-t", "get,set", "-n", "3000000", "-r", "300000", "-d", "200", "-c", "20"]

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
    native_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    valgrind_s: list[float] = field(default_factory=list)

    def added(self) -> float:
        """CPU time that copies add, of the program's own: the median of pairs."""
        return statistics.median(
            copied / native - 1
            for native, copied in zip(self.native_cpu_s, self.copied_cpu_s, strict=True)
        )

    def slowdown(self, seconds: list[float]) -> float | None:
        """Against native runs; None if it was not measured."""
        if not seconds:
            return None
        return statistics.median(seconds) / statistics.median(self.native_s)


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


def tool(folder: Path, *, whole: bool = False) -> list[str]:
    name, *options = copies_tool(plan(), folder, whole=whole)
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
    if case.name in LONGER or case.name.endswith(" 1"):
        measure_whole(found, environment)
    return found


def measure_whole(found: Measured, environment: dict[str, str]) -> None:
    """Natively, followed itself, and in Valgrind: with the core model, as estimates use them."""
    simulating = {**environment, "VALGRIND_LIB": str(paths.valgrind_lib())}
    short = {each.name: each for each in simulator_slowdown.cases()}
    case = short.get(found.case.name, found.case)
    if case is found.case:
        # A triad of fewer rounds.
        case = Case(case.name, case.what, [*case.command[:-1], "100"], None)
    native_s, _ = run(case, [], environment)
    ns = round(native_s * 1e9)
    with tempfile.TemporaryDirectory() as folder:
        found.native_s.append(native_s)
        found.whole_s.append(run(case, [*tool(Path(folder), whole=True), "--"], environment)[0])
        tables = Path(folder) / "copy_windows.0.tsv"
        if "\tcall\t231" not in tables.read_text(encoding="utf-8"):
            # It was let go before its end.
            found.whole_s.clear()
            return
    with tempfile.TemporaryDirectory() as folder:
        windows = plan_for([Run(ns, ns, 0, 0, 0, 0)])
        command = simulator_command(find_valgrind(), Path(folder), GEOMETRY, windows, CORE)
        # It knows no AVX-512.
        with contextlib.suppress(subprocess.CalledProcessError):
            found.valgrind_s.append(run(case, command, simulating)[0])


def programs_table(all_measured: list[Measured]) -> tuple[list[str], list[str]]:
    """Its lines, and what is beyond a limit."""
    lines = [
        "| program | native CPU s | copies | CPU added | estimate: s beyond the program "
        "| followed itself | Valgrind |",
        "| --- |" + " ---: |" * 6,
    ]
    beyond = []
    for each in all_measured:
        whole, valgrind = each.slowdown(each.whole_s), each.slowdown(each.valgrind_s)
        native = statistics.median(each.native_cpu_s)
        cells = [
            f"{each.case.name}: {each.case.what}", f"{native:.2f}",
            f"{statistics.median(each.copies):.0f}", f"{100 * each.added():+.1f} %",
            "" if each.estimate_s is None else f"{each.estimate_s:.1f}",
            "" if whole is None else f"{whole:.1f}", "" if valgrind is None else f"{valgrind:.1f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        if native >= LEAST_S and each.added() > MOST_ADDED:
            beyond.append(f"{each.case.name}: CPU added")
        if each.estimate_s is not None and each.estimate_s > MOST_S:
            beyond.append(f"{each.case.name}: time of the estimate")
        if whole is not None and valgrind is not None and whole > MOST_SLOWDOWN * valgrind:
            beyond.append(f"{each.case.name}: slowdown of the whole run")
    return lines, beyond


@contextlib.contextmanager
def redis() -> Iterator[int]:
    """A server with 300,000 keys; its process id."""
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            ["redis-server", "--port", str(PORT), "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            time.sleep(1)
            load = ["redis-benchmark", "-p", str(PORT), "-q", "-t", "set", "-n", "1000000"]
            subprocess.run(
                [*load, "-r", "300000", "-d", "200"], check=True, stdout=subprocess.DEVNULL
            )
            yield server.pid
        finally:
            server.terminate()
            server.wait()


@dataclass(frozen=True, slots=True)
class Latency:
    """Of one run of redis-benchmark: requests a second; ms by percentile."""

    per_s: float
    ms: dict[float, float]


def load_redis() -> Latency:
    """A minute of SETs and GETs of random keys: the mean throughput, the GETs' latencies."""
    text = subprocess.run(
        ["redis-benchmark", "-p", str(PORT), *REDIS_LOAD], check=True, capture_output=True,
        text=True,
    ).stdout  # fmt: skip
    rates = [float(rate) for rate in re.findall(r"([\d.]+) requests per second", text)]
    gets = text.split("====== GET ======", 1)[1]
    steps = [
        (float(percent), float(ms))
        for percent, ms in re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds \(cum", gets)
    ]
    wanted = (50.0, 99.0, 99.9)
    found = {want: min(ms for percent, ms in steps if percent >= want) for want in wanted}
    return Latency(statistics.mean(rates), found)


@dataclass(slots=True)
class Requests:
    """How many a server has answered, by CLOCK_MONOTONIC, while a thread asks for it."""

    at_s: list[float] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        with socket.create_connection(("127.0.0.1", PORT)) as server:
            while not self.enough.wait(ASK_S):
                server.sendall(b"INFO stats\r\n")
                said = b""
                while b"instantaneous_ops" not in said:
                    said += server.recv(1 << 16)
                found = re.search(rb"total_commands_processed:(\d+)", said)
                assert found is not None
                self.at_s.append(time.monotonic())
                self.answered.append(int(found[1]))

    def lost(self, copies: Sequence[tuple[float, float]]) -> float:
        """The part that was not answered, of those there would be as when no copy lives."""
        alone = alone_s = 0.0
        for i in range(1, len(self.at_s)):
            begin, end = self.at_s[i - 1], self.at_s[i]
            if not any(first < end and begin < last for first, last in copies):
                alone += self.answered[i] - self.answered[i - 1]
                alone_s += end - begin
        seconds = self.at_s[-1] - self.at_s[0]
        return 1 - (self.answered[-1] - self.answered[0]) / (alone / alone_s * seconds)


@contextlib.contextmanager
def asking() -> Iterator[Requests]:
    requests = Requests()
    thread = threading.Thread(target=requests.ask)
    thread.start()
    try:
        yield requests
    finally:
        requests.enough.set()
        thread.join()


def rows_of(table: Path) -> list[dict[str, str]]:
    lines = [each for each in table.read_text("utf-8").splitlines() if not each.startswith("#")]
    header = lines[0].split("\t")
    return [dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:]]


def measure_redis(rounds: int) -> tuple[list[str], list[str]]:
    """Lines, and what is beyond a limit."""
    results: dict[bool, list[Latency]] = {False: [], True: []}
    windows, lost = [], []
    with redis() as pid:
        for _ in range(rounds):
            results[False].append(load_redis())
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                begun_s = time.monotonic()
                follower = subprocess.Popen([*tool(folder), "--pid", str(pid)])
                with asking() as requests:
                    results[True].append(load_redis())
                follower.send_signal(signal.SIGINT)
                follower.wait()
                spans = [
                    (begun_s + int(row["at_ns"]) / 1e9 - BEFORE_S,
                     begun_s + (int(row["at_ns"]) + int(row["lived_ns"])) / 1e9 + AFTER_S)
                    for row in rows_of(folder / "copies.tsv") if row["lived_ns"] != "NA"
                ]  # fmt: skip
                lost.append(requests.lost(spans))
                windows.append([
                    int(row["warm_references"]) + int(row["references"])
                    for table in folder.glob("copy_windows.*.tsv") for row in rows_of(table)
                ])  # fmt: skip
    large = statistics.median(sum(n >= 1_000_000 for n in each) for each in windows)
    lines = [
        "| redis under `redis-benchmark " + " ".join(REDIS_LOAD) + "` | requests a second "
        "| GET: p50 ms | p99 | p99.9 |",
        "| --- |" + " ---: |" * 4,
    ]
    for copies, name in ((False, "without copies"), (True, "with copies")):
        per_s = statistics.median(each.per_s for each in results[copies])
        cells = [f"{per_s:.0f}"] + [
            f"{statistics.median(each.ms[p] for each in results[copies]):.2f}"
            for p in (50.0, 99.0, 99.9)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Throughput lost, against the same minute's times without a copy, median of {rounds}: "
        f"{100 * statistics.median(lost):.1f} %",
        f"({', '.join(f'{100 * each:.1f}' for each in lost)}). Windows of a million references "
        f"and more in a minute: {large:.0f}.",
    ]
    beyond = ["redis: throughput"] if statistics.median(lost) > MOST_ADDED else []
    return lines, beyond + (["redis: windows"] if large < FEWEST_WINDOWS else [])


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
    if shutil.which("redis-server") and (arguments.only is None or "redis" in arguments.only):
        more, worse = measure_redis(arguments.rounds)
        print("\n".join(more), flush=True)
        lines += ["", *more]
        beyond += worse
    if arguments.only is None:
        write(lines)
    if beyond:
        print(f"tlbcost: beyond the limit: {'; '.join(beyond)}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
