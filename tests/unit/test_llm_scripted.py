"""The scripted model does what its script says; tests of everything else rely on it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from orihon.llm.scripted import Fault, Reply, ScriptedModel, Slow


def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


PATHS = {"openai": "/v1/chat/completions", "ollama": "/api/chat", "anthropic": "/v1/messages"}


@pytest.mark.parametrize(("dialect", "path"), PATHS.items())
def test_a_reply_in_every_dialect(dialect: str, path: str) -> None:
    reply = Reply("hello there", calls=[("read", {"p": 1})], usage={"input": 3, "output": 2, "cached": 1})
    with ScriptedModel([reply, reply]) as model:
        status, whole = post(model.base_url + path, {"model": "m", "stream": False})
        _, streamed = post(model.base_url + path, {"model": "m", "stream": True})
        assert status == 200
        assert b"hello there" in whole
        assert json.loads(whole)["model"] == "m"
        assert b"hello there" not in streamed
        assert b"hello th" in streamed
        assert [request.dialect for request in model.requests] == [dialect] * 2
        assert [request.number for request in model.requests] == [1, 2]


def test_steps_end_functions_are_asked_and_more_can_be_added() -> None:
    with ScriptedModel([lambda request: Slow(0.01, lambda _: Reply(f"n{request.number}"))]) as model:
        url = model.base_url + PATHS["ollama"]
        assert b"n1" in post(url, {"stream": False})[1]
        assert post(url, {})[0] == 410
        model.add(Fault(418, "tea", {"X-Pot": "1"}))
        assert post(url, {}) == (418, b"tea")
        assert post(model.base_url + "/elsewhere", {})[0] == 404


def test_bodies_need_not_be_kept() -> None:
    with ScriptedModel([Reply("ok")], keep_bodies=False) as model:
        assert post(model.base_url + PATHS["anthropic"], {"x": "y" * 200_000})[0] == 200
        assert model.requests[0].body is None
        assert model.requests[0].size > 200_000


def test_ids_are_never_used_twice() -> None:
    reply = Reply(calls=[("a", {}), ("b", {})])
    with ScriptedModel([reply, reply]) as model:
        url = model.base_url + PATHS["openai"]
        answers = [json.loads(post(url, {})[1]) for _ in range(2)]
        ids = [call["id"] for answer in answers for call in answer["choices"][0]["message"]["tool_calls"]]
        assert ids == ["call_1", "call_2", "call_3", "call_4"]
