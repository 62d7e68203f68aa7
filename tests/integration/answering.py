"""Somebody who asks or answers in a process of its own, and dies at a given step if told to.

A step is a call of one of Orihon's own functions: with ``die_at`` the process kills itself at that one, as ``kill -9``
would; without it, it says at the end how many there were.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import orihon
from orihon import TaskContextManager, load_settings
from orihon.errors import NotWaiting, Waiting
from orihon.tasks.approvals.answers import approve, pending, reject
from orihon.tasks.base import OpenBase
from tests.conformance.child import PATIENCE
from tests.integration.run_supervisor import eventually

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


@dataclass(frozen=True)
class Somebody:
    """A process, and where it says what it has to say."""

    pid: int
    reading: int


def start(**plan: Any) -> Somebody:
    """The process; ``told`` waits for what it has to say."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _act_and_leave(plan, writing)
    os.close(writing)
    return Somebody(child, reading)


def told(somebody: Somebody) -> dict[str, Any] | None:
    """What the process has said; ``None`` when it was killed."""
    out = b""
    with os.fdopen(somebody.reading, "rb", buffering=0) as pipe:
        while True:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                os.kill(somebody.pid, signal.SIGKILL)
                raise AssertionError("it never ends")
            if not (piece := pipe.read(1 << 16)):
                break
            out += piece
    _, status = os.waitpid(somebody.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        return None
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def ask(base: str, config: dict[str, Any], uuid: str) -> dict[str, Any]:
    ctx = TaskContextManager.resume(base, uuid, config, take_over=True)
    try:
        ctx.checkpoint("concept", "Shall it be so?")
    except Waiting as waiting:
        return {"waits": waiting.fields["checkpoint"]}
    return {}


def answer(
    base: str, config: dict[str, Any], uuid: str, by: str, decision: str, at: float = 0, waits: bool = False
) -> dict[str, Any]:
    """``at`` a time, or when the task ``waits`` for it."""
    settings = load_settings(config)
    if waits:
        eventually(lambda: [one for one in pending(OpenBase(base, settings)) if one.uuid == uuid])
    time.sleep(max(0.0, at - time.time()))  # so that two begin at the same moment
    try:
        if decision == "approve":
            done = approve(OpenBase(base, settings), uuid, by=by)
        else:
            done = reject(OpenBase(base, settings), uuid, by=by, reason="Look at Godot again.")
    except NotWaiting as error:
        return {"refused": error.reason, "by": error.fields.get("by"), "at": error.fields.get("at")}
    return {"status": done.status.value}


def _act_and_leave(plan: dict[str, Any], writing: int) -> NoReturn:
    acts: dict[str, Callable[..., dict[str, Any]]] = {"ask": ask, "answer": answer}
    try:
        act = acts[plan.pop("what")]
        steps = Steps(plan.pop("die_at", None))
        sys.setprofile(steps)
        said = act(**plan)
        sys.setprofile(None)
        os.write(writing, json.dumps({**said, "steps": steps.count}).encode())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
