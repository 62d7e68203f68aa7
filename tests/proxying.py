"""A proxy in this process, and clients that speak its wires as agents do: they keep their history and send it whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from orihon import Base
from orihon.proxy.events import EventReader
from orihon.proxy.server import ProxyListening, ProxyServer
from orihon.proxy.wires import BY_NAME
from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.reader import reading_task

TOOL = {"type": "object", "properties": {"command": {"type": "string"}}}
_TOOLS = {
    "chat": [{"type": "function", "function": {"name": "run", "description": "Run it.", "parameters": TOOL}}],
    "responses": [{"type": "function", "name": "run", "description": "Run it.", "parameters": TOOL}],
    "messages": [{"name": "run", "description": "Run it.", "input_schema": TOOL}],
}


@contextmanager
def proxy(
    folder: Path, upstream: str, *, config: Mapping[str, Any] | None = None, **options: Any
) -> Iterator[ProxyServer]:
    """A proxy with its base in that folder."""
    settings = load_settings({"context_storage": {"base_dir": str(folder)}, **(config or {})})
    server = ProxyServer(folder, settings, ProxyListening(port=0, upstream=upstream, **options))
    ready = threading.Event()
    thread = threading.Thread(target=server.serve, args=(ready.set,), name="proxy")
    thread.start()
    try:
        assert ready.wait(60)
        yield server
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


@dataclass
class Agent:
    """An agent without a context engine of its own."""

    wire: str
    address: str
    headers: dict[str, str] = field(default_factory=dict)
    system: str = "You are a careful agent. Never delete anything."
    is_streamed: bool = True
    has_tools: bool = True
    entries: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    answers: list[httpx.Response] = field(default_factory=list)

    @property
    def path(self) -> str:
        return BY_NAME[self.wire].path

    def body(self) -> dict[str, Any]:
        """The whole request."""
        made: dict[str, Any] = {"model": "scripted", "stream": self.is_streamed, **self.extra}
        if self.has_tools:
            made["tools"] = _TOOLS[self.wire]
        if self.wire == "chat":
            return {**made, "messages": [{"role": "system", "content": self.system}, *self.entries]}
        if self.wire == "messages":
            return {
                **made,
                "max_tokens": 1000,
                "system": [{"type": "text", "text": self.system}],
                "messages": self.entries,
            }
        return {**made, "instructions": self.system, "input": self.entries, "store": False}

    def say(self, text: str) -> None:
        """What the person says next."""
        content: Any = text
        if self.wire == "responses":
            content = [{"type": "input_text", "text": text}]
        self.entries.append(
            {"role": "user", "content": content, **({"type": "message"} if self.wire == "responses" else {})}
        )

    def ask(self, *, timeout: float = 60) -> httpx.Response:
        """One request; its answer becomes part of the history."""
        headers = {"authorization": "Bearer sk-test-of-the-proxy", **self.headers}
        with httpx.Client(timeout=timeout, trust_env=False) as client:
            answer = client.post(self.address + self.path, json=self.body(), headers=headers)
        self.answers.append(answer)
        if answer.status_code == httpx.codes.OK:
            self.entries += self._entries(answer)
        return answer

    def _entries(self, answer: httpx.Response) -> list[dict[str, Any]]:
        wire = BY_NAME[self.wire]
        if "event-stream" in answer.headers["content-type"]:
            reader = wire.reader()
            events = EventReader(reader)
            events.feed(answer.content)
            events.end()
            said = reader.built()
        else:
            said = wire.whole(jsonio.decode(answer.content))
        return [dict(entry) for element in said.elements for entry in element.entries]

    @property
    def open_calls(self) -> list[str]:
        """The calls that wait for a result."""
        wire = BY_NAME[self.wire]
        made = [call for entry in self.entries for call in wire.called(entry)]
        done = {call for entry in self.entries for call in wire.answered(entry)}
        return [call for call in made if call not in done]

    def give(self, *results: str) -> None:
        """The results of the calls that are open."""
        pairs = list(zip(self.open_calls, results, strict=True))
        if self.wire == "chat":
            self.entries += [{"role": "tool", "tool_call_id": call, "content": result} for call, result in pairs]
        elif self.wire == "responses":
            self.entries += [
                {"type": "function_call_output", "call_id": call, "output": result} for call, result in pairs
            ]
        else:
            blocks = [{"type": "tool_result", "tool_use_id": call, "content": result} for call, result in pairs]
            self.entries.append({"role": "user", "content": blocks})


def tasks_of(folder: Path) -> list[Any]:
    """The rows of a base's tasks, the oldest first."""
    with Base(folder) as base:
        base.open_catalogue()
        return sorted(base.rows(), key=lambda row: row.created_at)


def texts_of(folder: Path, uuid: str) -> list[str]:
    """What the log of a task says, message by message."""
    with Base(folder) as base, reading_task(base, uuid) as (store, _):
        return [stored.message.text for stored in store.messages()]


def clean(folder: Path) -> Sequence[Any]:
    """What the prover finds in a base: nothing, if all is well."""
    with Base(folder) as base:
        base.open_catalogue()
        return [finding for row in base.rows() for finding in base.verify(row.uuid)]
