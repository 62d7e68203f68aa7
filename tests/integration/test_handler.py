"""The agent at work: a real HTTP server in the place of the model, real tools, real files."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager
from orihon.errors import GaveUp, InvalidInput, InvalidSettings, Refused, SourceError
from orihon.llm.scripted import Fault, Reply, ScriptedRequest, ScriptStep, Slow, overflowing
from orihon.runtime.handler import TaskHandler, open_context
from orihon.runtime.sources.folder import FolderSource
from orihon.runtime.tools import ToolBox
from orihon.runtime.worker import WorkerProcess
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskStatus
from tests.integration.agents import SUMMARY, CommandSource, World, effects, summary, world
from tests.integration.run_supervisor import eventually

SDK_SERVER = Path(__file__).parent / "mcp_sdk_server.py"


def write(said: str) -> tuple[str, dict[str, str]]:
    return "effects_write", {"text": said}


def put(said: str) -> tuple[str, dict[str, str]]:
    return "effects_put", {"text": said}


# --- A whole task ---


def test_a_worker_does_a_task_with_files_and_an_mcp_server(tmp_path: Path) -> None:
    base, workspace = tmp_path / "base", tmp_path / "workspace"
    workspace.mkdir()
    steps = [
        Reply("A plan.", calls=[("plan_record", {"plan_type": "initial", "content": "1. add 2. write"})]),
        Reply(calls=[("sdk_add", {"a": 2, "b": 40})]),
        Reply(calls=[("workspace_write_file", {"path": "sum.txt", "content": "42"})]),
        Reply("The sum is in sum.txt."),
    ]
    sections = {
        "tools": {"workspace": str(workspace), "start_timeout": 120},
        "mcp_servers": {"sdk": {"command": [sys.executable, str(SDK_SERVER)]}},
    }
    with world(base, steps, sections) as made:
        uuid = made.put("Add 2 and 40.")
        WorkerProcess("1", made.settings, base_dir=base, until_empty=True).run()
        row = made.queue.catalogue.tasks.get(uuid)
        assert (row.status, row.error_message) == (TaskStatus.COMPLETED, None)
        assert (workspace / "sum.txt").read_text() == "42"
        roles = [stored.message.role for stored in made.messages(uuid)]
        assert roles == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
        folder = base / "completed" / uuid
        assert (folder / "final_summary.txt").read_text().startswith(SUMMARY)
        assert '"1. add 2. write"' in (folder / "planning.jsonl").read_text()
        assert (row.total_tool_calls, row.tool_call_count) == (3, 3)
        names = {tool["function"]["name"] for tool in made.model.requests[0].body["tools"]}
        assert {"plan_record", "task_start", "context_recall", "sdk_add", "workspace_read_file"} <= names
        assert [found for found in verify(OpenBase(base, made.settings), uuid) if found.severity != "warning"] == []


def test_the_system_prompt_is_the_one_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("Be brief.")
    with world(tmp_path / "base", [Reply("Yes.")], {"runtime": {"system_prompt_file": str(file)}}) as made:
        uuid = made.put("Are you there?")
        assert made.work() is TaskStatus.COMPLETED
        assert [stored.message.text for stored in made.messages(uuid)] == ["Be brief.", "Are you there?", "Yes."]


def test_a_system_prompt_that_cannot_be_read_is_not_the_fault_of_the_task(tmp_path: Path) -> None:
    with world(tmp_path, [], {"runtime": {"system_prompt_file": "nowhere.md"}}) as made:
        made.put()
        assert made.work() is TaskStatus.QUEUED
        assert isinstance(made.error, InvalidSettings)
        assert made.error.reason == "system_prompt_file"


def test_a_task_without_a_prompt_or_a_source_fails(tmp_path: Path) -> None:
    with world(tmp_path, []) as made:
        made.put("")
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, InvalidInput)
        assert made.error.reason == "task_without_prompt"


def test_a_model_that_calls_in_words(tmp_path: Path) -> None:
    said = (
        '{"tool": "effects_write", "arguments": {"text": "one"}}\n{"tool": "effects_put", "arguments": {"text": "two"}}'
    )
    steps = iter([Reply(said), Reply('{"done": true, "comment": "Both written."}')])

    def answer(request: ScriptedRequest) -> ScriptStep:
        return next(steps, None) or summary(request)

    told: list[str] = []
    source = CommandSource("Write.", tell=told.append)
    with world(tmp_path, answer, {"llm": {"function_calling": False}}, source=source) as made:
        made.model._every = answer
        uuid = made.put("Write.")
        assert made.work() is TaskStatus.COMPLETED
        assert sorted(line[:2] for line in effects(tmp_path)) == [["put", "two"], ["write", "one"]]
        assert [stored.message.role for stored in made.messages(uuid)] == [
            *("system", "user", "assistant", "user", "user", "assistant"),
        ]
        assert told[-1] == "Both written."


def test_calls_in_words_are_settled_after_a_crash(tmp_path: Path) -> None:
    said = "\n".join(
        f'{{"tool": "effects_{tool}", "arguments": {{"text": "{tool}"}}}}' for tool in ("put", "write", "put")
    )

    def answer(request: ScriptedRequest) -> ScriptStep:
        return summary(request) if "[Result" not in str(request.body) else Reply('{"done": true, "comment": "Yes."}')

    with world(tmp_path, answer, {"llm": {"function_calling": False}}) as made:
        made.model._every = answer
        uuid = made.put()
        context = open_context(made.claimed(), tmp_path, made.settings)
        for role, words in (("system", "Work."), ("user", "Do it."), ("assistant", said), ("user", "[Result of it]")):
            context.message_store.add_message(role, words)
        context.tool_store.add_tool_call("effects_put", {}, "told before", call_id="words_3_1")
        go_on(made, context)
        assert effects(tmp_path) == [["put", "put", f"{uuid}:words_3_3"]]
        roles = [stored.message.role for stored in made.messages(uuid)]
        assert roles == ["system", "user", "assistant", *["user"] * 3, "assistant"]
        assert "interrupted" in made.messages(uuid)[4].message.text


# --- What models do wrong ---


def test_bad_arguments_unknown_tools_and_doubled_ids_are_answered(tmp_path: Path) -> None:
    steps = [
        Reply(calls=[("effects_write", '{"text": "unfinished'), ("effects_wrote", {"text": "a"})]),
        Reply(calls=[("effects_write", {"text": "a"}, "same"), ("effects_write", {"text": "b"}, "same")]),
        Reply(calls=[("effects_write", {"text": "c"}, "same")]),
        Reply("Done."),
    ]
    with world(tmp_path, steps) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
        first, second, *others = made.results(uuid)
        assert "not valid JSON" in first
        assert "effects_write" in second
        assert others == ["write: a", "write: b", "write: c"]
        assert sorted(said for _, said, _ in effects(tmp_path)) == ["a", "b", "c"]
        records = (tmp_path / "completed" / uuid / "tools.jsonl").read_text()
        assert "unreadable" in records


def test_an_empty_answer_is_asked_again_and_then_tried_later(tmp_path: Path) -> None:
    sections = {"llm": {"retries": 1, "retry_delay": 0.001}, "multiprocess": {"retry_delay": 0}}
    with world(tmp_path, [Reply(""), Reply(""), Reply("Here I am.")], sections) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.QUEUED
        assert made.work() is TaskStatus.COMPLETED
        assert [stored.message.role for stored in made.messages(uuid)] == ["system", "user", "assistant"]


def test_an_answer_that_was_cut_off_by_its_length_goes_on(tmp_path: Path) -> None:
    with world(tmp_path, [Reply("The first half", finish="length"), Reply("and the second.")]) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
        roles = [stored.message.role for stored in made.messages(uuid)]
        assert roles == ["system", "user", "assistant", "user", "assistant"]


def test_a_wrong_key_fails_at_once_and_trouble_is_tried_again(tmp_path: Path) -> None:
    with world(tmp_path, [Fault(401), Fault(503), Reply("Done.")], {"multiprocess": {"retry_delay": 0}}) as made:
        refused = made.put(number="1")
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, GaveUp)
        assert "401" in str(made.queue.catalogue.tasks.get(refused).error_message)
        made.put(number="2")
        assert made.work() is TaskStatus.QUEUED
        assert isinstance(made.error, Refused)
        assert made.work() is TaskStatus.COMPLETED


# --- Limits ---


def endless(request: ScriptedRequest) -> ScriptStep:
    return Reply(calls=[put("again")], usage={"input": 1000, "output": 100})


@pytest.mark.parametrize(
    ("limit", "reason", "requests"),
    [
        ({"max_llm_process_num": 3}, "limit_calls", 3),
        ({"max_tokens": 2500}, "limit_tokens", 3),
        ({"max_cost": 0.008}, "limit_cost", 3),
    ],
)
def test_a_limit_ends_the_task(limit: dict[str, Any], reason: str, requests: int, tmp_path: Path) -> None:
    sections = {"runtime": limit, "prices": {"tiny": {"input": 2, "output": 10}}}
    with world(tmp_path, endless, sections) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, GaveUp)
        assert made.error.reason == reason
        assert len(made.model.requests) == requests
        assert (tmp_path / "completed" / uuid / "final_summary.txt").exists()
        made.queue.retry(uuid)
        assert made.work(lambda: len(made.model.requests) > requests) is TaskStatus.PAUSED
        made.queue.resume(uuid)
        assert made.work() is TaskStatus.FAILED  # what it has taken counts over all attempts
        assert len(made.model.requests) == 2 * requests  # and not what it took before the retry


def test_the_limit_on_time_ends_a_call_that_would_outlast_it(tmp_path: Path) -> None:
    with world(tmp_path, [Slow(600)], {"runtime": {"max_seconds": 0.5}}) as made:
        made.put()
        started = time.monotonic()
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, GaveUp)
        assert made.error.reason == "limit_seconds"
        assert time.monotonic() - started < 300


def test_a_tool_that_fails_too_often_in_a_row_ends_the_task(tmp_path: Path) -> None:
    calls = ["bad", "good", "bad", "bad", "bad"]
    steps = [Reply(calls=[write(said)]) for said in calls]
    with world(tmp_path, steps, {"runtime": {"max_consecutive_tool_errors": 3}}) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, GaveUp)
        assert (made.error.reason, made.error.fields["tool"]) == ("tool_errors", "effects_write")
        assert made.results(uuid) == ["no", "write: good", "no", "no", "no"]


# --- Side by side ---


def release(made: World, count: int) -> None:
    """Calls end when so many are under way."""
    try:
        eventually(lambda: made.server.most_at_work >= count)
    finally:
        (made.folder / "hold").unlink()


def test_calls_of_one_answer_run_side_by_side_and_are_told_in_their_order(tmp_path: Path) -> None:
    texts = [f"t{number}" for number in range(6)]
    steps = [Reply(calls=[write(said) for said in texts]), Reply("Done.")]
    with world(tmp_path, steps, {"runtime": {"parallel_tools": 3}}) as made:
        (tmp_path / "hold").touch()
        releasing = threading.Thread(target=release, args=(made, 3))
        releasing.start()
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
        releasing.join()
        assert made.results(uuid) == [f"write: {said}" for said in texts]
        assert made.server.most_at_work == 3


# --- Pause and crash ---


def test_a_task_that_is_to_stop_rests_and_goes_on_where_it_was(tmp_path: Path) -> None:
    steps = [Reply(calls=[write("one")]), Reply(calls=[write("two")]), Reply("Done.")]
    with world(tmp_path, steps) as made:
        uuid = made.put()
        assert made.work(lambda: len(effects(tmp_path)) == 1) is TaskStatus.PAUSED
        made.queue.resume(uuid)
        assert made.work() is TaskStatus.COMPLETED
        assert [said for _, said, _ in effects(tmp_path)] == ["one", "two"]


def test_a_call_of_the_model_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    asked = threading.Event()

    def slow(request: ScriptedRequest) -> ScriptStep:
        asked.set()
        return Slow(600)

    with world(tmp_path, slow, {"multiprocess": {"drain_seconds": 0.3}}) as made:
        made.put()
        started = time.monotonic()
        assert made.work(asked.is_set) is TaskStatus.PAUSED
        assert time.monotonic() - started < 300


def crashed(made: World, calls: list[tuple[str, dict[str, str]]]) -> tuple[str, TaskContextManager]:
    """A task whose worker died after an answer with calls was stored; the context is still to be closed."""
    uuid = made.put()
    context = open_context(made.claimed(), made.folder, made.settings)
    for role, said in (("system", "Work."), ("user", "Do it.")):
        context.message_store.add_message(role, said)
    functions = [
        {"id": f"call-{number}", "function": {"name": name, "arguments": str(arguments).replace("'", '"')}}
        for number, (name, arguments) in enumerate(calls, start=1)
    ]
    context.message_store.add_message("assistant", None, tool_calls=functions)
    return uuid, context


def go_on(made: World, context: TaskContextManager) -> None:
    context.stop()
    made.queue.resume(context.uuid)
    assert made.work() is TaskStatus.COMPLETED


def test_open_calls_are_settled_without_repeating_anything_that_must_not_be(tmp_path: Path) -> None:
    with world(tmp_path, [Reply("Done.")]) as made:
        calls = [write("stored"), write("unknown"), put("again"), ("gone_tool", {})]
        uuid, context = crashed(made, calls)
        context.tool_store.add_tool_call("effects_write", {}, "what it said", call_id="call-1")
        go_on(made, context)
        stored, unknown, again, gone = made.results(uuid)
        assert (stored, again) == ("what it said", "put: again")
        assert unknown.startswith("interrupted")
        assert gone.startswith("interrupted")
        assert effects(tmp_path) == [["put", "again", f"{uuid}:call-3"]]


def test_a_call_with_a_masked_argument_is_never_made_again(tmp_path: Path) -> None:
    with world(tmp_path, [Reply("Done.")]) as made:
        uuid, context = crashed(made, [put("sk-proj-" + "a1B2" * 12)])
        go_on(made, context)
        assert effects(tmp_path) == []
        assert made.results(uuid)[0].startswith("interrupted")


def test_secrets_reach_the_tool_and_not_the_disk(tmp_path: Path) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    with world(tmp_path, [Reply(calls=[write(secret)]), Reply("Done.")]) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
        assert effects(tmp_path)[0][1] == secret
        folder = tmp_path / "completed" / uuid
        assert [
            path for path in folder.rglob("*") if path.is_file() and secret in path.read_text(errors="ignore")
        ] == []


def test_an_answer_that_ends_the_task_is_not_asked_for_again(tmp_path: Path) -> None:
    with world(tmp_path, []) as made:
        uuid, context = crashed(made, [put("x")])
        context.message_store.answer_open_calls("x")
        context.message_store.add_message("assistant", "All done.")
        go_on(made, context)
        assert [request for request in made.model.requests if request.body.get("tools")] == []
        assert made.queue.catalogue.tasks.get(uuid).status is TaskStatus.COMPLETED


def test_a_beginning_that_was_cut_short_is_made_up_for(tmp_path: Path) -> None:
    with world(tmp_path, [Reply("Done.")]) as made:
        uuid = made.put("Do it.")
        context = open_context(made.claimed(), tmp_path, made.settings)
        context.message_store.add_message("system", "Work.")
        go_on(made, context)
        assert [stored.message.text for stored in made.messages(uuid)] == ["Work.", "Do it.", "Done."]


def test_a_wish_to_cancel_ends_the_task_and_its_source_hears_of_it(tmp_path: Path) -> None:
    told: list[str] = []
    with world(tmp_path, endless, source=CommandSource("Do it.", tell=told.append)) as made:
        uuid = made.put()
        task = made.claimed()
        made.queue.cancel(uuid)
        made.handler.handle(task, lambda: True)
        assert made.queue.ack(task, stopped=True) is TaskStatus.CANCELLED
        assert told == ["Work has begun.", "Cancelled."]


def test_a_task_that_fails_while_somebody_cancels_it_has_failed(tmp_path: Path) -> None:
    with world(tmp_path, [Fault(401)]) as made:
        uuid = made.put()
        task = made.claimed()
        made.queue.cancel(uuid)
        with pytest.raises(GaveUp) as caught:
            made.handler.handle(task)
        assert made.queue.nack(task, caught.value, retry=False) is TaskStatus.FAILED


# --- The window ---


def test_a_long_task_stays_within_its_window(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        count = len(effects(tmp_path))
        return Reply("Done.") if count == 40 else Reply(calls=[write(f"{count}-" + "lorem-ipsum-" * 60)])

    openai = {"model": "tiny", "context_length": 8000}
    with world(tmp_path, answer) as made:
        openai["base_url"] = made.model.base_url
        made.handler = TaskHandler({"llm": {"retries": 0, "openai": openai}}, tmp_path, toolbox=ToolBox([made.server]))
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
        row = made.queue.catalogue.tasks.get(uuid)
        assert row.compression_count > 0
        assert row.total_messages == 2 + 2 * 40 + 1
        assert len(effects(tmp_path)) == 40
        assert max(len(str(request.body["messages"])) for request in made.model.requests) < 8000 * 4


NEEDLE = "the valve of tank 7 opens at 8431 pascal"
FOG = "\n".join(f"reading {number}: nothing to be seen in the fog of station {number * 37}" for number in range(60))


class Forgetful:
    """A model that looks at a listing with a needle in it, works on until the needle is gone, and wants it back."""

    def __init__(self, way: Callable[[str], tuple[str, dict[str, str]] | None]) -> None:
        self._way = way  # from what it is shown to the call that brings the needle back, when it can tell one
        self.asked = 0
        self.found = ""

    def __call__(self, request: ScriptedRequest) -> ScriptStep:
        shown = request.body["messages"]
        if self.asked:
            self.found = str(shown[-1]["content"])
            return Reply("Done.")
        # Notes may hold it for ever; the tool has to find it all the same.
        is_gone = request.number > 40 or (request.number > 1 and NEEDLE not in json.dumps(shown))
        if is_gone and (call := self._way("\n".join(str(one["content"]) for one in shown))):
            self.asked += 1
            return Reply(calls=[call])
        name = "first.txt" if request.number == 1 else "next.txt"
        return Reply(f"I look at step {request.number}.", calls=[("workspace_read_file", {"path": name})])


def read_what_is_named(shown: str) -> tuple[str, dict[str, str]] | None:
    """The way that a fold names, to the messages that it stands for."""
    named = re.findall(r"context_read (\d+(?:-\d+)?)", shown)
    return ("context_read", {"seq": named[0]}) if named else None


def search(shown: str) -> tuple[str, dict[str, str]]:
    return "context_recall", {"query": "tank 7 valve pascal"}


@pytest.mark.parametrize(
    ("preset", "way"),
    [
        ("default", read_what_is_named),
        ("companion", read_what_is_named),
        *((preset, search) for preset in ("default", "coding-agent", "companion", "phases")),
    ],
)
def test_what_is_folded_away_is_got_back(preset: str, way: Any, tmp_path: Path) -> None:
    model, workspace = Forgetful(way), tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "first.txt").write_text(f"{FOG}\n{NEEDLE}\n{FOG}")
    (workspace / "next.txt").write_text(f"{FOG}\n{FOG}")
    sections: dict[str, Any] = {"tools": {"workspace": str(workspace)}, "compression": {"preset": preset}}
    sections["runtime"] = {"max_llm_process_num": 60}
    with world(tmp_path / "base", model, sections, toolbox=None) as made:
        uuid = made.put("Look at every station.")
        assert made.work() is TaskStatus.COMPLETED
        assert made.queue.catalogue.tasks.get(uuid).compression_count > 0
    assert NEEDLE in model.found


def test_a_request_that_never_fits_fails_for_good(tmp_path: Path) -> None:
    with world(tmp_path, overflowing) as made:
        made.put()
        assert made.work() is TaskStatus.FAILED
        assert isinstance(made.error, GaveUp)
        assert made.error.reason == "model"


def test_a_prompt_larger_than_the_window_is_folded_like_everything_else(tmp_path: Path) -> None:
    with world(tmp_path, [Reply("Done.")]) as made:
        uuid = made.put("word " * 60_000)
        assert made.work() is TaskStatus.COMPLETED
        assert len(made.messages(uuid)[1].message.text) == 300_000
        assert len(str(made.model.requests[0].body["messages"])) < 100_000


# --- Inheritance, children, sources ---


def test_the_next_task_on_the_key_inherits(tmp_path: Path) -> None:
    told: list[str] = []
    source = CommandSource("Do it.", tell=told.append)
    with world(tmp_path, [Reply("First."), Reply("Second.")], source=source) as made:
        made.put()
        assert made.work() is TaskStatus.COMPLETED
        second = made.put()
        assert made.work() is TaskStatus.COMPLETED
        system, inherited, prompt, answer = [stored.message for stored in made.messages(second)]
        assert [system.role, inherited.role, prompt.role, answer.role] == ["system", "system", "user", "assistant"]
        assert "First." in inherited.text
        assert told[0] == "Work has begun."
        assert told[1] == "First."
        assert len(told) == 5  # the second one also says what it inherits


def test_children_work_on_their_own_and_report(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        said = [message.get("content") or "" for message in request.body["messages"]]
        if "Count the files." in said:
            return Reply("Three files.") if "write: 3" in said else Reply(calls=[write("3")])
        if request.body["messages"][-1]["role"] == "tool":
            return Reply(f"The helper says: {said[-1]}")
        return Reply(calls=[("task_start", {"prompt": "Count the files."})])

    with world(tmp_path, answer) as made:
        uuid = made.put("Have the files counted.")
        assert made.work() is TaskStatus.COMPLETED
        (result,) = made.results(uuid)
        assert "Three files." in result
        (child,) = [row for row in made.queue.catalogue.tasks.page() if row.parent_uuid == uuid]
        assert (child.status, child.task_type) == (TaskStatus.COMPLETED, "subtask")
        assert [stored.message.role for stored in made.messages(child.uuid)] == [
            *("system", "user", "assistant", "tool", "assistant"),
        ]


def test_a_child_that_has_to_stop_goes_on_with_its_parent(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        said = [message.get("content") or "" for message in request.body["messages"]]
        if "Count the files." in said:
            return Reply("Three files.") if "write: 3" in said else Reply(calls=[write("3")])
        if request.body["messages"][-1]["role"] == "tool":
            return Reply("Done.")
        return Reply(calls=[("task_start", {"prompt": "Count the files."})])

    with world(tmp_path, answer) as made:
        uuid = made.put()
        assert made.work(lambda: bool(effects(tmp_path))) is TaskStatus.PAUSED
        statuses = {row.uuid: row.status for row in made.queue.catalogue.tasks.page()}
        assert list(statuses.values()) == [TaskStatus.PAUSED] * 2
        made.queue.resume(uuid)
        assert made.work() is TaskStatus.COMPLETED
        (result,) = made.results(uuid)
        assert "Three files." in result
        assert len(effects(tmp_path)) == 1
        assert {row.status for row in made.queue.catalogue.tasks.page()} == {TaskStatus.COMPLETED}
        assert len(made.queue.catalogue.tasks.page()) == 2


def test_a_child_that_fails_is_a_result(tmp_path: Path) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        said = [message.get("content") or "" for message in request.body["messages"]]
        if "Fail." in said:
            return Fault(401)
        return (
            Reply("Pity.")
            if "task_start" in str(said) or len(said) > 3
            else Reply(calls=[("task_start", {"prompt": "Fail."})])
        )

    with world(tmp_path, answer) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
        assert "401" in made.results(uuid)[0]


def test_a_task_from_a_folder_is_read_told_about_and_ended(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "tidy.md").write_text("# Tidy up\n\nPlease.\n")
    source = FolderSource(inbox, settle_seconds=0)
    sections = {"sources": {"folder": str(inbox)}}
    with world(tmp_path / "base", [Reply("Tidied.")], sections) as made:
        (found,) = source.poll()
        assert source.claim(found)
        uuid = made.queue.enqueue(found.key, source="folder")
        assert made.work() is TaskStatus.COMPLETED
        assert "Tidy up" in made.messages(uuid)[1].message.text
        assert (inbox / "done" / "tidy.md").exists()
        comments = (inbox / "tidy.comments.md").read_text()
        assert "Work has begun." in comments
        assert "Tidied." in comments


class _Deaf(CommandSource):
    """A source that cannot be told how things end."""

    def finish(self, *_: object) -> None:
        raise SourceError("file_gone", id="1", path="nowhere")


def test_an_end_that_cannot_be_shown_is_tried_again_while_there_are_attempts(tmp_path: Path) -> None:
    sections = {"multiprocess": {"max_attempts": 2, "retry_delay": 0}}
    with world(tmp_path, [Reply("Done.")], sections, source=_Deaf("Do it.")) as made:
        made.put()
        assert made.work() is TaskStatus.QUEUED
        assert made.work() is TaskStatus.COMPLETED
        assert len([request for request in made.model.requests if request.body.get("tools")]) == 1
