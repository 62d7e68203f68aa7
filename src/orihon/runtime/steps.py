"""The tool calls of one answer: carried out, recorded, told to the model; and settled after a crash.

The order of the writes, each of them durable before the next begins:

1. the answer with its calls, in the log (the client does that before anybody sees the calls),
2. the tool runs,
3. the result with the call's id, in ``tools.jsonl``,
4. the result as a message, in the log.

A process that dies leaves a call that the log has (1) and does not answer (4): an open call. If ``tools.jsonl`` has
its result (3), that result is told and the tool is not run. If not, the tool may have run or not; nobody can know, so
the call is answered "interrupted" and never made again, unless the tool is marked repeatable: then it is made again
with the same idempotency key, made of the task's UUID and the call's id. A call that was masked in the log is not the
call that the model made; it is never repeated. Hence a result that was stored is never produced twice, and an effect
of a tool that is not repeatable never happens twice.

Calls of one answer run side by side; each is recorded as it ends, and they are told in the order of the calls. Models
that call in words leave no open calls in the log: their calls are read again from the text, with ids made of the
message's number, and the results that follow it are counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from orihon.catalogue.rows import fresh_start
from orihon.drivers.tracing import tracing_of
from orihon.errors import GaveUp, StaleWriter, ToolFailed
from orihon.guard.masking.redaction import has_placeholder
from orihon.llm.answers import written_arguments
from orihon.llm.base import LLMClient
from orihon.llm.tools import json_objects
from orihon.runtime.tool import ToolResult, sanitize_arguments
from orihon.runtime.tools import TaskTools
from orihon.system.counters import TOOL_CALLS, TOOL_SECONDS
from orihon.tasks.context import TaskContextManager
from orihon.texts import text

logger = logging.getLogger("orihon.agent")

_MILLISECONDS = 1000


def tool_telemetry(
    context: TaskContextManager, name: str, call_id: str, arguments: str, call: Callable[[], ToolResult]
) -> ToolResult:
    """The result of the call, counted."""
    tracing = tracing_of(context.settings)
    with tracing.tool(name, call_id, context.uuid) as span:
        result = call()
        if result.is_error:
            span.set({"error.type": "tool_error"})
        if tracing.content:
            mask = context.task_store.redactor.mask
            span.set({"gen_ai.tool.call.arguments": mask(arguments), "gen_ai.tool.call.result": mask(result.text)})
    context.counts.add(TOOL_CALLS, status="error" if result.is_error else "success")
    context.counts.observe(TOOL_SECONDS, result.duration_ms / _MILLISECONDS)
    return result


INTERRUPTED = "interrupted"
_LOOKED_BACK = 100  # records that are looked through for failures in a row


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A call that the model has made; its arguments are the text that the model wrote."""

    id: str
    name: str
    arguments: str


