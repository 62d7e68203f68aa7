"""One HTTP request, over real connections."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import httpx
import pytest

from orihon.drivers import http
from orihon.drivers.http import shown_url
from orihon.errors import Cancelled, NotJSON, StorageUnavailable, Unreachable
from orihon.llm.openai import OpenAIClient
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep, Slow
from orihon.llm.transport import CancellableCall, Transport
from tests.helpers import refused

PATH = "/v1/chat/completions"


def test_a_file_goes_out_whole(tmp_path: Path) -> None:
    body = tmp_path / "request.json"
    body.write_bytes(b'{"stream": false, "text": "%s"}' % (b"x" * 500_000))
    with ScriptedModel([Reply("ok"), Reply("ok")]) as model:
        over = Transport()
        for _ in range(2):
            with over.post_file(model.base_url + PATH, {"X-Test": "1"}, body) as response:
                assert response.status == 200
                assert b'"ok"' in response.read()
        over.close()
        assert [request.size for request in model.requests] == [body.stat().st_size] * 2
        assert model.requests[0].body["text"] == "x" * 500_000
        assert model.requests[0].headers["x-test"] == "1"
        assert model.requests[0].headers["accept-encoding"] == "identity"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refused(StorageUnavailable, "io"), Transport().post_file("http://127.0.0.1:9/", {}, tmp_path / "none"):
        pytest.fail("there is nothing to send")


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/x", "http://127.0.0.1:port/x"])
def test_a_port_that_cannot_be_is_named(url: str) -> None:
    with refused(Unreachable, "url"), Transport().post_file(url, {}, b"{}"):
        pytest.fail("there is nobody")


@pytest.mark.parametrize("url", ["http://[::1", "http://me:pa55w0rd@x]/v1", "http://me:pa55w0rd@\u2100.example"])
def test_what_cannot_be_an_address_is_refused_and_not_quoted(url: str) -> None:
    with refused(Unreachable, "url") as caught:
        OpenAIClient({"llm": {"openai": {"base_url": url, "api_key": "k"}}})
    assert "pa55w0rd" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert shown_url(url) == "?"
    with refused(Unreachable, "url"), Transport().post_file(url, {}, b"{}"):
        pytest.fail("there is nobody")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_end_as_they_like_wherever_a_block_ends(end: bytes, size: int) -> None:
    body = end.join([b"one", b"", b"two", b"", b"", b"last"])
    blocks = [body[at : at + size] for at in range(0, len(body), size)]
    response = http.Response(httpx.Response(200, content=iter(blocks)))
    assert list(response.lines()) == [b"one", b"", b"two", b"", b"", b"last"]


@pytest.mark.parametrize("url", ["http://", "nonsense", "http://127.0.0.1:9/x"])
def test_an_address_where_nobody_is(url: str) -> None:
    with pytest.raises(Unreachable) as caught, Transport().post_file(url, {}, b"{}"):
        pytest.fail("there is nobody")
    assert caught.value.cause


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_ANSWER", 1000)
    with ScriptedModel([Fault(200, "x" * 5000)]) as model:
        over = Transport()
        with refused(NotJSON, "too_large"), over.post_file(model.base_url + PATH, {}, b"{}") as response:
            response.read()


def test_calls_at_the_same_time_do_not_wait_for_each_other() -> None:
    first = threading.Event()

    def script(request: ScriptedRequest) -> ScriptStep:
        if request.number == 1:
            first.set()
            return Slow(600)
        return Reply("quick")

    with ScriptedModel(script) as model:
        over, slow = Transport(), CancellableCall()
        ended: list[type[BaseException]] = []

        def ask() -> None:
            try:
                with over.post_file(model.base_url + PATH, {}, b"{}", slow):
                    pass
            except Cancelled as error:
                ended.append(type(error))

        thread = threading.Thread(target=ask)
        thread.start()
        assert first.wait(60)
        with over.post_file(model.base_url + PATH, {}, b"{}") as response:
            assert b"quick" in response.read()
        slow.cancel()
        thread.join(60)
        assert ended == [Cancelled]
        over.close()


def test_a_call_that_is_cancelled_already_does_not_begin() -> None:
    call = CancellableCall()
    call.cancel()
    with ScriptedModel([Reply("ok")]) as model:
        with refused(Cancelled, "by_caller"), Transport().post_file(model.base_url + PATH, {}, b"{}", call):
            pass
        assert model.requests == []
    began = time.monotonic()
    with refused(Cancelled, "by_caller"):
        call.pause(600)
    assert time.monotonic() - began < 300


class CancelledWhileConnecting(CancellableCall):
    """Somebody cancels when there is no connection yet that could be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.checks == 2:
            self._cancelled.set()
        super().check()


def test_a_call_that_is_cancelled_while_it_connects_sends_nothing() -> None:
    with ScriptedModel([Reply("ok")]) as model:
        call = CancelledWhileConnecting()
        with refused(Cancelled, "by_caller"), Transport().post_file(model.base_url + PATH, {}, b"{}", call):
            pass
        assert model.requests == []


def test_a_fork_opens_connections_of_its_own() -> None:
    with ScriptedModel(lambda _: Reply("ok")) as model:
        over = Transport()
        for _ in range(2):
            with over.post_file(model.base_url + PATH, {}, b"{}") as response:
                response.read()
        client = over._client
        line = client._take(model.base_url + PATH)
        client._idle.append(line)
        client._pid = os.getppid()  # as it looks after a fork
        assert client._take(model.base_url + PATH) is not line
        line.close()


def test_secrets_are_not_shown_in_addresses() -> None:
    assert shown_url("https://anna:secret@host:8443/v1/x?key=abc#d") == "https://host:8443/v1/x"
