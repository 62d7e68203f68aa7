"""Arguments as models write them, made into what a tool can take.

``sanitize_arguments`` reads JSON text or a mapping: nothing at all means no arguments; a JSON text inside a JSON text
or inside a code fence is unwrapped; lone surrogates, which no server accepts, become U+FFFD. Everything else that is
not a JSON object is refused with the place where it goes wrong, so that the model can mend it. ``Arguments`` hands
single values to the built-in tools, checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from orihon.errors import ToolFailed

_DEEPEST = 100
_FENCE = "```"
_WIDEST = 1024  # bits of a whole number; texts of thousands of digits cannot be read back
_SHOWN = 40  # characters of a wrong text that an error quotes


def sanitize_arguments(arguments: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The arguments as a dict of plain JSON values; ``ToolFailed`` when they are none."""
    value = _decoded(arguments) if isinstance(arguments, str) else arguments
    if isinstance(value, str):
        value = _decoded(value)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ToolFailed("arguments_not_object", kind=_kind(value))
    cleaned: dict[str, Any] = _cleaned(value, 0)
    return cleaned


def _decoded(text: str) -> Any:
    if not text.strip():
        return None
    plain = _unfenced(text)
    try:
        return json.loads(plain, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        near = plain[max(error.pos - _SHOWN // 2, 0) : error.pos + _SHOWN // 2]
        fields = {"detail": error.msg, "line": error.lineno, "column": error.colno, "near": near}
        raise ToolFailed("arguments_not_json", **fields) from error
    except ValueError as error:  # more digits than Python reads
        raise ToolFailed("arguments_number") from error
    except RecursionError as error:
        raise ToolFailed("arguments_too_deep", most=_DEEPEST) from error


def _unfenced(text: str) -> str:
    """What is inside a code fence; the text as it is when it is not in one."""
    bare = text.strip()
    first, is_more, rest = bare.removeprefix(_FENCE).removesuffix(_FENCE).partition("\n")
    is_fenced = bare.startswith(_FENCE) and bare.endswith(_FENCE) and is_more
    return rest.strip() if is_fenced and first.strip().lower() in ("", "json") else text


def _refuse_constant(name: str) -> NoReturn:
    raise ToolFailed("arguments_constant", name=name)


def _cleaned(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ToolFailed("arguments_too_deep", most=_DEEPEST)
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_cleaned(str(key), depth): _cleaned(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # 1e999 is JSON, and too large for every tool
        raise ToolFailed("arguments_number")
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        raise ToolFailed("arguments_number")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ToolFailed("arguments_not_plain", kind=type(value).__name__)


def _kind(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), type(value).__name__)


class Arguments:
    """The arguments of a built-in tool, which knows what it takes."""

    def __init__(self, values: Mapping[str, Any], known: Collection[str]) -> None:
        for name in values:
            if name not in known:
                raise ToolFailed("argument_unknown", name=name, known=", ".join(known))
        # Many models send null for what they leave out.
        self._values = {name: value for name, value in values.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value(name, default)
        if not isinstance(value, str):
            raise ToolFailed("argument_type", name=name, wanted="string", value=_kind(value))
        return value

    def number(self, name: str, default: int | None = None, *, least: int = 1, most: int = 1 << 53) -> int:
        """A whole number, also one that was written as a text or with a zero after the point."""
        value = self._value(name, default)
        if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,16}\s*", value):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ToolFailed("argument_type", name=name, wanted="integer", value=_kind(value))
        if not least <= value <= most:
            raise ToolFailed("argument_range", name=name, value=value, least=least, most=most)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._value(name, default)
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        if not isinstance(value, bool):
            raise ToolFailed("argument_type", name=name, wanted="boolean", value=_kind(value))
        return value

    def lines(self, name: str) -> tuple[int, int | None]:
        """First and last line of ``"10-20"``, ``"10-"`` or ``10``; everything when it is missing."""
        value = self._values.get(name, "1-")
        match = re.fullmatch(r"\s*([0-9]{1,12})\s*(?:(-|–|:|\.\.)\s*([0-9]{1,12})?\s*)?", str(value))
        if match is None or int(match[1]) < 1 or (match[3] and int(match[3]) < int(match[1])):
            raise ToolFailed("argument_lines", name=name, value=value)
        first = int(match[1])
        if match[2] is None:
            return first, first
        return first, int(match[3]) if match[3] else None

    def _value(self, name: str, default: object) -> Any:
        if name in self._values:
            return self._values[name]
        if default is None:
            raise ToolFailed("argument_missing", name=name)
        return default
