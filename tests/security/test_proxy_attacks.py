"""Attacks on the proxy: another tenant's conversation, bombs, odd addresses, pages, keys that stay behind."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orihon.proxy import upstream as proxy_upstream
from orihon.system import jsonio
from tests.proxying import Agent, proxy, tasks_of, texts_of
from tests.upstream import Reply, Request, Upstream

ANA, BOB = {"authorization": "Bearer ana-key"}, {"authorization": "Bearer bob-key"}
WINDOW = 4500
PRIVATE = "the merger price is twelve million"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(lambda request: Reply(f"Answer {request.number}.")) as server:
        yield server


def post(address: str, body: Any, headers: dict[str, str], **options: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else jsonio.encode(body)
    given = {"content-type": "application/json", **headers}
    return httpx.post(address, content=content, headers=given, trust_env=False, timeout=60, **options)


def responses_body(text: str, previous: str | None = None) -> dict[str, Any]:
    said = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
    body: dict[str, Any] = {"model": "scripted", "instructions": "Be careful.", "input": said, "store": True}
    return body if previous is None else {**body, "previous_response_id": previous}


# ---- tenants ---------------------------------------------------------------------------------------------------------


def test_an_answers_id_opens_nothing_for_another_key(upstream: Upstream, tmp_path: Path) -> None:
    """Whoever learns the id of an answer goes on with the conversation only with the key that it was asked with."""
    base = tmp_path / "base"
    with proxy(base, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
        address = f"{server.address}/v1/responses"
        first = post(address, responses_body(PRIVATE), ANA)
        ours = first.headers["x-orihon-task"]
        previous = first.json()["id"]
        # More than fits: what is pointed at would go out as a folded view.
        stolen = post(address, responses_body("word " * WINDOW, previous), BOB)
        assert stolen.headers["x-orihon-task"] != ours
        assert PRIVATE.encode() not in upstream.requests[-1].raw
        assert texts_of(base, ours)[-1] == "Answer 1.", "nothing is added to it either"
        again = post(address, responses_body("And then?", previous), ANA)
        assert again.headers["x-orihon-task"] == ours


def test_an_upstream_that_gives_out_anothers_id_catches_no_conversation(tmp_path: Path) -> None:
    """The upstream in the path is the caller's own: what it answers must not decide where others go on."""
    base = tmp_path / "base"
    with (
        Upstream([Reply("Yes."), Reply("Still yes.")]) as honest,
        Upstream([Reply("Mine now.")]) as hostile,
        proxy(base, honest.base_url) as server,
    ):
        first = post(f"{server.address}/v1/responses", responses_body(PRIVATE), ANA)
        previous = first.json()["id"]
        body = responses_body("anything")
        other = post(f"{server.address}/to/{hostile.base_url}/v1/responses", body, BOB)
        assert other.json()["id"] == previous, "both upstreams count from one"
        again = post(f"{server.address}/v1/responses", responses_body("And then?", previous), ANA)
        assert again.headers["x-orihon-task"] == first.headers["x-orihon-task"]
    assert len(tasks_of(base)) == 2


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_neither_stored_nor_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In whatever header or part of an address they come, also where nothing answers."""
    keys = [f"Q7vT2xLm9RkP4wZ8{number}" for number in range(5)]
    headers = {"authorization": f"Bearer {keys[0]}", "x-api-key": keys[1], "api-key": keys[2], "cookie": f"a={keys[3]}"}
    base = tmp_path / "base"
    caplog.set_level(logging.INFO)
    with (
        Upstream(lambda request: Reply("Yes.") if request.wire else Reply("ok")) as upstream,
        proxy(base, upstream.base_url, token="our-own-t0ken-9Zx") as server,
    ):
        inside = f"{server.address}/t/our-own-t0ken-9Zx"
        for wire in ("chat", "responses", "messages"):
            agent = Agent(wire, inside, headers)
            agent.say("Hello")
            assert agent.ask().status_code == 200
        assert httpx.get(f"{inside}/v1/models?key={keys[4]}", headers=headers, trust_env=False).status_code == 200
        for path in ("/v1/models", "/v1/chat/completions"):
            dead = f"{inside}/to/http://127.0.0.1:9{path}?key={keys[4]}"
            assert post(dead, {"model": "m", "messages": []}, headers).status_code >= 500
        sent = b"".join(request.raw + repr((request.path, request.headers)).encode() for request in upstream.requests)
        assert keys[0].encode() in sent, "they go on to the upstream"
        assert b"our-own-t0ken" not in sent, "ours does not"
    stored = b"".join(path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file())
    assert stored
    ours = [
        record.getMessage()
        for record in caplog.records
        if "HTTP Request" not in record.getMessage()
        or "127.0.0.1:9" in record.getMessage()
        or upstream.base_url in record.getMessage()
    ]
    assert ours
    for secret in (*keys, "our-own-t0ken-9Zx"):
        assert secret.encode() not in stored
        assert [said for said in ours if secret in said] == []


# ---- pages and other names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/orihon/health", "/v1/models"])
def test_a_page_learns_nothing(path: str, upstream: Upstream, tmp_path: Path) -> None:
    """Not even how the proxy does, and where its folder is."""
    with proxy(tmp_path / "base", upstream.base_url) as server:
        for headers in (
            {"host": "evil.example"},
            {"host": f"127.0.0.1.evil.example:{server.port}"},
            {"host": f"evil.example@127.0.0.1:{server.port}"},
            {"host": ""},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "same-site"},
        ):
            answer = httpx.get(server.address + path, headers=headers, trust_env=False)
            assert answer.status_code == 403, headers
            assert str(tmp_path) not in answer.text
        assert upstream.requests == []
        assert httpx.get(f"{server.address}/orihon/health", trust_env=False).status_code in (200, 503)


def test_without_the_token_nobody_is_told_where_the_folder_is(upstream: Upstream, tmp_path: Path) -> None:
    with proxy(tmp_path / "base", upstream.base_url, token="t0ken") as server:
        told = httpx.get(f"{server.address}/orihon/health", trust_env=False).json()
        assert set(told) == {"healthy"}
        headers = {"x-orihon-token": "t0ken"}
        told = httpx.get(f"{server.address}/orihon/health", headers=headers, trust_env=False).json()
        assert told["base"] == str((tmp_path / "base").absolute())


# ---- addresses -------------------------------------------------------------------------------------------------------

_ODD = [
    "/to/http://169.254.169.254/latest/meta-data",
    "/to/http://localhost.evil.example/v1/models",
    "/to/http://2130706433/v1/models",
    "/to/http://0x7f.1/v1/models",
    "/to/http://[::ffff:169.254.169.254]/v1/models",
    "/to/http://[::1/v1/models",
    "/to/https://[bad/v1/models",
    "/to/https://host:99999/v1/models",
    "/to/https://host:port/v1/models",
    "/to/https://ho%20st/v1/models",
    "/to/https://ho%00st/v1/models",
    "/to/https://user@host/v1/models",
    "/to/file:///etc/passwd",
    "/to/https://",
    "/to/",
]


@pytest.mark.parametrize("path", _ODD)
def test_an_address_that_is_none_is_refused_in_words(
    path: str, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with proxy(tmp_path / "base", upstream.base_url) as server:
        answer = _raw(server.port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
    assert b"orihon_error" in answer
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "target", ["@evil.example/v1/models", "http://evil.example/v1/models", "//evil.example/v1/models"]
)
def test_no_path_leads_to_another_host(target: str, upstream: Upstream, tmp_path: Path) -> None:
    """A path is put behind the upstream's address: it must not become a part of its name."""
    with proxy(tmp_path / "base", upstream.base_url) as server:
        request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n"
        answer = _raw(server.port, request)
    assert answer.split(b" ", 2)[1] in (b"400", b"404", b"200")
    for request_seen in upstream.requests:
        assert dict(_lowered(request_seen))["host"] == upstream.base_url.removeprefix("http://")


