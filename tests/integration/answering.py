"""Somebody who asks or answers in a process of its own, and dies at a given step if told to.

``python -m tests.integration.answering JSON``. A step is a call of one of Orihon's own functions: with ``die_at`` the
process kills itself at that one, as ``kill -9`` would; without it, it says at the end how many there were.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import orihon
from orihon import TaskContextManager, load_settings
from orihon.approvals import approve, reject
from orihon.errors import NotWaiting, Waiting
from tests.conformance.child import ROOT

PATIENCE = 60.0
_OURS = str(Path(orihon.__file__).parent)


class Steps:
    """Counts the steps of this process, and ends it at one of them."""

    def __init__(self, die_at: int | None) -> None:
        self.count = 0
        self._die_at = die_at

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            self.count += 1
            if self.count == self._die_at:
                os.kill(os.getpid(), signal.SIGKILL)


def start(**plan: Any) -> subprocess.Popen[str]:
    """The process; ``told`` waits for what it has to say."""
    command = [sys.executable, "-m", __name__, json.dumps(plan)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """What the process has said; ``None`` when it was killed."""
    out, _ = process.communicate(timeout=PATIENCE)
    if process.returncode == -signal.SIGKILL:
        return None
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def ask(base: str, config: dict[str, Any], uuid: str) -> dict[str, Any]:
    ctx = TaskContextManager.resume(base, uuid, config, take_over=True)
    try:
        ctx.checkpoint("concept", "Shall it be so?")
    except Waiting as waiting:
        return {"waits": waiting.fields["checkpoint"]}
    return {}


def answer(base: str, config: dict[str, Any], uuid: str, by: str, decision: str, at: float = 0) -> dict[str, Any]:
    settings = load_settings(config)
    time.sleep(max(0.0, at - time.time()))  # so that two begin at the same moment
    try:
        if decision == "approve":
            done = approve(base, uuid, settings, by=by)
        else:
            done = reject(base, uuid, settings, by=by, reason="Look at Godot again.")
    except NotWaiting as error:
        return {"refused": error.reason, "by": error.fields.get("by"), "at": error.fields.get("at")}
    return {"status": done.status.value}


def main() -> None:
    plan = json.loads(sys.argv[1])
    acts: dict[str, Callable[..., dict[str, Any]]] = {"ask": ask, "answer": answer}
    act = acts[plan.pop("what")]
    steps = Steps(plan.pop("die_at", None))
    sys.setprofile(steps)
    said = act(**plan)
    sys.setprofile(None)
    sys.stdout.write(json.dumps({**said, "steps": steps.count}))


if __name__ == "__main__":
    main()
