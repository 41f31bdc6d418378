# SPDX-License-Identifier: GPL-2.0-or-later
"""Do copies measure of a redis under load what two of them show, one on huge pages?

Writes doc/benchmarks.md. The truth: one by `tlbcost run --thp`, and one on base pages; both run on
one CPU, their clients on another, and get the same requests in turns. Then the one on base pages is
estimated with --pid under the same load. Needs two CPUs and redis-server. Three minutes. Exits 1 if
copies are off by more than 4 points and the truth's own error.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

TREE = Path(__file__).resolve().parent.parent
TLBCOST = TREE / "build" / "tlbcost"
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- servers: begin -->\n", "<!-- servers: end -->\n"
ROUNDS, SECONDS, POINTS = 10, 20, 0.04
KEYS, REQUESTS = 1_000_000, 500_000
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """One that runs. `requests`: the work of a turn; `load`: the same until it is killed."""

    pid: int
    requests: Callable[[], None]
    load: Callable[[], subprocess.Popen[bytes]]


def quiet(*words: str, **options: Any) -> None:  # noqa: ANN401
    subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
    )


def begin(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(*words: str) -> None:
    for _ in range(300):
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise TimeoutError(" ".join(words))


@contextlib.contextmanager
def redis(port: int, *, huge: bool) -> Iterator[Server]:
    """A million keys of 100 bytes, in random order."""
    at = ("-p", str(port))
    words = ["redis-server", "--port", str(port), "--save", "", "--disable-thp", "no"]
    if huge:
        words = [str(TLBCOST), "run", "--thp", "--", *words]
    process = begin("taskset", "-c", "0", *words)
    try:
        wait_for("redis-cli", *at, "ping")
        info = subprocess.run(["redis-cli", *at, "info", "server"], capture_output=True, check=True)
        pid = int(info.stdout.split(b"process_id:")[1].split()[0])
        random = ("-r", str(KEYS), "-q")
        quiet(
            "redis-benchmark",
            *at,
            "-t",
            "set",
            "-d",
            "100",
            "-P",
            "50",
            "-n",
            str(2 * KEYS),
            *random,
        )
        get = ("redis-benchmark", *at, "-t", "get", "-c", "20", *random, "-n")
        yield Server(
            pid,
            lambda: quiet("taskset", "-c", "1", *get, str(REQUESTS)),
            lambda: begin(*get, "1000000000"),
        )
    finally:
        subprocess.run(["redis-cli", *at, "shutdown", "nosave"], capture_output=True, check=False)
        process.wait()


def cpu_s(pid: int) -> tuple[float, float]:
    """User and kernel time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    user, system = (int(cell) for cell in fields[11:13])
    return user * TICK_S, system * TICK_S


def turn(server: Server) -> tuple[float, float]:
    before = cpu_s(server.pid)
    server.requests()
    after = cpu_s(server.pid)
    return after[0] - before[0], after[1] - before[1]


def truth(base: Server, huge: Server) -> tuple[float, float]:
    """The user time that huge pages save, as a share of CPU time, and its standard error."""
    found = []
    for number in range(ROUNDS):
        order = (base, huge) if number % 2 else (huge, base)
        times = {server.pid: turn(server) for server in order}
        user, system = times[base.pid]
        found.append((user - times[huge.pid][0]) / (user + system))
    return fmean(found), stdev(found) / len(found) ** 0.5


def estimated(server: Server) -> dict[str, Any]:
    """The estimate's document; server and clients run where they like."""
    os.sched_setaffinity(server.pid, os.sched_getaffinity(0))
    load = server.load()
    try:
        time.sleep(1)
        command = [str(TLBCOST), "estimate", "--pid", str(server.pid), "--seconds", str(SECONDS)]
        done = subprocess.run([*command, "--quiet", "--json", "-"], check=True, capture_output=True)
    finally:
        load.kill()
        load.wait()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row(name: str, true: tuple[float, float], found: dict[str, Any]) -> tuple[str, bool]:
    """A row of the table, and whether it is beyond the limit."""
    truth_words = f"{100 * true[0]:.1f} ± {100 * true[1]:.1f}"
    measured = found["measured"]
    if measured is None:
        return f"| {name} | {truth_words} | {found['not_measured']} | | |", True
    user = measured["user_fraction"]
    off = user["value"] - true[0]
    return (
        f"| {name} | {truth_words} | {100 * user['value']:.1f} ({100 * user['low']:.1f} to "
        f"{100 * user['high']:.1f}) | {100 * off:+.1f} | {measured['rounds']} |",
        abs(off) > POINTS + 2 * true[1],
    )


def main() -> int:
    with redis(7301, huge=False) as base:
        with redis(7302, huge=True) as huge:
            true = truth(base, huge)
        text, beyond = row("redis", true, estimated(base))
    print(text)
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = [
        "| server | two servers | copies | off | copies |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    body = "\n".join([*head, text, ""])
    PAGE.write_text(f"{before}{BEGIN}{body}{END}{after}", encoding="utf-8")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
