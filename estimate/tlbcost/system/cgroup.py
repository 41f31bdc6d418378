# SPDX-License-Identifier: GPL-2.0-or-later
"""Did the kernel kill something here because a memory limit was reached, and which limit?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tlbcost.system.machine import read_text, sys_path

# Version 1 writes "no limit" as the largest multiple of the page size in 63 bits.
NO_LIMIT_BYTES = 1 << 60
# By version: the file with the counter of kills, and the one with the limit.
_FILES = {1: ("memory.oom_control", "memory.limit_in_bytes"), 2: ("memory.events", "memory.max")}


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """State of this process's memory cgroup. `None`: no such figure, or no limit."""

    oom_kills: int | None
    limit_bytes: int | None


def memory_limit() -> MemoryLimit:
    """The kills so far and the tightest limit of this process's memory cgroup and its ancestors."""
    for folder, root, version in folders("memory"):
        kills, limits = _FILES[version]
        counter = re.search(r"^oom_kill (\d+)$", _text(folder / kills), re.MULTILINE)
        if counter is None:
            continue
        own = [each for each in (folder, *folder.parents) if each.is_relative_to(root)]
        bound = [limit for each in own if (limit := number_in(each / limits)) is not None]
        known = [limit for limit in bound if limit < NO_LIMIT_BYTES]
        return MemoryLimit(int(counter[1]), min(known, default=None))
    return MemoryLimit(None, None)


def folders(controller: str) -> list[tuple[Path, Path, int]]:
    """(this process's folder, the mount, version of cgroups) for a controller, version 1 first."""
    groups: dict[str, str] = {}
    for line in (read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    found = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind[0] == "cgroup" and controller in kind[-1].split(",") and controller in groups:
            path, version = groups[controller], 1
        elif kind[0] == "cgroup2" and "" in groups:
            path, version = groups[""], 2
        else:
            continue
        # A container's mount shows only its own part of the tree.
        root, mount = fields[3].rstrip("/"), sys_path(fields[4])
        inside = path[len(root) :] if path == root or path.startswith(f"{root}/") else ""
        found.append((mount / inside.strip("/"), mount, version))
    return sorted(found, key=lambda each: each[2])


def number_in(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
