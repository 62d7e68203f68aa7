"""Settings of users from a service, which may be away, wrong or hostile."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from orihon import Settings, Task, TaskKey, load_settings
from orihon.runtime import user_config
from orihon.runtime.user_config import UserConfigAPI, fetch_user_config

KEY = TaskKey("github", "o", "r", "issue", "1")
BASE = {"llm": {"openai": {"model": "base", "api_key": "operators"}}}


@dataclass
class Service:
    """A real one on loopback, that answers as it is told."""

    url: str = ""
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[tuple[str, str | None]] = field(default_factory=list)

    def answers(self, value: object) -> None:
        self.status, self.body = 200, json.dumps(value).encode()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    described = Service()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            described.seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(described.status)
            for name, value in described.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(described.body)))
            self.end_headers()
            self.wfile.write(described.body)

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    described.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("USE_USER_CONFIG_API", "true")
    monkeypatch.setenv("USER_CONFIG_API_URL", described.url)
    monkeypatch.setenv("USER_CONFIG_API_KEY", "token")
    # A busy machine is neither slow to answer nor long in asking again.
    monkeypatch.setattr(user_config, "_TIMEOUT", 120.0)
    monkeypatch.setattr(user_config, "_FAILURE_KEPT_SECONDS", 3600.0)
    user_config._kept.clear()
    yield described
    server.shutdown()
    thread.join()
    server.server_close()


def fetched(user: str = "hanako") -> Settings:
    return fetch_user_config(Task(KEY, user), load_settings(BASE))


def forget_age() -> None:
    for kept in user_config._kept.values():
        kept.until = 0.0


def test_it_is_off_by_default(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("USE_USER_CONFIG_API")
    assert fetched() == load_settings(BASE)
    monkeypatch.setenv("USE_USER_CONFIG_API", "true")
    assert fetched("") == load_settings(BASE)
    assert service.seen == []


def test_a_user_has_another_model_and_is_asked_for_once(service: Service) -> None:
    service.answers({"status": "success", "data": {"llm": {"openai": {"model": "theirs"}}, "others": {"a": 1}}})
    assert [fetched().model, fetched().model] == ["theirs", "theirs"]
    assert service.seen == [("/config/github/hanako", "Bearer token")]
    assert fetched().llm.openai.api_key == "operators"
    service.answers({"language": "ja"})
    assert (fetched("花子/../x").language, service.seen[-1][0]) == ("ja", "/config/github/%E8%8A%B1%E5%AD%90%2F..%2Fx")


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (401, b"{}"), (200, b"<html>"), (200, b"[1]"), (200, b'{"llm": {"openai": "' + b"x" * 2**20 + b'"}}')],
)
def test_the_last_good_answer_or_our_own_settings_stand_in(service: Service, status: int, body: bytes) -> None:
    service.status, service.body = status, body
    assert fetched() == load_settings(BASE)
    assert fetched() == load_settings(BASE)
    assert len(service.seen) == 1  # a service in trouble is not asked for every task
    forget_age()
    service.answers({"llm": {"openai": {"model": "theirs"}}})
    assert fetched().model == "theirs"
    forget_age()
    service.status, service.body = status, body
    assert fetched().model == "theirs"


def test_a_service_that_is_away_stops_no_task(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_CONFIG_API_URL", "http://127.0.0.1:1")
    assert fetched() == load_settings(BASE)
    monkeypatch.setenv("USER_CONFIG_API_URL", "no address")
    assert fetched() == load_settings(BASE)


def test_an_unknown_user_and_wrong_values_mean_our_own_settings(service: Service) -> None:
    service.status = 404
    assert fetched() == load_settings(BASE)
    service.answers({"llm": {"openai": {"context_length": "many"}}})
    assert fetched("taro") == load_settings(BASE)


def test_redirects_are_not_followed(service: Service) -> None:
    service.status, service.headers = 302, {"Location": f"{service.url}/elsewhere"}
    assert fetched() == load_settings(BASE)
    assert [path for path, _ in service.seen] == ["/config/github/hanako"]


def test_a_user_reaches_neither_the_operators_key_nor_other_settings(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hidden")
    service.answers(
        {
            "llm": {"openai": {"base_url": "http://evil.example/${SECRET}"}, "allow_metadata": True},
            "masking": {"enabled": False},
            "context_storage": {"base_dir": "/etc"},
            "notifications": {"webhook": "http://evil.example"},
            "logging": {"file": "/tmp/x"},
        }
    )
    found = fetched()
    assert (found.llm.openai.base_url, found.llm.openai.api_key) == ("http://evil.example/${SECRET}", None)
    assert found.llm.allow_metadata is False
    own = load_settings(BASE)
    assert (found.masking, found.context_storage, found.notifications, found.logging) == (
        own.masking,
        own.context_storage,
        own.notifications,
        own.logging,
    )
    service.answers({"llm": {"openai": {"base_url": "http://theirs.example", "api_key": "their own"}}})
    assert fetched("taro").llm.openai.api_key == "their own"


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(UserConfigAPI("http://x", "secret"))


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "]
)
def test_a_service_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    over = threading.Event()
    monkeypatch.setattr(user_config, "_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(head)
                while not over.wait(0.05):
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        monkeypatch.setenv("USE_USER_CONFIG_API", "true")
        monkeypatch.setenv("USER_CONFIG_API_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        user_config._kept.clear()
        settings = load_settings(BASE)
        assert fetch_user_config(Task(KEY, "anna"), settings) == settings
        over.set()
        thread.join()
