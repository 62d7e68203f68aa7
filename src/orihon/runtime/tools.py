"""``ToolBox``: every tool an agent may call, under one roof and by one name each.

A tool is called by its public name ``server_tool``. Whatever a tool does, ``call`` answers: a failure of the tool, of
its server or of the arguments is a result that says so, never an exception, because the model has to be told. Output
over ``max_output_bytes`` is cut in the middle and kept whole in the task's folder. Calls may be made from several
threads at once. Refuses, at its start, servers that cannot be started unless they are marked ``required: false``.

``ToolSupply`` makes the tools of one task after another. MCP servers live as long as the handler; what belongs to the
task alone is closed with it. A tool box that a program hands over stays the program's: it is used, added to and never
closed.
"""

from __future__ import annotations

import difflib
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Lock
from typing import Any, Self

from orihon.errors import InvalidSettings, OrihonError, StorageError, ToolFailed
from orihon.runtime.builtin_tools import BuiltinServer, builtin_servers
from orihon.runtime.context_tools import context_tools
from orihon.runtime.mcp.config import McpServerConfig, read_mcp_servers
from orihon.runtime.tool import (
    KeptOutputs,
    ServerAnswer,
    ServerCall,
    ServerTool,
    ToolResult,
    ToolServer,
    cut_in_the_middle,
    public_name,
    sanitize_arguments,
    split_name,
)
from orihon.settings import Settings
from orihon.store import TaskMessages
from orihon.tasks.context import TaskContextManager
from orihon.texts import text

logger = logging.getLogger("orihon.runtime.tools")

_NEAREST = 5
_LEAST_OUTPUT = 1024


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What can be set about tools."""

    timeout: float = 120.0  # seconds that one call may take
    max_output_bytes: int = 256 << 10
    workspace: Path | None = None  # without one there are no file tools
    shell: bool = False  # commands in the workspace
    allow_writes: tuple[str, ...] = ()  # protected names that the file tools may write to
    start_timeout: float = 30.0  # seconds until an MCP server must have named its tools
    max_restarts: int = 5  # of one MCP server without a call that went well between them


class ToolBox:
    """A set of tools. Close it, or use it in a ``with`` block: MCP servers run until then."""

    def __init__(
        self,
        servers: Iterable[ToolServer],
        options: ToolOptions | None = None,
        *,
        message_store: TaskMessages | None = None,
    ) -> None:
        self.options = options or ToolOptions()
        if self.options.max_output_bytes < _LEAST_OUTPUT:
            least = _LEAST_OUTPUT
            raise InvalidSettings("tool_output", value=self.options.max_output_bytes, least=least)
        self._servers: dict[str, ToolServer] = {}
        for server in servers:
            if server.name in self._servers:
                raise InvalidSettings("mcp_server_twice", name=server.name)
            self._servers[server.name] = server
        self._outputs = KeptOutputs(message_store) if message_store is not None else None
        self._closed = threading.Event()

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any] | None = None,
        options: ToolOptions | None = None,
        *,
        base_dir: Path | str | None = None,
        message_store: TaskMessages | None = None,
    ) -> Self:
        """The MCP servers of ``mcp_servers:`` in a configuration, and the built-in tools.

        ``base_dir`` keeps what was approved of the servers' tools, and file tools stay out of it; ``message_store`` is
        the past that the context tools look at.
        """
        chosen = options or ToolOptions()
        base = None if base_dir is None else Path(base_dir)
        configured = read_mcp_servers(config or {})
        servers = _built_in(chosen, Settings(), message_store, base, configured)
        return cls([*servers, *_mcp_servers(configured, chosen, base)], chosen, message_store=message_store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every server; calls under way are answered with an error."""
        self._closed.set()
        for server in self._servers.values():
            server.close()

    # ---- what there is -----------------------------------------------------------------------------------------

    def tools(self) -> dict[str, ServerTool]:
        """Every tool that may be called now, by its public name."""
        found = [tool for server in self._servers.values() for tool in server.tools()]
        return {public_name(tool.server, tool.name, self._servers): tool for tool in found}

    def schemas(self) -> list[dict[str, Any]]:
        """The tools in the shape of OpenAI's ``tools``."""
        return [
            {
                "type": "function",
                "function": {"name": name, "description": tool.description, "parameters": dict(tool.parameters)},
            }
            for name, tool in self.tools().items()
        ]

    def is_repeatable(self, name: str) -> bool:
        """May a call be made again when nobody knows whether it was carried out? No for a tool that is not there."""
        tool = self._find(name)
        return tool is not None and tool.repeatable

    def is_ordered(self, name: str) -> bool:
        """Has a call to wait for those before it in the same answer, because it changes what others see?"""
        tool = self._find(name)
        return tool is not None and tool.ordered

    def changed(self) -> dict[str, list[str]]:
        """Tools that are refused because their definition is not the one that was approved, by server."""
        found = {name: sorted(server.refused_tools()) for name, server in self._servers.items()}
        return {name: refused for name, refused in found.items() if refused}

    def approve(self, server: str) -> list[str]:
        """Take the tools of a server as they are defined now; returns those that were refused."""
        if server not in self._servers:
            raise ToolFailed("no_server", server=server, known=", ".join(self._servers))
        return self._servers[server].approve()

    # ---- calling -----------------------------------------------------------------------------------------------

    def call(self, name: str, arguments: Mapping[str, Any] | str | None, *, call_id: str = "") -> ToolResult:
        """Run a tool. ``call_id`` goes with the call as its idempotency key."""
        started = time.monotonic()
        try:
            answer = self._answer(name, arguments, call_id)
            content, truncated = self._fitted(name, answer)
        except OrihonError as error:
            answer = ServerAnswer(str(error), is_error=True)
            content, truncated = self._cut(answer.text, ""), False
            # Not why: that may quote arguments and files, which belong in the task alone.
            logger.info("tool %s failed: %s", name, error.reason)
        duration = round((time.monotonic() - started) * 1000)
        return ToolResult(content, answer.is_error, duration, name, truncated)

    def _answer(self, name: str, arguments: Mapping[str, Any] | str | None, call_id: str) -> ServerAnswer:
        if self._closed.is_set():
            raise ToolFailed("closed", tool=name)
        given = sanitize_arguments(arguments)
        server, tool = self._resolved(name)
        try:
            return self._servers[server].call(ServerCall(tool, given, call_id, self.options.timeout))
        except OrihonError:
            raise
        except Exception as error:
            logger.error("tool %s broke: %s", name, type(error).__name__)
            logger.debug("tool %s: why", name, exc_info=True)
            raise ToolFailed("broken", tool=name, detail=f"{type(error).__name__}: {error}") from error

    def _find(self, name: str) -> ServerTool | None:
        split = split_name(name, self._servers)
        if split is not None:  # as a rule; then only that one server has to be asked
            for tool in self._servers[split[0]].tools():
                if public_name(tool.server, tool.name, self._servers) == name or tool.name == split[1]:
                    return tool
        return self.tools().get(name)

    def _resolved(self, name: str) -> tuple[str, str]:
        """Server and tool of a public name, also of a refused one: its server says why."""
        tool = self._find(name)
        if tool is not None:
            return tool.server, tool.name
        for server, refused in self.changed().items():
            for own_name in refused:
                if name in (f"{server}_{own_name}", public_name(server, own_name, self._servers)):
                    return server, own_name
        known = list(self.tools())
        nearest = difflib.get_close_matches(name, known, n=_NEAREST, cutoff=0.5) or known[:_NEAREST]
        raise ToolFailed("unknown", tool=name, nearest=", ".join(nearest) or "-")

    # ---- output ------------------------------------------------------------------------------------------------

    def _fitted(self, name: str, answer: ServerAnswer) -> tuple[str, bool]:
        content = answer.text
        if len(content) * 4 <= self.options.max_output_bytes or self._fits(content):
            return content, answer.is_cut
        kept = ""
        if self._outputs is not None:
            content = self._outputs.masked(content)  # before the cut: half a secret would not be known as one
            try:
                kept = self._outputs.keep(public_name_of(name), content)
            except StorageError as error:  # the tool has done its work: its answer counts
                logger.warning("the output of %s could not be kept: %s", name, error)
        return self._cut(content, kept), True

    def _fits(self, content: str) -> bool:
        return len(content.encode(errors="replace")) <= self.options.max_output_bytes

    def _cut(self, content: str, kept: str) -> str:
        if self._fits(content):
            return content
        key = "tools.cut_and_kept" if kept else "tools.cut"
        return cut_in_the_middle(content, self.options.max_output_bytes, lambda n: text(key, lines=n, output=kept))


