"""An MCP server made with the official SDK: over stdio, or over HTTP on a free port of loopback, which it prints.

python mcp_sdk_server.py [--http] [--stateless] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("sdk")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def fail(reason: str) -> str:
    """Fail for a reason."""
    raise ValueError(reason)


@server.tool()
async def nap(seconds: float) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "awake"


@server.tool()
def much(size: int) -> str:
    """A text of so many bytes."""
    return "x" * size


@server.tool()
def header(name: str, ctx: Context) -> str:
    """A header of the request."""
    request = ctx.request_context.request
    assert request is not None
    return str(request.headers.get(name))


@server.tool()
async def grow(ctx: Context) -> str:
    """Bring one more tool."""

    def newcomer() -> str:
        """A tool that was not there."""
        return "new"

    server.add_tool(newcomer)
    await ctx.notify_tools_changed()
    return "grown"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--stateless", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if not options.http:
        server.run()
        return
    app = server.streamable_http_app(stateless_http=options.stateless, json_response=options.json)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", options.port))
        listening.listen()
        print(listening.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    main()
