"""Telemetry of a tool call: how long it took, whether it failed, a span of it."""

from __future__ import annotations

from collections.abc import Callable

from orihon.drivers.tracing import tracing_of
from orihon.runtime.tool import ToolResult
from orihon.system.counters import TOOL_CALLS, TOOL_SECONDS
from orihon.tasks.context import TaskContextManager

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
