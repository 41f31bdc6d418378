# SPDX-License-Identifier: GPL-2.0-or-later
"""A program on the machine with four nodes, as its kernel sees it, and tlbcost that watches it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]
BUILD = TREE / "build"
sys.path.insert(0, str(TREE / "estimate"))

# All of it is loaded once: an emulator takes half a minute for that.
from tlbcost.__main__ import main as tlbcost_main  # noqa: E402
from tlbcost.commands import numa, pool  # noqa: E402, F401
from tlbcost.numa.node_memory import page_nodes  # noqa: E402
from tlbcost.numa.watch import process, sources  # noqa: E402

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PAGE, HUGE = 4096, 2 << 20
# An emulator takes seconds for a window: what one costs there says nothing.
WATCH = ["--cache", "256K,256K", "--threshold", "overhead=5"]


def start_tlbcost(
    words: Sequence[str], output: Path, prepare: Callable[[], None] = lambda: None
) -> int:
    """Start tlbcost as a copy of this process; its pid. `prepare` is called in it."""
    pid = os.fork()
    if pid:
        return pid
    code = 125
    try:
        prepare()
        for number, path in ((0, Path(os.devnull)), (1, output), (2, output)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
        code = tlbcost_main(list(words))
    finally:
        os._exit(code)


def run_tlbcost(*words: str, prepare: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """Its exit code, and what it printed."""
    output = Path("/tmp/output")
    output.unlink(missing_ok=True)
    _, status = os.waitpid(start_tlbcost(words, output, prepare), 0)
    return os.waitstatus_to_exitcode(status), output.read_text()


def stopped_between(pid: int) -> None:
    """Let a process run only while it is sampled and acted on.

    In an emulator it takes the time of a watch that computes; on a real machine it has other CPUs.
    """
    for owner, name in (
        (sources.Copies, "_run"),
        (process.Actor, "do"),
        (process.Actor, "put_back"),
    ):
        setattr(owner, name, running(getattr(owner, name), pid))
    send(pid, signal.SIGSTOP)


def running(function: Callable[..., Any], pid: int) -> Callable[..., Any]:
    def run(*words: object, **options: object) -> object:
        send(pid, signal.SIGCONT)
        try:
            return function(*words, **options)
        finally:
            send(pid, signal.SIGSTOP)

    return run


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Program:
    """A program that runs; a workload's threads stay on the CPUs, and nodes, of their numbers."""

    def __init__(
        self, words: Sequence[str], *, thp: str = "always", start: Callable[[], None] | None = None
    ) -> None:
        """`start` is called in its process first."""
        THP.write_text(thp)
        self.process = subprocess.Popen(
            words,
            preexec_fn=start,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"WORKLOAD_PIN": "1"},
        )
        self.pid = self.process.pid

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def file(self, name: str) -> str:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_text()
        except OSError:
            return ""

    def wait_for_memory(self, least: int = 16 << 20) -> None:
        """Until it has touched so much, and no more."""
        before = -1
        while self.resident() != before or before < least:
            assert self.process.poll() is None, self.process.returncode
            before = self.resident()
            time.sleep(0.5)

    def resident(self) -> int:
        found = re.search(r"^VmRSS:\s+(\d+)", self.file("status"), re.MULTILINE)
        return int(found[1]) << 10 if found else 0

    def memory(self) -> tuple[int, int]:
        """The largest anonymous mapping, from a huge page's boundary on."""
        spans = []
        for line in self.file("maps").splitlines():
            words = line.split()
            if len(words) == 5 or words[5:] == ["[heap]"]:
                low, high = (int(each, 16) for each in words[0].split("-"))
                spans.append((high - low, -(-low // HUGE) * HUGE, high))
        _, low, high = max(spans)
        return low, high

    def nodes(self) -> list[int]:
        """Of each base page of that memory, by move_pages; -1: it is not there."""
        low, high = self.memory()
        found = page_nodes(self.pid, range(low, high, PAGE))
        return [-1 if node is None else node for node in found]

    def thp_enabled(self) -> int:
        return int(re.findall(r"^THP_enabled:\s+(\d)", self.file("status"), re.MULTILINE)[0])

    def huge_kib(self) -> int:
        found = re.findall(r"^AnonHugePages:\s+(\d+)", self.file("smaps"), re.MULTILINE)
        return sum(map(int, found))

    def state(self) -> dict[str, Any]:
        """As the kernel sees it: numa_maps, move_pages in query mode, smaps."""
        on: Counter[str] = Counter()
        for node, pages in re.findall(r" N(\d+)=(\d+)", self.file("numa_maps")):
            on[node] += int(pages)
        return {
            "numa_maps": dict(on),
            "pages": self.nodes(),
            "huge_kib": self.huge_kib(),
            "thp_enabled": self.thp_enabled(),
            "alive": self.process.poll() is None,
        }

    def watch(self, seconds: int, *options: str) -> dict[str, Any]:
        """Watch it, and what there was before and after."""
        before = self.state()
        output = Path("/tmp/watch.json")
        output.unlink(missing_ok=True)
        words = ["numa", "--watch", str(self.pid), "--seconds", str(seconds), *WATCH]
        code, text = run_tlbcost(
            *words, "--json", str(output), *options,
            prepare=lambda: stopped_between(self.pid),
        )  # fmt: skip
        send(self.pid, signal.SIGCONT)
        document = json.loads(output.read_text()) if output.exists() else None
        print(f"code {code}\n{text}", flush=True)
        for each in document["intervals"] if document else ():
            now = each["figures"]["now"]
            print(f"{each['at_s']:.1f} {each['windows']} {each['samples']} {now}", flush=True)
        return {
            "before": before,
            "after": self.state(),
            "code": code,
            "text": text,
            "document": document,
        }


def workload(name: str, *options: str, thp: str = "always") -> Program:
    """One of workloads/numa, whose memory is there."""
    program = Program([str(BUILD / "workloads" / name), *options], thp=thp)
    program.wait_for_memory()
    THP.write_text("always")
    return program


def subject(name: str, *, thp: str = "always") -> tuple[Program, int]:
    """A process of subject.py, and the number of its first base page, which is there."""
    # From its start on, so that the interpreter's own memory is on node 0, too.
    program = Program(
        [sys.executable, "-S", str(HERE / "subject.py"), name],
        thp=thp,
        start=lambda: os.sched_setaffinity(0, {0}),
    )
    return program, int(answer(program)) // PAGE


def answer(program: Program) -> str:
    assert program.process.stdout is not None
    return program.process.stdout.readline().strip()
