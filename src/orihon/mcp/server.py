"""``make_server``: the one MCP server there is, whatever it is reached by; ``serve_streams``: over standard streams.

It only looks unless it was told otherwise. The SDK speaks the protocol, in all revisions that it knows; what is ours is
what the server has, who may ask for it, and what is logged: no message of a log, and no secret.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from mcp.server.mcpserver import MCPServer
from mcp_types import Resource

import orihon
from orihon.mcp.changes import add_changing_tools
from orihon.mcp.desk import Desk, local_visitor
from orihon.mcp.resources import add_prompts, add_resources, listed_tasks
from orihon.mcp.tools import add_reading_tools
from orihon.texts import text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orihon.tasks.base import OpenBase

NAME = "orihon"


class HistoryServer(MCPServer[dict[str, Any]]):
    """The server over one base. Its list of resources is that of the tasks, as of the moment when it is asked for."""

    def __init__(self, desk: Desk, *, allow_changes: bool = False) -> None:
        with _own_logging():
            super().__init__(
                NAME,
                title="Orihon",
                description=text("mcp.description"),
                instructions=text("mcp.instructions"),
                version=orihon.__version__,
                log_level="WARNING",
                middleware=[desk.received],
            )
        self._desk = desk
        add_reading_tools(self, desk)
        if allow_changes:
            add_changing_tools(self, desk)
        add_resources(self, desk)
        add_prompts(self, desk)

    async def list_resources(self) -> list[Resource]:
        fixed = await super().list_resources()
        return [*fixed, *await to_thread.run_sync(listed_tasks, self._desk)]


def make_server(base: OpenBase, *, allow_changes: bool = False) -> HistoryServer:
    """The server for whoever runs this process."""
    return HistoryServer(Desk(base, local_visitor()), allow_changes=allow_changes)


def serve_streams(base: OpenBase, *, allow_changes: bool = False) -> None:
    """Until standard input ends."""
    make_server(base, allow_changes=allow_changes).run("stdio")


class _Ours(logging.Handler):
    """What the SDK has to say goes where ours goes, masked as that is."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger("orihon.mcp").handle(record)


@contextmanager
def _own_logging() -> Iterator[None]:
    """The SDK would set up the logging of the whole process, unless somebody has."""
    root, there = logging.getLogger(), logging.NullHandler()
    root.addHandler(there)
    try:
        yield
    finally:
        root.removeHandler(there)
    spoken = logging.getLogger("mcp")
    if not any(isinstance(handler, _Ours) for handler in spoken.handlers):
        spoken.addHandler(_Ours(logging.WARNING))
        spoken.propagate = False
