"""The cache of prefixes that providers have: what of a request they have seen before, unit by unit.

A unit is the list of tools, a block of the system prompt, or a block of a message, as canonical bytes: the order of
keys and ``cache_control`` do not count, since neither changes what a model reads. Chat Completions and Responses cache
every prefix by themselves. Messages caches where ``cache_control`` stands, and looks for what it knows up to twenty
blocks before each such place, as Anthropic's does.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orihon.system import jsonio
from tests.upstream.records import Request, Usage

_LOOK_BACK = 20
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest thing that is cached or not."""

    content: bytes
    is_marked: bool = False  # has cache_control


def units(request: Request) -> list[Unit]:
    """What the model reads, in its order."""
    body = request.body if isinstance(request.body, Mapping) else {}
    if request.wire == "chat":
        return [*_head(body, "tools"), *map(_unit, _listed(body.get("messages")))]
    if request.wire == "responses":
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else _listed(given)
        return [*_head(body, "tools", "instructions"), *map(_unit, items)]
    return [*_anthropic_units(body)]


def token_count(content: bytes) -> int:
    """As good as any, where no text has to be read."""
    return -(-len(content) // _BYTES_PER_TOKEN)


def kept(before: Request, after: Request) -> float:
    """The share of an earlier request, by bytes, that a later one begins with."""
    first, second = units(before), units(after)
    total = sum(len(unit.content) for unit in first)
    same = 0
    for one, other in zip(first, second, strict=False):
        if one.content != other.content:
            break
        same += len(one.content)
    return same / total if total else 1.0


class Cache:
    """All prefixes seen, of every key."""

    def __init__(self, count: Callable[[bytes], int] = token_count) -> None:
        self._count = count
        self._known: set[bytes] = set()
        self._lock = threading.Lock()

    def look(self, request: Request) -> Usage:
        """What of a request was known; from now on it is."""
        found = units(request)
        totals, chain = [0], [hashlib.sha256(f"{request.key}\0{request.wire}".encode()).digest()]
        for unit in found:
            totals.append(totals[-1] + self._count(unit.content))
            chain.append(hashlib.sha256(chain[-1] + unit.content).digest())
        marks = [at for at, unit in enumerate(found, 1) if unit.is_marked]
        if request.wire == "messages":
            body = request.body if isinstance(request.body, Mapping) else {}
            marks += [len(found)] if "cache_control" in body and found else []
            looked = {at for mark in marks for at in range(max(mark - _LOOK_BACK, 1), mark + 1)}
        else:
            marks = list(range(1, len(chain)))
            looked = set(marks)
        with self._lock:
            hit = max((at for at in looked if chain[at] in self._known), default=0)
            self._known.update(chain[mark] for mark in marks)
        written = max(totals[max(marks, default=0)] - totals[hit], 0)
        return Usage(input=totals[-1], cached=totals[hit], written=written)

    def size(self, request: Request) -> int:
        """All of a request; nothing is remembered."""
        return sum(self._count(unit.content) for unit in units(request))

    def answered(self, usage: Usage, parts: Iterable[str]) -> Usage:
        """With the tokens of the answer."""
        return replace(usage, output=sum(self._count(part.encode()) for part in parts) or 1)


def _anthropic_units(body: Mapping[str, Any]) -> Iterator[Unit]:
    for tool in _listed(body.get("tools")):
        yield _unit(tool)
    for block in _blocks(body.get("system")):
        yield _unit(block)
    for message in _listed(body.get("messages")):
        if isinstance(message, Mapping):
            for block in _blocks(message.get("content")):
                marked = _unit(block)
                yield Unit(f"{message.get('role')}:".encode() + marked.content, marked.is_marked)


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _listed(content)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _head(body: Mapping[str, Any], *names: str) -> list[Unit]:
    return [_unit(body[name]) for name in names if body.get(name)]


def _unit(value: Any) -> Unit:
    is_marked = isinstance(value, Mapping) and "cache_control" in value
    return Unit(jsonio.encode(_canonical(value)), is_marked)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _canonical(value[name]) for name in sorted(value) if name != "cache_control"}
    return [_canonical(item) for item in value] if isinstance(value, list) else value
