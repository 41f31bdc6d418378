# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that fixes a gap, as this user types it on this system. None: no command does."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys

from tlbcost.common.errors import TOOL_FAILED, TlbcostError, hint_for
from tlbcost.common.paths import libexec, source_tree, sys_path

# Each package manager's command, and its names for our needs where they differ.
_MANAGERS = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "zypper": "zypper install -y",
    "pacman": "pacman -S --noconfirm",
    "apk": "apk add",
}
_PACKAGES = {
    "valgrind": {"dnf": "valgrind valgrind-tools-devel", "zypper": "valgrind valgrind-devel"},
    "gnuplot": {"apt-get": "gnuplot-nox"},
    "zydis": {
        "apt-get": "libzydis-dev",
        "dnf": "zydis-devel",
        "zypper": "zydis-devel",
        "apk": "zydis-dev",
    },
    "hugectl": {
        "apt-get": "libhugetlbfs-bin",
        "dnf": "libhugetlbfs-utils",
        "zypper": "libhugetlbfs",
    },
}


def is_root() -> bool:
    return os.geteuid() == 0


def as_root(command: str) -> str:
    """A command without shell operators, to be run with root's rights."""
    if is_root():
        return command
    return f"sudo {command}" if shutil.which("sudo") else f"su -c {shlex.quote(command)}"


def again_as_root() -> str:
    """The command line that was typed, with root's rights, whose PATH is often another one."""
    tree = source_tree()
    front = str(tree / "build" / "tlbcost") if tree is not None else shutil.which("tlbcost")
    return as_root(shlex.join([front or "tlbcost", *sys.argv[1:]]))


def install(program: str) -> str | None:
    for manager, command in _MANAGERS.items():
        if shutil.which(manager):
            names = _PACKAGES.get(program, {})
            if program == "hugectl" and manager not in names:
                return None
            return as_root(f"{command} {names.get(manager, program)}")
    return None


def write_setting(value: str, path: str) -> str | None:
    """Write a kernel setting; None if it does not exist or cannot be written at all."""
    try:
        if os.statvfs(sys_path(path)).f_flag & os.ST_RDONLY:
            return None
    except OSError:
        return None
    if is_root():
        return f"echo {value} > {path}"
    if shutil.which("sudo"):
        return f"echo {value} | sudo tee {path}"
    return f"su -c 'echo {value} > {path}'"


def build(target: str) -> str | None:
    """Build a part of tlbcost; None if it is installed without its source."""
    tree = source_tree()
    return None if tree is None else f"make -C {shlex.quote(str(tree))} {target}"


def cannot_run(tool: str, error: OSError) -> TlbcostError:
    missing = error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, None)
    hint = rebuild() if missing else hint_for(error.errno)
    return TlbcostError(f"cannot run {tool}: {error.strerror}", hint, TOOL_FAILED)


def rebuild() -> str:
    if source_tree() is None and not libexec("").is_dir():
        return "make install in tlbcost's source tree: what pip installs has no C programs"
    return build("all") or "install tlbcost again: one of its own programs is missing"
