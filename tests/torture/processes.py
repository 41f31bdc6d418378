# SPDX-License-Identifier: GPL-2.0-or-later
"""Do Python's threads, subprocesses, pools and signals work as if nobody were there?"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

BEGUN = time.monotonic()


def more() -> bool:
    """Whether to continue: see torture.h."""
    until = os.environ.get("TORTURE_UNTIL")
    passed = time.monotonic() - BEGUN
    return passed < (60 if until else 1) and not (until and Path(until).exists())


def digest(number: int) -> str:
    """Something to compute."""
    return hashlib.sha256(b"%d" % number * 1000).hexdigest()


def run_commands(results: set[object]) -> None:
    """Commands one after the other, with their output and exit codes."""
    while True:
        done = subprocess.run(
            ["sh", "-c", "read line; echo got $line; exit 5"],
            input=b"a line\n",
            capture_output=True,
            check=False,
        )
        results.add((done.returncode, done.stdout, done.stderr))
        if not more():
            return


def compute(results: set[object]) -> None:
    """The same result again and again."""
    while True:
        results.add(digest(7))
        if not more():
            return


def main() -> int:
    """Print what was seen; the same in each run."""
    results: set[object] = set()
    signals: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: signals.append(number))
    works = [run_commands, run_commands, compute, compute]
    threads = [threading.Thread(target=work, args=(results,)) for work in works]
    for thread in threads:
        thread.start()
    sent = 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        while True:
            results.add(tuple(pool.map(digest, range(20))))
            os.kill(os.getpid(), signal.SIGUSR1)
            sent += 1
            if not more():
                break
        pool.close()
        pool.join()
    for thread in threads:
        thread.join()
    print(len(results), (5, b"got a line\n", b"") in results, digest(7) in results)
    print("signals", len(signals) == sent)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        print("no child is left")
    return 23


if __name__ == "__main__":
    sys.exit(main())
