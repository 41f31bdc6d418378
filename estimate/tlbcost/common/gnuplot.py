# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures from tables, by gnuplot and one of our scripts."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError, hint_for
from tlbcost.common.files import temporary_folder
from tlbcost.common.output import write
from tlbcost.common.units import NOT_OBTAINED, Interval

_TERMINALS = {".png": "pngcairo", ".svg": "svg"}


def draw_by(
    script: str,
    picture: Path,
    settings: Mapping[str, object],
    tables: Mapping[str, str | Iterable[Iterable[object]]],
    exit_code: int = FAILED,
) -> None:
    """Have gnuplot draw a picture; if that fails, the file is as it was.

    The script gets the variables `settings`, and the file of each table by the table's name. A
    table is text, or rows of cells (None: NA). Raises TlbcostError with this exit code.
    """
    with temporary_folder() as folder:
        drawn = folder / f"drawn{picture.suffix}"
        settings = dict(settings) | {
            "output": drawn,
            "terminal_name": _TERMINALS[picture.suffix],
        }
        try:
            for name, table in tables.items():
                text = table if isinstance(table, str) else "".join(map(_line, table))
                settings[name] = file = folder / f"{name}.tsv"
                file.write_text(text, encoding="utf-8")
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
    rows: list[list[object]] = [["number", "label", "gain", "low", "high"]]
    for n, (name, gain) in enumerate(zip(names, gains, strict=True), start=1):
        ends = [None] * 3 if gain is None else [gain.value, gain.low, gain.high]
        rows.append([n, name, *(None if end is None else 100 * end for end in ends)])
    settings = {
        "count": len(labels),
        "columns": max(map(len, labels)),
        "least": f"{100 * least:g}",
        "whole": whole,
    }
    draw_by("gains.gp", picture, settings, {"rows": rows})


def _line(row: Iterable[object]) -> str:
    return (
        "\t".join(
            NOT_OBTAINED
            if cell is None
            else f"{cell:.6g}"
            if isinstance(cell, float)
            else str(cell)
            for cell in row
        )
        + "\n"
    )


def word_list(values: Iterable[object]) -> str:
    """Words for gnuplot's word(), which takes a quoted text as one."""
    return " ".join(f'"{value}"' for value in values)


def _quote(value: object) -> str:
    # gnuplot's single quotes take everything as it is; a quote is written twice.
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
