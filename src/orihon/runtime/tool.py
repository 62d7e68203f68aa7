"""What a tool is: its definition, what it answers, and the server that it belongs to. Values only.

A tool has a public name, ``server_tool``, by which the model knows it. Providers take at most 64 characters of letters,
digits, ``_`` and ``-``; a name that does not fit, or that would be read as another server's tool, gets a short hash at
its end. The public name depends on the server's name and the tool's own name alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
