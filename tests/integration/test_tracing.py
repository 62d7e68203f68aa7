"""Spans by the conventions for generative AI, as a collector receives them."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from orihon import TaskContextManager, TaskKey
from orihon.drivers.tracing import OFF, tracing_of
from orihon.llm.scripted import Fault, Reply
from orihon.settings import Settings, load_settings
from orihon.values.task import TaskStatus
from tests.integration.agents import world

SECRET = "the-customer-is-called-Hanako"
CALL = ("effects_write", {"text": SECRET})
TASK = "3f2b8a54-9c1d-4f6e-8a7b-1234567890ab"


class Collector:
    """Receives spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.paths.append(self.path)
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, start: str) -> list[Any]:
        return [span for span in self.spans() if span.name.startswith(start)]


def attributes(span: Any) -> dict[str, Any]:
    """As plain values."""
    return {one.key: _plain(one.value) for one in span.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "120")  # a busy machine loses no spans
    made = Collector()
    yield made
    made.close()


def worked(folder: Path, collector: Collector, **tracing: Any) -> str:
    """A task that calls a tool and ends; returns its UUID."""
    reply = Reply(calls=[CALL], usage={"input": 100, "cached": 40, "output": 7})
    with world(folder, [reply, Reply(f"Done: {SECRET}")], {"tracing": {"endpoint": collector.url, **tracing}}) as made:
        uuid = made.put()
        assert made.work() is TaskStatus.COMPLETED
    return uuid


