# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures from tables, by gnuplot and one of our scripts."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError, hint_for
from tlbcost.common.files import temporary_folder
from tlbcost.common.output import write
from tlbcost.common.units import NOT_OBTAINED, Interval

_TERMINALS = {".png": "pngcairo", ".svg": "svg"}


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


def draw_gains(
    labels: Sequence[str],
    gains: Sequence[Interval | None],
    picture: Path,
    *,
    whole: str = "CPU time",
    least: float = 0.0,
) -> None:
    """A forest plot of shares of `whole`, a line for each; `least`: what a gain should be above."""
    if not any(gains):
        raise TlbcostError(f"cannot draw {picture}: nothing was measured", None, CANNOT_MEASURE)
    # A quote would end gnuplot's cell, and a backslash escapes.
    names = [label.replace('"', "'").replace("\\", "\\\\") for label in labels]

    def settings(folder: Path) -> dict[str, str | int]:
        lines = ["number\tlabel\tgain\tlow\thigh"]
        for n, (name, gain) in enumerate(zip(names, gains, strict=True), start=1):
            ends = [None] * 3 if gain is None else [gain.value, gain.low, gain.high]
            cells = (NOT_OBTAINED if end is None else f"{100 * end:.4g}" for end in ends)
            lines.append("\t".join((str(n), name, *cells)))
        (folder / "rows.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return {
            "rows": str(folder / "rows.tsv"),
            "count": len(labels),
            "columns": max(map(len, labels)),
            "least": f"{100 * least:g}",
            "whole": whole,
        }

    draw_by("gains.gp", settings, picture)


def word_list(values: Iterable[object]) -> str:
    """Words for gnuplot's word(), which takes a quoted text as one."""
    return " ".join(f'"{value}"' for value in values)


def _quote(value: str | int) -> str:
    # gnuplot's single quotes take everything as it is; a quote is written twice.
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
