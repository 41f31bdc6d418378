# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a record of predictions and trials look as a figure?"""

from __future__ import annotations

from pathlib import Path

from tlbcost.accuracy.checks import CheckedPrediction, Record
from tlbcost.common.errors import TlbcostError
from tlbcost.common.gnuplot import draw_by, word_list
from tlbcost.common.interval import Interval

_COLUMNS = ("number", "expected", "low", "high", "measured", "measured_low",
            "measured_high", "bound", "other")  # fmt: skip
# By whether any program was measured.
_OTHER = ("expected by the simple model", "expected by the model alone")
# Margin around the points, as a share of the range.
_MARGIN = 0.05


def draw_record(record: Record, picture: Path) -> None:
    """Draw predicted against measured gains. Raises TlbcostError; then no file is left."""
    checks = record.checks
    if not checks:
        raise TlbcostError(
            f"cannot draw {picture}: no program was both predicted and measured", None
        )
    draw_by("accuracy.gp", lambda folder: _settings(record, checks, folder), picture)


def _settings(
    record: Record, checks: tuple[CheckedPrediction, ...], folder: Path
) -> dict[str, str | int]:
    # The largest gains first.
    checks = tuple(sorted(checks, key=lambda check: -check.gain.user.value))
    rows = [_row(n, check) for n, check in enumerate(checks, start=1)]
    lines = ["\t".join(_COLUMNS)]
    lines += [
        "\t".join(cell if isinstance(cell, str) else f"{cell:.6g}" for cell in row) for row in rows
    ]
    (folder / "checks.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Bounds are many times as large: those beyond the axis are drawn at its end.
    ends = [
        cell
        for row in rows
        for cell in row[1 : _COLUMNS.index("bound")]
        if not isinstance(cell, str)
    ]
    room = max(1.0, _MARGIN * (max(ends) - min(ends)))
    return {
        "checks": str(folder / "checks.tsv"),
        "title_words": f"{record.machine.cpu_name or 'NA'}: {len(checks)} programs",
        "other_words": _OTHER[any(check.prediction.of("measured") for check in checks)],
        "names": word_list(check.program.name for check in checks),
        "least": round(min(ends) - room),
        "most": round(max(ends) + room),
    }


def _row(n: int, check: CheckedPrediction) -> tuple[str | float, ...]:
    return (
        n,
        *_percent(check.prediction.expected_fraction),
        *_percent(check.gain.user),
        100 * check.prediction.bound_fraction,
        _other(check),
    )


def _other(check: CheckedPrediction) -> str | float:
    """The model's prediction where a measured gain was reported; else the simple model's."""
    said = check.prediction
    other = said.of("simple")
    if said.of("measured") is not None:
        other = said.of("overlap") or other
    if other is None or other == said.expected_fraction:
        return "NA"
    return 100 * other.value


def _percent(interval: Interval) -> tuple[float, float, float]:
    return 100 * interval.value, 100 * interval.low, 100 * interval.high