def public_name_of(name: str) -> str:
    """A name that may become a part of a file's name."""
    return public_name("", name, ()).removeprefix("_")


def _mcp_servers(configured: list[McpServerConfig], options: ToolOptions, base_dir: Path | None) -> list[ToolServer]:
    if not configured:
        return []
    from orihon.runtime.mcp.servers import mcp_servers

    return list(
        mcp_servers(configured, base_dir, start_timeout=options.start_timeout, max_restarts=options.max_restarts)
    )


def tool_options(settings: Settings) -> ToolOptions:
    """What the settings say about tools."""
    return ToolOptions(**{field.name: getattr(settings.tools, field.name) for field in fields(ToolOptions)})


def _built_in(
    options: ToolOptions,
    settings: Settings,
    messages: TaskMessages | None,
    base_dir: Path | None,
    servers: Sequence[McpServerConfig],
) -> list[ToolServer]:
    from orihon.runtime.workspace_tools import files_in_force

    return builtin_servers(
        options.workspace,
        options.max_output_bytes,
        messages,
        shell=options.shell,
        base_dir=base_dir,
        in_force=files_in_force(settings, servers),
        allow_writes=options.allow_writes,
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
    built_in = _built_in(options, settings, None, base_dir, _configured(settings))
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
        built_in = _built_in(options, self._settings, messages, self._base_dir, _configured(self._settings))
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
        configured = _configured(self._settings)
        if not configured:
            return []
        from orihon.runtime.mcp.servers import mcp_servers

        timeout, restarts = self._options.start_timeout, self._options.max_restarts
        return list(mcp_servers(configured, self._base_dir, start_timeout=timeout, max_restarts=restarts))


def _configured(settings: Settings) -> list[McpServerConfig]:
    return read_mcp_servers({"mcp_servers": _escaped(settings.mcp_servers)})


def _escaped(value: Any) -> Any:
    """Variables were filled in when the settings were loaded; what looks like one now is meant as it stands."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {name: _escaped(item) for name, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value
