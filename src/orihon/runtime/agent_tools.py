"""What an agent can do about its own work: record a plan, start a child task, ask a person.

A child (``task_start``) is a task of its own, with its own log, window and limits; its UUID follows from the call that
started it. So the call may be made again after a crash: a child that has ended gives its result once more, one that was
at work goes on, and there are never two. It works in the process of its parent, which waits for it: no worker waits for
another. A question (``checkpoint_ask``) is only written down, and is answered at once; the agent then lets the task
wait. The person's answer comes as the next user message.

Besides, clients that a program hands to its ``TaskHandler``, as the first design does. The client of a model is made
anew for each task, of the same class and with the same settings, so that the conversation goes into the task's log. A
tool server is any object with ``call_tool(tool, arguments)``; which tools it has, the definitions say that the model's
client was given (``server_tool``).
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, Protocol, cast

from orihon.catalogue import TaskRow
from orihon.catalogue.rows import SUBTASK
from orihon.errors import InvalidInput, InvalidSettings, OrihonError, ToolFailed
from orihon.llm.base import LLMClient
from orihon.llm.tools import ToolDefinition
from orihon.runtime.builtin_tools import BuiltinServer, BuiltinTool, Deadline
from orihon.runtime.tool import Arguments, ServerAnswer, ServerCall, ServerTool, split_name
from orihon.store import PlanningHistoryStore
from orihon.store.checkpoints import Checkpoint, CheckpointLog
from orihon.store.kept_files import trusted_file
from orihon.system import jsonio
from orihon.tasks.context import TaskContextManager
from orihon.texts import text
from orihon.values.records import FINAL_SUMMARY
from orihon.values.task import FINISHED, TaskIdentity, TaskKey, TaskStatus

DEEPEST = 3  # children of children of children start none
_NAMESPACE = uuids.UUID("6f2d9a54-9c3e-4a53-8d0b-0d6a5c1f7e21")

#: Works on a child until it is done or has to stop; raises when it fails.
ChildWork = Callable[[TaskContextManager, str], Literal["completed", "paused"]]


def plan_server(plans: PlanningHistoryStore) -> BuiltinServer:
    """The tool that records plans."""

    def record(arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        kind, content = arguments.text("plan_type"), arguments.text("content")
        latest = plans.get_latest_plan()
        is_known = latest is not None and (latest["plan_type"], latest["plan_content"]) == (kind, content)
        number = plans.count_plans() if is_known else plans.add_plan(kind, content)
        return ServerAnswer(text("agent.plan_recorded", number=number))

    properties = {
        "plan_type": {"type": "string", "description": 'What kind of plan: "initial", "revision", …'},
        "content": {"type": "string", "description": "The whole plan."},
    }
    about = "Keep a plan of the work. Record one before longer work, and again when it changes."
    return BuiltinServer("plan", [BuiltinTool("record", about, properties, record, ["plan_type", "content"])])


class ChildServer(BuiltinServer):
    """The tool that starts child tasks."""

    def __init__(self, parent: TaskContextManager, work: ChildWork, unfinished: dict[str, Exception | None]) -> None:
        """``unfinished`` gets the keys of calls whose child had to stop, and why: they are to be made again."""
        about = (
            "Have a helper do a part of the work on its own, from a prompt that says all it needs to know. "
            "Its final summary comes back. Several may work at the same time."
        )
        properties = {"prompt": {"type": "string", "description": "What the helper shall do and report."}}
        super().__init__("task", [BuiltinTool("start", about, properties, _unused, ["prompt"])])
        self._parent = parent
        self._work = work
        self._unfinished = unfinished

    def call(self, call: ServerCall) -> ServerAnswer:
        prompt = Arguments(call.arguments, ["prompt"]).text("prompt")
        if not prompt.strip():
            raise ToolFailed("argument_missing", name="prompt")
        child = str(uuids.uuid5(_NAMESPACE, call.id))
        try:
            row = self._parent.catalogue.tasks.find(child) or self._registered(child)
            if row.status not in FINISHED:
                self._go_on(child, prompt, call.id)
                row = self._parent.catalogue.tasks.get(child)
        except OrihonError as error:  # nothing that the parent has done, and it may pass: the attempt ends with it
            self._unfinished[call.id] = error
            raise
        return self._result(row)

    def _registered(self, child: str) -> TaskRow:
        key = replace(self._parent.task_key, task_type=SUBTASK, task_id=child, uuid=child)
        metadata = {"parent_uuid": self._parent.uuid}
        return self._parent.catalogue.tasks.register(key, child, parent_uuid=self._parent.uuid, metadata=metadata)

    def _go_on(self, child: str, prompt: str, key: str) -> None:
        settings, base_dir = self._parent.settings, self._parent.base_dir
        context = TaskContextManager(base_dir, None, settings, uuid=child, is_resumed=True, inherit=False)
        try:
            if self._work(context, prompt) == "completed":
                context.complete()
            else:
                self._unfinished[key] = None
                context.stop()
        except InvalidSettings:
            raise
        except InvalidInput as error:  # it has failed for good
            release_model(context)
            context.fail(str(error))
        finally:
            context.close()
            release_model(context)

    def _result(self, row: TaskRow) -> ServerAnswer:
        if row.status is TaskStatus.COMPLETED:
            return ServerAnswer(_summary(self._parent, row.uuid) or text("agent.child_silent"))
        return ServerAnswer(
            text("agent.child_failed", status=row.status.value, error=row.error_message or "-"), is_error=True
        )


def _unused(arguments: Arguments, deadline: Deadline) -> ServerAnswer:
    raise NotImplementedError  # it needs the id of its call, which this does not get


def _summary(parent: TaskContextManager, uuid: str) -> str:
    place = parent.base.folders.find(uuid)
    if place is None:
        return ""
    with closing(parent.base.read_store(place)) as store:
        return (trusted_file(store.records, FINAL_SUMMARY) or b"").decode("utf-8", "replace")


ASK = "checkpoint_ask"
_LONGEST_NAME = 80
_PROPERTIES = {
    "question": {"type": "string", "description": "What the person shall decide."},
    "context": {"type": "string", "description": "What the person has to know to decide it, in Markdown."},
    "name": {"type": "string", "description": 'A short name for the decision: "concept", "deploy", …'},
}
_ABOUT = (
    "Ask a person to approve before you go on, where a decision is dear, dangerous or not yours to make. "
    "The work waits; the answer (approved, rejected, or changes wanted) comes as the next message."
)


class CheckpointServer(BuiltinServer):
    """The tool that asks people."""

    def __init__(self, log: CheckpointLog) -> None:
        super().__init__("checkpoint", [BuiltinTool("ask", _ABOUT, _PROPERTIES, _unused, ["question"])])
        self._log = log

    def call(self, call: ServerCall) -> ServerAnswer:
        given = Arguments(call.arguments, list(_PROPERTIES))
        question = given.text("question")
        if not question.strip():
            raise ToolFailed("argument_missing", name="question")
        name, context = " ".join(given.text("name", "").split())[:_LONGEST_NAME], given.text("context", "")
        asked = self._log.ask(Checkpoint(0, name or "checkpoint", question, context, call=call.id))
        return ServerAnswer(text("agent.asked", number=asked.id))


def release_model(context: TaskContextManager) -> None:
    """The task makes no further calls; its connections are closed."""
    client = context.llm_client
    context.set_llm_client(None)
    if client is not None:
        client.close()


# ---- clients that a program hands over ----------------------------------------------------------------------------

#: Makes the client of a task from its context and the definitions of its tools.
ClientFactory = Callable[[TaskContextManager, Sequence[Mapping[str, Any]]], LLMClient]


class ToolClient(Protocol):
    """A connection to a tool server."""

    def call_tool(self, tool: str, arguments: dict[str, Any], /) -> Any:
        """What the tool says; an exception is an error of the tool."""


class TaskWithKey(Protocol):
    """A task that no queue has handed out: its key, and (``prompt``) what to do."""

    def get_task_key(self) -> Any:
        """The key: a ``TaskKey``, its fields by name, or an object that has them."""


class GivenServer:
    """The tools of one such client, under its server's name."""

    def __init__(self, name: str, client: ToolClient, tools: Sequence[ServerTool]) -> None:
        self._name = name
        self._client = client
        self._tools = tuple(tools)

    @property
    def name(self) -> str:
        return self._name

    def tools(self) -> Sequence[ServerTool]:
        return self._tools

    def call(self, call: ServerCall) -> ServerAnswer:
        try:
            said = self._client.call_tool(call.tool, dict(call.arguments))
        except Exception as error:  # whatever it is, the model has to be told
            raise ToolFailed("broken", tool=f"{self._name}_{call.tool}", detail=str(error)) from error
        return ServerAnswer(said if isinstance(said, str) else jsonio.encode(said).decode())

    def refused_tools(self) -> Sequence[str]:
        return ()

    def approve(self) -> list[str]:
        return []

    def close(self) -> None:
        """The program has made the client, and ends it."""


