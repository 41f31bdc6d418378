# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the watch do on a machine with four nodes? Runs in it; prints what the kernel says."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[3]
BUILD = TREE / "build"
sys.path.insert(0, str(TREE / "estimate"))

from tlbcost.numa.node_memory import page_nodes  # noqa: E402

TLBCOST = str(BUILD / "tlbcost")
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PAGE, HUGE = 4096, 2 << 20
# An emulator on a busy host takes seconds for a window: what one costs there says nothing.
WATCH = ["--cache", "256K,256K", "--threshold", "overhead=5"]
KILLS = 50


class Program:
    """A workload whose threads stay on the CPUs, and nodes, of their numbers."""

    def __init__(
        self, name: str, *options: str, thp: str = "always", least: int = 16 << 20
    ) -> None:
        THP.write_text(thp)
        self.process = subprocess.Popen(
            [BUILD / "workloads" / name, *options],
            stdout=subprocess.DEVNULL,
            env=os.environ | {"WORKLOAD_PIN": "1"},
        )
        self.pid = self.process.pid
        before = -1
        while self.resident() != before or before < least:
            before = self.resident()
            time.sleep(0.5)
        THP.write_text("always")

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

    def state(self) -> dict[str, Any]:
        """As the kernel sees it: numa_maps, move_pages in query mode, smaps."""
        low, high = self.memory()
        on: Counter[str] = Counter()
        for node, pages in re.findall(r" N(\d+)=(\d+)", self.file("numa_maps")):
            on[node] += int(pages)
        pages = page_nodes(self.pid, range(low, high, PAGE))
        huge = sum(
            int(kib) for kib in re.findall(r"^AnonHugePages:\s+(\d+)", self.file("smaps"), re.M)
        )
        return {
            "numa_maps": dict(on),
            "pages": [-1 if node is None else node for node in pages],
            "huge_kib": huge,
            "thp_enabled": int(re.findall(r"^THP_enabled:\s+(\d)", self.file("status"), re.M)[0]),
            "alive": self.process.poll() is None,
        }

    def watch(self, seconds: int, *options: str) -> dict[str, Any]:
        """Watch it, and what there was before and after."""
        before = self.state()
        output = "/tmp/watch.json"
        Path(output).unlink(missing_ok=True)
        words = [TLBCOST, "numa", "--watch", str(self.pid), "--seconds", str(seconds), *WATCH]
        done = subprocess.run(
            [*words, "--json", output, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        document = json.loads(Path(output).read_text()) if Path(output).exists() else None
        print(f"code {done.returncode}\n{done.stderr}", flush=True)
        return {
            "before": before,
            "after": self.state(),
            "code": done.returncode,
            "text": done.stderr,
            "document": document,
        }


def hot() -> dict[str, Any]:
    with Program("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        return program.watch(120, "--apply", "--interval", "4s")


def shared() -> dict[str, Any]:
    with Program("numa-blocks", "--count", "100G", "--blocks", "16") as program:
        return program.watch(300, "--apply", "--interval", "8s")


def graph() -> dict[str, Any]:
    with Program("numa-graph", "--count", "100G", "--size", "64M") as program:
        return program.watch(120, "--apply", "--interval", "4s")


def local() -> dict[str, Any]:
    with Program("numa-local", "--count", "100G", "--size", "32M") as program:
        return program.watch(40, "--apply", "--interval", "4s")


def turning() -> dict[str, Any]:
    with Program("numa-local", "--count", "100G", "--size", "32M", "--turn", "40") as program:
        return program.watch(130, "--apply", "--interval", "2s", "--threshold", "evidence_s=8")


def base_pages() -> dict[str, Any]:
    with Program("numa-graph", "--count", "100G", "--size", "64M", thp="never") as program:
        return program.watch(40, "--apply", "--interval", "4s", "--threshold", "interleave_above=9")


def would() -> dict[str, Any]:
    with Program("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        return program.watch(40, "--interval", "4s")


def killed() -> dict[str, Any]:
    """SIGKILL at random instants, and what tlbcost pool restore makes of it."""
    chance = random.Random(1)
    switched = 0
    with Program("numa-vector", "--rounds", "1G", "--size", "32M") as program:
        for _ in range(KILLS):
            words = [TLBCOST, "numa", "--watch", str(program.pid), "--apply", *WATCH]
            quick = ["--interval", "0.2s", "--threshold", "samples=1", "--threshold", "windows=2"]
            with subprocess.Popen(
                [*words, *quick], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as watcher:  # fmt: skip
                time.sleep(1 + 4 * chance.random())
                watcher.send_signal(signal.SIGKILL)
            switched += program.state()["thp_enabled"] == 0
            done = subprocess.run([TLBCOST, "pool", "restore"], capture_output=True, check=False)
            state = program.state()
            if done.returncode or not state["alive"] or state["thp_enabled"] != 1:
                return {"killed": False, "state": state, "text": done.stderr.decode()}
        return {
            "killed": True,
            "switched": switched,
            "left": Path("/run/tlbcost/journal.json").exists(),
        }


STEPS = {
    each.__name__: each for each in (hot, shared, graph, local, would, base_pages, turning, killed)
}


def main() -> int:
    os.environ |= {"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp", "TMPDIR": "/tmp"}
    chosen = os.environ.get("STEPS", "").split() or list(STEPS)
    results: dict[str, Any] = {}
    for name in chosen:
        begin = time.monotonic()
        print(f"step {name}", flush=True)
        try:
            results[name] = STEPS[name]()
        except Exception as error:
            results[name] = {"error": repr(error)}
        print(f"{time.monotonic() - begin:.0f} s", flush=True)
    packed = base64.encodebytes(gzip.compress(json.dumps(results).encode())).decode()
    print(f"@@results\n{packed}@@packed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
