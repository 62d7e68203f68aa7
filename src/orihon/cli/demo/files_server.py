"""The demo's MCP server: ``python -m orihon.cli.demo.files_server FOLDER`` offers the workspace's tools over stdio.

Made with the official SDK, as any server of one's own would be. Needs the ``mcp`` package.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from orihon.cli.demo.workspace import DemoWorkspace


def main(folder: str) -> None:
    """Serve until the input ends."""
    workspace = DemoWorkspace(Path(folder))
    server = MCPServer("files")
    reading, again = ToolAnnotations(read_only_hint=True), ToolAnnotations(idempotent_hint=True)
    server.add_tool(workspace.list_files, annotations=reading)
    server.add_tool(workspace.read_file, annotations=reading)
    server.add_tool(workspace.write_file, annotations=again)
    server.add_tool(workspace.run_test, annotations=again)
    server.run()


if __name__ == "__main__":
    main(sys.argv[1])