def given_servers(clients: Mapping[str, ToolClient], definitions: Sequence[ToolDefinition]) -> list[GivenServer]:
    """A server for each client, with those of the definitions that are its own."""
    tools: dict[str, list[ServerTool]] = {name: [] for name in clients}
    for one in definitions:
        if (split := split_name(one.name, clients)) is not None:
            tools[split[0]].append(ServerTool(*split, one.description, one.parameters))
    return [GivenServer(name, client, tools[name]) for name, client in clients.items()]


def client_factory(client: object) -> tuple[ClientFactory, Sequence[ToolDefinition]]:
    """Makes clients of tasks like the one that was given, or is what was given; and the tools that it knows."""
    if isinstance(client, LLMClient):
        given = client

        def like_it(context: TaskContextManager, tools: Sequence[Mapping[str, Any]]) -> LLMClient:
            return type(given)(given.settings, tools=tools, task_ctx=context)

        return like_it, given.tools
    if callable(client):
        return cast("ClientFactory", client), ()
    raise InvalidInput("llm_client", kind=type(client).__name__)


def key_of(task: TaskWithKey) -> TaskKey:
    """The key of a task, however it is written; ``InvalidInput`` when there is none."""
    if isinstance(task, TaskIdentity):
        return task.key
    if not hasattr(task, "get_task_key"):
        raise InvalidInput("named_task", kind=type(task).__name__)
    found = task.get_task_key()
    if isinstance(found, TaskKey):
        return found
    names = ("task_source", "owner", "repo", "task_type", "task_id", "user")
    fields = found if isinstance(found, Mapping) else {name: getattr(found, name, "") for name in names}
    return TaskKey.from_dict(fields)


def prompt_of(task: TaskWithKey) -> str:
    """What is to be done, if the task says it."""
    said = getattr(task, "prompt", None) or getattr(task, "get_prompt", lambda: "")()
    return said if isinstance(said, str) else ""
