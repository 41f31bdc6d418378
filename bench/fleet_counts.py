# SPDX-License-Identifier: GPL-2.0-or-later
"""How long do the counts of a whole fleet take, and how much memory? Writes doc/benchmarks.md.

Makes a table of 50 million rows (2,000 hosts of four CPUs, five services on each, five events a
second) in Parquet files below build/fleet, one for every 20 s, so that each file has all hosts;
one row in a thousand is no count. Then `tlbcost review --counts` reads them: wall time and the
largest resident set.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from tlbcost.common.document import now
from tlbcost.common.paths import version
from tlbcost.system.machine import current_machine

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
FOLDER = TREE / "build" / "fleet"
BEGIN, END = "<!-- fleet: begin -->\n", "<!-- fleet: end -->\n"
# With all events of their formula of cycles; of the last nothing is known.
CPUS = ("skx", "icx", "spr", "GenuineIntel,6,85,7", "anselm-9000")
EVENTS = (
    "cycles:u", "instructions:u", "dtlb_load_misses.walk_active:u",
    "dtlb_store_misses.walk_active:u", "itlb_misses.walk_active:u",
)  # fmt: skip
SERVICES = 20
OF_HOST = 5
ROWS = 50_000_000
FILE_SECONDS = 20


def cpu_of(host: int) -> str:
    """One host in 500 has an unknown CPU."""
    return CPUS[-1] if host % 500 == 499 else CPUS[host % (len(CPUS) - 1)]


def hosts_frame(hosts: int, seconds: int, chance: np.random.Generator) -> pd.DataFrame:
    """The rows of these hosts in some seconds: each second, service and event of each host."""
    n = hosts * OF_HOST * len(EVENTS)
    host = np.tile(np.repeat(np.arange(hosts), OF_HOST * len(EVENTS)), seconds)
    place = np.tile(np.repeat(np.arange(OF_HOST), len(EVENTS)), hosts * seconds)
    event = np.tile(np.arange(len(EVENTS)), hosts * OF_HOST * seconds)
    service = (host * 7 + place * 3) % SERVICES
    # A service's cycles in walks are a share of its own, which its hosts differ in somewhat.
    walking = 0.02 + 0.3 * service / SERVICES + 0.05 * np.sin(host)
    walking = np.clip(walking, 0.001, 0.9)
    of_cycles = np.choose(
        event, [np.ones(n * seconds), 1.3, walking, 0.2 * walking, 0.05 * walking]
    )
    value = np.floor(2e9 * of_cycles * chance.uniform(0.9, 1.1, n * seconds))
    running = np.ones(n * seconds)
    # What is no count: not counted, negative, scaled.
    bad = chance.integers(0, 3000, n * seconds)
    value[bad == 0] = np.nan
    value[bad == 1] = -1.0
    running[bad == 2] = 0.5
    names = {
        "host": pd.Index([f"host-{i:05d}" for i in range(hosts)]),
        "service": pd.Index([f"service-{i:02d}" for i in range(SERVICES)]),
        "event": pd.Index(EVENTS),
    }
    cpus = pd.Categorical([cpu_of(i) for i in range(hosts)], categories=list(CPUS))
    return pd.DataFrame(
        {
            "host": pd.Categorical.from_codes(host, names["host"]),
            "service": pd.Categorical.from_codes(service, names["service"]),
            "cpu_model": pd.Categorical.from_codes(cpus.codes[host], pd.Index(CPUS)),
            "event": pd.Categorical.from_codes(event, names["event"]),
            "value": value,
            "seconds": np.ones(n * seconds),
            "running_fraction": running,
        }
    )


def generate(folder: Path, rows: int, seed: int = 1) -> int:
    """Write the files, unless they are there; returns their rows."""
    hosts = 2000
    each = hosts * OF_HOST * len(EVENTS) * FILE_SECONDS
    files = max(1, round(rows / each))
    mark = folder / f"{files}.complete"
    if not mark.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(files):
            frame = hosts_frame(hosts, FILE_SECONDS, np.random.default_rng(seed + i))
            frame.to_parquet(folder / f"stats-{i:03d}.parquet", index=False)
            print(f"{i + 1} of {files} files", file=sys.stderr, flush=True)
        mark.touch()
    return files * each


def review(folder: Path, document: Path) -> tuple[float, int]:
    """Seconds, and the largest resident set in bytes, of one review."""
    started = time.monotonic()
    subprocess.run(
        [
            TREE / "build/tlbcost", "review", "--counts", str(folder / "*.parquet"), "--json",
            str(document), "--output", os.devnull,
        ],
        check=True,
    )  # fmt: skip
    seconds = time.monotonic() - started
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def main() -> int:
    """Generate, review, and write the section; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="fewer: nothing is written")
    rows = parser.parse_args().rows
    folder = FOLDER / str(rows)
    made = generate(folder, rows)
    document = folder / "fleet.json"
    seconds, resident = review(folder, document)
    found = json.loads(document.read_text(encoding="utf-8"))
    if found["rows_read"] != made:
        print(f"{found['rows_read']} of {made} rows were read", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in folder.glob("*.parquet"))
    lines = [
        f"Measured by `make bench NAME=fleet_counts` on {now()[:10]} with tlbcost {version()}, on "
        f"{current_machine().cpu_name} with {os.cpu_count()} CPUs.",
        "",
        "| rows | files | on disk | hosts | estimates | left out | time | largest resident set |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        f"| {made:,} | {found['files']} | {size / 2**20:.0f} MiB | {found['hosts']:,} "
        f"| {sum(row['hosts'] for row in found['rows']):,} "
        f"| {made - found['rows_used']:,} rows | {seconds:.0f} s | {resident / 2**30:.2f} GiB |",
    ]
    print("\n".join(lines), file=sys.stderr)
    if rows == ROWS:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN, 1)
        section = f"{BEGIN}{chr(10).join(lines)}\n{END}"
        PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
