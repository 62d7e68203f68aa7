"""What a client has sent, byte for byte, and what was made of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orihon.system import jsonio

#: How a path ends, and the wire that it belongs to.
WIRES = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
#: Paths beside the wires, which no step of the script answers.
ASIDE = {"/messages/count_tokens": "count", "/models": "models", "/responses/compact": "compact"}
#: One of these is in every description of a tool, and in nothing else.
_TOOL = {"parameters", "input_schema", "format", "defer_loading"}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens: all of the input, what of it was cached, what of it is cached from now on, and the output."""

    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0


@dataclass(slots=True)
class Request:
    """One request. ``status``, ``usage`` and ``flaws`` are set when it has been answered."""

    number: int  # 1, 2, 3 … over all requests
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]  # as they came: names in their own case, in order, twice if sent twice
    raw: bytes
    body: Any = None
    status: int = 0
    usage: Usage = field(default_factory=Usage)
    flaws: list[str] = field(default_factory=list)
    is_aside: bool = False  # answered beside the script: a title, a count, a list

    @property
    def kind(self) -> str:
        """The wire, or which of the paths beside them; empty for others."""
        path = self.path.partition("?")[0].rstrip("/")
        return next((kind for ending, kind in {**WIRES, **ASIDE}.items() if path.endswith(ending)), "")

    @property
    def wire(self) -> str:
        return self.kind if self.kind in WIRES.values() else ""

    @property
    def is_streamed(self) -> bool:
        return isinstance(self.body, Mapping) and bool(self.body.get("stream"))

    @property
    def key(self) -> str:
        """The credential: what is cached for one is not for another."""
        return self.header("authorization") or self.header("x-api-key")

    def header(self, name: str) -> str:
        return next((value for known, value in self.headers if known.lower() == name.lower()), "")

    def tool_names(self) -> list[str]:
        """What the client offers, by the names that it has for them, wherever it does."""
        body = self.body if isinstance(self.body, Mapping) else {}
        return [*_tool_names([body.get("tools"), body.get("input")])]

    def as_json(self) -> dict[str, Any]:
        """For a file: the body as a value where it is one, else its bytes."""
        body: Any = self.body if self.body is not None else base64.b64encode(self.raw).decode()
        return {
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "headers": [list(header) for header in self.headers],
            "body": body,
            "status": self.status,
            "usage": {name: getattr(self.usage, name) for name in Usage.__slots__},
            "flaws": self.flaws,
            "is_aside": self.is_aside,
        }


def decoded(raw: bytes) -> Any:
    """The value of a body, or ``None``."""
    try:
        return jsonio.decode(raw) if raw else None
    except ValueError:
        return None


def _tool_names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _tool_names(item)
    elif isinstance(value, Mapping):
        if isinstance(value.get("tools"), list):  # a group of tools, or an item of the input that brings some
            yield from _tool_names(value["tools"])
        elif isinstance(value.get("function"), Mapping):
            yield str(value["function"].get("name"))
        elif _TOOL & value.keys() and "role" not in value:
            yield str(value.get("name") or value["type"])
