"""The agent when the worst happens at the worst moment: lost leases, crashes, retries, children in trouble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orihon.errors import GaveUp, Refused, StaleWriter
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep
from orihon.runtime.handler import open_context
from orihon.runtime.tool import ServerAnswer, ServerCall, ServerTool
from orihon.runtime.tools import ToolBox
from orihon.values.task import TaskStatus
from tests.helpers import raw_database
from tests.integration.agents import EffectServer, World, effects, world
from tests.integration.run_supervisor import eventually
from tests.integration.test_handler import go_on, put, write


def _lose(made: World) -> None:
    """The lease of whoever works is over, as for a process that was stopped too long, and another worker has it."""

    def is_taken() -> bool:
        with raw_database(made.queue.catalogue.path) as connection:
            connection.execute("UPDATE tasks SET lease_until = 0")
        made.queue._next_look = 0.0
        return made.queue.dequeue() is not None

    eventually(is_taken)  # a heartbeat may come in between


def test_a_worker_that_has_lost_the_task_calls_no_tool(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        _lose(made)
        return Reply(calls=[write("late")])

    with world(tmp_path, answer) as made:
        made.put()
        with pytest.raises(StaleWriter):
            made.handler.handle(made.claimed())
        assert effects(tmp_path) == []


class _Taken(EffectServer):
    """The first of two calls takes so long that the task is lost meanwhile."""

    made: World

    def call(self, call: ServerCall) -> ServerAnswer:
        _lose(self.made)
        return super().call(call)


def test_nor_the_next_tool_of_the_same_answer(tmp_path: Path) -> None:
    server = _Taken(tmp_path)
    sections = {"runtime": {"parallel_tools": 1}}
    steps = [Reply(calls=[write("one"), write("two")])]
    with world(tmp_path, steps, sections, toolbox=ToolBox([server])) as made:
        server.made = made
        made.put()
        with pytest.raises(StaleWriter):
            made.handler.handle(made.claimed())
        assert [text for _, text, _ in effects(tmp_path)] == ["one"]


# --- Calls in words ---


class _Fading(EffectServer):
    """A server that may lose its first tool."""

    is_faded = False

    def tools(self) -> Sequence[ServerTool]:
        return super().tools()[1:] if self.is_faded else super().tools()


def test_a_tool_that_is_gone_changes_no_number_of_a_call_in_words(tmp_path: Path) -> None:
    said = "".join(f'{{"tool": "effects_{tool}", "arguments": {{"text": "{tool}"}}}}' for tool in ("write", "put"))
    server = _Fading(tmp_path)
    server.is_faded = True
    with ScriptedModel(lambda request: Reply('{"done": true, "comment": "Yes."}')) as model:
        made = World(tmp_path, model, {"llm": {"function_calling": False}}, toolbox=ToolBox([server]))
        uuid = made.put()
        context = open_context(made.claimed(), tmp_path, made.settings)
        for role, words in (("system", "Work."), ("user", "Do it."), ("assistant", said)):
            context.message_store.add_message(role, words)
        context.tool_store.add_tool_call("effects_write", {}, "written before", call_id="words_3_1")
        go_on(made, context)
        assert effects(tmp_path) == [["put", "put", f"{uuid}:words_3_2"]]
        told = [stored.message.text for stored in made.messages(uuid)[3:5]]
        assert "written before" in told[0]
        assert "put: put" in told[1]
        made.close()


# --- Retries ---


def test_a_retry_forgives_the_failures_of_tools(tmp_path: Path) -> None:
    steps = [Reply(calls=[write("bad")]) for _ in range(5)]
    with world(tmp_path, [*steps, Reply("Done.")], {"runtime": {"max_consecutive_tool_errors": 3}}) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.FAILED
        made.queue.retry(uuid)
        assert made.work() is TaskStatus.COMPLETED  # after two more failures


# --- Children ---


def _is_child(request: ScriptedRequest) -> bool:
    return any(message.get("content") == "A part." for message in request.body["messages"])


def _parent(request: ScriptedRequest, children: int = 1) -> ScriptStep:
    if request.body["messages"][-1]["role"] == "tool":
        return Reply("Done.")
    return Reply(calls=[("task_start", {"prompt": "A part."})] * children)


def test_what_children_take_counts_for_their_parent(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        return Reply(calls=[put("again")]) if _is_child(request) else _parent(request, 3)

    with world(tmp_path, answer, {"runtime": {"max_llm_process_num": 5, "parallel_tools": 1}}) as made:
        made.put()
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, GaveUp)
        assert made.error.reason == "limit_calls"
        assert len([request for request in made.model.requests if request.body.get("tools")]) == 5


def test_trouble_of_a_child_that_may_pass_is_tried_again_with_its_parent(tmp_path: Path) -> None:
    troubles: Iterator[ScriptStep] = iter([Fault(503), Reply("The part.")])

    def answer(request: ScriptedRequest) -> ScriptStep:
        return next(troubles) if _is_child(request) else _parent(request)

    with world(tmp_path, answer, {"multiprocess": {"retry_delay": 0}}) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.QUEUED
        assert isinstance(made.error, Refused)
        assert made.work() is TaskStatus.COMPLETED
        assert "The part." in made.results(uuid)[0]
        assert {row.status for row in made.queue.catalogue.tasks.page()} == {TaskStatus.COMPLETED}


def test_children_are_cancelled_with_their_parent(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        return Reply(calls=[write("one")]) if _is_child(request) else _parent(request)

    with world(tmp_path, answer) as made:
        uuid = made.put()
        assert made.work(lambda: bool(effects(tmp_path))) is TaskStatus.PAUSED
        made.queue.cancel(uuid)
        assert [row.status for row in made.queue.catalogue.tasks.page()] == [TaskStatus.CANCELLED] * 2


class _Ordered(EffectServer):
    """Tools whose calls change one thing: their order matters."""

    def tools(self) -> Sequence[ServerTool]:
        return [replace(tool, ordered=True) for tool in super().tools()]


def test_calls_whose_order_matters_run_one_after_another(tmp_path: Path) -> None:
    server = _Ordered(tmp_path, seconds=0.02)
    texts = [str(number) for number in range(6)]
    steps: list[ScriptStep] = [Reply(calls=[write(said) for said in texts]), Reply(text="Done.")]
    with world(tmp_path, steps, {"runtime": {"parallel_tools": 6}}, toolbox=ToolBox([server])) as made:
        made.put()
        made.handler.handle(made.claimed())
    assert [said for _, said, _ in effects(tmp_path)] == texts
    assert server.most_at_work == 1
