"""JSON in and out, lossless for what real tools print.

``orjson`` does the work. Two things it cannot do fall back to the standard library: lone surrogates (dirty tool
output) and integers beyond 64 bits. Both come back exactly as they went in.
"""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

from orihon.errors import InvalidMessage

# orjson reads longer integers as floats, without a word. To look for one digit many times is far quicker than an
# expression over all digits.
_WIDE_INTEGER = b"0" * 19
_LONG = 1 << 15  # characters
_PLAIN = frozenset((str, int, bool, type(None)))
_ALL_DIGITS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)


def encode(value: Any) -> bytes:
    """One line of compact UTF-8 JSON, keys in the order given."""
    try:
        line = _dumped(value)
        # orjson writes nan and infinity as null. Looking at the types of a few fields is quicker than searching a line.
        if not (type(value) is dict and _PLAIN.issuperset(map(type, value.values()))) and b"null" in line:
            _check_numbers(value)
        return line
    except TypeError:
        pass
    try:
        _check_numbers(value)
        _check_keys(value)
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage("not_json", detail=str(error)) from error


def _dumped(value: Any) -> bytes:
    """As orjson has it, which takes eight times the size of a text: a long one is handed over in pieces."""
    if type(value) is not dict or not any(type(one) is str and len(one) > _LONG for one in value.values()):
        return orjson.dumps(value)
    written = [b"{"]
    for key, one in value.items():
        if type(key) is not str:
            raise TypeError
        written += (b"," if len(written) > 1 else b"", orjson.dumps(key), b":")
        if type(one) is str and len(one) > _LONG:
            pieces = (orjson.dumps(one[start : start + _LONG]) for start in range(0, len(one), _LONG))
            written += (b'"', *(piece[1:-1] for piece in pieces), b'"')
        else:
            written.append(orjson.dumps(one))
    written.append(b"}")
    return b"".join(written)


def encode_pretty(value: Any) -> bytes:
    """For files that people open: indented, one line feed at the end."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=2).encode("ascii") + b"\n"


def decode(data: bytes | bytearray | memoryview | str, *, odd_numbers: bool = True) -> Any:
    """The value of a JSON text; ``ValueError`` when it is none.

    Others write ``NaN``, ``Infinity`` and ``1e999``, which ``encode`` refuses; without ``odd_numbers`` they are texts.
    """
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if _WIDE_INTEGER not in raw.translate(_ALL_DIGITS_ZERO):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(raw) if odd_numbers else json.loads(raw, parse_constant=str, parse_float=_number_or_text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _number_or_text(written: str) -> float | str:
    number = float(written)
    return number if math.isfinite(number) else written


def _check_numbers(value: Any) -> None:
    """Refuse numbers that are none."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMessage("not_json", detail=f"{value} is not a JSON number")
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in _PLAIN:  # most of them are, and a call costs more than this
                _check_numbers(item)


def _check_keys(value: Any) -> None:
    """Refuse keys that are no strings: the standard library would make strings of them without a word."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise InvalidMessage("not_json", detail=f"the key {key!r} is not a string")
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in _PLAIN:
                _check_keys(item)
