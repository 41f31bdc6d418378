# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of a fleet's files: Parquet, CSV, or lines of `perf stat -j -I`.

The content decides which it is. Nothing is read whole: the files may be larger than the memory.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.fleet import perf_log
from tlbcost.fleet.perf_log import KEYS, NAMES, NUMBERS, RUNNING, added, sums

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

Kind = Literal["parquet", "csv", "lines"]
_HINT = f"the columns are {', '.join(NAMES)}, and {RUNNING} if known; doc/review.md"
_NOT_COUNTED = ["", "NA", "NaN", "nan", "null", "<not counted>", "<not supported>"]
# Rows of a batch, and of a piece, which one thread reads.
_BATCH = 1 << 20
_PIECE = 1 << 22
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read at once: a file, or some of the row groups of a Parquet file."""

    path: Path
    kind: Kind
    groups: tuple[int, ...] = ()


def matching(patterns: Sequence[str]) -> list[Path]:
    """The files that the patterns match. Raises TlbcostError (usage) for one without any."""
    found: set[str] = set()
    for pattern in patterns:
        # Path.glob() knows no absolute patterns.
        files = [pattern] if Path(pattern).exists() else glob.glob(pattern, recursive=True)  # noqa: PTH207
        if not files:
            hint = "a pattern such as 'stats/*.parquet', in quotes"
            raise TlbcostError(f"--counts: no file matches {pattern}", hint, USAGE)
        found.update(files)
    return [Path(name) for name in sorted(found)]


def pieces(files: Sequence[Path]) -> list[Piece]:
    """What there is to read. Raises TlbcostError for a file that cannot be, or lacks a column."""
    made: list[Piece] = []
    for path in files:
        kind = _kind(path)
        if kind != "parquet":
            made.append(Piece(path, kind))
            continue
        with _named(path), _parquet(path) as file:
            _check_types(path, file.schema_arrow)
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        made += [Piece(path, kind, groups) for groups in _shares(sizes)]
    return made


def sums_of(piece: Piece) -> pd.DataFrame:
    """The sums of its rows. Raises TlbcostError naming the file, and the line if it has lines."""
    import pandas as pd

    with _named(piece.path):
        if piece.kind == "lines":
            frames = perf_log.frames(piece.path, perf_log.Origin())
        else:
            batches = _of_parquet(piece) if piece.kind == "parquet" else _of_csv(piece.path)
            frames = (_frame(batch) for batch in batches if batch.num_rows)
        parts = [sums(frame) for frame in frames]
    return added(pd.concat(parts)) if parts else nothing()


def nothing() -> pd.DataFrame:
    import pandas as pd

    kinds = dict.fromkeys(KEYS, "str")
    numbers = {"state": "int64", "value": "float64", "seconds": "float64", "rows": "int64"}
    return pd.DataFrame({name: pd.Series(dtype=of) for name, of in (kinds | numbers).items()})


def _kind(path: Path) -> Kind:
    if not path.is_file():
        raise TlbcostError(f"cannot read {path}: it is not a file", _HINT)
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise TlbcostError(f"cannot read {path}: {error.strerror}") from error
    if not start.strip():
        raise TlbcostError(f"cannot read {path}: it is empty", _HINT)
    if start.startswith(b"PAR1"):
        return "parquet"
    if b"\0" in start:
        raise TlbcostError(f"cannot read {path}: neither Parquet nor text", _HINT)
    # perf writes when it began.
    words = [line for line in start.splitlines() if line.strip() and not line.startswith(b"#")]
    return "lines" if words and words[0].lstrip().startswith(b"{") else "csv"


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise TlbcostError(f"cannot read {path}: {why}", _HINT) from error


def _shares(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Row groups of these sizes, together while they are small."""
    some: list[int] = []
    rows = 0
    for group, size in enumerate(sizes):
        if some and rows + size > _PIECE:
            yield tuple(some)
            some, rows = [], 0
        some.append(group)
        rows += size
    if some:
        yield tuple(some)


def _parquet(path: Path) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, read_dictionary=list(KEYS))


def _of_parquet(piece: Piece) -> Iterator[pa.RecordBatch]:
    with _parquet(piece.path) as file:
        names = [name for name in (*NAMES, RUNNING) if name in file.schema_arrow.names]
        groups = list(piece.groups)
        yield from file.iter_batches(_BATCH, groups, columns=names, use_threads=False)


def _of_csv(path: Path) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    words = dict.fromkeys(KEYS, pa.dictionary(pa.int32(), pa.string()))
    numbers = dict.fromkeys((*NUMBERS, RUNNING), pa.float64())
    with csv.open_csv(
        path,
        # Else an error has no line.
        csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        csv.ParseOptions(newlines_in_values=False),
        csv.ConvertOptions(
            column_types=words | numbers, null_values=_NOT_COUNTED, strings_can_be_null=True
        ),
    ) as reader:
        _check_types(path, reader.schema)
        yield from reader


def _check_types(path: Path, schema: pa.Schema) -> None:
    """Raises TlbcostError for a column that is missing, or not of its kind."""
    import pyarrow as pa

    is_number = (pa.types.is_integer, pa.types.is_floating)
    is_word = (pa.types.is_string, pa.types.is_large_string)
    for name in (*NAMES, RUNNING):
        if name not in schema.names:
            if name == RUNNING:
                continue
            raise TlbcostError(f"cannot read {path}: there is no column '{name}'", _HINT)
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        wanted, words = (is_word, "text") if name in KEYS else (is_number, "a number")
        if not any(check(kind) for check in wanted):
            why = f"column '{name}' is of type {kind}, and {words} was expected"
            raise TlbcostError(f"cannot read {path}: {why}", _HINT)


def _frame(batch: pa.RecordBatch) -> pd.DataFrame:
    import pyarrow as pa

    names = [name for name in (*NAMES, RUNNING) if name in batch.schema.names]
    table = pa.Table.from_batches([batch]).select(names)
    frame: pd.DataFrame = table.to_pandas(categories=list(KEYS))
    numbers = [name for name in names if name not in KEYS]
    return frame.astype(dict.fromkeys(numbers, "float64"))