def test_a_task_is_one_trace_of_its_calls(tmp_path: Path, collector: Collector) -> None:
    uuid = worked(tmp_path, collector)
    assert set(collector.paths) == {"/v1/traces"}
    spans = collector.spans()
    assert {span.trace_id for span in spans} == {UUID(uuid).bytes}
    assert {attributes(span)["gen_ai.conversation.id"] for span in spans} == {uuid}
    first, *_ = collector.named("chat ")
    assert first.name == "chat tiny"
    assert first.kind == 3, "a client's"
    said = attributes(first)
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.provider.name"] == "openai"
    assert said["gen_ai.request.model"] == "tiny"
    assert said["gen_ai.usage.input_tokens"] == 100
    assert said["gen_ai.usage.output_tokens"] == 7
    assert said["gen_ai.usage.cache_read.input_tokens"] == 40
    assert said["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert said["server.address"] == "127.0.0.1"
    (tool,) = collector.named("execute_tool ")
    assert tool.name == "execute_tool effects_write"
    assert attributes(tool)["gen_ai.operation.name"] == "execute_tool"
    assert attributes(tool)["gen_ai.tool.name"] == "effects_write"
    assert attributes(tool)["gen_ai.tool.call.id"]
    (resource,) = {_service(request) for request in collector.requests}
    assert resource == "orihon"


def _service(request: ExportTraceServiceRequest) -> str:
    (found,) = [
        one.value.string_value for one in request.resource_spans[0].resource.attributes if one.key == "service.name"
    ]
    return str(found)


def test_no_text_is_in_a_span_unless_it_is_wanted(tmp_path: Path, collector: Collector) -> None:
    worked(tmp_path, collector)
    assert SECRET.encode() not in b"".join(request.SerializeToString() for request in collector.requests)


def test_texts_are_in_the_spans_where_they_are_wanted_and_masked(tmp_path: Path, collector: Collector) -> None:
    key = "sk-proj-" + "a1B2" * 10
    answers = [Reply(calls=[("effects_write", {"text": f"{SECRET} {key}"})]), Reply("Done.")]
    tracing = {"endpoint": collector.url, "content": True}
    with world(tmp_path, answers, {"tracing": tracing}) as made:
        made.put()
        made.work()
    (tool,) = collector.named("execute_tool ")
    assert SECRET in attributes(tool)["gen_ai.tool.call.arguments"]
    assert SECRET in attributes(tool)["gen_ai.tool.call.result"]
    assert SECRET in attributes(collector.named("chat ")[0])["gen_ai.output.messages"]
    assert key.encode() not in b"".join(request.SerializeToString() for request in collector.requests)


def test_what_fails_is_marked_with_its_kind_and_not_its_words(tmp_path: Path, collector: Collector) -> None:
    faults = [Fault(400, {"error": {"message": SECRET}})] * 2
    with world(tmp_path, faults, {"tracing": {"endpoint": collector.url}}) as made:
        made.put()
        made.work()
    span = collector.named("chat ")[0]
    assert span.status.code == 2
    assert attributes(span)["error.type"] == "Refused"
    assert SECRET.encode() not in span.SerializeToString()


def test_a_compression_has_a_span_with_its_figures(tmp_path: Path, collector: Collector) -> None:
    settings = load_settings({"tracing": {"endpoint": collector.url}}, environ={})
    with TaskContextManager(tmp_path, TaskKey("github", "a", "b", "issue", "1"), settings) as context:
        for turn in range(30):
            context.message_store.add_message("user", f"Step {turn}: the export of the figures goes on and on. " * 4)
        result = context.compressor.compress(strategy="summarize")
    (span,) = collector.named("compress_context")
    said = attributes(span)
    assert said["orihon.compression.trigger"] == "manual"
    assert said["orihon.compression.strategy"] == "summarize"
    assert said["orihon.compression.before_tokens"] == result.original_tokens
    assert said["orihon.compression.after_tokens"] == result.compressed_tokens
    assert span.trace_id == UUID(context.uuid).bytes


def test_a_span_of_the_caller_is_what_ours_hang_on(collector: Collector) -> None:
    tracing = tracing_of(load_settings({"tracing": {"endpoint": collector.url}}, environ={}))
    with TracerProvider().get_tracer("caller").start_as_current_span("outside") as outside:
        with tracing.tool("read", "", TASK):
            pass
        around = outside.get_span_context()
    with tracing.tool("read", "", TASK) as span:
        span.set({"lone": "\ud800", "none": None})
        assert trace.get_current_span().get_span_context().trace_id == UUID(TASK).int
    tracing.flush()
    inside, alone = collector.named("execute_tool read")
    assert inside.trace_id == around.trace_id.to_bytes(16, "big")
    assert inside.parent_span_id == around.span_id.to_bytes(8, "big")
    assert alone.parent_span_id == b""
    assert attributes(alone)["lone"] == "\\ud800"


def test_nothing_is_imported_and_nothing_happens_without_an_endpoint() -> None:
    program = (
        "import sys; from orihon.drivers.tracing import tracing_of; from orihon.settings import load_settings\n"
        "with tracing_of(load_settings({}, environ={})).tool('a', 'b', 'c') as span: span.set({'x': 1})\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert tracing_of(load_settings({}, environ={})) is OFF


def test_the_variable_of_open_telemetry_turns_it_on() -> None:
    settings = load_settings({}, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert settings.tracing.endpoint == "http://127.0.0.1:4318"
    assert not settings.tracing.content


def test_a_collector_that_is_away_costs_the_work_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    settings = load_settings({"tracing": {"endpoint": "http://127.0.0.1:1"}}, environ={})
    with tracing_of(settings).tool("read", "", TASK) as span:
        span.set({"x": 1})
    tracing_of(settings).flush()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Somebody who takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listening:
        listening.settimeout(0)
        yield listening


def test_a_collector_that_does_not_answer_is_waited_for_once(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setattr("orihon.drivers.tracing._AWAY_SECONDS", 3600.0)  # however long this takes
    tracing = tracing_of(_settings(f"http://127.0.0.1:{silent.getsockname()[1]}"))
    for turn in range(2):
        for number in range(1200):  # more than two batches
            with tracing.tool(f"{turn}.{number}", "", TASK):
                pass
        tracing.flush()
    silent.accept()[0].close()
    with pytest.raises(BlockingIOError):
        silent.accept()


@pytest.mark.parametrize("variable", ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_SCHEDULE_DELAY"])
def test_variables_that_open_telemetry_refuses_cost_the_work_nothing(
    variable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, "-4")
    with tracing_of(_settings(f"http://127.0.0.1:1/{variable}")).tool("read", "", TASK) as span:
        span.set({"x": 1})
    assert "no spans are sent" in caplog.text


def _settings(endpoint: str) -> Settings:
    return load_settings({"tracing": {"endpoint": endpoint}}, environ={})
