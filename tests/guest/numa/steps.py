# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the watch do on a machine with four nodes? Runs in it; prints what the kernel says."""

from __future__ import annotations

import base64
import gzip
import json
import mmap
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from program import HUGE, PAGE, THP, TREE, WATCH, Program, run_tlbcost, start_tlbcost, workload
from subject import KINDS
from tlbcost.numa.watch import kernel
from tlbcost.numa.watch.acting import Actor, Outcome
from tlbcost.numa.watch.decide import Action
from tlbcost.numa.watch.feedback import Feedback
from tlbcost.numa.watch.process import Process
from tlbcost.numa.watch.thresholds import Thresholds

FOLD, NODES, KILLS = HUGE // PAGE, 4, 50
# A watcher is killed within so many seconds: it has acted in half of them.
KILLED_WITHIN_S = 12.0
NONE = np.zeros(0, dtype=np.int64)
NOW = ["--threshold", "samples=1", "--threshold", "windows=2"]


def hot() -> dict[str, Any]:
    with workload("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        return program.watch(60, "--apply", "--interval", "4s")


def shared() -> dict[str, Any]:
    with workload("numa-blocks", "--count", "100G", "--blocks", "16") as program:
        return program.watch(90, "--apply", "--interval", "4s")


def graph() -> dict[str, Any]:
    with workload("numa-graph", "--count", "100G", "--size", "64M") as program:
        return program.watch(60, "--apply", "--interval", "4s")


def local() -> dict[str, Any]:
    with workload("numa-local", "--count", "100G", "--size", "32M") as program:
        return program.watch(30, "--apply", "--interval", "4s")


def turning() -> dict[str, Any]:
    with workload("numa-local", "--count", "100G", "--size", "32M", "--turn", "20") as program:
        return program.watch(90, "--apply", "--threshold", "evidence_s=6")


def base_pages() -> dict[str, Any]:
    options = ["--count", "100G", "--size", "64M"]
    with workload("numa-graph", *options, thp="never") as program:
        return program.watch(40, "--apply", "--interval", "4s", "--threshold", "interleave_above=9")


def would() -> dict[str, Any]:
    with workload("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        return program.watch(30, "--interval", "4s")


def subject(name: str) -> tuple[Program, int]:
    """A process of subject.py, and the number of its first base page."""
    words = [sys.executable, "-S", str(Path(__file__).with_name("subject.py")), name]
    program = Program(words, least=1 << 20)
    return program, int(answer(program)) // PAGE


def answer(program: Program) -> str:
    assert program.process.stdout is not None
    return program.process.stdout.readline().strip()


def fault_ns() -> float:
    """What the first touch of a page costs here, with Python's part."""
    memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    times = []
    for _ in range(2):
        begin = time.monotonic_ns()
        for at in range(0, 16 << 20, PAGE):
            memory[at] = 1
        times.append(time.monotonic_ns() - begin)
    return (times[0] - times[1]) * PAGE / (16 << 20)


def faults() -> dict[str, Any]:
    """A calibration whose only figure in use, the cost of a page fault, was measured here."""
    golden = (TREE / "tests/golden/calibration.tsv").read_text()
    cost = fault_ns()
    row = "\t".join(["fault_ns", str(PAGE), "NA", "NA", *[f"{cost:.1f}"] * 3, "2"])
    table, changed = re.subn(rf"(?m)^fault_ns\t{PAGE}\t.*$", row, golden)
    Path("/tmp/calibration.tsv").write_text(table)
    program, _ = subject("faults")
    with program:
        words = ["--apply", "--interval", "4s", "--calibration", "/tmp/calibration.tsv"]
        return program.watch(24, *words) | {"fault_ns": cost, "changed": changed}


def stuck() -> dict[str, Any]:
    """Pages that are held, of two processes, or the zero page: tried as often as a watch would."""
    program, first = subject("stuck")
    with program:
        actor, feedback = Actor(Process(program.pid, None), FOLD, PAGE), Feedback(Thresholds())
        pages = first + np.arange(sum(KINDS.values()))
        tries = []
        for number in range(4):
            now_s = 100.0 * number
            # From node 0 to another one each time.
            to = np.full(len(pages), 1 + number % 3)
            allowed = feedback.allowed([Action("migrate", "", pages, to, NONE)], now_s)
            outcome = actor.do(allowed[0])
            feedback.note_moves(outcome.moved, now_s)
            feedback.note_refusals(outcome.stuck)
            tries.append(
                {
                    "asked": (allowed[0].pages - first).tolist(),
                    "moved": (np.array(outcome.moved) - first).tolist(),
                    "refused": dict(outcome.refused),
                    "failed": outcome.failed,
                }
            )
        addresses = [int(page) * PAGE for page in pages]
        return {
            "tries": tries,
            "left_alone": feedback.refused_pages(),
            "nodes": kernel.nodes_of(program.pid, addresses),
        }


def interrupted() -> dict[str, Any]:
    """The process exits, executes a program, or forks while its pages are split, and moved."""
    found: dict[str, Any] = {}
    for event in ("exit", "exec", "fork"):
        # After the first of the huge pages; and when all are split, before any piece moves.
        for name, at in (("split", 2), ("move", 1)):
            program, first = subject("memory")
            with program:
                found[f"{event} {name}"] = one_interrupted(event, name, at, program, first)
    found["left"] = Path("/run/tlbcost/journal.json").exists()
    return found


def one_interrupted(event: str, name: str, at: int, program: Program, first: int) -> dict[str, Any]:
    actor = Actor(Process(program.pid, None), FOLD, PAGE)
    regions, pages = first // FOLD + np.arange(4), first + np.arange(4 * FOLD)
    stop = actor.do(Action("stop_huge", "", NONE, NONE, NONE))
    before = program.huge_kib()
    outcome, child = do_between(
        event, program, actor, Action("split", "", pages, pages % NODES, regions), name, at
    )
    child_before = thp_of(child) if child else None
    actor.put_back()
    found = {
        "stopped": stop.failed,
        "huge_before_kib": before,
        "done_regions": outcome.done_regions,
        "moved": len(outcome.moved),
        "failed": outcome.failed,
        "refused": dict(outcome.refused),
        "alive": program.process.poll() is None,
        "thp_enabled": thp_of(program.pid),
        "child_before": child_before,
        "child_after": thp_of(child) if child else None,
    }
    if child:
        os.kill(child, signal.SIGKILL)
    return found


def do_between(
    event: str, program: Program, actor: Actor, action: Action, name: str, at: int
) -> tuple[Outcome, int]:
    """Have the process do that before this call of the action; and its child, or 0."""
    real: Callable[..., object] = getattr(kernel, name)
    calls, child = 0, 0

    def between(*words: object) -> object:
        nonlocal calls, child
        calls += 1
        if calls == at:
            assert program.process.stdin is not None
            program.process.stdin.write(f"{event}\n")
            program.process.stdin.flush()
            if event == "exit":
                program.process.wait()
            else:
                child = int(answer(program).replace("done", "0"))
        return real(*words)

    setattr(kernel, name, between)
    try:
        outcome = actor.do(action)
    finally:
        setattr(kernel, name, real)
    assert calls >= at, f"{name} was called {calls} times"
    return outcome, child


def thp_of(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"^THP_enabled:\s+(\d)", text, re.MULTILINE)
    return int(found[1]) if found else None


def killed() -> dict[str, Any]:
    """SIGKILL at random instants, and what tlbcost pool restore makes of it."""
    chance = random.Random(1)
    switched = 0
    with workload("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        low, _ = program.memory()
        words = ["numa", "--watch", str(program.pid), "--apply", "--interval", "0.2s", *WATCH, *NOW]
        for _ in range(KILLS):
            watcher = start_tlbcost(words, Path("/tmp/killed"))
            time.sleep(KILLED_WITHIN_S * chance.random())
            os.kill(watcher, signal.SIGKILL)
            os.waitpid(watcher, 0)
            switched += program.thp_enabled() == 0
            code, text = run_tlbcost("pool", "restore")
            state = program.state()
            if code or not state["alive"] or state["thp_enabled"] != 1:
                return {"killed": False, "state": state, "text": text}
            # The hot page, again.
            kernel.collapse(program.pid, low, HUGE)
        return {
            "killed": True,
            "switched": switched,
            "left": Path("/run/tlbcost/journal.json").exists(),
        }


STEPS = {
    each.__name__: each
    for each in (
        hot, shared, graph, local, would, base_pages, faults, turning, stuck, interrupted, killed,
    )
}  # fmt: skip


def main() -> int:
    os.environ |= {"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp", "TMPDIR": "/tmp"}
    wanted = os.environ.get("STEPS", "all")
    results: dict[str, Any] = {}
    for name in STEPS if wanted == "all" else wanted.split(","):
        begin = time.monotonic()
        print(f"step {name}", flush=True)
        try:
            results[name] = STEPS[name]()
        except Exception as error:
            results[name] = {"error": repr(error)}
        print(f"{time.monotonic() - begin:.0f} s", flush=True)
        THP.write_text("always")
    packed = base64.encodebytes(gzip.compress(json.dumps(results).encode())).decode()
    print(f"@@results\n{packed}@@packed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
