# SPDX-License-Identifier: GPL-2.0-or-later
"""Does anything stay when tlbcost is killed (SIGKILL) at a random instant, and then restored?

After each kill all processes of it must have ended by themselves; after `tlbcost pool restore` the
settings, the mounts and the folder for temporary files must be as they were. Needs root.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
BUILD = TREE / "build"
PR_SET_CHILD_SUBREAPER = 36
# Who is asked to end has two seconds before it is killed; the rest is for a busy machine.
_ENDED_S = 20.0
# Somebody else on this machine may be changing settings, for a test.  What we left stays for ever.
_SETTLED_S = 60.0
_LOADS = (
    "load_ns\tNA\tserial\t256\t1.25\t1.2\t1.3\t9",
    "load_ns\tNA\tserial\t4096\t4\t3.9\t4.1\t9",
    "load_ns\tNA\tserial\t65536\t25\t24\t26\t9",
    "load_ns\tNA\tserial\t4194304\t90\t85\t95\t9",
    "load_ns\tNA\toverlapped\t65536\t2.5\t2.4\t2.6\t9",
    "stream_ns\tNA\tNA\t262144\t2\t1.9\t2.1\t9",
    "cycles_per_ns\tNA\tNA\tNA\t3.5\t3.4\t3.6\t9",
)
_SETTINGS = (
    "sys/kernel/mm/transparent_hugepage/*enabled",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/transparent_hugepage/hugepages-*/enabled",
    "sys/kernel/mm/hugepages/*/nr_*hugepages",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/kernel/yama/ptrace_scope",
)


def kinds(costs: str = "") -> dict[str, list[str]]:
    """What is killed, each below a shell: what a program starts must not stay either.

    `costs`: a calibration.
    """
    patterns = BUILD / "workloads"
    lookup = f"{patterns}/hash-lookup --size 16M --count 400000 >/dev/null; true"
    shell = ["--", "sh", "-c"]
    return {
        "trial": ["trial", "--no-estimate", "--pairs", "3", "--with", "thp", *shell, lookup],
        "pool reserve": ["pool", "reserve", "8", *shell, "sleep 1; true"],
        "pool reserve, to stay": ["pool", "reserve", "8"],
        "validate --stream": ["validate", "--stream", "--size", "16M", "--pairs", "3", "--",
                              "--rounds", "3"],
        "pagesizes": ["pagesizes", "--rounds", "3", "--accesses", "20000", "--only", "10",
                      "--size", "2M"],
        "run --thp": ["run", "--thp", *shell, lookup],
        "estimate": ["estimate", "--calibration", costs, "--runs", "2", *shell, lookup],
    }  # fmt: skip


@dataclass
class Count:
    """What came of the kills of one kind; `early`: it had ended before."""

    kills: int = 0
    early: int = 0
    left: list[str] = field(default_factory=list)


def priced(folder: Path) -> str:
    """A made-up calibration that has the costs of loads, too: programs are followed in copies."""
    lines = (TREE / "tests" / "golden" / "calibration.tsv").read_text().splitlines()
    rows = [line for line in lines if not line.startswith("# end:")] + list(_LOADS)
    columns = sum(not line.startswith("#") for line in rows) - 1
    path = folder / "calibration.tsv"
    path.write_text("\n".join([*rows, f"# end: {columns}", ""]))
    return str(path)


def settings() -> dict[str, str]:
    """All that tlbcost may change, and what it mounts and notes."""
    found = {
        str(path): path.read_text().strip()
        for pattern in _SETTINGS
        for path in sorted(Path("/").glob(pattern))
        if "surplus" not in path.name
    }
    mounts = Path("/proc/mounts").read_text().splitlines()
    found["mounts"] = "\n".join(sorted(line for line in mounts if "hugetlbfs" in line))
    notes = Path("/run/tlbcost").glob("*")
    found["/run/tlbcost"] = " ".join(sorted(each.name for each in notes if each.name != "private"))
    return found


def differences(before: dict[str, str]) -> list[str]:
    """What is not as it was."""
    now = settings()
    names = sorted(before.keys() | now.keys())
    return [
        f"{name}: {before.get(name)!r} -> {now.get(name)!r}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def settled(before: dict[str, str]) -> list[str]:
    """The same, after somebody else had the time to put back what he changes."""
    deadline = time.monotonic() + _SETTLED_S
    while (found := differences(before)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def reap(seconds: float) -> list[str]:
    """Wait until all our children have ended, orphans among them; the names of those that stay."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        time.sleep(0.01)
    return [
        f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
        for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    ]


