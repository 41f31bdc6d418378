# SPDX-License-Identifier: GPL-2.0-or-later
"""Where are the files of this tree that tests read, and what do tests need that run programs?"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jsonschema
import pytest
from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import TableFormat

T = TypeVar("T")
TREE = Path(__file__).resolve().parents[3]
BUILD = TREE / "build"
SCHEMAS = TREE / "data" / "schema"
GOLDEN = TREE / "tests" / "golden"
FAKES = TREE / "tests" / "fakes"
MACHINES = TREE / "tests" / "machines"


needs_gnuplot = pytest.mark.skipif(
    shutil.which("gnuplot") is None, reason="gnuplot is not installed"
)
needs_launcher = pytest.mark.skipif(
    not paths.libexec("tlbcost-run").exists(), reason="needs build/libexec/tlbcost-run (make)"
)


def script(folder: Path, text: str, name: str = "program") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def put(root: Path, path: str, text: str) -> None:
    """A file of the machine below this folder."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def put_caches(root: Path, *caches: tuple[str, str, str]) -> None:
    """Of CPU 0: level, type and size of each."""
    for i, cache in enumerate(caches):
        known = zip(("level", "type", "size", "shared_cpu_list"), (*cache, "0"), strict=True)
        for name, text in known:
            put(root, f"sys/devices/system/cpu/cpu0/cache/index{i}/{name}", f"{text}\n")


def printed(show: Callable[..., object], *shown: object, **options: object) -> str:
    """What a function that prints to a file prints."""
    file = io.StringIO()
    show(*shown, file, **options)
    return file.getvalue()


def there(found: T | None) -> T:
    """What is not None."""
    assert found is not None
    return found


@contextlib.contextmanager
def fails(words: str, code: int, hint: str = "") -> Iterator[pytest.ExceptionInfo[TlbcostError]]:
    """What is done is refused in these words (a pattern), with this exit code and hint."""
    with pytest.raises(TlbcostError, match=words) as error:
        yield error
    assert error.value.exit_code == code, error.value.exit_code
    assert hint in (error.value.hint or ""), error.value.hint


def write_table(
    folder: Path, kind: TableFormat, rows: Sequence[Mapping[str, object]], header: str = "",
    absent: object = 0,
) -> None:  # fmt: skip
    """As tlbcost-copies does: a table of the run, or of its first worker."""
    folder.mkdir(exist_ok=True)
    name = "copies.tsv" if kind is formats.COPIES else f"{kind.name}.0.tsv"
    lines = [f"# tlbcost {kind.name} {kind.version}", *header.splitlines(), "\t".join(kind.columns)]
    lines += ["\t".join(str(row.get(column, absent)) for column in kind.columns) for row in rows]
    (folder / name).write_text("\n".join([*lines, f"# end: {len(rows)}", ""]), encoding="utf-8")


def valid(text: str, name: str) -> dict[str, Any]:
    """The document, which is of its schema; jsonschema looks at the schema, too."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    document: dict[str, Any] = json.loads(text)
    jsonschema.validate(document, schema)
    return document


def golden_json(value: object, indent: str = "") -> str:
    """JSON in lines of 100 columns at most, as few as need be."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent + flat) <= 100:
        return flat
    inner = f"{indent} "
    if isinstance(value, list):
        parts = [golden_json(each, inner) for each in value]
    else:
        parts = [f"{json.dumps(key)}: {golden_json(each, inner)}" for key, each in value.items()]
    lines = [inner + parts[0]]
    for part in parts[1:]:
        if len(lines[-1] + part) <= 98 and "\n" not in lines[-1] + part:
            lines[-1] += f", {part}"
        else:
            lines[-1] += ","
            lines.append(inner + part)
    ends = "[]" if isinstance(value, list) else "{}"
    return "\n".join((ends[0], *lines, f"{indent}{ends[1]}"))
