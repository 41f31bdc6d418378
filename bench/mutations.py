# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults planted one by one into a copy of the tree: does the first tier of tests find them?

Prints a row for each: the room, the fault, and the test that found it, or nothing. Python's are
shown to pytest, first to the room's own tests, C's to the C tests and then to bats. Takes half an
hour; `--only N,M` takes some.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
# A line of the product, which occurs once, and what it becomes.
FAULTS = (
    # An absent walk, a wrong unit, swapped ends.
    ("if walk or (missed and l2):", "if walk or missed:"),
    ('"%": 0.01, "ns"', '"%": 0.1, "ns"'),
    ("if expected.low + fault_low >= WORTH", "if expected.high + fault_high >= WORTH"),
    ("len(wanted) - SPLIT_INTERVALS + 1", "len(wanted) - SPLIT_INTERVALS"),
    ("return needed + max(spare, needed // _SPARE", "return max(spare, needed // _SPARE"),
    ("region.gain_fraction.high + fault_gain >=", "region.gain_fraction.low + fault_gain >="),
    ("max(mapping.anonymous_bytes - mapping.anonymous_huge_bytes, 0)",
     "max(mapping.anonymous_bytes, 0)"),
    ("int(anonymous) + int(shared or 0) + int(file or 0)", "int(anonymous) + int(file or 0)"),
    ("(self.user.high - self.user.low) / 2 / _Z95", "(self.user.high - self.user.low) / _Z95"),
    ("expected.low <= trial.measured_fraction.value <= expected.high",
     "expected.low <= trial.measured_fraction.value"),
    ("self.wall_ns - self.cpu_ns - self.waited_ns", "self.wall_ns - self.cpu_ns"),
    ("(1 << high - low + 1) - 1", "(1 << high - low) - 1"),
    ("| np.isinf(value) | (value < 0)", "| np.isinf(value)"),
    ("return a.value > factor * b.value and a.low > b.high", "return a.value > factor * b.value"),
    ("return malloc_fraction >= _MOST", "return malloc_fraction < _MOST"),
    ("if len(timed) >= _FEWEST:", "if len(timed) > _FEWEST:"),
    ("if ratio.low > 1 + WORTHWHILE_FRACTION:", "if ratio.high > 1 + WORTHWHILE_FRACTION:"),
    ("if version >= FIRST_WITH_HUGETLB:", "if version > FIRST_WITH_HUGETLB:"),
    ("if scope >= _NOBODY:", "if scope > _NOBODY:"),
    ("if base is None or huge is None or base <= 0", "if base is None or huge is None or base < 0"),
    # A setting that is not put back.
    ('sys_path(path).write_text(change.before, encoding="utf-8")', "sys_path(path)"),
    ("change.owner == self._owner and not change.kept", "change.owner == self._owner"),
    # C.
    ("if (!suffix || end[1]) {", "if (!suffix) {"),
    ("*c == 0x7f || *c == '\\\\')\n\t\t\tfprintf(file", "*c == 0x7f)\n\t\t\tfprintf(file"),
    ("denied |= errno == EACCES;", "denied |= 0;"),
    ("place->file = end + 1;", "place->file = end;"),
    ("*find(counts, capacity, from->key) = *from;", "find(counts, capacity, from->key);"),
    ("for (; bytes >> shift >= 32; shift++)", "for (; bytes >> shift > 32; shift++)"),
    ("extents->extent[i] = extents->extent[i - 1];", "extents->extent[i] = extents->extent[i];"),
    ("if (wanted <= memory->heap_end) {", "if (wanted < memory->heap_end) {"),
    ("vma.start <= first && vma.end >= first + size", "vma.start <= first && vma.end >= first"),
    ("memory->arena_next += bytes;", "memory->arena_next += 4096;"),
    (".exclude_kernel = target->mode == COUNT_USER,", ".exclude_kernel = 0,"),
    ("uint64_t idle = value->enabled_ns - value->running_ns;", "uint64_t idle = 0;"),
    ("return count ? median(known, count) : NAN;", "return count ? known[0] : NAN;"),
    ("counts->stlb_misses++;\n\telse", "counts->stlb_hits++;\n\telse"),
    ("if (found->stack == stack || !found->stack)", "if (!found->stack)"),
    ("if (rc == SIGSEGV && !instruction.repeats &&", "if (rc == SIGBUS && !instruction.repeats &&"),
    # A copy that may touch what it shares, and one that keeps a descriptor.
    ("shared_memory_isolate(&following->shared, copy, &following->registers, true) < 0 ||", ""),
    ("syscall(SYS_close_range, INJECTOR_SOCKET + 1, ~0u, 0);", ""),
)  # fmt: skip
PRODUCT = ("estimate/tlbcost", "profiler", "calibrator", "common")
FOUND = re.compile(r"^(?:FAILED|ERROR) (\S+)|^not ok (?:\d+|-) (.*)", re.MULTILINE)


def file_of(tree: Path, line: str) -> Path:
    """The only file that has it."""
    files = [
        path
        for folder in PRODUCT
        for path in (tree / folder).rglob("*")
        if path.suffix in (".py", ".c", ".h") and line in path.read_text(encoding="utf-8")
    ]
    if len(files) != 1 or files[0].read_text(encoding="utf-8").count(line) != 1:
        raise SystemExit(f"a fault's line occurs in {len(files)} files: {line}")
    return files[0]


def tests(tree: Path, path: Path) -> str:
    """What found it; empty: nothing did."""
    if path.suffix == ".py":
        words = ["build/venv/bin/pytest", "-q", "-x", "-m", "not long"]
        room = Path("tests/python") / path.relative_to(tree).parts[2]
        own = _output(tree, [*words, str(room)]) if (tree / room).is_dir() else ""
        return own or _output(tree, [*words, "tests/python"])
    built = subprocess.run(
        ["make", "-j2", "all", "c-tests"], cwd=tree, capture_output=True, check=False, text=True
    )
    if built.returncode != 0:
        return "the compiler"
    return _output(tree, ["tests/run", "c"]) or _output(tree, ["tests/run", "bats"])


def _output(tree: Path, words: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree / "estimate")}
    done = subprocess.run(
        words, cwd=tree, capture_output=True, check=False, text=True, env=environment
    )
    found = FOUND.search(done.stdout)
    return "" if found is None else (found[1] or found[2])


def main() -> int:
    """Exits 1 if more than four of forty are not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="numbers of faults, from 1")
    parser.add_argument("--skip-checks", action="store_true", help="only look for the lines")
    given = parser.parse_args()
    chosen = [int(n) - 1 for n in given.only.split(",")] if given.only else range(len(FAULTS))
    missed = 0
    # Ignored under nohup and in the background, where tests of signals would find every fault.
    for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_DFL)
    with tempfile.TemporaryDirectory(prefix="tlbcost-faults-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(TREE, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        for number in chosen:
            old, new = FAULTS[number]
            path = file_of(tree, old)
            if given.skip_checks:
                continue
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(old, new), encoding="utf-8")
            found = tests(tree, path)
            path.write_text(text, encoding="utf-8")
            missed += not found
            room = path.relative_to(tree).parent
            print(f"| {number + 1} | {room} | `{old.strip()[:60]}` | {found} |", flush=True)
    if given.skip_checks:
        print(f"{len(chosen)} lines occur once each", file=sys.stderr)
        return 0
    print(f"{len(chosen) - missed} of {len(chosen)} found", file=sys.stderr)
    return int(10 * missed > len(chosen))


if __name__ == "__main__":
    sys.exit(main())