def _lowered(request: Request) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in request.headers]


def _raw(port: int, request: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(request.encode())
        pieces = []
        while piece := line.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


# ---- bombs -----------------------------------------------------------------------------------------------------------


def test_a_body_that_swells_is_refused(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_upstream, "MOST_BODY", 1 << 20)
    bomb = gzip.compress(b'{"model": "m", "messages": "' + bytes(8 << 20) + b'"}')
    assert len(bomb) < 1 << 16
    with proxy(tmp_path / "base", upstream.base_url) as server:
        for path in ("/v1/chat/completions", "/v1/messages/count_tokens"):
            answer = post(server.address + path, bomb, {**ANA, "content-encoding": "gzip"})
            assert answer.status_code == 413, answer.text
            assert answer.json()["error"]["type"] == "orihon_error"
        large = post(f"{server.address}/v1/chat/completions", b" " * (2 << 20), ANA)
        assert large.status_code == 413
        assert upstream.requests == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_body_that_cannot_be_read_goes_on_as_it_is(
    encoding: str, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is the upstream's to say what is wrong with it."""
    with proxy(tmp_path / "base", upstream.base_url) as server:
        for path in ("/v1/chat/completions", "/v1/responses/compact"):
            answer = post(server.address + path, b"\x1f\x8bnothing of the sort", {**ANA, "content-encoding": encoding})
            assert answer.status_code != 500
            assert upstream.requests[-1].raw == b"\x1f\x8bnothing of the sort"
    assert "Traceback" not in caplog.text


def test_an_answer_that_swells_passes_and_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets its bytes; what they swell to does not fill our memory."""
    monkeypatch.setattr(proxy_upstream, "MOST_BODY", 1 << 20)
    bomb = gzip.compress(bytes(8 << 20))
    base = tmp_path / "base"
    headers = "Content-Encoding: gzip\r\nx-orihon-view: whole\r\nx-orihon-task: of-somebody"
    with Answering(bomb, headers) as port, proxy(base, f"http://127.0.0.1:{port}") as server:
        agent = Agent("chat", server.address, ANA, is_streamed=False)
        agent.say("Hello")
        with httpx.stream(
            "POST", server.address + agent.path, json=agent.body(), headers=ANA, trust_env=False, timeout=60
        ) as answer:
            assert b"".join(answer.iter_raw()) == bomb
        # What the upstream says in our name is not passed on.
        assert answer.headers.get_list("x-orihon-task") == [str(tasks_of(base)[0].uuid)]
        assert answer.headers.get_list("x-orihon-view") == ["whole"]
        with httpx.stream("GET", f"{server.address}/v1/files", trust_env=False, timeout=60) as relayed:
            assert not [name for name in relayed.headers if name.startswith("x-orihon")]
    assert [text for text in texts_of(base, tasks_of(base)[0].uuid) if "\0" in text] == []


class Answering:
    """A server that gives everybody the same answer."""

    def __init__(self, body: bytes, headers: str) -> None:
        self._answer = (
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
            "Connection: close\r\n\r\n"
        ).encode() + body

    def __enter__(self) -> int:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        port: int = self._socket.getsockname()[1]
        return port

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            with line:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += line.recv(65536)
                before, _, rest = head.partition(b"\r\n\r\n")
                length = next(
                    (
                        int(row.split(b":")[1])
                        for row in before.lower().split(b"\r\n")
                        if row.startswith(b"content-length")
                    ),
                    0,
                )
                while len(rest) < length:
                    rest += line.recv(65536)
                line.sendall(self._answer)

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(60)
