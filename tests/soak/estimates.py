# SPDX-License-Identifier: GPL-2.0-or-later
"""Does anything grow over many estimates, in a row and 8 at once, and do their results agree?

The peaks of memory of the first tenth and of the last one are compared; no file and no process may
stay; each expected gain must lie within the interval of the first.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kills import BUILD, PR_SET_CHILD_SUBREAPER, priced, reap

_AT_ONCE = 8


@dataclass(frozen=True)
class Estimate:
    """What one estimate said and used. `why`: it failed."""

    value: float | None
    low: float | None
    high: float | None
    peak_mib: float
    why: str | None


class Estimates:
    """Estimates of one program, with their files in a folder that must be empty afterwards."""

    def __init__(self, scratch: Path, program: Sequence[str], share: Path) -> None:
        self._scratch, self._program, self._share = scratch, program, share
        self.tmpdir = scratch / "tmp"
        self.tmpdir.mkdir()
        self._costs = priced(scratch)

    def one(self, number: int) -> Estimate:
        """Estimate once."""
        made = self._scratch / f"{number}.json"
        words = [str(BUILD / "tlbcost"), "estimate", "--calibration", self._costs, "--runs", "1"]
        words += ["--no-measure", "--quiet", "--json", str(made), "--output", os.devnull, "--"]
        process = subprocess.Popen(
            ["flock", "-s", str(self._share), *words, *self._program],
            env=os.environ | {"TMPDIR": str(self.tmpdir), "TLBCOST_WAIT_S": "0"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        said = process.stderr.read().decode(errors="replace").strip()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        why = f"exit code {process.returncode}: {said[-300:]}" if process.returncode else None
        document = json.loads(made.read_text()) if why is None else {}
        made.unlink(missing_ok=True)
        gain = document.get("expected_fraction") or dict.fromkeys(("value", "low", "high"))
        return Estimate(gain["value"], gain["low"], gain["high"], usage.ru_maxrss / 1024, why)


def report(name: str, found: Sequence[Estimate], first: Estimate, seconds: float) -> list[str]:
    """Print a row; returns what is wrong."""
    wrong = [f"{name} {n}: {each.why}" for n, each in enumerate(found) if each.why]
    values = [each.value for each in found if each.value is not None]
    if first.low is not None and first.high is not None:
        within = sum(first.low <= value <= first.high for value in values)
    else:
        within = 0
    if within < len(values):
        wrong.append(f"{name}: {len(values) - within} results are outside of the first's interval")
    # Peaks of the first tenth and the last one: something that grows shows there.
    part = max(1, len(found) // 10)
    begin = max(each.peak_mib for each in found[:part])
    end = max(each.peak_mib for each in found[-part:])
    print(
        f"| {name} | {len(found)} | {seconds:.0f} | {within} of {len(values)} "
        f"| {begin:.1f} | {end:.1f} |"
    )
    if end > 1.2 * begin:
        wrong.append(f"{name}: the peak grew from {begin:.1f} to {end:.1f} MiB")
    return wrong


def main() -> int:
    """Estimate; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--estimates", type=int, default=200, help="in a row")
    parser.add_argument("--minutes", type=float, default=30, help="of 8 at once")
    parser.add_argument("--share", type=Path, default=Path(os.devnull), help="as of kills.py")
    given = parser.parse_args()
    # What loses its parent becomes our child: see kills.py.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = [str(BUILD / "workloads" / "hash-lookup"), "--size", "16M", "--count", "400000"]
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="soak-estimates-") as name:
        run = Estimates(Path(name), program, given.share)
        first = run.one(0)
        if first.value is None:
            print(f"the first estimate failed or has no gain: {first.why}", file=sys.stderr)
            return 1
        print(f"first: {first.value:.4f} ({first.low:.4f} to {first.high:.4f})", flush=True)
        print("| estimates | number | seconds | in the first's interval | first MiB | last MiB |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        begun = time.monotonic()
        row = [run.one(n) for n in range(given.estimates)]
        wrong += report("in a row", row, first, time.monotonic() - begun)
        sys.stdout.flush()
        begun, many = time.monotonic(), list[Estimate]()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while time.monotonic() - begun < 60 * given.minutes:
                numbers = range(len(many), len(many) + _AT_ONCE)
                many += pool.map(run.one, numbers)
        if many:
            wrong += report("8 at once", many, first, time.monotonic() - begun)
        wrong += [f"left: {path}" for path in run.tmpdir.iterdir()] + reap(5)
    print("\n".join(wrong) or "nothing stays, nothing grows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
