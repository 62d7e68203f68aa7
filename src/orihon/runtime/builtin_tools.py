"""The tools that Orihon brings along: files in a workspace, commands in a workspace, the task's own past.

Owns what a built-in tool is made of and which of them there are. They are servers of a tool box like any other, named
``workspace``, ``shell`` and ``context``; each takes exactly the arguments it names. The shell is off unless it is
switched on, files need a workspace, and the past needs a message store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon.errors import InvalidSettings, ToolFailed
from orihon.runtime.tool import Arguments, ServerAnswer, ServerCall, ServerTool, ToolServer
from orihon.store import TaskMessages


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when a call may work."""

    seconds: float
    at: float  # on the monotonic clock

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        return max(self.at - time.monotonic(), 0.0)

    def check(self, tool: str) -> None:
        """To be asked from time to time by whatever may take long."""
        if time.monotonic() > self.at:
            raise ToolFailed("timed_out", tool=tool, seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """One built-in tool: what the model is told about it, and what it does."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Any]]  # JSON Schemas of its arguments
    run: Callable[[Arguments, Deadline], ServerAnswer]
    required: Sequence[str] = ()
    repeatable: bool = True
    ordered: bool = False

    def schema(self) -> dict[str, Any]:
        properties = {name: dict(schema) for name, schema in self.properties.items()}
        required = {"required": list(self.required)} if self.required else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False}


class BuiltinServer:
    """Built-in tools under one name."""

    def __init__(self, name: str, tools: Sequence[BuiltinTool], close: Callable[[], None] | None = None) -> None:
        self._name = name
        self._tools = {tool.name: tool for tool in tools}
        self._close = close

    @property
    def name(self) -> str:
        return self._name

    def tools(self) -> Sequence[ServerTool]:
        return [
            ServerTool(self._name, tool.name, tool.description, tool.schema(), tool.repeatable, tool.ordered)
            for tool in self._tools.values()
        ]

    def call(self, call: ServerCall) -> ServerAnswer:
        tool = self._tools[call.tool]
        return tool.run(Arguments(call.arguments, list(tool.properties)), Deadline.after(call.timeout))

    def refused_tools(self) -> Sequence[str]:
        return ()

    def approve(self) -> list[str]:
        return []

    def close(self) -> None:
        if self._close is not None:
            self._close()


def builtin_servers(
    workspace: Path | None,
    max_output_bytes: int,
    messages: TaskMessages | None,
    *,
    shell: bool = False,
    base_dir: Path | None = None,
    in_force: Iterable[Path] = (),
    allow_writes: Sequence[str] = (),
) -> list[ToolServer]:
    """The built-in tools that can work with what is there. File tools stay away from ``base_dir``."""
    from orihon.runtime.context_tools import context_tools
    from orihon.runtime.shell_tool import Shell
    from orihon.runtime.workspace_tools import workspace_tools

    servers: list[ToolServer] = []
    if workspace is not None:
        if not workspace.is_dir():
            raise InvalidSettings("no_workspace", path=workspace)
        files = workspace_tools(workspace, max_output_bytes, base_dir, in_force, allow_writes)
        servers.append(BuiltinServer("workspace", files))
    if shell:
        if workspace is None:
            raise InvalidSettings("shell_without_workspace")
        commands = Shell(workspace)
        servers.append(BuiltinServer("shell", [commands.tool()], commands.close))
    if messages is not None:
        servers.append(BuiltinServer("context", context_tools(messages, max_output_bytes)))
    return servers
