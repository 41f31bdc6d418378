# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a log of `perf stat -j -I` become rows of a fleet's table?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.common.files import place_of, rename, temporary_folder
from tlbcost.common.output import STDOUT
from tlbcost.fleet.document import cpu_named
from tlbcost.fleet.perf_log import Origin, frames
from tlbcost.fleet.review import check_packages

if TYPE_CHECKING:
    import pandas as pd


def convert_logs(logs: Sequence[Path], origin: Origin, output: Path | None) -> int:
    """Write rows as CSV or Parquet, by the name; returns how many. No file after a TlbcostError."""
    if origin.cpu_model is not None:
        cpu_named(origin.cpu_model)
    found = (frame for log in logs for frame in frames(log, origin))
    path = STDOUT if output is None else output
    if path == STDOUT:
        return _write_csv(found, path)
    with place_of(path) as place:
        if place.there is not None:
            return _write_csv(found, Path(f"/proc/self/fd/{place.there}"))
        if path.suffix not in (".csv", ".parquet"):
            raise TlbcostError(
                f"--output {path}: a name that ends in .csv or .parquet is needed", None, USAGE
            )
        with temporary_folder(next_to=path.resolve()) as folder:
            made = folder / path.name
            rows = (_write_csv if path.suffix == ".csv" else _write_parquet)(found, made)
            rename(made, place)
    return rows


def _write_csv(found: Iterator[pd.DataFrame], path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        for frame in found:
            frame.to_csv(file, index=False, header=not rows, lineterminator="\n")
            rows += len(frame)
    return _some(rows)


def _write_parquet(found: Iterator[pd.DataFrame], path: Path) -> int:
    check_packages()
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    writer = None
    try:
        for frame in found:
            # Categories of one part are not those of another.
            words = dict.fromkeys(frame.select_dtypes("category").columns, "str")
            part = pa.Table.from_pandas(frame.astype(words), preserve_index=False)
            writer = writer or pq.ParquetWriter(path, part.schema)
            writer.write_table(part)
            rows += part.num_rows
    finally:
        if writer is not None:
            writer.close()
    return _some(rows)


def _some(rows: int) -> int:
    if not rows:
        raise TlbcostError("the logs of --convert have no counts", None, FAILED)
    return rows
