# SPDX-License-Identifier: GPL-2.0-or-later
"""What becomes of pages that cannot move, of processes that change, and of a watch that dies?"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from program import (
    HUGE,
    PAGE,
    WATCH,
    Program,
    answer,
    run_tlbcost,
    send,
    start_tlbcost,
    stopped_between,
    subject,
    workload,
)
from subject import KINDS
from tlbcost.numa.node_memory import page_nodes
from tlbcost.numa.watch import kernel, sources
from tlbcost.numa.watch.decide import Action, Thresholds
from tlbcost.numa.watch.evidence import ThreadWindow
from tlbcost.numa.watch.feedback import Feedback
from tlbcost.numa.watch.process import ActionResult, Actor, LiveProcess, collapse

FOLD, NODES = HUGE // PAGE, 4
# Fewer where not all steps are taken, or as many as TLBCOST_CHECK_NUMA="killed KILLS=200" asks for.
KILLS = int(os.environ.get("KILLS", 50 if os.environ.get("STEPS", "all") == "all" else 6))
# A watcher is killed within these seconds after its start, or after its first action.
KILLED_WITHIN_S = 4.0
# It acts within these seconds.
ACTS_WITHIN_S = 120.0
CACHES = 256 << 10, 256 << 10
JOURNAL = Path("/run/tlbcost/journal.json")
NONE = np.zeros(0, dtype=np.int64)


def stuck() -> dict[str, Any]:
    """Pages that are held, of two processes, or the zero page: tried as often as a watch would."""
    program, first = subject("stuck")
    with program:
        actor, feedback = Actor(LiveProcess(program.pid, None), FOLD, PAGE), Feedback(Thresholds())
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
            "nodes": page_nodes(program.pid, addresses),
        }


def interrupted() -> dict[str, Any]:
    """The process exits, executes a program, or forks while its pages are split, and moved."""
    found: dict[str, Any] = {}
    for event in ("exit", "exec", "fork"):
        # After the first of the huge pages; and when all are split, before any piece moves.
        for name, at in (("split", 2), ("move", 1)):
            # With "always" the interpreter's own memory may be on a huge page, too.
            program, first = subject("memory", thp="madvise")
            with program:
                found[f"{event} {name}"] = one_interrupted(event, name, at, program, first)
    found["left"] = JOURNAL.exists()
    return found


def one_interrupted(event: str, name: str, at: int, program: Program, first: int) -> dict[str, Any]:
    actor = Actor(LiveProcess(program.pid, None), FOLD, PAGE)
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
) -> tuple[ActionResult, int]:
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


def windows_of(program: Program) -> list[ThreadWindow]:
    """Windows of each of its threads."""
    source, process = sources.Copies(program.pid, CACHES, 5.0), LiveProcess(program.pid, None)
    found: list[ThreadWindow] = []
    for thread in sorted(int(each.name) for each in Path(f"/proc/{program.pid}/task").iterdir()):
        own: list[ThreadWindow] = []
        while len(own) < 2:
            own += source.sample(1.0, thread)
            source.note(process.look())
        found += own
    return found


def killed() -> dict[str, Any]:
    """SIGKILL at random instants, and what tlbcost pool restore makes of it.

    Samples are always the same ones: so the watch acts soon. Every other kill waits for that.
    """
    chance = random.Random(1)
    awaited = switched = 0
    with workload("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        low, _ = program.memory()
        windows = windows_of(program)

        def sample(_: object, __: float, thread: int | None = None) -> list[ThreadWindow]:
            now_s = time.monotonic()
            return [replace(w, at_s=now_s) for w in windows if thread in (None, w.thread)]

        def prepare() -> None:
            stopped_between(program.pid)
            sources.Copies.sample = sample  # type: ignore[method-assign,assignment]

        words = ["numa", "--watch", str(program.pid), "--apply", "--interval", "0.2s", *WATCH]
        for number in range(KILLS):
            watcher = start_tlbcost(words, Path("/tmp/killed"), prepare)
            if number % 2:
                awaited += wait_for_switch(program)
            time.sleep(KILLED_WITHIN_S * chance.random())
            send(watcher, signal.SIGKILL)
            os.waitpid(watcher, 0)
            send(program.pid, signal.SIGCONT)
            switched += program.thp_enabled() == 0
            code, text = run_tlbcost("pool", "restore")
            alive, allowed = program.process.poll() is None, program.thp_enabled()
            if code or not alive or allowed != 1:
                return {"killed": False, "alive": alive, "thp_enabled": allowed, "text": text}
            # The hot page, again.
            collapse(program.pid, low, HUGE)
        print(Path("/tmp/killed").read_text(), flush=True)
        return {"killed": True, "awaited": awaited, "switched": switched, "left": JOURNAL.exists()}


def wait_for_switch(program: Program) -> bool:
    """Until a watch has switched the process's own huge pages off; False: it has not."""
    end_s = time.monotonic() + ACTS_WITHIN_S
    while program.thp_enabled() and time.monotonic() < end_s:
        time.sleep(0.05)
    return program.thp_enabled() == 0
