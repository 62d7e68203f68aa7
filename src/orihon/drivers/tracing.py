"""OpenTelemetry spans of model calls, tools and compressions, named by the conventions for generative AI.

Off unless ``tracing.endpoint`` names a collector; then nothing is imported and a span costs a function call. The spans
of a task are one trace over all its processes: without a span around them (a caller's own), the trace has the task's
UUID as its id. They carry figures and names, and texts only where ``tracing.content`` asks for them. Promises: the work
goes on whatever happens to a span. Refuses nothing: where the packages are missing, a warning says so once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from uuid import UUID

from orihon.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.trace import Tracer

logger = logging.getLogger("orihon.tracing")

Attributes = Mapping[str, Any]

_PATH = "/v1/traces"
_EXPORT_SECONDS = 3.0
#: For so long a collector that did not answer is left alone; spans of that time are lost.
_AWAY_SECONDS = 30.0
_task: ContextVar[str] = ContextVar("orihon_traced_task", default="")


class Span(Protocol):
    """Something that is being done."""

    def set(self, attributes: Attributes) -> None:
        """What has become known about it."""


class Tracing(Protocol):
    """Where spans go."""

    content: bool  # whether texts may be in them

    def model_call(self, provider: str, model: str, task: str, url: str) -> AbstractContextManager[Span]:
        """A question to a model."""

    def tool(self, name: str, call_id: str, task: str) -> AbstractContextManager[Span]:
        """A call of a tool."""

    def compression(self, trigger: str, task: str) -> AbstractContextManager[Span]:
        """A compression of a view."""

    def flush(self) -> None:
        """Send what is waiting, within a few seconds; for when a task ends, since workers end without a word."""


def tracing_of(settings: Settings) -> Tracing:
    """Where the settings send spans."""
    tracing = settings.tracing
    if tracing.endpoint is None:
        return OFF
    return _tracing(tracing.endpoint, tracing.content, os.getpid())  # a fork needs its own connection


class _NoSpan:
    def set(self, attributes: Attributes) -> None:
        """Nobody is told."""


class _Off:
    """No spans."""

    content = False
    _nothing: AbstractContextManager[Span] = nullcontext(_NoSpan())

    def model_call(self, provider: str, model: str, task: str, url: str) -> AbstractContextManager[Span]:
        return self._nothing

    def tool(self, name: str, call_id: str, task: str) -> AbstractContextManager[Span]:
        return self._nothing

    def compression(self, trigger: str, task: str) -> AbstractContextManager[Span]:
        return self._nothing

    def flush(self) -> None:
        """There is nothing."""


OFF: Tracing = _Off()


@cache
def _tracing(endpoint: str, content: bool, _pid: int) -> Tracing:
    try:
        return _Collector(endpoint, content)
    except ImportError:
        logger.warning("no spans are sent to %s: install them with: pip install 'orihon[otel]'", _shown(endpoint))
    except Exception as error:  # noqa: BLE001 - it reads variables of its own, and refuses some values
        logger.warning("no spans are sent to %s: %s", _shown(endpoint), error)
    return OFF


class _OpenSpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(name, _sendable(value))


class _Collector:
    """Spans on their way to a collector, in batches, by a thread of their own."""

    def __init__(self, endpoint: str, content: bool) -> None:
        self.content = content
        self._provider = _provider(endpoint)
        self._tracer: Tracer = self._provider.get_tracer("orihon")

    def model_call(self, provider: str, model: str, task: str, url: str) -> AbstractContextManager[Span]:
        from opentelemetry.trace import SpanKind

        place = urlsplit(url)
        said = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "server.address": place.hostname,
            "server.port": place.port or {"https": 443, "http": 80}.get(place.scheme),
        }
        return self._span(f"chat {model}", SpanKind.CLIENT, task, said)

    def tool(self, name: str, call_id: str, task: str) -> AbstractContextManager[Span]:
        from opentelemetry.trace import SpanKind

        said = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id or None,
            "gen_ai.tool.type": "function",
        }
        return self._span(f"execute_tool {name}", SpanKind.INTERNAL, task, said)

    def compression(self, trigger: str, task: str) -> AbstractContextManager[Span]:
        from opentelemetry.trace import SpanKind

        said = {"gen_ai.operation.name": "compress_context", "orihon.compression.trigger": trigger}
        return self._span("compress_context", SpanKind.INTERNAL, task, said)

    def flush(self) -> None:
        try:
            self._provider.force_flush()  # its time limit is the exporter's: it knows no other
        except Exception as error:  # noqa: BLE001 - whatever the exporter does, the task has ended well
            logger.warning("spans could not be sent: %s", error)

    @contextmanager
    def _span(self, name: str, kind: Any, task: str, attributes: Attributes) -> Iterator[Span]:
        from opentelemetry.trace import StatusCode, use_span

        _task.set(task)
        span = self._tracer.start_span(_clean(name), kind=kind)
        opened = _OpenSpan(span)
        opened.set({**attributes, "gen_ai.conversation.id": task or None})
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield opened
        except BaseException as error:
            # Its kind only: what it says may quote what the task is about.
            opened.set({"error.type": type(error).__name__})
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            span.end()


def _provider(endpoint: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class TaskTraces(RandomIdGenerator):
        """A new trace is that of the task at hand; asked only where no span is around."""

        def generate_trace_id(self) -> int:
            return _trace_id(_task.get()) or super().generate_trace_id()

    class Sender(OTLPSpanExporter):
        """One that was in vain is not tried again for a while: each batch would wait for the same time limit."""

        _away_until = 0.0

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if time.monotonic() < self._away_until:
                return SpanExportResult.FAILURE
            result = super().export(spans)
            if result is not SpanExportResult.SUCCESS:
                self._away_until = time.monotonic() + _AWAY_SECONDS
            return result

    place = endpoint.rstrip("/")
    seconds = None if "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ else _EXPORT_SECONDS
    exporter = Sender(endpoint=place if place.endswith(_PATH) else place + _PATH, timeout=seconds)
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "orihon"}
    provider = TracerProvider(resource=Resource.create(named), id_generator=TaskTraces())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _trace_id(task: str) -> int | None:
    try:
        return UUID(task).int or None
    except ValueError:
        return None


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    return [_clean(str(each)) for each in value] if isinstance(value, list | tuple) else value


def _clean(text: str) -> str:
    """Without lone surrogates, which cannot be sent."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(endpoint: str) -> str:
    """The address without what may be a password."""
    try:
        place = urlsplit(endpoint)
    except ValueError:  # no address at all
        return "?"
    return f"{place.scheme}://{place.hostname}"
