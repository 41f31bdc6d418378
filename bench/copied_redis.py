# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a redis under load lose while it is followed in copies? Part of copies.py."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FEWEST_WINDOWS = 20  # of a million references, in a minute
PORT = 16379
# How often redis is asked for its requests; what counts as a copy's time around its life.
ASK_S, BEFORE_S, AFTER_S = 0.02, 0.05, 0.1
REDIS_LOAD = ["-t", "get,set", "-n", "3000000", "-r", "300000", "-d", "200", "-c", "20"]


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


def measure_redis(
    rounds: int, tool: Callable[[Path], list[str]], most_lost: float
) -> tuple[list[str], list[str]]:
    """Lines, and what is beyond a limit. `tool`: follows a process in copies, with this folder."""
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
    beyond = ["redis: throughput"] if statistics.median(lost) > most_lost else []
    return lines, beyond + (["redis: windows"] if large < FEWEST_WINDOWS else [])
