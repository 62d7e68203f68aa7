"""``Task``: one task at hand: add to it, send what the model should see, fold and open again, ask people, end it.

A thin handle over ``TaskContextManager``, which owns the task and holds its parts. What it takes are dicts of any
provider, or the objects of their SDKs; what it gives is ready to be sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Self

from orihon.catalogue import TaskRow
from orihon.compression.contract import CompressionResult
from orihon.compression.documents.sections import CompressionLevel
from orihon.compression.pages import NothingToFold
from orihon.compression.planner import Draft
from orihon.errors import BudgetExceeded, InvalidInput, InvalidMessage
from orihon.store.checkpoints import Approval, Decision, Phase
from orihon.store.record_codec import StoredMessage
from orihon.system import jsonio
from orihon.tasks.context import TaskContextManager
from orihon.tasks.hand_edits import level_named
from orihon.tasks.view_reader import ViewAt, ViewReading
from orihon.values.message.message import Message, ToolCall
from orihon.values.message.provider_shapes import anthropic_messages, anthropic_system
from orihon.values.records import Compression, ModelCall
from orihon.values.task import TaskIdentity, TaskKey, TaskStatus
from orihon.values.view import View

_MAKER = "task"


class Dumped(Protocol):
    """An object of a provider's SDK."""

    def model_dump(self) -> dict[str, Any]:
        """The same as plain data."""


class ForkingBase(Protocol):
    """A base that can start a task from a step of another one."""

    def fork(self, task: str, at: int, *, name: str | None = None) -> str:
        """The new task's UUID."""


