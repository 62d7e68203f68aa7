"""From a configuration to a client: which one, where it asks, what it needs."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, TaskKey
from orihon.errors import CutOff, EmptyAnswer, InvalidSettings, NotJSON, Refused, Unreachable
from orihon.llm.base import LLMClient
from orihon.llm.clients import CLIENTS, get_llm_client
from orihon.llm.ollama import OllamaClient
from orihon.llm.openai import OpenAIClient
from orihon.llm.retry import RetryPolicy
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest
from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.upkeep.doctor import repair
from tests.helpers import refused


def client_for(provider: str, base_url: str, **section: Any) -> LLMClient:
    return get_llm_client({"llm": {"provider": provider, provider: {"base_url": base_url, **section}}})


@pytest.mark.parametrize(
    ("provider", "base_url", "wanted"),
    [
        ("openai", "http://h:1", "http://h:1/v1/chat/completions"),
        ("openai", "http://h:1/", "http://h:1/v1/chat/completions"),
        ("openai", "http://h/v1", "http://h/v1/chat/completions"),
        ("openai", "http://h/openai/v2/", "http://h/openai/v2/chat/completions"),
        ("openai", "http://h/d/chat/completions?api-version=1", "http://h/d/chat/completions?api-version=1"),
        ("lmstudio", "http://h:1234", "http://h:1234/v1/chat/completions"),
        ("ollama", "http://h:11434", "http://h:11434/api/chat"),
        ("ollama", "http://h:11434/v1", "http://h:11434/api/chat"),
        ("ollama", "http://h/proxy/api", "http://h/proxy/api/chat"),
        ("anthropic", "http://h", "http://h/v1/messages"),
        ("anthropic", "http://h/v1", "http://h/v1/messages"),
    ],
)
def test_v1_is_added_only_where_there_is_no_path(provider: str, base_url: str, wanted: str) -> None:
    assert client_for(provider, base_url)._url == wanted


def test_the_provider_decides_and_a_class_insists() -> None:
    assert {name: type(client_for(name, "http://h")) for name in CLIENTS} == CLIENTS
    insisting = OllamaClient({"llm": {"provider": "openai", "ollama": {"base_url": "http://h", "model": "m"}}})
    assert insisting.model == "m"
    with refused(InvalidSettings, "not_choice"):
        get_llm_client({"llm": {"provider": "nobody"}})


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_providers_own_hosts_need_a_key(provider: str) -> None:
    with refused(InvalidSettings, "no_api_key") as caught:
        get_llm_client({"llm": {"provider": provider}})
    assert f"{provider.upper()}_API_KEY" in str(caught.value)
    get_llm_client({"llm": {"provider": provider, provider: {"api_key": "k"}}})
    client_for(provider, "http://127.0.0.1:1")  # a server of one's own may do without


def test_the_first_designs_configuration_is_understood(tmp_path: Path) -> None:
    section = {
        "base_url": "http://h",
        "context_length": 9000,
        "context_dir": tmp_path / "task",
        "compression_threshold": 0.6,
        "max_memory_messages": 7,
    }
    client = get_llm_client({"llm": {"provider": "openai", "openai": section}}, [{"name": "f"}], [{"name": "g"}])
    assert client.message_store is not None
    assert client.message_store.context_dir == tmp_path / "task"
    assert client.message_store.max_memory_messages == 7
    assert client.settings.compression.threshold == 0.6
    assert [tool.name for tool in client.tools] == ["f", "g"]
    assert client.context_length == 9000
    client.message_store.close()


def test_settings_and_tasks_are_taken_over(tmp_path: Path) -> None:
    settings = load_settings({"llm": {"provider": "ollama", "ollama": {"base_url": "http://h", "model": "m"}}})
    assert type(get_llm_client(settings)) is OllamaClient
    task = TaskContextManager(tmp_path, TaskKey("local", "me", "r", "issue", "1", "me"), settings)
    client = get_llm_client(task_ctx=task)
    assert type(client) is OllamaClient
    assert client.message_store is task.message_store
    task.change_model("larger", 64_000)
    assert (client.model, client.context_length) == ("larger", 64_000)
    task.complete()
    task.catalogue.close()


def test_ollama_is_told_its_window() -> None:
    with ScriptedModel([Reply("ok")]) as model:
        client = client_for("ollama", model.base_url, context_length=12_345, max_token=99)
        client.send_user_message("hi")
        client.get_response()
        client.close()
        assert model.requests[0].body["options"] == {"num_ctx": 12_345, "num_predict": 99}


@pytest.mark.parametrize(
    ("model", "temperature", "sent"), [("gpt-4o", 0.0, True), ("gpt-5-mini", 0.0, False), ("o3", 0.0, False)]
)
def test_models_that_choose_their_temperature_are_not_told_one(model: str, temperature: float, sent: bool) -> None:
    with ScriptedModel([Reply("ok")]) as server:
        client = client_for("openai", server.base_url, model=model)
        client.create_chat_completion([{"role": "user", "content": "x"}], max_tokens=5, temperature=temperature)
        client.close()
        assert ("temperature" in server.requests[0].body) is sent
        assert server.requests[0].body["max_tokens"] == 5


def test_a_password_in_the_address_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    quick = RetryPolicy(retries=0)
    with ScriptedModel([Reply("ok")]) as model:
        address = model.base_url.replace("http://", "http://anna:p%40ss@")
        client = OpenAIClient({"llm": {"openai": {"base_url": address}}}, retry=quick)
        client.send_user_message("hi")
        client.get_response()
        assert model.requests[0].headers["authorization"] == "Basic YW5uYTpwQHNz"
        model.close()
        client.send_user_message("again")
        with refused(Unreachable, "connection") as caught:
            client.get_response()
        client.close()
    for secret in ("p@ss", "p%40ss", "YW5uYTpwQHNz"):
        assert secret not in f"{caught.value}{caught.value.fields}"
        assert secret not in caplog.text


def test_a_key_from_a_file_loses_its_line_feed() -> None:
    with ScriptedModel([Reply("ok")]) as model:
        client = client_for("openai", model.base_url, api_key=" sk-from-a-file\r\n")
        client.send_user_message("hi")
        client.get_response()
        client.close()
        assert model.requests[0].headers["authorization"] == "Bearer sk-from-a-file"


@pytest.mark.parametrize("key", ["sk-SECRET\0KEY", "sk-SECRET–KEY", "sk-SECRET\r\nX-Evil: 1"])
@pytest.mark.parametrize("provider", CLIENTS)
def test_a_key_that_no_header_can_hold_is_refused_and_not_quoted(provider: str, key: str) -> None:
    with refused(InvalidSettings, "odd_api_key") as caught:
        client_for(provider, "http://h", api_key=key)
    assert "SECRET" not in f"{caught.value}{caught.value.fields}"


def test_a_secret_in_the_query_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = Fault(400, {"error": {"message": "wrong: key=QUERY%20SECRET, that is QUERY SECRET"}})
    with ScriptedModel([Reply("ok"), echo]) as model:
        client = client_for("openai", f"{model.base_url}?key=QUERY%20SECRET&v=1")
        client.send_user_message("hi")
        client.get_response()
        with refused(Refused, "status") as caught:
            client.get_response()
        client.close()
        assert all("QUERY%20SECRET" in request.path for request in model.requests)
    assert "SECRET" not in f"{caught.value}{caught.value.fields}"
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("stream", [True, False])
def test_calls_without_a_name_are_not_a_final_answer(stream: bool) -> None:
    call = {"id": "c", "index": 0, "type": "function", "function": {"arguments": "{}"}}
    message = {"content": "I will now write the file.", "tool_calls": [call]}
    choice = {"delta" if stream else "message": message, "finish_reason": "tool_calls"}
    body = jsonio.encode({"choices": [choice]})
    kind = "text/event-stream" if stream else "application/json"
    fault = Fault(200, b"data: " + body + b"\n\n" if stream else body, content_type=kind)
    with ScriptedModel([fault, Reply("done")]) as model:
        client = OpenAIClient({"llm": {"openai": {"base_url": model.base_url}}}, retry=RetryPolicy(retries=0))
        client.send_user_message("hi")
        with refused(EmptyAnswer, "nothing"):
            client.get_response()
        assert [message["role"] for message in client.messages] == ["user"]
        client.close()


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("provider", CLIENTS)
def test_a_connection_that_ends_in_the_middle_is_cut_off(provider: str, length: bool) -> None:
    """Without a length only the missing end tells."""
    body = b'{"message": {"content": "ab'
    counted = b"Content-Length: %d\r\n" % len(body) if length else b""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n" + counted + b"\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while not connection.recv(1 << 16).rstrip().endswith(b"}"):
                    pass
                connection.sendall(head + body)

        thread = threading.Thread(target=answer)
        thread.start()
        client = client_for(provider, f"http://127.0.0.1:{server.getsockname()[1]}")
        client.send_user_message("hi")
        with refused(*((NotJSON, "answer") if length else (CutOff, "unfinished"))):
            client.get_response()
        thread.join()
        client.close()


def test_anthropic_may_send_the_whole_input_at_once() -> None:
    block = {"type": "tool_use", "id": "a", "name": "x", "input": {"p": 1}}
    sent = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"data: " + jsonio.encode(event) + b"\n\n" for event in sent)
    with ScriptedModel([Fault(200, body, content_type="text/event-stream")]) as model:
        client = client_for("anthropic", model.base_url)
        client.send_user_message("hi")
        assert client.get_response() == ("", [{"id": "a", "name": "x", "arguments": '{"p":1}'}])
        client.close()


def test_an_error_of_anthropic_with_a_good_status_is_a_refusal() -> None:
    error = {"type": "error", "error": {"type": "authentication_error", "message": "no"}}
    with ScriptedModel([Fault(200, error)]) as model:
        client = client_for("anthropic", model.base_url)
        client.send_user_message("hi")
        with refused(Refused, "key"):
            client.get_response()
        client.close()


def test_the_key_is_not_in_the_request_file(tmp_path: Path) -> None:
    seen: list[bytes] = []
    folder = tmp_path / "task"

    def script(_: ScriptedRequest) -> Reply:
        seen.append((folder / "request.json").read_bytes())
        return Reply("ok")

    with ScriptedModel(script) as model:
        section = {"base_url": model.base_url, "api_key": "key-0123456789"}
        client = get_llm_client({"llm": {"openai": section}}, context_dir=folder)
        client.send_user_message("hi")
        client.get_response()
        client.close()
    assert len(seen) == 1
    assert b"hi" in seen[0]
    assert b"key-0123456789" not in seen[0]


def test_the_sqlite_back_end_serves_as_well(tmp_path: Path) -> None:
    with ScriptedModel([Reply(calls=[("read", {})]), Reply("done")]) as model:
        config = {"context_storage": {"backend": "sqlite"}, "llm": {"openai": {"base_url": model.base_url}}}
        client = OpenAIClient(config, None, [{"name": "read"}], tmp_path / "task")
        client.send_user_message("hi")
        client.get_response()
        client.send_function_result("read", "1")
        assert client.get_response() == ("done", [])
        assert [message["role"] for message in model.requests[1].body["messages"]] == ["user", "assistant", "tool"]
        client.close()
        assert client.message_store is not None
        client.message_store.close()


def test_nothing_heavy_is_loaded_before_the_first_call() -> None:
    program = "import sys, orihon.llm.clients; print([name for name in ('httpx', 'ssl') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_connection_does_not_load_the_command_line_of_the_http_library() -> None:
    program = (
        "import sys; from orihon.drivers.http_line import Line, load\n"
        "Line((False, True), allow_metadata=False); load()\n"
        "print([name for name in ('httpx._main', 'click', 'pygments', 'rich') if name in sys.modules])\n"
        "import httpx._main; print(httpx._main.main.name)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[0] == "[]"
    assert found.stdout.splitlines()[1] == "main", "whoever wants it has it"


def test_a_request_that_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    program = """
import sys, os, threading
from orihon import TaskContextManager, TaskKey
from orihon.llm.clients import get_llm_client
from orihon.llm.scripted import ScriptedModel

def kill(request):
    os.kill(os.getpid(), 9)

with ScriptedModel(kill) as model:
    config = {"llm": {"openai": {"base_url": model.base_url}}}
    task = TaskContextManager(sys.argv[1], TaskKey("local", "me", "r", "issue", "1", "me"), config, uuid="one")
    client = get_llm_client(task_ctx=task)
    client.send_user_message("hi")
    client.get_response()
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    left = tmp_path / "running" / "one" / "request.json"
    assert left.exists()
    settings = load_settings({})
    assert "request" in [finding.detail for finding in verify(OpenBase(tmp_path, settings), "one")]
    repair(OpenBase(tmp_path, settings))
    assert not left.exists()
    with TaskContextManager.resume(tmp_path, "one") as task:
        assert task.message_store.count_messages() == 1
