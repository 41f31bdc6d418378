# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a calibration say, to people? At most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from tlbcost.calibration.consistency import presentable
from tlbcost.calibration.other_sources import (
    WORDS,
    ReportedFigure,
    disagreements,
)
from tlbcost.calibration.records import POOR, Obtained
from tlbcost.calibration.sections import CODE, COUNTS, LATENCIES, Sections
from tlbcost.common import units
from tlbcost.processors import cpuid
from tlbcost.processors.published import published
from tlbcost.system.machine import Machine

WIDTH = 80


def describe(obtained: Obtained, reported: Sequence[ReportedFigure] = ()) -> str:
    """The calibration as text. `reported` is what other sources say of the machine."""
    obtained = replace(obtained, calibration=presentable(obtained.calibration))
    calibration = obtained.calibration
    lines = machine_lines(calibration.machine)
    lines += [f"Measured   {calibration.date}, {calibration.extent}, "
              f"in {calibration.duration_s:.1f} s"]  # fmt: skip
    lines += wrap("Source     ", obtained.source)
    lines += wrap("Grade      ", calibration.grade if calibration.grade == "good" else POOR)
    for reason in calibration.grade_reasons:
        lines += wrap("           ", reason)
    if calibration.machine.hypervisor:
        lines += wrap("Guest      ", "measured inside a virtual machine: a page walk goes through "
                      "the hypervisor's page tables too (nested paging)")  # fmt: skip
    for section in Sections(calibration, reported).all():
        lines += ["", *section] if section else []
    lines += ["", *_legend(), *_notes(obtained, reported)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def machine_lines(machine: Machine) -> list[str]:
    """The machine and its settings."""
    numbers = "-".join(
        part or "?" for part in (machine.cpu_family, machine.cpu_model, machine.cpu_stepping)
    )
    where = f"guest of {machine.hypervisor}" if machine.hypervisor else "no hypervisor seen"
    return [
        *wrap("Machine    ", cpu(machine)),
        *wrap("           ", f"{machine.cpu_vendor or 'unknown vendor'} {numbers}, microcode "
              f"{machine.microcode or 'unknown'}, {where}"),
        *wrap("Kernel     ", f"{machine.kernel or 'unknown'}, "
              f"{units.size(machine.base_page_bytes)} pages, transparent huge pages "
              f"{machine.thp_mode or 'absent'}, governor {machine.governor or 'unknown'}"),
    ]  # fmt: skip


def cpu(machine: Machine) -> str:
    """The CPU's name, or the known part of it."""
    return machine.cpu_name or machine.cpu_vendor or "unknown CPU"


def wrap(start: str, text: str) -> list[str]:
    """Lines of at most 80 columns that begin with `start`, then as deep."""
    lines = textwrap.wrap(
        text,
        WIDTH - 1,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start]


def _in_words(note: str) -> str:
    """A note about a quantity with the words of the report for it."""
    name, colon, rest = note.partition(": ")
    words = WORDS | CODE | COUNTS | {key: f"{text}, ns" for key, text in LATENCIES.items()}
    return f"{words[name]}: {rest}" if colon and name in words else note


def _legend() -> list[str]:
    return wrap(
        "",
        "serial: the next access waits for this one; overlapped: it does not. footprint: pages in "
        "use, one cache line in each; tables: the page-table entries of these pages. "
        "NA: not obtained. ?: published without a source that was checked.",
    )


def _notes(obtained: Obtained, reported: Sequence[ReportedFigure]) -> list[str]:
    calibration = obtained.calibration
    notes = [*disagreements(calibration, reported), *map(_in_words, obtained.notes)]
    silence = cpuid.decode(calibration.cpuid).silence if calibration.cpuid else None
    if silence:
        notes.append(silence)
    if published(calibration.machine) is None:
        notes.append("no published TLB sizes of this CPU are known here")
    if calibration.extent == "quick":
        notes.append("caches, ways, stores, walks at once, page-walk caches, code and the TLBs of "
                     "larger pages are measured by tlbcost calibrate --full")  # fmt: skip
    return [line for note in notes for line in wrap("note: ", note)]