class Task(TaskIdentity):
    """A task of a base, open in this process until it ends.

    ``Task(key, user, uuid)`` alone names a task, as the queue hands it out; ``Base.task`` gives one that is open.
    """

    def __init__(
        self,
        key: TaskKey | Mapping[str, Any],
        user: str = "",
        uuid: str | None = None,
        *,
        context: TaskContextManager | None = None,
        base: ForkingBase | None = None,
    ) -> None:
        super().__init__(TaskKey.from_dict(key) if isinstance(key, Mapping) else key, user, uuid)
        self._context = context
        self._base = base

    def __repr__(self) -> str:
        return f"Task({self.key.label!r}, uuid={self.uuid!r})"

    def __enter__(self) -> Self:
        self.context.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Leaving the block completes the task; leaving it by an error fails it; Ctrl-C pauses it."""
        self.context.__exit__(kind, error, trace)

    @property
    def context(self) -> TaskContextManager:
        """Everything that the task keeps: its stores, its compressor, its lease."""
        if self._context is None:
            raise InvalidInput("task_not_open", task=self.key.label)
        return self._context

    @property
    def is_open(self) -> bool:
        """Is it open in this process?"""
        return self._context is not None and self._context.is_open

    @property
    def row(self) -> TaskRow:
        """What the catalogue knows of it."""
        return self.context.catalogue.tasks.get(self.context.uuid)

    @property
    def status(self) -> TaskStatus:
        """How it stands."""
        return self.row.status

    @property
    def title(self) -> str:
        """What people call it; may be empty."""
        return str(self.row.metadata.get("title") or "")

    # ---- the log -----------------------------------------------------------------------------------------------

    def add(self, role: str, content: str | Sequence[Mapping[str, Any]] | None = None, **fields: Any) -> int:
        """Store a message and return its number. ``fields``: ``tool_calls``, ``tool_call_id``, ``name`` and any other.

        A ``tool`` message without ``tool_call_id`` answers the oldest open call of ``tool_name``.
        """
        return self.context.message_store.add_message(role, content, **fields)

    def append(self, message: Message | Mapping[str, Any] | Dumped, *, call: ModelCall | None = None) -> int:
        """Store what a provider's SDK gave or takes, as a dict or as its object; returns the last number.

        Chat Completions, Responses items and Anthropic messages are told apart by their form. Of a whole completion
        its first choice is taken, and its usage is counted.
        """
        read, used = read_message(message)
        store = self.context.message_store
        tokens = store.get_current_token_count()
        last = store.append(read, call=call)  # of several parts all are stored, or none
        if used:
            self.context.report_usage(used, tokens, call=call)
        return last

    def log(self, first: int = 1, last: int | None = None) -> list[StoredMessage]:
        """Messages of the log by number: all that was ever said, whatever is folded."""
        return list(self.context.message_store.get_messages(first, last))

    def open_calls(self) -> list[ToolCall]:
        """Calls of the newest answer whose results are not in the log yet: also those that a killed process left."""
        waiting = self.context.task_store.tail.open_calls
        if not waiting:
            return []
        store = self.context.message_store
        said = (store.get_message(seq).message for seq in range(store.count_messages(), 0, -1))
        answer = next(message for message in said if message.role == "assistant")
        return [call for call in answer.tool_calls if call.id in waiting]

    # ---- the view ----------------------------------------------------------------------------------------------

    def messages(self) -> list[dict[str, Any]]:
        """What the model should see, ready to send: folded first where it would not fit.

        Never more than the budget: ``BudgetExceeded`` where even folding cannot help.
        """
        self.fit()
        return self.context.message_store.get_messages_for_llm()

    def fit(self) -> None:
        """Fold where the ladder says so, and what would not fit in any case; ``BudgetExceeded`` where that is vain."""
        context, store = self.context, self.context.message_store
        context.compress_if_needed()
        if self.usage > 1:
            context.compressor.compress_now()
        if self.usage > 1:
            tokens, budget = store.get_current_token_count(), store.gauge.budget.tokens
            raise BudgetExceeded("view", tokens=tokens, budget=budget)

    def request(self, provider: Literal["openai", "anthropic"] = "openai") -> dict[str, Any]:
        """The same as arguments for the SDK of a provider: ``messages``, and ``system`` where it stands beside them."""
        view = self.messages()
        if provider == "openai":
            return {"messages": view}
        system, rest = anthropic_system(view)
        messages = jsonio.decode(b"[" + b"".join(anthropic_messages(rest)) + b"]")
        return {"system": system, "messages": messages} if system else {"messages": messages}

    @property
    def usage(self) -> float:
        """How full the context is: 0.7 is 70 % of the budget."""
        return self.context.usage

    def view(self, at: int | None = None) -> View | ViewAt:
        """What stands in the view; with ``at``, what the model saw when the log ended at that message."""
        if at is None:
            return self.context.message_store.view()
        reading = ViewReading(self.context.task_store, self.row, self.context.settings, at=at)
        return reading.as_value(self.context.uuid)

    def compress(
        self, strategy: str | None = None, *, level: str | None = None, target: float | None = None
    ) -> CompressionResult:
        """Fold now: by the ladder, or by one strategy, down to ``target`` of the budget."""
        return self.context.compressor.compress(strategy=strategy, level=_level(level), target=target)

    def preview(
        self, strategy: str | None = None, *, level: str | None = None, target: float | None = None
    ) -> Draft | NothingToFold:
        """What ``compress`` would do; nothing changes. ``apply`` makes it so."""
        return self.context.compressor.preview(strategy=strategy, level=_level(level), target=target)

    def apply(self, planned: Draft) -> CompressionResult:
        """Make a compression that was previewed."""
        return self.context.compressor.apply(planned, made_by=_MAKER)

    def undo(self, compression: int | None = None) -> Compression:
        """Take back the last change of the view, or the one with this number."""
        return self.context.message_store.folding.undo(compression, made_by=_MAKER)

    def redo(self, compression: int | None = None) -> Compression:
        """Make a change again that was taken back."""
        return self.context.message_store.folding.redo(compression, made_by=_MAKER)

    def unfold(self, fold: int) -> Compression:
        """Open one fold: what it replaced stands in the view again."""
        return self.context.message_store.folding.unfold(fold, made_by=_MAKER)

    def edit(self, fold: int, text: str) -> Compression:
        """Give a fold another text."""
        return self.context.message_store.folding.edit(fold, text, made_by=_MAKER)

    def pin(self, seq: int, line: str = "") -> Compression:
        """Keep a message, or one line of it, word for word through every compression."""
        return self.context.message_store.folding.pin(seq, line, made_by=_MAKER)

    def unpin(self, seq: int, line: str = "") -> Compression:
        """Let it be folded again."""
        return self.context.message_store.folding.unpin(seq, line, made_by=_MAKER)

    def rewind(self, seq: int, notice: str = "") -> Compression:
        """Go back to the view of step ``seq``; what came later is folded away, and ``undo`` opens it again."""
        return self.context.message_store.folding.rewind(seq, notice, made_by=_MAKER)

    def compressions(self) -> list[Compression]:
        """Every change of the view so far."""
        return self.context.message_store.compressions()

    def fork(self, at: int | None = None, *, name: str | None = None) -> str:
        """A new, paused task that begins as this one did up to step ``at`` (the last one); returns its UUID."""
        if self._base is None:
            raise InvalidInput("task_not_open", task=self.key.label)
        step = self.context.message_store.count_messages() if at is None else at
        return self._base.fork(self.context.uuid, step, name=name)

    # ---- people and phases -------------------------------------------------------------------------------------

    def ask(
        self,
        question: str,
        name: str = "",
        context: str = "",
        *,
        timeout: float | None = None,
        on_timeout: Decision = "reject",
        wait: bool = False,
    ) -> Approval:
        """Ask a person; the answer, if it is there already, else ``Waiting``. ``wait`` blocks until it is there."""
        return self.context.checkpoint(
            name or question, question, context, timeout=timeout, on_timeout=on_timeout, wait=wait
        )

    def phase(self, name: str) -> Phase:
        """A phase begins, and the one before it ends: that one is archived and folded as the ladder says."""
        return self.context.phase(name)

    def plan(self, plan_type: str, content: Mapping[str, Any]) -> int:
        """Keep a plan, or a new version of it; returns its number."""
        return self.context.planning_store.add_plan(plan_type, content)

    # ---- ends --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Pause: ``Base.task`` goes on with it later, in any process, at exactly this view."""
        self.context.stop()

    def complete(self) -> None:
        """The work is done."""
        self.context.complete()

    def fail(self, message: str) -> None:
        """The work has failed; what is known is kept for the next task on the same key."""
        self.context.fail(message)

    def cancel(self) -> None:
        """Give the work up."""
        self.context.cancel()

    def close(self) -> None:
        """Let go of it without changing its state: it stays running, for the next process to take over."""
        self.context.close()


