"""Kept answers: the same request, no second call; private, bounded, forgotten in time."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from orihon.guard.masking.redaction import Redactor
from orihon.llm.answers import ModelAnswer
from orihon.llm.openai import OpenAIClient
from orihon.llm.response_cache import ResponseCache
from orihon.llm.scripted import Reply, ScriptedModel

ANSWER = ModelAnswer(
    "text 日本", ({"id": "c", "name": "read", "arguments": "{}"},), {"prompt_tokens": 9}, "stop", {"reasoning": "r"}
)

PLAIN = Redactor(b"key")
SECRET = "ghp_" + "a1B2c3D4e5" * 4


def test_an_answer_comes_back_without_its_usage(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache")
    key = cache.key("http://a", b"{}")
    assert cache.get(key) is None
    cache.put(key, ANSWER, PLAIN)
    kept = cache.get(key)
    assert kept == ModelAnswer(
        ANSWER.text, ANSWER.calls, {}, ANSWER.finish, ANSWER.fields
    )  # nothing was used this time
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()} == {0o600}


def test_the_key_is_every_byte_and_the_address(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "cache")
    body = tmp_path / "request.json"
    body.write_bytes(b"x" * 200_000)
    assert cache.key("u", body) == cache.key("u", b"x" * 200_000)
    assert len({cache.key("u", b"x"), cache.key("u", b"y"), cache.key("v", b"x"), cache.key("", b"ux")}) == 4


def test_old_and_damaged_answers_are_not_there(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path, ttl=-1)
    cache.put("a", ANSWER, PLAIN)
    assert cache.get("a") is None
    fresh = ResponseCache(tmp_path)
    for damage in (b"", b"{", b"[]", b'{"made_at": "x"}', b'{"made_at": 99999999999999}'):
        (tmp_path / "b.json").write_bytes(damage)
        assert fresh.get("b") is None
        assert not (tmp_path / "b.json").exists()


def test_the_oldest_go(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path, max_entries=3)
    for number in range(6):
        cache.put(str(number), ANSWER, PLAIN)
    assert len(list(tmp_path.iterdir())) == 3
    assert cache.get("5") is not None


def test_a_full_disk_does_not_fail_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = ResponseCache(tmp_path / "cache")
    (tmp_path / "cache").rmdir()
    cache.put("a", ANSWER, PLAIN)
    assert "could not be kept" in caplog.text


def test_a_client_asks_once(tmp_path: Path) -> None:
    with ScriptedModel([Reply("first", calls=[("read", {})])]) as model:
        config = {"llm": {"openai": {"base_url": model.base_url}}}
        cache = ResponseCache(tmp_path / "cache")
        seen: list[str] = []
        for name in ("a", "b"):
            client = OpenAIClient(config, context_dir=tmp_path / name, cache=cache)
            client.send_user_message("the same")
            text, calls = client.get_response(on_text=seen.append)
            assert (text, len(calls)) == ("first", 1)
            client.close()
        assert "".join(seen) == "firstfirst"
        assert len(model.requests) == 1


@pytest.mark.parametrize("stored", [True, False])
def test_an_answer_with_a_secret_is_not_kept(tmp_path: Path, stored: bool) -> None:
    with ScriptedModel([Reply("ok", calls=[("login", {"token": SECRET})])]) as model:
        config = {"context_storage": {"enabled": stored}, "llm": {"openai": {"base_url": model.base_url}}}
        client = OpenAIClient(config, context_dir=tmp_path / "task", cache=ResponseCache(tmp_path / "cache"))
        client.send_user_message("log in")
        _, (call,) = client.get_response()
        assert SECRET in call["arguments"]  # the tool gets it
        client.close()
    assert list((tmp_path / "cache").iterdir()) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