class ToolSteps:
    """Carries out the calls of one task."""

    def __init__(
        self,
        context: TaskContextManager,
        client: LLMClient,
        tools: TaskTools,
        *,
        parallel: int,
        most_errors: int,
        unfinished: Mapping[str, Exception | None] = MappingProxyType({}),
    ) -> None:
        """``unfinished`` has the keys of calls that were stopped in the middle and shall be made again, with the error
        that stopped them if there was one."""
        self._context = context
        self._client = client
        self._tools = tools
        self._parallel = parallel
        self._most_errors = most_errors
        self._unfinished = unfinished
        self._errors = self._earlier_errors()

    def key(self, call: WantedCall) -> str:
        """The idempotency key: the same whenever and wherever the call is made."""
        return f"{self._context.uuid}:{call.id}"

    def run(self, calls: Sequence[WantedCall]) -> bool:
        """Carry out new calls; ``False`` when one of them was stopped and stays open. ``GaveUp`` when a tool fails
        too often in a row."""
        return self._carry_out(calls, {})

    def settle(self) -> bool:
        """Answer what a crash or a pause has left open; ``False`` as in ``run``."""
        calls, waiting = self._newest_calls()
        if not waiting:
            return True
        stored = self._stored(len(calls))
        known = {call.id: _result_in(stored[call.id]) for call in waiting if call.id in stored}
        for call in waiting:
            if call.id not in known and not self._may_repeat(call):
                known[call.id] = self._interrupted(call)
        again = len(waiting) - len(known)
        logger.info("%s: %d open calls, %d to be made again", self._context.uuid, len(waiting), again)
        return self._carry_out(waiting, known)

    def read(self, said: str, calls: Sequence[Mapping[str, str]]) -> list[WantedCall]:
        """The calls of the answer that was stored last."""
        if self._client.calls_in_words:
            return self._words(self._context.message_store.count_messages(), said)
        return [WantedCall(call["id"], call["name"], call["arguments"]) for call in calls]

    # ---- carrying out ------------------------------------------------------------------------------------------

    def _carry_out(self, calls: Sequence[WantedCall], known: Mapping[str, str]) -> bool:
        results = dict(known)
        told = 0
        for call, result in self._results([call for call in calls if call.id not in known]):
            if self.key(call) not in self._unfinished:
                results[call.id] = self._recorded(call, result)
            told = self._report(calls, results, told)
        told = self._report(calls, results, told)
        for error in self._unfinished.values():
            if error is not None:
                raise error
        self._refuse_failing()
        return told == len(calls)

    def _results(self, calls: Sequence[WantedCall]) -> Iterator[tuple[WantedCall, ToolResult]]:
        """Each call with its result, as they come; one after another where their order matters."""
        if len(calls) <= 1 or self._parallel == 1 or any(self._tools.is_ordered(call.name) for call in calls):
            for call in calls:
                yield call, self._made(call)
            return
        with ThreadPoolExecutor(min(self._parallel, len(calls)), "orihon-tool") as pool:
            futures: dict[Future[ToolResult], WantedCall] = {pool.submit(self._made, call): call for call in calls}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _made(self, call: WantedCall) -> ToolResult:
        self._refuse_lost()

        def made() -> ToolResult:
            vault = self._context.task_store.redactor.vault
            arguments = call.arguments if vault is None else vault.restored_json(call.arguments)
            return self._tools.call(call.name, arguments, call_id=self.key(call))

        return tool_telemetry(self._context, call.name, call.id, call.arguments, made)

    def _refuse_lost(self) -> None:
        """A worker that was stopped for long may have lost the task: what it does now, another one does too."""
        lease = self._context.lease
        found = self._context.catalogue.queue.requested(lease.uuid)
        if found is None or found.epoch != lease.epoch:
            current = None if found is None else found.epoch
            raise StaleWriter("lease", uuid=lease.uuid, epoch=lease.epoch, current=current)

    def _recorded(self, call: WantedCall, result: ToolResult) -> str:
        self._context.tool_store.add_tool_call(
            call.name,
            _arguments(call.arguments),
            None if result.is_error else result.text,
            result.text if result.is_error else None,
            duration_ms=result.duration_ms,
            call_id=call.id,
        )
        self._context.update_statistics(tool_calls=1)
        self._errors[call.name] = self._errors[call.name] + 1 if result.is_error else 0
        return result.text

    def _interrupted(self, call: WantedCall) -> str:
        said = text("agent.interrupted")
        arguments = _arguments(call.arguments)
        self._context.tool_store.add_tool_call(call.name, arguments, said, status=INTERRUPTED, call_id=call.id)
        self._context.update_statistics(tool_calls=1)
        return said

    def _report(self, calls: Sequence[WantedCall], results: Mapping[str, str], told: int) -> int:
        """Tell the model as many results as there are without a gap."""
        while told < len(calls) and calls[told].id in results:
            call = calls[told]
            said = results[call.id] or text("agent.no_output")  # some providers refuse a result of nothing
            self._client.send_function_result(call.name, said, tool_call_id=call.id, is_recorded=True)
            told += 1
        return told

    def _refuse_failing(self) -> None:
        for tool, times in self._errors.items():
            if times >= self._most_errors:
                self._errors[tool] = 0
                raise GaveUp("tool_errors", tool=tool, times=times)

    # ---- after a crash -----------------------------------------------------------------------------------------

    def _newest_calls(self) -> tuple[list[WantedCall], list[WantedCall]]:
        """The calls of the newest answer, and those of them that the log does not answer."""
        store = self._context.message_store
        is_open = store.task_store.tail.open_calls
        if not is_open and not self._client.calls_in_words:
            return [], []
        last = store.count_messages()
        for seq in range(last, 0, -1):
            message = store.get_message(seq).message
            if message.role == "assistant":
                break
        else:
            return [], []
        if is_open:
            calls = [WantedCall(call.id, call.name, call.arguments) for call in message.tool_calls]
            return calls, [call for call in calls if call.id in is_open]
        calls = self._words(seq, message.text, self._stored(message.text.count("{")))
        return calls, calls[last - seq :]

    def _words(self, seq: int, said: str, stored: Collection[str] = ()) -> list[WantedCall]:
        """The calls in a text. Each has the number of its object: tools that go or come change no number. What is
        ``stored`` was a call, also when there is no such tool any more."""
        names = {tool.name for tool in self._client.tools}
        calls: list[WantedCall] = []
        for number, value in enumerate(json_objects(said), start=1):
            name, call_id = value.get("tool"), f"words_{seq}_{number}"
            if isinstance(name, str) and (name in names or call_id in stored):
                arguments = value.get("arguments", {})
                written = arguments if isinstance(arguments, str) else written_arguments(arguments)
                calls.append(WantedCall(call_id, name, written))
        return calls

    def _stored(self, count: int) -> dict[str, dict[str, Any]]:
        """The results of the newest calls by their ids. Each call has one record at most, and nothing was called
        since."""
        return {record["call_id"]: record for record in self._newest(count) if "call_id" in record}

    def _may_repeat(self, call: WantedCall) -> bool:
        return self._tools.is_repeatable(call.name) and not has_placeholder(call.arguments)

    def _newest(self, count: int) -> list[dict[str, Any]]:
        store = self._context.tool_store
        return store.get_tool_calls(max(1, store.count_tool_calls() - count + 1))

    def _earlier_errors(self) -> Counter[str]:
        """Failures of each tool since its last success; a pause or a crash does not forgive them, a retry does."""
        errors: Counter[str] = Counter()
        row = self._context.catalogue.tasks.get(self._context.uuid)
        since = row.tool_call_count - fresh_start(row)["tool_calls"]
        records = self._newest(_LOOKED_BACK)
        for record in records[max(len(records) - since, 0) :]:
            tool = record["tool_name"]
            if record["status"] == INTERRUPTED:
                continue
            errors[tool] = errors[tool] + 1 if record["status"] == "error" else 0
        return Counter({tool: min(times, self._most_errors - 1) for tool, times in errors.items()})


def _result_in(record: Mapping[str, Any]) -> str:
    return str(record["error"] if record["status"] == "error" else record["result"])


def _arguments(written: str) -> dict[str, Any]:
    try:
        return sanitize_arguments(written)
    except ToolFailed:
        return {"unreadable": written}
