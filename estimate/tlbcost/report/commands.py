# SPDX-License-Identifier: GPL-2.0-or-later
"""Which command is there to try, and which proves it? Each on one line, ready to copy."""

from __future__ import annotations

from pathlib import Path

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common import names, units
from tlbcost.common.units import middle
from tlbcost.remedies.remedy import Remedy
from tlbcost.report.lines import LABEL, labelled, visible
from tlbcost.run.region import trial_command

_MOST_STEPS = 3
_DOTS = "..."


def command_of(document: EstimateDocument) -> str:
    """The program's command line."""
    return names.command_line(document.program.argv)


def first_remedy(document: EstimateDocument) -> Remedy | None:
    """The simplest remedy of the memory with the largest gain; None: there is none."""
    first = document.what_to_do[0] if document.what_to_do else None
    return first.remedies[0] if first is not None and first.remedies else None


def command_lines(document: EstimateDocument, width: int) -> list[str]:
    """What to try and what proves it; a command line that is too long is written as `...`."""
    remedy = first_remedy(document)
    if remedy is None:
        return _without_remedy(document, width)
    growth = growth_words(remedy)
    steps = [step for step in remedy.steps if not step.startswith("#")]
    if remedy.form == "code":
        lines = labelled("Try", f"{remedy.words}: {' '.join(steps)}", width)
    else:
        lines = _rows("Try", [_fitted(document, step, width) for step in steps[:_MOST_STEPS]])
    if growth is not None:
        short = f"{lines[-1]}   ({growth})"
        lines = (
            [*lines[:-1], short] if len(short) <= width else [*lines, f"{' ' * LABEL}({growth})"]
        )
    if remedy.proof is not None:
        lines += _rows("Prove", [_fitted(document, remedy.proof, width)])
    return _explained(document, lines, width)


def _without_remedy(document: EstimateDocument, width: int) -> list[str]:
    first = document.what_to_do[0] if document.what_to_do else None
    if first is not None and first.no_remedy is not None:
        return labelled("Try", first.no_remedy, width)
    if document.verdict.code in ("not_worth_it", "already_huge"):
        return []
    where = "" if document.program.runs else "   (where the program runs)"
    trial = f"{trial_command(document.region)} -- {command_of(document)}"
    line = _fitted(document, trial, width - len(where))
    return _explained(document, _rows("Prove", [f"{line}{where}"]), width)


def _explained(document: EstimateDocument, lines: list[str], width: int) -> list[str]:
    """With what the dots stand for, unless the command line is there in full."""
    if any(command_of(document) in line for line in lines):
        return lines
    return [*lines, *program_line(_DOTS, document, width)]


def program_line(label: str, document: EstimateDocument, width: int) -> list[str]:
    """The program's command line, shortened to one line."""
    command = command_of(document)
    # Relative to where we are, or to the user's folder; either may be gone.
    for place, shown in ((Path.cwd, ""), (Path.home, "~/")):
        try:
            folder = place()
        except (OSError, RuntimeError):
            continue
        if len(folder.parts) > 1 and command.startswith(f"{folder}/"):
            command = shown + command.removeprefix(f"{folder}/")
            break
    return _rows(label, [middle(visible(command), width - LABEL)])


def _rows(label: str, rows: list[str]) -> list[str]:
    return [f"{label if n == 0 else '':<{LABEL}}{row}" for n, row in enumerate(rows)]


def _fitted(document: EstimateDocument, step: str, width: int) -> str:
    room = width - LABEL
    command = command_of(document)
    if len(step) > room or not step.isprintable():
        step = step.replace(command, _DOTS)
    return middle(visible(step), room)


def growth_words(remedy: Remedy) -> str | None:
    """What it costs in memory; None: not known."""
    growth = remedy.cost.growth_bytes
    if growth is None:
        return None
    return f"{units.size(growth)} more memory" if growth else "no extra memory"
