# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures from tables, by gnuplot and one of our scripts."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import FAILED, USAGE, TlbcostError, hint_for
from tlbcost.common.files import temporary_folder
from tlbcost.common.output import write

_TERMINALS = {".png": "pngcairo", ".svg": "svg"}


def check_picture(picture: Path | None, example: str, exit_code: int = USAGE) -> None:
    """Refuse a picture that gnuplot cannot draw, by the end of its name; None: none is wanted.

    `example` is what to type instead. Raises TlbcostError with this exit code.
    """
    if picture is not None and picture.suffix not in _TERMINALS:
        raise TlbcostError(f"cannot plot to {picture}: not a .png or .svg file", example, exit_code)


def draw_by(
    script: str,
    settings_in: Callable[[Path], Mapping[str, str | int]],
    picture: Path,
    exit_code: int = FAILED,
) -> None:
    """Have gnuplot draw a picture; if that fails, the file is as it was.

    `settings_in` writes the figure's tables to a folder and gives the variables that the script
    asks for, without the output. Raises TlbcostError with this exit code.
    """
    with temporary_folder() as folder:
        drawn = folder / f"drawn{picture.suffix}"
        try:
            settings = dict(settings_in(folder)) | {
                "output": str(drawn),
                "terminal_name": _TERMINALS[picture.suffix],
            }
        except OSError as error:
            raise TlbcostError(
                f"cannot draw {picture}: {folder}: {error.strerror}",
                hint_for(error.errno, folder),
                exit_code,
            ) from error
        words = [f"{name}={_quote(value)}" for name, value in settings.items()]
        command = ["gnuplot", "-e", "; ".join(words), str(paths.plot(script))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TlbcostError(
                f"cannot draw {picture}: gnuplot: {error.strerror}",
                "apt install gnuplot-nox" if error.errno == errno.ENOENT else hint_for(error.errno),
                exit_code,
            ) from error
        if done.returncode != 0 or not drawn.exists() or drawn.stat().st_size == 0:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}, no picture"
            raise TlbcostError(
                f"cannot draw {picture}: gnuplot failed: {reason}",
                "apt install gnuplot-nox  (5.4 or later, with its cairo terminals)",
                exit_code,
            )
        write(picture, drawn.read_bytes(), exit_code)


def word_list(values: Iterable[object]) -> str:
    """Words for gnuplot's word(), which takes a quoted text as one."""
    return " ".join(f'"{value}"' for value in values)


def _quote(value: str | int) -> str:
    # gnuplot's single quotes take everything as it is; a quote is written twice.
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
