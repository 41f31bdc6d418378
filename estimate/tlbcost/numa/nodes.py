# SPDX-License-Identifier: GPL-2.0-or-later
"""Which NUMA nodes and caches does this machine have?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.calibration.other_sources import sysfs_caches
from tlbcost.common.document import doc
from tlbcost.system.machine import current_machine, read_line, sys_path

Spread = Literal["round-robin", "blocks"]
SPREADS: tuple[Spread, ...] = ("round-robin", "blocks")

# The machine of the slides has four.
ASSUMED_NODES = 4
MOST_NODES = 64


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that placements are for."""

    count: Annotated[int, doc("how many nodes", minimum=2)]
    source: Annotated[
        Literal["asked", "machine", "assumed"],
        doc("source of that number; machine: this machine's"),
    ]

    @property
    def sentence(self) -> str:
        return {
            "asked": "as asked for",
            "machine": "of this machine",
            "assumed": "assumed: this machine has one",
        }[self.source]


def parse_count(text: str) -> int:
    """A number of nodes, as the type of an option. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()) or not 2 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"not a number of nodes from 2 to {MOST_NODES}: {text}")
    return int(text)


def machine_nodes() -> list[int]:
    """Numbers of this machine's nodes with CPUs; [] if the kernel reports none."""
    numbers = []
    for path in sys_path("/sys/devices/system/node").glob("node*"):
        number = path.name.removeprefix("node")
        if number.isdigit() and read_line(f"/sys/devices/system/node/{path.name}/cpulist"):
            numbers.append(int(number))
    return sorted(numbers)


def choose_nodes(asked: int | None) -> Nodes:
    """The requested number; else this machine's, if it has several; else ASSUMED_NODES."""
    if asked is not None:
        return Nodes(asked, "asked")
    here = len(machine_nodes())
    return Nodes(here, "machine") if here > 1 else Nodes(ASSUMED_NODES, "assumed")


def cache_sizes() -> tuple[int, int, str]:
    """Bytes of one thread's L2 cache, of its share of the L3, and their source.

    The share is the L3's size over the CPUs that use it. A hypervisor reports the L3 of the host's
    CPUs, not of the guest's: then the share is assumed to be as large as the L2.
    """
    level = {
        cache.level: cache.size_bytes // cache.cpus
        for cache in sysfs_caches()
        if cache.kind != "instruction"
    }
    if 2 not in level:
        return 1 << 20, 1 << 20, "assumed, since this machine does not report its caches"
    l2 = level[2]
    if 3 not in level:
        return l2, 0, "of this machine, which has no L3"
    if current_machine().hypervisor is not None:
        return l2, l2, "L2 as reported by the hypervisor, the share of the L3 assumed"
    return l2, level[3], "of this machine"
