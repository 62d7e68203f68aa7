"""JSON in and out, lossless for what real tools print.

``orjson`` does the work. Two things it cannot do fall back to the standard library: lone surrogates (dirty tool
output) and integers beyond 64 bits. Both come back exactly as they went in.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from orihon.errors import InvalidMessage

# orjson reads longer integers as floats, without a word.
_WIDE_INTEGER = re.compile(rb"[0-9]{19}")


def encode(value: Any) -> bytes:
    """One line of compact UTF-8 JSON, keys in the order given."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage("not_json", detail=str(error)) from error


def encode_pretty(value: Any) -> bytes:
    """For files that people open: indented, one line feed at the end."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2).encode("ascii") + b"\n"


def encode_sorted(value: Any) -> bytes:
    """The canonical form: keys sorted, for hashing."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        pass
    try:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode(
            "ascii"
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage("not_json", detail=str(error)) from error


def decode(data: bytes | bytearray | memoryview | str) -> Any:
    """The value of a JSON text; ``ValueError`` when it is none."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if not _WIDE_INTEGER.search(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
