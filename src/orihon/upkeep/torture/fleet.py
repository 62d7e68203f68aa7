"""Workers over many tasks, killed all the time, with a model that misbehaves: every task ends, every effect is once.

The model is a scripted HTTP server that fails three calls in ten. Tools leave a line for each time they ran: ``write``
must not be repeated, ``put`` may be, under the same key. A call whose result was not stored when its worker died is
answered as interrupted, so that an effect of ``write`` is there once or not at all.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from orihon.llm.scripted import CutConnection, Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep, Slow
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.handler import TaskHandler
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.tool import ServerAnswer, ServerCall, ServerTool
from orihon.runtime.tools import ToolBox
from orihon.runtime.worker import WorkerProcess
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import Choice, chosen_messages, reading_task
from orihon.tasks.task_name import key_named
from orihon.upkeep.torture.campaign import BACKENDS, Arena, Trial, base_at
from orihon.upkeep.torture.nursery import Say, Victim
from orihon.upkeep.torture.workload import check_whole
from orihon.values.task import TaskStatus

_TASKS, _WORKERS, _STEPS = 8, 3, 4
#: So many of the model's answers are faults, and so long a worker lives on average.
_FAULTY, _LIFE_SECONDS = 0.3, 1.5
#: Seconds for all tasks of one round, however slow the machine.
_PATIENCE = 300.0
_TOOL_SECONDS = 0.01
_EFFECTS = "effects"


class Fleet:
    """One round: some tasks, worked on by workers that are killed until every task has ended. Its kills are trials."""

    name: ClassVar[str] = "fleet"
    backends: ClassVar[tuple[str, ...]] = BACKENDS

    def trials(self, arena: Arena) -> Generator[Trial, None, None]:
        for number in count():
            with ScriptedModel(_misbehaving(arena.chance)) as model:
                yield self._round(arena, f"{arena.job}-{number}", model.base_url)

    def _round(self, arena: Arena, name: str, base_url: str) -> Trial:
        place, trial = arena.place(), Trial(trials=0, tasks=_TASKS)
        openai = {"base_url": base_url, "model": "tiny", "context_length": 32_000}
        llm = {"provider": "openai", "retries": 1, "retry_delay": 0.05, "timeout": 20.0, "openai": openai}
        config = arena.config(llm=llm)
        with base_at(place, config) as base:
            queue = open_queue(base)
            names = [f"t-{name}-{number}" for number in range(_TASKS)]
            uuids = {queue.enqueue(key_named(one, ""), prompt=one): one for one in names}
            self._kill_until_done(arena, place, config, queue, uuids, trial)
            _check(base, place, uuids, trial)
        return trial

    def _kill_until_done(
        self,
        arena: Arena,
        place: Path,
        config: Mapping[str, Any],
        queue: TaskQueue,
        uuids: Mapping[str, str],
        trial: Trial,
    ) -> None:
        numbers, give_up = count(1), time.monotonic() + _PATIENCE
        workers: list[Victim] = []
        while time.monotonic() < give_up:
            while len(workers) < _WORKERS:
                workers.append(arena.nursery.start(work_on, str(place), config, f"{arena.job}-{next(numbers)}"))
            time.sleep(arena.chance.random() * 2 * _LIFE_SECONDS / _WORKERS)
            if all(queue.catalogue.tasks.get(uuid).status in _ENDS for uuid in uuids):
                break
            trial.trials += 1
            _hear(workers.pop(arena.chance.randrange(_WORKERS)).kill(), trial)
        for worker in workers:
            _hear(worker.kill(), trial)


_ENDS = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.DEAD)


def _hear(said: list[list[Any]], trial: Trial) -> None:
    for what, *rest in said:
        trial.fail("tracebacks" if what == "traceback" else "shut", f"a worker ended: {' '.join(map(str, rest))}")


def _check(base: OpenBase, place: Path, uuids: Mapping[str, str], trial: Trial) -> None:
    """Every task is completed, what was told as done was done, and what must be done once was done once."""
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in (place / _EFFECTS).read_text().splitlines() if (place / _EFFECTS).exists() else ():
        tool, said, key = line.split()
        keys[tool, said].append(key)
    trial.acknowledged += len(keys)
    for (tool, said), made in keys.items():
        if len(set(made)) > 1 or (tool == "write" and len(made) > 1):
            trial.fail("doubled", f"{tool} {said} was done {len(made)} times")
    for uuid, name in uuids.items():
        row = base.needed_catalogue().tasks.get(uuid)
        if row.status is not TaskStatus.COMPLETED:
            trial.fail("shut", f"{uuid} ({name}) ended as {row.status.value}: {row.error_message}")
            continue
        with reading_task(base, uuid) as (store, _):
            told = [stored.message.text for stored in chosen_messages(store, Choice.parse(role="tool"))]
        if len(told) != 2 * _STEPS:
            trial.fail("lost", f"{uuid} ({name}) has {len(told)} results, not {2 * _STEPS}")
        for one in told:
            tool, _, said = one.partition(": ")
            if tool in ("write", "put") and (tool, said) not in keys:
                trial.fail("lost", f"{uuid} ({name}) was told of {one}, which was not done")
        check_whole(base, uuid, trial)


# ---- the model -------------------------------------------------------------------------------------------------------


def _misbehaving(chance: random.Random) -> Callable[[ScriptedRequest], ScriptStep]:
    faults: Sequence[Callable[[Reply], ScriptStep]] = (
        lambda reply: Fault(500),
        lambda reply: Fault(503),
        lambda reply: Fault(429, headers={"Retry-After": "0"}),
        lambda reply: Fault(200, b"<html>not JSON"),
        lambda reply: CutConnection(40, reply),
        lambda reply: Slow(0.2, reply),
    )

    def answer(request: ScriptedRequest) -> ScriptStep:
        reply = _reply(request)
        return chance.choice(faults)(reply) if chance.random() < _FAULTY else reply

    return answer


def _reply(request: ScriptedRequest) -> Reply:
    """Follows from the request alone: two calls for each step, then the end. One without tools wants a summary."""
    messages = request.body["messages"]
    if not request.body.get("tools"):
        return Reply(f"Summary. {' '.join(str(messages[-1]['content']).split()[-40:])}")
    step = sum(message["role"] == "assistant" for message in messages)
    name = next(message["content"] for message in messages if message["role"] == "user")
    if step >= _STEPS:
        return Reply("Done.")
    return Reply(f"Step {step}.", [(f"effects_{tool}", {"text": f"{name}-{step}"}) for tool in ("write", "put")])


# ---- inside a worker -------------------------------------------------------------------------------------------------


class EffectTools:
    """Two tools that leave a line for each time they ran."""

    name = "effects"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def tools(self) -> Sequence[ServerTool]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [
            ServerTool(self.name, "write", "", schema),
            ServerTool(self.name, "put", "", schema, repeatable=True),
        ]

    def call(self, call: ServerCall) -> ServerAnswer:
        said = str(call.arguments.get("text", ""))
        file = os.open(self._folder / _EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{call.tool} {said} {call.id}\n".encode())
        os.close(file)
        time.sleep(_TOOL_SECONDS)  # a kill may come between the effect and its answer
        return ServerAnswer(f"{call.tool}: {said}")

    def refused_tools(self) -> Sequence[str]:
        return ()

    def approve(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing is open."""


def agent(settings: Settings, base_dir: Path) -> TaskHandler:
    """The handler of the workers: the usual one, with tools whose effects can be counted."""
    return TaskHandler(settings, base_dir, toolbox=ToolBox([EffectTools(base_dir)]))


def work_on(say: Say, place: str, config: Mapping[str, Any], name: str) -> None:
    """The work of a child: one worker, until it is killed."""
    limits = QueueLimits(max_attempts=10_000, retry_delay=0.02, max_retry_delay=0.1, poll_interval=0.05)
    base = base_at(place, config)
    WorkerProcess(name, base.settings, base_dir=base.path, handler=f"{__name__}:agent", limits=limits).run()
