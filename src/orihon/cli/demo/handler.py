"""The demo without the ``mcp`` package: Orihon's own workspace tools, in the worker's process.

They are named ``files_…`` as those of the MCP server are, so that the agent's work is the same.
"""

from __future__ import annotations

from pathlib import Path

from orihon.cli.demo.workspace import DemoWorkspace
from orihon.runtime.builtin_tools import BuiltinServer, BuiltinTool, Deadline
from orihon.runtime.handler import TaskHandler
from orihon.runtime.tool import Arguments, ServerAnswer
from orihon.runtime.tools import ToolBox, tool_options
from orihon.runtime.workspace_tools import workspace_tools
from orihon.settings import Settings

SERVER = "files"
BUILT_IN = "orihon.cli.demo.handler:with_built_in_tools"


def with_built_in_tools(settings: Settings, base_dir: Path) -> TaskHandler:
    """A handler for ``--handler``: the tools of ``tools.workspace``, and one that runs tests."""
    folder = settings.tools.workspace
    assert folder is not None  # the demo names it
    tools = [*workspace_tools(folder, settings.tools.max_output_bytes), _run_test(DemoWorkspace(folder))]
    toolbox = ToolBox([BuiltinServer(SERVER, tools)], tool_options(settings))
    return TaskHandler(settings, base_dir, toolbox=toolbox)


def _run_test(workspace: DemoWorkspace) -> BuiltinTool:
    def run(arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        return ServerAnswer(workspace.run_test(arguments.text("path")))

    about = "Run a test file with Python; gives the exit status and everything it printed."
    return BuiltinTool("run_test", about, {"path": {"type": "string"}}, run, ["path"])
