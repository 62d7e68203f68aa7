"""What a tool is: its definition, its arguments, what it answers, and the server that it belongs to.

A tool has a public name, ``server_tool``, by which the model knows it. Providers take at most 64 characters of letters,
digits, ``_`` and ``-``; a name that does not fit, or that would be read as another server's tool, gets a short hash at
its end. The public name depends on the server's name and the tool's own name alone.

Arguments come from a model: numbers that JSON has not, texts that are no text and names that nobody knows are refused
in words that it understands. Output that is too large is cut in the middle for the model and kept whole in
``outputs/`` of the task, masked, to be read on by lines.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from orihon.errors import ToolFailed
from orihon.store import TaskMessages
from orihon.texts import text

LONGEST_NAME = 64
_HASH_DIGITS = 8
_ALLOWED = re.compile(r"[A-Za-z0-9_-]+")
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class ServerTool:
    """One tool of one server, as the server defines it."""

    server: str
    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON Schema
    repeatable: bool = False  # running it twice does no more than running it once
    ordered: bool = False  # calls of one answer have to be made one after the other, as they stand there


@dataclass(frozen=True, slots=True)
class ServerCall:
    """One call of a tool, as its server gets it."""

    tool: str
    arguments: Mapping[str, Any]
    id: str = ""  # the same when a call is made again after a crash
    timeout: float = 120.0


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a tool said."""

    text: str
    is_error: bool = False
    is_cut: bool = False  # the tool has left something out by itself, and says where it is


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model is told."""

    text: str
    is_error: bool
    duration_ms: int
    tool: str
    truncated: bool = False


class ToolServer(Protocol):
    """Where tools come from. ``call`` raises ``ToolFailed`` with what the model should know."""

    @property
    def name(self) -> str: ...

    def tools(self) -> Sequence[ServerTool]:
        """The tools that may be called now; starts the server when it has to run."""

    def call(self, call: ServerCall) -> ServerAnswer: ...

    def refused_tools(self) -> Collection[str]:
        """Tools, by their own names, whose definition is not the one that was approved."""

    def approve(self) -> list[str]:
        """Approve the tools as they are defined now; returns those that were refused."""

    def close(self) -> None:
        """End the server and the calls under way."""


def public_name(server: str, tool: str, servers: Collection[str]) -> str:
    """The name under which the model knows a tool of one of these servers."""
    plain = f"{server}_{tool}"
    if len(plain) <= LONGEST_NAME and _ALLOWED.fullmatch(plain) and split_name(plain, servers) == (server, tool):
        return plain
    digest = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_HASH_DIGITS]
    return f"{_REFUSED.sub('_', plain)[: LONGEST_NAME - _HASH_DIGITS - 1]}_{digest}"


def split_name(name: str, servers: Collection[str]) -> tuple[str, str] | None:
    """Server and tool of a public name, split at the longest server name that fits."""
    fitting = [server for server in servers if name.startswith(f"{server}_") and len(name) > len(server) + 1]
    if not fitting:
        return None
    server = max(fitting, key=len)
    return server, name[len(server) + 1 :]


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


OUTPUTS = "outputs"
_OUTPUT_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}\.txt")
_NOTE_BYTES = 512  # room for the line that says what is missing
_LONGEST_LINE = 1 << 16  # characters of one line that are read at once


def cut_in_the_middle(content: str, limit: int, note: Callable[[int], str]) -> str:
    """Head and tail with ``note(missing lines)`` between them, at most ``limit`` bytes."""
    raw = content.rstrip("\n").encode(errors="replace")
    half = max((limit - _NOTE_BYTES) // 2, 0)
    head, tail = _head(raw, half), _tail(raw, half)
    missing = raw[len(head) : len(raw) - len(tail)].strip(b"\n")
    return "\n".join(
        piece.decode(errors="ignore").strip("\n") for piece in (head, note(missing.count(b"\n") + 1).encode(), tail)
    )


def _head(raw: bytes, size: int) -> bytes:
    """The first bytes up to the end of a line; in the middle of a line when that is longer than all of them."""
    end = raw.rfind(b"\n", 0, size) + 1
    return raw[: end or size]


def _tail(raw: bytes, size: int) -> bytes:
    start = raw.find(b"\n", len(raw) - size) + 1 if size else len(raw)
    return raw[start or len(raw) - size :]


class KeptOutputs:
    """``outputs/`` of one task."""

    def __init__(self, messages: TaskMessages) -> None:
        self._messages = messages

    def masked(self, content: str) -> str:
        """The text as it may touch the disk."""
        redactor = self._messages.task_store.redactor
        return redactor.mask(content) if redactor.enabled else content

    def keep(self, tool: str, content: str) -> str:
        """Keep a masked text; returns the name to read it back by."""
        name = f"{tool}-{secrets.token_hex(4)}.txt"
        self._messages.task_store.records.keep_file(f"{OUTPUTS}/{name}", content.encode(errors="replace"))
        return name

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a kept text. Only names that ``keep`` gives are looked for."""
        bare = name.removeprefix(f"{OUTPUTS}/")
        is_name = _OUTPUT_NAME.fullmatch(bare) is not None
        kept = self._messages.task_store.records.kept_file(f"{OUTPUTS}/{bare}") if is_name else None
        if kept is None:
            raise ToolFailed("no_output", name=name)
        return _lines_of(kept.decode(errors="replace"))


def _lines_of(content: str) -> Iterator[str]:
    """The lines of a text, one at a time; a very long one comes in pieces."""
    file = io.StringIO(content, newline="\n")
    while line := file.readline(_LONGEST_LINE):
        yield line.removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a text."""

    lines: tuple[str, ...]
    first: int
    is_cut: bool  # the limit was reached before the last line that was asked for

    def told(self) -> str:
        """The lines, and how to get the next ones."""
        body = "\n".join(self.lines)
        if not self.is_cut:
            return body
        last = self.first + len(self.lines) - 1
        return f"{body}\n{text('tools.more_lines', first=self.first, last=last, next=last + 1)}"


def excerpt(lines: Iterable[str], first: int, last: int | None, limit: int) -> Excerpt:
    """Lines ``first`` to ``last`` as far as ``limit`` bytes reach; at least a part of the first one."""
    room = limit - _NOTE_BYTES
    taken: list[str] = []
    for number, line in enumerate(lines, start=1):
        if number < first:
            continue
        if last is not None and number > last:
            break
        size = len(line.encode(errors="replace")) + 1
        if size > room:
            if not taken:
                taken.append(line.encode(errors="replace")[: max(room, 0)].decode(errors="ignore"))
            return Excerpt(tuple(taken), first, is_cut=True)
        taken.append(line)
        room -= size
    return Excerpt(tuple(taken), first, is_cut=False)
