# SPDX-License-Identifier: GPL-2.0-or-later
"""Where tlbcost's own programs and data are, in the source tree and when installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_TREE = _PACKAGE.parent.parent
_IN_TREE = (_TREE / "estimate" / "tlbcost").is_dir()


def _home() -> Path:
    """Where data/, plots/ and VERSION are, and libexec/ where the C programs are installed, too.

    `make install` puts the package into <home>/python/tlbcost; a wheel has share/tlbcost below the
    environment's prefix, without C programs.
    """
    made = _PACKAGE.parent.parent
    return made if (made / "VERSION").is_file() else Path(sys.prefix) / "share" / "tlbcost"


_HOME = _TREE if _IN_TREE else _home()
_BUILT = _TREE / "build" if _IN_TREE else _HOME


def libexec(name: str) -> Path:
    """One of the C programs."""
    return _BUILT / "libexec" / name


def valgrind_lib() -> Path:
    """The folder to give to Valgrind as VALGRIND_LIB: it holds tlbsim."""
    return _BUILT / "libexec" / "valgrind"


def data(*parts: str) -> Path:
    """A file below data/."""
    return _HOME.joinpath("data", *parts)


def workloads() -> Path:
    """The folder of the built programs whose TLB behaviour is known."""
    return _BUILT / "workloads"


def plot(name: str) -> Path:
    """A gnuplot file."""
    return (_HOME / "scripts" / "plots" if _IN_TREE else _HOME / "plots") / name


def version() -> str:
    """The version of tlbcost."""
    return (_HOME / "VERSION").read_text(encoding="utf-8").strip()


def source_tree() -> Path | None:
    """The folder that tlbcost is built in, or None when it is installed."""
    return _TREE if _IN_TREE else None


def sys_path(path: str) -> Path:
    """Where a file under /proc or /sys is: on the machine itself, or on a test's fake one."""
    return Path(os.environ.get("TLBCOST_ROOT", "") + path)
