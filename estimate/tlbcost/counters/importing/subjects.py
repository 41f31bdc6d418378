# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose counts are in a file: those of one program or cgroup, and never of several as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.counters.importing.event_names import meaning
from tlbcost.counters.importing.printed_counts import Output, PrintedCount
from tlbcost.processors.events import Pmu


def of_one_subject(
    name: str, outputs: Sequence[Output], pmu: Pmu | None, object_name: str | None
) -> list[Output]:
    """The counts of one cgroup or command, `object_name` or the one that has it in its name.

    Raises TlbcostError if there are several and none was chosen, or (usage) none or several fit.
    """
    rows = [(reading, _subject(reading, o)) for o in outputs for reading in o[0]]
    known = {e for e in {row.event for row, _ in rows} if meaning(e, pmu).name is not None}
    subjects = list(dict.fromkeys(subject for row, subject in rows if row.event in known))
    wanted = object_name or ""
    fits = [wanted] if wanted in subjects else [each for each in subjects if wanted in each]
    if object_name is None and len(fits) < 2:
        return list(outputs)
    if len(fits) != 1:
        of = f"'{wanted}' is in {len(fits)} of the names" if wanted else "they are of several"
        raise TlbcostError(
            f"cannot use the counts of {name} as one program's: {of}: "
            + "; ".join((fits or subjects)[:10]),
            "choose one with --object NAME; a part of the name will do",
            USAGE if wanted else FAILED,
        )
    chosen = [([row for row in o[0] if _subject(row, o) == fits[0]], o[1]) for o in outputs]
    note = f"the counts are those of {fits[0]}"
    return [(rows, replace(f, notes=(*f.notes, note))) for rows, f in chosen if rows]


def _subject(reading: PrintedCount, output: Output) -> str:
    return reading.cgroup or " ".join((output[1].subject or "").split())
