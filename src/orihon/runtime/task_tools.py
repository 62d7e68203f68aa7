"""The tools of one task: those of the settings, the task's own past, plans and child tasks.

MCP servers live as long as the handler and serve one task after another; what belongs to the task alone is closed with
it. A tool box that a program hands over stays the program's: it is used, added to and never closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from orihon.runtime.builtin_tools import BuiltinServer, builtin_servers
from orihon.runtime.context_tools import context_tools
from orihon.runtime.mcp.config import read_mcp_servers
from orihon.runtime.tool import ToolResult, ToolServer
from orihon.runtime.tools import ToolBox, ToolOptions
from orihon.settings import Settings
from orihon.tasks.context import TaskContextManager


def tool_options(settings: Settings) -> ToolOptions:
    """What the settings say about tools."""
    wanted = settings.tools
    return ToolOptions(
        timeout=wanted.timeout,
        max_output_bytes=wanted.max_output_bytes,
        workspace=wanted.workspace,
        shell=wanted.shell,
        start_timeout=wanted.start_timeout,
        max_restarts=wanted.max_restarts,
    )


class TaskTools:
    """What the model may call while it works on one task."""

    def __init__(self, boxes: Sequence[ToolBox], own: Iterable[ToolServer] = ()) -> None:
        """Where two boxes have a tool of the same name, the first one's is called; ``own`` servers are closed."""
        self._boxes = boxes
        self._own = tuple(own)

    def schemas(self) -> list[dict[str, Any]]:
        """The tools in the shape of OpenAI's ``tools``."""
        found: dict[str, dict[str, Any]] = {}
        for box in self._boxes:
            for schema in box.schemas():
                found.setdefault(schema["function"]["name"], schema)
        return list(found.values())

    def is_repeatable(self, name: str) -> bool:
        """May a call be made again when nobody knows whether it was carried out?"""
        return self._box(name).is_repeatable(name)

    def is_ordered(self, name: str) -> bool:
        """Has a call to wait for those before it in the same answer?"""
        return self._box(name).is_ordered(name)

    def call(self, name: str, arguments: str, *, call_id: str) -> ToolResult:
        """Run a tool; whatever happens is a result."""
        return self._box(name).call(name, arguments, call_id=call_id)

    def close(self) -> None:
        for server in self._own:
            server.close()

    def _box(self, name: str) -> ToolBox:
        if len(self._boxes) == 1:
            return self._boxes[0]
        return next((box for box in self._boxes if name in box.tools()), self._boxes[0])


def configured_toolbox(settings: Settings, base_dir: Path) -> ToolBox:
    """The tools that the settings give to every task; those over a task's own past are not among them."""
    options = tool_options(settings)
    built_in = builtin_servers(
        options.workspace, options.max_output_bytes, None, shell=options.shell, base_dir=base_dir
    )
    return ToolBox([*built_in, *ToolSupply(settings, base_dir).mcp_servers()], options)


class ToolSupply:
    """Makes the tools of each task of a handler. Close it: MCP servers run until then."""

    def __init__(self, settings: Settings, base_dir: Path, toolbox: ToolBox | None = None) -> None:
        self._settings = settings
        self._base_dir = base_dir
        self._given = toolbox
        self._options = tool_options(settings)
        self._lock = Lock()
        self._servers: list[ToolServer] | None = None

    def of(self, context: TaskContextManager, agent_servers: Sequence[ToolServer]) -> TaskTools:
        """The tools for one task; ``agent_servers`` are plans and children."""
        messages, options = context.message_store, self._options
        if self._given is not None:
            past = BuiltinServer("context", context_tools(messages, options.max_output_bytes))
            own: list[ToolServer] = [*agent_servers, past]
            return TaskTools([self._given, ToolBox(own, options, message_store=messages)], own)
        built_in = builtin_servers(
            options.workspace, options.max_output_bytes, messages, shell=options.shell, base_dir=self._base_dir
        )
        own = [*built_in, *agent_servers]
        return TaskTools([ToolBox([*own, *self.mcp_servers()], options, message_store=messages)], own)

    def close(self) -> None:
        """End the MCP servers."""
        with self._lock:
            servers, self._servers = self._servers or [], None
        for server in servers:
            server.close()

    def mcp_servers(self) -> list[ToolServer]:
        """The MCP servers of the settings, one of each for all tasks."""
        with self._lock:
            if self._servers is None:
                self._servers = self._start()
            return self._servers

    def _start(self) -> list[ToolServer]:
        configured = read_mcp_servers({"mcp_servers": _escaped(self._settings.mcp_servers)})
        if not configured:
            return []
        from orihon.runtime.mcp.servers import mcp_servers

        timeout, restarts = self._options.start_timeout, self._options.max_restarts
        return list(mcp_servers(configured, self._base_dir, start_timeout=timeout, max_restarts=restarts))


def _escaped(value: Any) -> Any:
    """Variables were filled in when the settings were loaded; what looks like one now is meant as it stands."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {name: _escaped(item) for name, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value
