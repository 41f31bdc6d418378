# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between two estimates, and is that more than their intervals allow?"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.document import now
from tlbcost.common.interval import Interval
from tlbcost.common.paths import version
from tlbcost.report.comparison_document import (
    Change,
    Compared,
    ComparedEstimate,
    ComparisonDocument,
    Unit,
)
from tlbcost.report.facts import page_sizes, walks


def compared(
    first: EstimateDocument, second: EstimateDocument, files: tuple[str, str]
) -> ComparisonDocument:
    """The comparison of two estimates, which were read from these files."""
    both = (first, second)
    return ComparisonDocument(
        tlbcost_version=version(),
        date=now(),
        first=_head(first, files[0]),
        second=_head(second, files[1]),
        verdict_changed=first.verdict.code != second.verdict.code,
        rows=[_row(name, unit, *map(figure, both)) for name, (unit, figure) in _FIGURES.items()],
        notes=_notes(first, second),
    )


def _head(document: EstimateDocument, file: str) -> ComparedEstimate:
    return ComparedEstimate(
        file=file, date=document.date, argv=document.program.argv, verdict=document.verdict
    )


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)


def _of_runs(document: EstimateDocument, key: str) -> Interval | None:
    values = [getattr(run, key) for run in document.program.runs]
    return Interval(median(values), min(values), max(values)) if values else None


def _cpu_ns(document: EstimateDocument) -> Interval | None:
    values = [run.user_ns + run.system_ns for run in document.program.runs]
    return Interval(median(values), min(values), max(values)) if values else None


def _walks(document: EstimateDocument, size: int) -> Interval | None:
    simulated = walks(document, page_sizes(document)[size])
    if simulated is not None:
        return _exact(simulated)
    counted = document.counters.formulas.get("walks") if document.counters and not size else None
    return None if counted is None else counted.value


_FIGURES: dict[str, tuple[Unit, Callable[[EstimateDocument], Interval | None]]] = {
    "total gain": ("fraction", lambda document: document.total_fraction),
    "fewer page faults": ("fraction", lambda document: document.fault_fraction),
    "cheaper TLB misses": ("fraction", lambda document: document.expected_fraction),
    "upper bound": ("fraction", lambda document: _exact(document.bound_fraction.value)),
    "elapsed time": ("ns", lambda document: _of_runs(document, "wall_ns")),
    "CPU time": ("ns", _cpu_ns),
    "page faults": ("count", lambda document: _of_runs(document, "minor_faults")),
    "page walks": ("count", lambda document: _walks(document, 0)),
    "walks on huge pages": ("count", lambda document: _walks(document, 1)),
}


def _row(name: str, unit: Unit, first: Interval | None, second: Interval | None) -> Compared:
    return Compared(name=name, unit=unit, first=first, second=second, change=_change(first, second))


def _change(first: Interval | None, second: Interval | None) -> Change:
    if first is None or second is None:
        return "unknown"
    if second.low > first.high:
        return "larger"
    return "smaller" if second.high < first.low else "within"


def _notes(first: EstimateDocument, second: EstimateDocument) -> list[str]:
    """What else is not the same in both."""
    pairs: dict[str, list[object]] = {
        "different programs or arguments": [each.program.argv for each in (first, second)],
        "different CPUs": [each.machine and each.machine.cpu_name for each in (first, second)],
        "different kernels": [each.machine and each.machine.kernel for each in (first, second)],
        "different THP modes": [each.machine and each.machine.thp_mode for each in (first, second)],
        "different huge pages": [each.huge_page_bytes for each in (first, second)],
        "different backends": [each.backend for each in (first, second)],
        "different models": [each.simulation and each.simulation.model for each in (first, second)],
        "different calibrations": [
            each.calibration and each.calibration.date for each in (first, second)
        ],
        "different versions of tlbcost": [each.tlbcost_version for each in (first, second)],
    }
    return [words for words, (one, other) in pairs.items() if one != other]
