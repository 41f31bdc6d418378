# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the watch do on a machine with four nodes? Runs in it; prints what the kernel says."""

from __future__ import annotations

import base64
import gzip
import json
import mmap
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from program import PAGE, THP, TREE, Program, subject, workload
from restless import interrupted, killed, stuck

# A window takes the emulated machine so much longer than the second that it takes elsewhere.
SLOW = 6


def judged(found: dict[str, Any]) -> bool:
    """An interval had enough evidence."""
    intervals = found["document"]["intervals"]
    return any(each["figures"]["moved_fraction"] is not None for each in intervals)


def acted(found: dict[str, Any]) -> bool:
    return bool(found["document"]["actions"])


def acted_and_judged(found: dict[str, Any]) -> bool:
    """An interval with enough evidence came after the last action."""
    last_s = max((each["at_s"] for each in found["document"]["actions"]), default=None)
    intervals = found["document"]["intervals"]
    after = [each for each in intervals if last_s is not None and each["at_s"] > last_s + 1]
    return judged({"document": {"intervals": after}})


def evened_out(found: dict[str, Any]) -> bool:
    """The same, and all nodes serve about as much, of which few windows are not sure."""
    now = found["document"]["intervals"][-1]["figures"]["now"]
    return acted_and_judged(found) and (now["imbalance"] or 0) < 0.15


def local_again(found: dict[str, Any]) -> bool:
    """The same for local accesses."""
    now = found["document"]["intervals"][-1]["figures"]["now"]
    return acted_and_judged(found) and (now["local_fraction"] or 0) > 0.8


def watch_until(
    enough: Callable[[dict[str, Any]], bool], program: Program, seconds: int, *options: str
) -> dict[str, Any]:
    """Watch it up to three times, one after the other: a window may take a minute here."""
    found = program.watch(seconds, *options)
    for _ in range(2):
        if found["code"] or enough(found):
            break
        found = joined(found, program.watch(seconds, *options))
    return found


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two watches of a program as one."""
    later_s = first["document"]["watched_s"]
    document = dict(second["document"])
    for key in ("intervals", "actions", "effects"):
        moved = [each | {"at_s": each["at_s"] + later_s} for each in document[key]]
        document[key] = first["document"][key] + moved
    document["watched_s"] += later_s
    return second | {"before": first["before"], "document": document}


def hot() -> dict[str, Any]:
    with workload("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        return watch_until(evened_out, program, 40, "--apply")


def shared() -> dict[str, Any]:
    with workload("numa-blocks", "--count", "100G", "--blocks", "16") as program:
        return watch_until(local_again, program, 100, "--apply")


def graph() -> dict[str, Any]:
    with workload("numa-graph", "--count", "100G", "--size", "64M") as program:
        return watch_until(judged, program, 100, "--apply")


def local() -> dict[str, Any]:
    with workload("numa-local", "--count", "100G", "--size", "32M") as program:
        return watch_until(judged, program, 50, "--apply")


def turning() -> dict[str, Any]:
    """Sides change every 20 s, and pages rest for 10: both longer here."""
    turn, rest = 20 * SLOW, 10 * SLOW
    options = ["--count", "100G", "--size", "32M", "--turn", str(turn)]
    with workload("numa-local", *options) as program:
        times = {"rest_s": rest, "evidence_s": 6, "pause_s": 60 * SLOW}
        words = [f"--threshold={name}={time_s}" for name, time_s in times.items()]
        return program.watch(7 * turn // 2, "--apply", *words) | {"rest_s": rest}


def base_pages() -> dict[str, Any]:
    options = ["--count", "100G", "--size", "64M"]
    with workload("numa-graph", *options, thp="never") as program:
        return watch_until(acted, program, 40, "--apply", "--threshold", "interleave_above=9")


def would() -> dict[str, Any]:
    with workload("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        return program.watch(30)


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
        # What it faults in walks a lot, too; that is the step of base pages.
        words = ["--apply", "--calibration", "/tmp/calibration.tsv", "--threshold", "promote=1"]
        return program.watch(25, *words) | {"fault_ns": cost, "changed": changed}


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
