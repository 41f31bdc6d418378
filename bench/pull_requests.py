# SPDX-License-Identifier: GPL-2.0-or-later
"""Does scripts/pull-request find rises of page walks by 1 to 5 %, and nothing where there is none?

Writes doc/benchmarks.md. A program of ten functions: in each one a rise is planted, and 50 times
nothing is changed. `--load COMMAND` runs next to it. Exits 1 if a rise is not found and named with
its function and line, or if there is an alarm without one. About ten minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- pull-requests: begin -->\n", "<!-- pull-requests: end -->\n"
FUNCTIONS, LOOKUPS, SAME = 10, 20_000, 50
HEAD = """#include <stdlib.h>
#define SIZE (64ul << 20)
static char *table;
static unsigned long state = 1;
"""
# Each in a way of its own, so that no two of them are one function to the compiler.
FUNCTION = """__attribute__((noinline)) static long visit_%d(long count)
{
	long sum = %d;
	while (count-- > 0) {
		state = state * 6364136223846793005ul + %d;
		sum += table[(state >> 16) %% SIZE];
	}
	return sum;
}
"""


def source(lookups: list[int]) -> str:
    functions = "".join(FUNCTION % (n, n, 2 * n + 1) for n in range(len(lookups)))
    calls = "".join(f"\tsum += visit_{n}({count});\n" for n, count in enumerate(lookups))
    return (
        f"{HEAD}{functions}int main(void)\n{{\n\tlong sum = 0;\n\ttable = calloc(SIZE, 1);\n"
        "\tfor (unsigned long at = 0; at < SIZE; at += 4096)\n\t\ttable[at] = 1;\n"
        f"{calls}\treturn sum == 42;\n}}\n"
    )


def lines_of(text: str, function: int) -> range:
    """The lines of the body of a function."""
    first = text[: text.index(f"visit_{function}(long")].count("\n") + 1
    return range(first, first + FUNCTION.count("\n"))


def named_by(folder: Path, lookups: list[int]) -> tuple[int, list[tuple[int, str]]]:
    """The exit code of the script, and the lines and functions that it names."""
    (folder / "app.c").write_text(source(lookups), encoding="utf-8")
    done = subprocess.run(
        [str(TREE / "scripts/pull-request")], cwd=folder, text=True, check=False,
        capture_output=True,
        env=os.environ | {
            "PATH": f"{TREE / 'build'}:{os.environ['PATH']}", "TLBCOST_COMMAND": "./app",
            "TLBCOST_BUILD": "cc -g -O1 -o app app.c", "TLBCOST_BASE": "HEAD",
            "TLBCOST_MOST": "0.5%", "GITHUB_STEP_SUMMARY": "/dev/null",
        },
    )  # fmt: skip
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    found = re.findall(r"line=(\d+)::(\w+):", done.stdout)
    return done.returncode, [(int(line), name) for line, name in found]


def main() -> int:
    """Plant rises, and change nothing; write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", help="a command that runs next to it all")
    arguments = parser.parse_args()
    load = subprocess.Popen(shlex.split(arguments.load)) if arguments.load else None
    same = [LOOKUPS] * FUNCTIONS
    rows = ["| planted in | reads added | exit code | named |", "| --- | ---: | ---: | --- |"]
    missed = alarms = 0
    try:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            (folder / "app.c").write_text(source(same), encoding="utf-8")
            who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
            for step in (("init",), ("add", "app.c"), (*who, "commit", "-m", "first")):
                subprocess.run(["git", *step], cwd=folder, check=True, capture_output=True)
            for n in range(FUNCTIONS):
                share = 1 + 4 * n / (FUNCTIONS - 1)
                changed = list(same)
                changed[n] += round(share / 100 * sum(same))
                code, named = named_by(folder, changed)
                right = code == 3 and [name for _, name in named] == [f"visit_{n}"]
                right = right and named[0][0] in lines_of(source(changed), n)
                missed += not right
                words = ", ".join(f"{name}, app.c:{line}" for line, name in named) or "nothing"
                rows.append(f"| visit_{n} | {share:.1f} % | {code} | {words} |")
                print(rows[-1], file=sys.stderr, flush=True)
            for _ in range(SAME):
                code, named = named_by(folder, same)
                alarms += code != 0 or bool(named)
    finally:
        if load is not None:
            load.terminate()
    alongside = "with nothing else running" if load is None else f"next to `{arguments.load}`"
    rows += ["", f"{alarms} alarms in {SAME} runs of the same program, {alongside}."]
    print(rows[-1], file=sys.stderr)
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    text = "\n".join(rows)
    PAGE.write_text(f"{before}{BEGIN}{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
    return int(missed > 0 or alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
