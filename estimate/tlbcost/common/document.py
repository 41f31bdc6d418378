# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents for programs (`--json`) and their schemas.

A document is made of Parts and of frozen dataclasses, whose fields are its keys. Each field has a
description (`Annotated[int, doc("...")]`), and its unit is its name's suffix; None is written as
null: not obtained. `make bench NAME=schemas` writes data/schema/ from these types.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from tlbcost.common import names

# Suffixes of keys (doc/format.md) and the units that they stand for.
UNITS = {
    "_ns": "ns",
    "_s": "s",
    "_bytes": "bytes",
    "_pages": "pages",
    "_cycles": "cycles",
    "_fraction": "fraction, 0 to 1",
    "_ratio": "ratio",
}


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of a document."""


_P = TypeVar("_P", bound=Part)
_T = TypeVar("_T")


def doc(text: str, **schema: object) -> msgspec.Meta:
    """Describe a field; `schema` has further keywords of JSON Schema, such as minimum=0."""
    return msgspec.Meta(description=text, extra_json_schema=schema or None)


# Describe a field that is not negative, and one that is 0 to 1.
amount, portion = partial(doc, minimum=0), partial(doc, minimum=0, maximum=1)


def part_of(kind: type[_P], source: object, /, **others: object) -> _P:
    """A part with the attributes of `source` that its fields are named for, but for `others`."""
    same = {name: getattr(source, name) for name in kind.__struct_fields__ if hasattr(source, name)}
    return kind(**same | others)


def now() -> str:
    """The time that a document is made at: UTC, ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_json(text: str | bytes, kind: type[_T]) -> _T:
    """What the text says. Raises msgspec.DecodeError, of what is nested too deep as well."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from error


def to_json(document: object) -> str:
    """The text of a JSON file."""
    try:
        encoded = msgspec.json.encode(document, enc_hook=_plain)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_shown(msgspec.to_builtins(document, enc_hook=_plain)))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _shown(value: object) -> object:
    """A document's plain values, without bytes that are no UTF-8: common.names has the form."""
    if isinstance(value, dict):
        return {key: _shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return names.shown_text(value) if isinstance(value, str) else value


def _plain(value: object) -> float:
    """NumPy's floats, which a calibration that was just measured has, as Python's."""
    if isinstance(value, float):
        return float(value)
    raise NotImplementedError(type(value))


def schema_of(document: type, title: str, *, written: bool = True) -> dict[str, Any]:
    """The JSON Schema of a document, with the unit of each key that has one.

    `written`: by us, and so with all keys; else by people, who leave out what has a default.
    """
    schema = msgspec.json.schema(document)
    _drop_key_names(schema)
    # The document itself first, and not as a definition: readers look there.
    name = schema.pop("$ref").rpartition("/")[2]
    definitions = schema.pop("$defs")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **definitions.pop(name),
        "title": title,
        "$defs": definitions,
    }
    for part in (schema, *definitions.values()):
        # Python before 3.13 keeps the docstring's indentation.
        if "description" in part:
            part["description"] = inspect.cleandoc(part["description"])
        if written:
            part["required"] = list(part.get("properties", {}))
        if "properties" in part:
            part["additionalProperties"] = False
    for key, value in properties(schema):
        if written:
            value.pop("default", None)
        unit = next((u for suffix, u in UNITS.items() if key.endswith(suffix)), None)
        if unit is not None:
            value["unit"] = unit
    return schema


def _drop_key_names(schema: object) -> None:
    """Leave out the names of mappings' keys, which msgspec writes from 0.23 on."""
    if isinstance(schema, dict):
        schema.pop("propertyNames", None)
        for value in schema.values():
            _drop_key_names(value)
    elif isinstance(schema, list):
        for value in schema:
            _drop_key_names(value)


def properties(schema: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key of a schema, at any depth, and what is said of it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield from schema["properties"].items()
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)
