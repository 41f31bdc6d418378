# SPDX-License-Identifier: GPL-2.0-or-later
"""What did tlbcost-copies write? Its tables, of all workers and runs, as data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.formats import Table, TableFormat, read_table

_WORDS = {"result", "ended", "side", "writable", "executable", "shared"}


@dataclass(frozen=True, slots=True)
class CopyTables:
    """Rows of all runs. `run`: the number of the folder; a window is known by (run, window).

    `mappings` also has `worker` and `name`; `memory`, `code` and `frames` refer to it by (run,
    worker, mapping), and `stacks` to `frames` by (run, worker, stack). `cpu_ns`, of each run: the
    program's CPU time that could be copied; None: not known.
    """

    attempts: pd.DataFrame
    windows: pd.DataFrame
    counts: pd.DataFrame
    mappings: pd.DataFrame
    memory: pd.DataFrame
    code: pd.DataFrame
    stacks: pd.DataFrame
    frames: pd.DataFrame
    core: str | None
    cpu_ns: tuple[int | None, ...]


def read_tables(folders: Sequence[Path]) -> CopyTables:
    """Read tables, a folder for each run. Raises TlbcostError, 125, naming the file."""
    try:
        return _read(folders)
    except (TlbcostError, ValueError) as error:
        raise TlbcostError(str(error), "tlbcost doctor", TOOL_FAILED) from error


def _read(folders: Sequence[Path]) -> CopyTables:
    frames: dict[str, list[pd.DataFrame]] = {}
    cores: set[str] = set()
    cpu: list[int | None] = []
    for run, folder in enumerate(folders):
        attempts = read_table(folder / "copies.tsv", formats.COPIES)
        frame = _frame(attempts, run)
        if len(frame):
            frame["fault_ns"] = int(attempts.key("fault_ns"))
        frames.setdefault("copies", []).append(frame)
        seen = attempts.known("cpu_ns")
        cpu.append(None if seen is None else int(seen))
        for kind in (
            formats.COPY_WINDOWS, formats.COPY_COUNTS, formats.COPY_MAPPINGS, formats.COPY_MEMORY,
            formats.COPY_CODE, formats.COPY_STACKS, formats.COPY_FRAMES,
        ):  # fmt: skip
            for path in sorted(folder.glob(f"{kind.name}.*.tsv")):
                table = read_table(path, kind)
                frame = _frame(table, run)
                frame["worker"] = int(path.name.split(".")[1])
                if kind is formats.COPY_MAPPINGS:
                    frame["name"] = [table.key(f"mapping_{i}") for i in frame["mapping"]]
                if kind is formats.COPY_WINDOWS and (core := table.known("core")) is not None:
                    cores.add(core)
                frames.setdefault(kind.name, []).append(frame)
    return CopyTables(
        _joined(frames, formats.COPIES, "fault_ns"),
        _joined(frames, formats.COPY_WINDOWS),
        _joined(frames, formats.COPY_COUNTS),
        _joined(frames, formats.COPY_MAPPINGS, "name"),
        _joined(frames, formats.COPY_MEMORY),
        _joined(frames, formats.COPY_CODE),
        _joined(frames, formats.COPY_STACKS),
        _joined(frames, formats.COPY_FRAMES),
        next(iter(cores), None),
        tuple(cpu),
    )


def _frame(table: Table, run: int) -> pd.DataFrame:
    frame = pd.DataFrame(table.records(), columns=list(table.columns))
    for column in table.columns:
        if column not in _WORDS:
            frame[column] = pd.to_numeric(frame[column]).astype(
                "Float64" if frame[column].isna().any() else "int64"
            )
    frame["run"] = run
    return frame


def _joined(frames: dict[str, list[pd.DataFrame]], kind: TableFormat, *more: str) -> pd.DataFrame:
    found = [frame for frame in frames.get(kind.name, []) if len(frame)]
    if not found:
        return pd.DataFrame(columns=[*kind.columns, "run", "worker", *more])
    return pd.concat(found, ignore_index=True)
