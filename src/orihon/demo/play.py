"""The demo's agent: it asks for one function after another, writes it, tests it, mends it.

Every turn goes through ``TaskContextManager`` as a real agent's would: assistant messages with tool calls, results of
tools that really ran, a plan, a pinned rule. The view is folded whenever the compressor says so.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orihon.context import TaskContextManager
from orihon.demo.features import FEATURES, Feature
from orihon.demo.workspace import Workspace
from orihon.texts import text

#: A small window, so that folding can be watched.
DEMO_CONFIG: dict[str, Any] = {
    "llm": {"openai": {"context_length": 4_500}},
    "compression": {"threshold": 0.7, "keep_recent": 12},
}


@dataclass(frozen=True, slots=True)
class Progress:
    """What just happened, for the screen."""

    messages: int
    entries: int
    tokens: int
    log_tokens: int
    folded: tuple[int, int] | None = None  # view tokens before and after, when it was folded


Listener = Callable[[Progress], object]


class DemoAgent:
    """Plays features in one task."""

    def __init__(self, ctx: TaskContextManager, workspace: Workspace, listener: Listener) -> None:
        self.ctx = ctx
        self.workspace = workspace
        self._listener = listener

    def begin(self, goal: str) -> None:
        """System prompt (with what is inherited), goal, a pinned rule and a plan."""
        self.workspace.write_file("GUIDE.md", text("demo.guide"))
        self.ctx.create_initial_context_with_inheritance(text("demo.system"))
        seq = self.ctx.message_store.add_message("user", goal + "\n" + text("demo.rule"))
        self.ctx.message_store.folding.pin(seq, text("demo.rule"), made_by="demo")
        self.ctx.planning_store.add_plan("initial", [feature.name for feature in FEATURES])
        self._tell()

    def build(self, feature: Feature) -> None:
        """Look around, write it, see the test fail, mend it, see it pass."""
        module, test = f"toolbox/{feature.name}.py", f"toolbox/test_{feature.name}.py"
        checks = "\n".join(f"assert {check}, {check!r}" for check in feature.checks)
        self._say("user", text("demo.wish", name=feature.name))
        self._call(
            text("demo.look"),
            ("list_files", {}),
            ("read_file", {"path": "GUIDE.md"}),
            ("search", {"word": f"def {feature.name}"}),
        )
        self._call(text("demo.write", path=module), ("write_file", {"path": module, "text": feature.wrong}))
        source = f"from {feature.name} import {feature.name}\n\n{checks}\nprint('ok')\n"
        self._call(text("demo.test", path=test), ("write_file", {"path": test, "text": source}))
        self._call("", ("run_python", {"path": test}))
        self._call(text("demo.mend", path=module), ("read_file", {"path": module}), ("read_file", {"path": test}))
        self._call("", ("write_file", {"path": module, "text": feature.right}))
        self._call("", ("run_python", {"path": test}), ("list_files", {}))
        self._say("assistant", text("demo.done", name=feature.name, path=module))

    def _say(self, role: str, content: str) -> None:
        self.ctx.message_store.add_message(role, content)
        self._tell()

    def _call(self, said: str, *calls: tuple[str, dict[str, str]]) -> None:
        store = self.ctx.message_store
        first = store.count_messages() + 1
        store.add_message(
            "assistant",
            said or None,
            tool_calls=[
                {
                    "id": f"call_{first}_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
                }
                for number, (name, arguments) in enumerate(calls)
            ],
        )
        for name, arguments in calls:
            started = time.perf_counter()
            result = self.workspace.tools[name](**arguments)
            elapsed = round((time.perf_counter() - started) * 1000, 1)
            store.add_message("tool", result, name)
            self.ctx.tool_store.add_tool_call(name, arguments, result, duration_ms=elapsed)
        self.ctx.update_statistics(llm_calls=1, tool_calls=len(calls))
        self._tell()

    def _tell(self) -> None:
        before = self.ctx.task_store.tail.view_tokens
        changed = self.ctx.compress_if_needed()
        tail = self.ctx.task_store.tail
        folded = (before, tail.view_tokens) if changed else None
        self._listener(Progress(tail.seq, tail.view_entries, tail.view_tokens, tail.log_tokens, folded))


def resume_and_complete(base_dir: Path, uuid: str, workspace: Path, features: Sequence[Feature]) -> None:
    """What the demo's second process does; progress goes to standard output, one JSON object per line."""
    with TaskContextManager.resume(base_dir, uuid, DEMO_CONFIG) as ctx:
        agent = DemoAgent(ctx, Workspace(workspace), _print_line)
        for feature in features:
            agent.build(feature)


def _print_line(progress: Progress) -> None:
    """Past Python's buffer, which would complain at the end about a reader that has gone."""
    try:
        os.write(sys.stdout.fileno(), json.dumps(asdict(progress)).encode() + b"\n")
    except BrokenPipeError:
        raise KeyboardInterrupt from None  # whoever watched us was interrupted: the task pauses


if __name__ == "__main__":
    try:
        resume_and_complete(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), FEATURES[int(sys.argv[4]) :])
    except KeyboardInterrupt:
        sys.exit(130)