class Soak:
    """Kills of tlbcost in `scratch`; what is written goes to a log there."""

    def __init__(self, scratch: Path, log: Path) -> None:
        self._tmpdir = scratch / "tmp"
        self._tmpdir.mkdir()
        self._log = log.open("ab", buffering=0)
        self._environment = os.environ | {
            "TMPDIR": str(self._tmpdir), "XDG_CACHE_HOME": str(scratch / "cache"),
            "XDG_STATE_HOME": str(scratch / "state"), "TLBCOST_WAIT_S": "0",
        }  # fmt: skip
        self.before = settings()

    def start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start tlbcost, its output to the log."""
        self._log.write(f"$ tlbcost {' '.join(words)}\n".encode())
        return subprocess.Popen(
            [BUILD / "tlbcost", *words], env=self._environment, cwd=self._tmpdir.parent,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def duration(self, words: Sequence[str]) -> float:
        """How long it runs when nobody kills it. Raises SystemExit if it fails."""
        begun = time.monotonic()
        code = self.start(words).wait()
        taken = time.monotonic() - begun
        # Nothing proven on a busy machine is no failure of this test.
        if code not in (0, 4):
            raise SystemExit(f"tlbcost {' '.join(words)} exits with {code}: see the log")
        self.restore()
        return taken

    def restore(self) -> None:
        """What a user types afterwards: again, while another tlbcost has the settings."""
        deadline = time.monotonic() + _SETTLED_S
        while (code := self.start(["pool", "restore"]).wait()) != 0:
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        if code != 0:
            raise SystemExit(f"tlbcost pool restore exits with {code}: see the log")

    def kill(self, words: Sequence[str], after_s: float, count: Count) -> float:
        """Kill it after that time; note what stays. How long it runs if nobody kills it."""
        settled(self.before)
        begun, taken = time.monotonic(), math.inf
        process = self.start(words)
        try:
            process.wait(after_s)
            taken = time.monotonic() - begun
            count.early += 1
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            count.kills += 1
        where = f"killed after {after_s:.3f} s: "
        count.left += [where + name for name in reap(_ENDED_S)]
        self.restore()
        count.left += [where + name for name in settled(self.before)]
        count.left += [where + str(path) for path in self._tmpdir.iterdir()]
        return taken


def report(counts: dict[str, Count], spans: dict[str, float]) -> int:
    """Print a table; returns the exit code."""
    print("| command | runs | kills | ended before | seconds | left behind |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, each in counts.items():
        print(
            f"| `{name}` | {each.kills + each.early} | {each.kills} | {each.early} "
            f"| {spans[name]:.1f} | {len(each.left)} |"
        )
    left = [f"{name}: {what}" for name, each in counts.items() for what in each.left]
    print("\n".join(left))
    return 1 if left else 0


def main() -> int:
    """Kill; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="fewer kills after that")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only", action="append", choices=list(kinds()), help="may be repeated")
    parser.add_argument("--log", type=Path, default=BUILD / "soak-kills.log")
    parser.add_argument(
        "--share", type=Path, default=Path(os.devnull),
        help="share a lock (flock) on this file during each run: who times something locks it",
    )  # fmt: skip
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root")
    # What loses its parent becomes our child: nothing can hide, and a zombie is one of ours.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    draw = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="soak-kills-") as scratch:
        every = kinds(priced(Path(scratch)))
        chosen = {name: words for name, words in every.items() if name in (given.only or every)}
        soak = Soak(Path(scratch), given.log)
        for words in chosen.values():
            soak.duration(words)  # the first one may calibrate
        spans = {name: soak.duration(words) for name, words in chosen.items()}
        print(*(f"{name}: {span:.1f} s" for name, span in spans.items()), sep="; ", flush=True)
        counts = {name: Count() for name in chosen}
        names = list(chosen)
        runs, end = 0, time.monotonic() + 60 * given.minutes
        while (done := sum(each.kills for each in counts.values())) < given.kills:
            if time.monotonic() > end:
                break
            name = names[runs % len(names)]
            runs += 1
            with given.share.open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH)
                taken = soak.kill(chosen[name], draw.uniform(0, spans[name]), counts[name])
            spans[name] = min(spans[name], taken)
            if counts[name].left:
                print(f"{runs}: {name}: {counts[name].left[-1]}", file=sys.stderr, flush=True)
    print(f"seed {given.seed}, {done} kills:")
    return report(counts, spans)


if __name__ == "__main__":
    sys.exit(main())
