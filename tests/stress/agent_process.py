"""A worker of one process for the kill tests: ``python -m tests.stress.agent_process FOLDER BASE_URL``."""

from __future__ import annotations

import sys
from pathlib import Path

from orihon import load_settings
from orihon.runtime.handler import TaskHandler
from orihon.runtime.queue import TaskQueue
from orihon.runtime.tools import ToolBox
from orihon.settings import Settings
from tests.integration.agents import EffectServer, config

TOOL_SECONDS = 0.02


def agent(settings: Settings, base_dir: Path) -> TaskHandler:
    """For workers: the handler with tools whose effects are counted."""
    return TaskHandler(settings, base_dir, toolbox=ToolBox([EffectServer(base_dir, TOOL_SECONDS)]))


def main() -> None:
    folder, base_url = Path(sys.argv[1]), sys.argv[2]
    limits = {"max_attempts": 10_000}
    settings = load_settings(config(base_url, multiprocess=limits, context_storage={"backend": sys.argv[3]}))
    queue = TaskQueue(folder, settings)
    handler = agent(settings, folder)
    while (task := queue.dequeue()) is not None:
        handler.handle(task)
        queue.ack(task)


if __name__ == "__main__":
    main()
