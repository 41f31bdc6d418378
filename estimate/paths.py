# SPDX-License-Identifier: GPL-2.0-or-later
"""Where tlbcost's own programs and data are, in the source tree and when installed."""

from __future__ import annotations

from pathlib import Path

# The package is found as <tree>/build/python/tlbcost (a link to <tree>/estimate), or installed
# as <prefix>/lib/tlbcost/python/tlbcost beside libexec/, data/, plots/ and VERSION.
_PACKAGE = Path(__file__).parent
_SOURCE = _PACKAGE.resolve().parent
_INSTALLED = not (_SOURCE / "estimate").is_dir()
_HOME = _PACKAGE.parent.parent


def libexec(name: str) -> Path:
    """One of the C programs."""
    return _HOME / "libexec" / name


def valgrind_lib() -> Path:
    """The folder to give to Valgrind as VALGRIND_LIB: it holds tlbsim."""
    return _HOME / "libexec" / "valgrind"


def data(*parts: str) -> Path:
    """A file below data/."""
    return (_HOME if _INSTALLED else _SOURCE).joinpath("data", *parts)


def workloads() -> Path:
    """The folder of the built programs whose TLB behaviour is known."""
    return _HOME / "workloads"


def plot(name: str) -> Path:
    """A gnuplot file."""
    return (_HOME / "plots" if _INSTALLED else _SOURCE / "scripts" / "plots") / name


def version() -> str:
    """The version of tlbcost."""
    return ((_HOME if _INSTALLED else _SOURCE) / "VERSION").read_text(encoding="utf-8").strip()


def source_tree() -> Path | None:
    """The folder that tlbcost is built in, or None when it is installed."""
    return None if _INSTALLED else _SOURCE
