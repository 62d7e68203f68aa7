"""For benchmarks/proxy.py: ``orihon proxy`` as a process, a scripted upstream that counts, a client that checks.

The upstream runs on loopback in the benchmark's own process. A request names its conversation in a header, for which
the client has laid an answer ready. What arrives is kept as one (digest, tokens) for each entry, the tools first and
``cache_control`` stripped, so that the beginning that two requests share can be told afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from orihon import Base
from orihon.proxy.scribe import beside_of, steps_of
from orihon.tasks.reader import reading_task
from orihon.values.message.message import Message

ORIHON = str(Path(sys.executable).with_name("orihon"))
CHAT = "/v1/chat/completions"
RELAYED = "/v1/whatever"
KEY = "x-bench-conversation"
MODEL = "scripted"
CACHED, WRITTEN = 0.1, 1.25
_TOKEN_CHARACTERS, _ENTRY_TOKENS = 4, 4
_START_SECONDS = 120.0

Entries = list[tuple[bytes, int]]  # digest and tokens of each entry


# ---- counting --------------------------------------------------------------------------------------------------------


def entries_of(body: Mapping[str, Any]) -> Entries:
    """The tools, then the messages."""
    counted = [_counted(body["tools"])] if body.get("tools") else []
    return counted + [_counted(message) for message in body["messages"]]


def _counted(entry: Any) -> tuple[bytes, int]:
    bare = {key: value for key, value in entry.items() if key != "cache_control"} if isinstance(entry, dict) else entry
    written = orjson.dumps(bare, option=orjson.OPT_SORT_KEYS)
    tokens = sum(map(len, _strings(bare))) // _TOKEN_CHARACTERS + _ENTRY_TOKENS
    return hashlib.blake2b(written, digest_size=8).digest(), tokens


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def size(entries: Entries) -> int:
    return sum(tokens for _, tokens in entries)


def common(before: Entries, now: Entries) -> int:
    """How many entries both begin with."""
    for place, (old, new) in enumerate(zip(before, now, strict=False)):
        if old[0] != new[0]:
            return place
    return min(len(before), len(now))


def cost(requests: Sequence[Entries]) -> float:
    """In tokens written at their plain price: what the request before began with is read from the cache."""
    total, before = 0.0, list[tuple[bytes, int]]()
    for now in requests:
        shared = size(now[: common(before, now)])
        total += CACHED * shared + WRITTEN * (size(now) - shared)
        before = now
    return total


# ---- the upstream ----------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """A request as it arrived."""

    at: float
    entries: Entries


@dataclass
class Upstream:
    """Answers each conversation with what lies ready for it, or what ``script`` says."""

    script: Callable[[str, int], Mapping[str, Any]] | None = None
    pieces: int = 4  # of a streamed answer
    pause: float = 0.0  # between them
    keeps: bool = True
    heard: dict[str, list[Heard]] = field(default_factory=lambda: defaultdict(list))
    ready: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    port: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def serving(self) -> Iterator[Upstream]:
        loop, begun = asyncio.new_event_loop(), threading.Event()

        async def listen() -> None:
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
            self.port = server.sockets[0].getsockname()[1]
            begun.set()

        def run() -> None:
            loop.run_until_complete(listen())
            loop.run_forever()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        begun.wait()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                named = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
                raw = await reader.readexactly(int(named.get("content-length", 0)))
                path, key = head[0].split(" ")[1], named.get(KEY, "")
                body = orjson.loads(raw) if path == CHAT else {"stream": True, "messages": []}
                counted = entries_of(body) if self.keeps else []
                self.heard[key].append(Heard(time.time(), counted))
                answer = self._answer(key)
                usage = {"prompt_tokens": size(counted) or len(raw) // _TOKEN_CHARACTERS, "completion_tokens": 9}
                await self._say(writer, answer, usage, is_streamed=bool(body.get("stream")))
        writer.close()

    def _answer(self, key: str) -> Mapping[str, Any]:
        self.numbers[key] += 1
        if key in self.ready or self.script is None:
            return self.ready.get(key, {"content": "Done."})
        return self.script(key, self.numbers[key])

    async def _say(
        self, writer: asyncio.StreamWriter, answer: Mapping[str, Any], usage: dict[str, int], *, is_streamed: bool
    ) -> None:
        said = {"id": f"chatcmpl-{time.monotonic_ns()}", "model": MODEL, "usage": usage}
        if not is_streamed:
            choice = {"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": "stop"}
            raw = orjson.dumps({**said, "choices": [choice]})
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
            writer.write(head.encode() + raw)
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number, event in enumerate(_events(answer, said, self.pieces)):
            if number and self.pause:
                await asyncio.sleep(self.pause)
            line = b"data: " + event + b"\n\n"
            writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _events(answer: Mapping[str, Any], said: dict[str, Any], pieces: int) -> Iterator[bytes]:
    text = answer.get("content") or ""
    step = max(len(text) // pieces, 1)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[at : at + step]} for at in range(0, len(text), step)]
    calls = [{"index": place, **call} for place, call in enumerate(answer.get("tool_calls") or ())]
    deltas += [{"tool_calls": calls}] if calls else []
    for delta in deltas:
        yield orjson.dumps({"id": said["id"], "model": MODEL, "choices": [{"index": 0, "delta": delta}]})
    yield orjson.dumps({**said, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield b"[DONE]"


# ---- the proxy -------------------------------------------------------------------------------------------------------


class Proxy:
    """``orihon proxy`` on one base, always at the same port."""

    def __init__(self, folder: Path, upstream: str, *options: str, settings: Mapping[str, Any] | None = None) -> None:
        self.base = folder / "contexts"
        self.log = folder / "proxy.log"
        config = folder / "config.yaml"
        config.write_text(json.dumps(settings or {}))
        with socket.socket() as line:
            line.bind(("127.0.0.1", 0))
            self.port = line.getsockname()[1]
        where = [ORIHON, "--base-dir", str(self.base), "--config", str(config), "proxy", "--port", str(self.port)]
        self._command = [*where, "--upstream", upstream, "--json", *options]
        self._process: subprocess.Popen[str] | None = None
        self.kills = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ORIHON_")}
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ, start_new_session=True
            )
        assert self._process.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            line = self._process.stdout.readline()
            if not line:
                raise SystemExit(f"the proxy did not start: {self.log.read_text()[-2000:]}")
            said += line

    def kill(self) -> None:
        """As if the power went."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        self.start()
        try:
            yield self
        finally:
            self.stop()

    @property
    def cpu(self) -> float:
        """Seconds, user and system, of all its threads."""
        return time.clock_gettime(~self.pid << 3 | 2)  # what clock_getcpuclockid gives for a process

    @property
    def rss(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise SystemExit("no VmRSS")


# ---- the client ------------------------------------------------------------------------------------------------------


@dataclass
class Got:
    """An answer as the client has it; ``message`` is ``None`` where it did not come whole."""

    status: int = 0
    view: str | None = None
    task: str = ""
    message: dict[str, Any] | None = None
    first: float = 0.0  # seconds to the first byte of the body
    took: float = 0.0
    trouble: str = ""


def ask(
    address: str,
    body: bytes,
    key: str,
    *,
    path: str = CHAT,
    headers: Mapping[str, str] | None = None,
    deadline: float = 120.0,
) -> Got:
    """One request, on a connection of its own."""
    parts, got, began = urlsplit(address), Got(), time.perf_counter()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=deadline)
    try:
        given = {"Content-Type": "application/json", KEY: key, "Authorization": "Bearer sk-bench", **(headers or {})}
        connection.request("POST", path, body, given)
        response = connection.getresponse()
        got.status = response.status
        got.view, got.task = response.getheader("x-orihon-view"), response.getheader("x-orihon-task") or ""
        raw = response.read1(1 << 16)
        got.first = time.perf_counter() - began
        raw += response.read()
        got.message = (
            _message(raw, response.getheader("content-type") or "") if got.status == http.HTTPStatus.OK else None
        )
        got.trouble = "" if got.message is not None else raw[:300].decode("utf-8", "replace")
    except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:  # not whole
        got.trouble = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    got.took = time.perf_counter() - began
    return got