def _level(name: str | None) -> CompressionLevel | None:
    return None if name is None else level_named(name)


def read_message(given: Message | Mapping[str, Any] | Dumped) -> tuple[Message, Mapping[str, Any]]:
    """A message in whatever form a program has it, and the usage that came with it."""
    if isinstance(given, Message):
        return given, {}
    data = given if isinstance(given, Mapping) else _dumped(given)
    usage = data.get("usage")
    used = usage if isinstance(usage, Mapping) else {}
    choices = data.get("choices")
    if isinstance(choices, Sequence) and choices and isinstance(choices[0], Mapping):
        chosen = choices[0].get("message")
        data = chosen if isinstance(chosen, Mapping) else data
    data = {name: value for name, value in data.items() if value is not None or name == "content"}
    if "role" in data and _is_anthropic(data):
        said = {name: data.get(name) for name in ("role", "content")}
        return Message.from_anthropic(said), used
    if "role" not in data or data.get("type") in ("message", "function_call", "function_call_output", "reasoning"):
        return Message.from_responses(data), used
    return Message.from_chat(data), used


def _dumped(given: object) -> Mapping[str, Any]:
    dump = getattr(given, "model_dump", None)
    found = dump() if callable(dump) else None
    if not isinstance(found, Mapping):
        raise InvalidMessage(
            "wrong_type", field="message", expected="dict or object with model_dump()", actual=type(given).__name__
        )
    return found


def _is_anthropic(data: Mapping[str, Any]) -> bool:
    """Blocks that only Anthropic has, or a whole answer of theirs."""
    if data.get("type") == "message" and "stop_reason" in data:
        return True
    content = data.get("content")
    blocks = content if isinstance(content, list) else []
    kinds = {str(block.get("type")) for block in blocks if isinstance(block, Mapping)}
    return bool(kinds & {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"})
