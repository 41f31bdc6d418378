# SPDX-License-Identifier: GPL-2.0-or-later
"""Can this command be started at all, and can the simulator follow it? Asked before it runs."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from pathlib import Path

from tlbcost.common.errors import NOT_EXECUTABLE, NOT_FOUND, TOOL_FAILED, TlbcostError

_SCRIPT_DEPTH = 4  # the kernel follows no more interpreters of interpreters
_ELF_CLASS_32 = 1


def resolve(name: str) -> Path:
    """Find the file as execvp(3) does. Raises TlbcostError with exit code 126 or 127."""
    search = os.environ.get("PATH", os.defpath).split(":") if name else []
    folders = [""] if "/" in name else search
    refused: Path | None = None
    for folder in folders:
        path = Path(folder, name)
        # False also in a folder that may not be entered, where Path.exists() raises.
        if not os.access(path, os.F_OK):
            continue
        if path.is_file() and os.access(path, os.X_OK):
            return path
        refused = refused or path
    if refused is None:
        raise _not_found(name)
    if refused.is_dir():
        raise TlbcostError(
            f"cannot run {name}: it is a directory",
            "name the program, e.g. one of the files in it",
            NOT_EXECUTABLE,
        )
    raise TlbcostError(
        f"cannot run {name}: not executable",
        f"chmod +x {shlex.quote(str(refused))}; a script also runs as: "
        f"tlbcost estimate sh {shlex.quote(str(refused))}",
        NOT_EXECUTABLE,
    )


def check_simulatable(path: Path) -> None:
    """Refuse what would not run in the simulator as natively: TlbcostError, exit code 125."""
    chain = [path, *_interpreters(path)]
    for file in chain:
        head = _head(file)
        if head[:4] == b"\x7fELF" and head[4:5] == bytes([_ELF_CLASS_32]):
            raise TlbcostError(
                f"cannot simulate {file}: it is a 32-bit program, and the simulator is 64-bit",
                "build it for 64 bits (without -m32), and estimate that",
                TOOL_FAILED,
            )
    # The kernel ignores these bits on a script, but not on what interprets it.
    privilege = _privilege(chain[-1])
    if privilege:
        raise TlbcostError(
            f"cannot simulate {chain[-1]}: it is {privilege}, and a simulated program cannot "
            "gain privileges",
            f"estimate a copy without them: cp {shlex.quote(str(chain[-1]))} /tmp/ && "
            f"tlbcost estimate /tmp/{shlex.quote(chain[-1].name)} ...",
            TOOL_FAILED,
        )


def rights_gained(path: Path) -> str | None:
    """What gives a program, or what interprets it, rights of its own: 'setuid'; None: nothing."""
    return _privilege([path, *_interpreters(path)][-1])


def start_failure(name: str, path: Path, error: int) -> TlbcostError:
    """Why execve(2) refused a file that exists and is executable, as an error to raise."""
    why, hint = os.strerror(error).lower(), None
    interpreter = _interpreter(path)
    if error == errno.ENOENT and interpreter is not None:
        why = f"its interpreter {interpreter} does not exist"
        hint = f"correct the first line of {path}"
    elif error == errno.ENOENT and path.exists():
        why = "the loader that it was linked for does not exist"
        hint = f"readelf -l {shlex.quote(str(path))} | grep interpreter"
    elif error == errno.ENOEXEC:
        why = "neither a program for this machine nor a script with a #! line"
        hint = (
            "if it is a shell script, write #!/bin/sh in its first line, or: "
            f"tlbcost estimate sh {shlex.quote(str(path))}"
        )
    elif error == errno.EACCES:
        hint = f"findmnt -T {shlex.quote(str(path))} shows whether it is mounted noexec"
    elif error == errno.E2BIG:
        hint = "the arguments and the environment together are too long; shorten them"
    code = NOT_FOUND if error == errno.ENOENT else NOT_EXECUTABLE
    return TlbcostError(f"cannot run {name}: {why}", hint, code)


def _not_found(name: str) -> TlbcostError:
    if "/" in name:
        return TlbcostError(
            f"cannot run {name}: no such file",
            f"ls {shlex.quote(str(Path(name).parent))}",
            NOT_FOUND,
        )
    if name and os.access(name, os.X_OK) and Path(name).is_file():
        hint = f"the one in this directory runs as: tlbcost estimate ./{shlex.quote(name)}"
    else:
        hint = "check the spelling, or give the path of the program"
    return TlbcostError(f"cannot run {name!r}: no such program on PATH", hint, NOT_FOUND)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(256)
    except OSError:
        return b""  # executable but not readable: what it is shows when it runs


def _interpreter(path: Path) -> Path | None:
    head = _head(path)
    if not head.startswith(b"#!"):
        return None
    words = head[2:].split(b"\n", 1)[0].split()
    return Path(os.fsdecode(words[0])) if words else None


def _interpreters(path: Path) -> list[Path]:
    found: list[Path] = []
    interpreter = _interpreter(path)
    while interpreter is not None and len(found) < _SCRIPT_DEPTH:
        found.append(interpreter)
        interpreter = _interpreter(interpreter)
    return found


def _privilege(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if mode & stat.S_ISUID:
        return "setuid"
    # Without the group's execute bit it means mandatory locking, not a privilege.
    if mode & stat.S_ISGID and mode & stat.S_IXGRP:
        return "setgid"
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return None
    return "given capabilities (getcap)"