def _message(raw: bytes, kind: str) -> dict[str, Any] | None:
    if "event-stream" not in kind:
        return dict(orjson.loads(raw)["choices"][0]["message"])
    lines = [line[6:] for line in raw.split(b"\n\n") if line.startswith(b"data: ")]
    if not lines or lines[-1] != b"[DONE]":
        return None
    deltas = [orjson.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(delta.get("content") or "" for delta in deltas)}
    calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    if calls:
        message["tool_calls"] = [{name: call[name] for name in ("id", "type", "function")} for call in calls]
    return message


def request_body(history: Sequence[Mapping[str, Any]], *, is_streamed: bool = True, **more: Any) -> bytes:
    return orjson.dumps({"model": MODEL, "stream": is_streamed, **more, "messages": list(history)})


# ---- what the base has -----------------------------------------------------------------------------------------------

Told = tuple[str, str, tuple[tuple[str, str], ...]]  # role, text, calls


def told(message: Message) -> Told:
    """What a message says, without ids and notes."""
    return message.role, message.text, tuple((call.name, str(call.arguments)) for call in message.tool_calls)


class Kept:
    """What a task's log has of a conversation."""

    def __init__(self, base: Base, uuid: str) -> None:
        self._mask = base.redactor.mask
        self.steps: list[Message] = []  # as the conversation stands now
        self.all: list[Message] = []  # whatever was ever a step of it
        self.folded: set[int] = set()  # places of steps that a fold stands for
        seqs: list[int] = []
        with reading_task(base, uuid) as (store, _):
            for stored in store.messages():
                marks = steps_of(stored.message)
                if beside_of(stored.message) or not marks:
                    continue
                self.all.append(stored.message)
                for place, _digest in marks:
                    del self.steps[place:], seqs[place:]
                    self.steps.append(stored.message)
                    seqs.append(stored.seq)
            self.acts = [_seconds(one["created_at"]) for one in store.read("compressions")]
            folds = store.state()[0]
        for place, seq in enumerate(seqs):
            if any(fold.start_seq <= seq <= fold.end_seq for fold in folds):
                self.folded.add(place)

    def has(self, place: int, entry: Mapping[str, Any]) -> bool:
        """Is this what was sent in this place, byte for byte, or what masking makes of it?"""
        return place < len(self.steps) and self.is_same(self.steps[place], entry)

    def is_same(self, kept: Message, entry: Mapping[str, Any]) -> bool:
        (sent,) = Message.from_chat(entry).as_chat()
        return told(kept) in (told(sent), told(sent.map_strings(self._mask)))


def _seconds(said: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(said).timestamp()
