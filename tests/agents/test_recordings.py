"""Exchanges with providers that others have recorded and published pass through the proxy as they were."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from orihon.proxy.wires import WIRES
from orihon.system import jsonio
from tests.agents.clients import AGENTS
from tests.proxying import clean, proxy, tasks_of, texts_of

PLACE = AGENTS / "recordings"
_PATHS = {wire.path: wire.name for wire in WIRES}
_LEAST = {"chat": 20, "responses": 100, "messages": 20}


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a client has sent, and what its provider has answered."""

    path: str
    asked: bytes
    status: int
    kind: str
    answer: bytes


def recorded() -> list[Exchange]:
    """All of them on our wires, each once; both ways in which cassettes are written."""
    found: dict[tuple[str, bytes], Exchange] = {}
    for path in sorted(PLACE.glob("*/tests/**/cassettes/**/*.yaml*")):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        tape = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        pairs = [(one["request"], one["response"]) for one in tape.get("interactions", ())]
        pairs += zip(tape.get("requests", ()), tape.get("responses", ()), strict=False)
        for asked, answer in pairs:
            body = _bytes(asked.get("body"))
            route = _route(asked["uri"], body)
            if route in _PATHS:
                found.setdefault((route, body), _exchange(route, body, answer))
    return list(found.values())


def _route(address: str, body: bytes) -> str:
    """Where it was sent; some have made that unreadable, all of them to OpenAI."""
    if "REDACTED" not in address:
        return urlsplit(address).path if body else ""
    try:
        said = jsonio.decode(body)
    except ValueError:
        return ""
    if "messages" in said:
        return "/v1/chat/completions"
    return "/v1/responses" if "input" in said and "embedding" not in str(said.get("model")) else ""


def _exchange(path: str, asked: bytes, answer: Mapping[str, Any]) -> Exchange:
    body = answer["body"]
    said = _bytes(body["string"] if isinstance(body, dict) else body)
    said = gzip.decompress(said) if said.startswith(b"\x1f\x8b") else said
    is_stream = said.lstrip().startswith((b"event:", b"data:"))
    return Exchange(
        path, asked, answer["status"]["code"], "text/event-stream" if is_stream else "application/json", said
    )


def _bytes(given: Any) -> bytes:
    return given if isinstance(given, bytes) else str(given or "").encode()


@contextmanager
def provider() -> Iterator[tuple[str, list[Exchange], list[bytes]]]:
    """One that answers the next exchange with what was recorded, and keeps what it was asked."""
    next_ones: list[Exchange] = []
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            exchange = next_ones.pop()
            self.send_response(exchange.status)
            self.send_header("Content-Type", exchange.kind)
            self.send_header("Content-Length", str(len(exchange.answer)))
            self.end_headers()
            self.wfile.write(exchange.answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", next_ones, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_recorded_exchanges_pass_as_they_were(tmp_path: Path) -> None:
    if not (PLACE / ".made").exists():
        reason = "the recordings are not here; fetch them with: make agents"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    exchanges = recorded()
    counts = {name: sum(_PATHS[one.path] == name for one in exchanges) for name in _LEAST}
    assert all(counts[name] >= least for name, least in _LEAST.items()), counts
    base = tmp_path / "base"
    config = {"context_storage": {"base_dir": str(base), "durability": "os"}}
    tasks: set[str] = set()
    with (
        provider() as (url, next_ones, asked),
        proxy(base, url, config=config) as server,
        httpx.Client(trust_env=False, timeout=120) as client,
    ):
        for exchange in exchanges:
            next_ones.append(exchange)
            headers = {"content-type": "application/json", "authorization": "Bearer of-a-test"}
            answer = client.post(server.address + exchange.path, content=exchange.asked, headers=headers)
            assert asked[-1] == exchange.asked, exchange.path
            assert (answer.status_code, answer.content) == (exchange.status, exchange.answer)
            assert answer.headers["x-orihon-view"] == "whole"
            tasks.add(answer.headers["x-orihon-task"])
            if exchange.kind == "application/json":
                assert jsonio.decode(answer.content) == jsonio.decode(exchange.answer)
    assert tasks == {row.uuid for row in tasks_of(base)}
    assert all(texts_of(base, uuid) for uuid in tasks)
    assert clean(base) == []
