"""Telemetry of a model call: how long it took, whether it failed, a span of it, what it used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from orihon.drivers.tracing import Attributes, Tracing
from orihon.guard.masking.redaction import hide
from orihon.llm.answers import ModelAnswer
from orihon.system import jsonio
from orihon.system.counters import MODEL_ERRORS, MODEL_SECONDS, Counts
from orihon.values.records import ModelCall, Usage

if TYPE_CHECKING:
    from orihon.tasks.context import TaskContextManager


class ObservedCall:
    """What has come of a call that is measured."""

    def __init__(self) -> None:
        self.answer: ModelAnswer | None = None


def model_call(model: str, answer: ModelAnswer) -> ModelCall:
    """The call that an answer came from; one that is kept from an earlier request has used nothing."""
    return ModelCall(model, Usage()) if answer.is_kept else ModelCall.of(model, answer.usage)


@contextmanager
def call_telemetry(
    task_ctx: TaskContextManager | None, tracing: Tracing, provider: str, model: str, url: str
) -> Iterator[ObservedCall]:
    """Measures the call that the block makes, retries and all: duration, errors, and a span with its answer."""
    counts = Counts() if task_ctx is None else task_ctx.counts
    task = "" if task_ctx is None else task_ctx.uuid
    observed = ObservedCall()
    started = time.monotonic()
    with tracing.model_call(provider, model, task, url) as span:
        try:
            yield observed
        except Exception as error:
            counts.add(MODEL_ERRORS, model=model, kind=type(error).__name__)
            raise
        finally:
            counts.observe(MODEL_SECONDS, time.monotonic() - started)
        answer = observed.answer
        if answer is not None:
            span.set(_attributes(answer))
            if tracing.content:
                mask = hide if task_ctx is None else task_ctx.task_store.redactor.mask
                span.set({"gen_ai.output.messages": mask(_said(answer))})


def _attributes(answer: ModelAnswer) -> Attributes:
    used = Usage.of(answer.usage)
    known = used != Usage()
    return {
        "gen_ai.usage.input_tokens": used.input if known else None,
        "gen_ai.usage.output_tokens": used.output if known else None,
        "gen_ai.usage.cache_read.input_tokens": used.cached if known else None,
        "gen_ai.response.finish_reasons": [answer.finish] if answer.finish else None,
    }


def _said(answer: ModelAnswer) -> str:
    """The answer in the shape of the conventions."""
    text = [{"type": "text", "content": answer.text}] if answer.text else []
    calls = [
        {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        for call in answer.calls
    ]
    message = {"role": "assistant", "parts": [*text, *calls], "finish_reason": answer.finish}
    return jsonio.encode([message]).decode()
