"""Secrets in what names things: keys of tasks, files that are imported, grants, servers, addresses in the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, import_transcripts, list_grants, new_grant
from orihon.errors import InvalidInput
from orihon.guard import Redactor
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.settings.in_force import settings_as_dict
from orihon.store.factory import make_redactor
from orihon.values.task import TaskKey
from tests.acceptance.test_cli import run
from tests.helpers import refused
from tests.integration.test_canary import TOKEN, config

__all__ = ["config"]

FIELDS = ("task_source", "owner", "repo", "task_type", "task_id", "user")


def leaking(base: Path, secret: str) -> list[str]:
    """The files below ``base`` that have the secret."""
    files = (path for path in sorted(base.rglob("*")) if path.is_file())
    return [str(path.relative_to(base)) for path in files if secret.encode() in path.read_bytes()]


def key_with(field: str) -> TaskKey:
    plain = {"task_source": "s", "owner": "o", "repo": "r", "task_type": "t", "task_id": "1"}
    return TaskKey(**{**plain, field: f"x-{TOKEN}"})


@pytest.mark.parametrize("field", FIELDS)
def test_a_key_with_a_secret_is_refused_and_written_nowhere(tmp_path: Path, config: dict[str, Any], field: str) -> None:
    settings = load_settings(config, environ={})
    queue = TaskQueue(tmp_path, settings)
    with refused(InvalidInput, "secret_in_key") as caught:
        queue.enqueue(key_with(field), prompt="go")
    assert TOKEN not in str(caught.value)
    assert field in str(caught.value)
    with refused(InvalidInput, "secret_in_key"):
        TaskContextManager(tmp_path, key_with(field), settings)
    assert queue.catalogue.tasks.page() == []
    queue.close()
    assert leaking(tmp_path, TOKEN) == []


def test_a_key_with_a_secret_is_taken_where_nothing_is_masked(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path, load_settings({"masking": {"enabled": False}}, environ={}))
    assert queue.enqueue(key_with("task_id"), prompt="go")
    queue.close()


def test_an_ordinary_key_is_taken_though_addresses_are_masked(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path, load_settings({"masking": {"email": True}}, environ={}))
    key = TaskKey("github", "own", "repo", "issue", "27", user="ann@example.org")
    assert queue.enqueue(key, prompt="go")
    queue.close()


def test_a_secret_in_the_name_of_an_imported_file_stays_outside(tmp_path: Path, config: dict[str, Any]) -> None:
    base, transcript = tmp_path / "base", tmp_path / f"chat-{TOKEN}.jsonl"
    transcript.write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n", encoding="utf-8")
    settings = load_settings(config, environ={})
    import_transcripts(base, settings, [transcript])
    queue = TaskQueue(base, settings)
    [row] = queue.catalogue.tasks.page()
    queue.close()
    assert "[GITHUB_TOKEN]#" in row.task_id
    assert leaking(base, TOKEN) == []
    again = import_transcripts(base, settings, [transcript])
    assert (again.imported, again.unchanged) == (0, 1)


def test_the_name_of_a_grant_is_masked(tmp_path: Path, config: dict[str, Any]) -> None:
    settings = load_settings(config, environ={})
    new_grant(tmp_path, settings, user="ann", role="read", name=f"for {TOKEN}")
    [grant] = list_grants(tmp_path, settings)
    assert grant.name.startswith("for [GITHUB_TOKEN]#")
    assert leaking(tmp_path, TOKEN) == []


@pytest.mark.parametrize("more", [[], ["-vv"]])
def test_errors_on_the_screen_quote_no_secret(tmp_path: Path, more: list[str]) -> None:
    """A worker's screen is a journal on the disk."""
    with TaskContextManager(tmp_path, TaskKey("s", "o", "r", "t", "1"), load_settings(None, environ={})) as context:
        context.message_store.add_message("user", "hello")
    for command in (["show", TOKEN], ["list", "--since", TOKEN], ["list", "--status", TOKEN]):
        ended = run(*more, "--base-dir", tmp_path, *command)
        assert ended.code == 2
        assert TOKEN not in ended.out + ended.err, command
        assert "[GITHUB_TOKEN]#" in ended.err


SERVERS = {
    "local": {
        "command": "npx",
        "args": ["@acme/server-x1"],
        "env": {"ACME_TOKEN": "zq7Fh2Lk9Pw4", "LOG_LEVEL": "debug12"},
    },
    "far": {
        "url": "https://mcp.example/x",
        "headers": {"Authorization": "Bearer Xy12Zw34Qv56", "X-Team": "core-team"},
    },
}


def guard_of(tmp_path: Path, sections: dict[str, Any]) -> tuple[Settings, Redactor]:
    settings = load_settings(sections, environ={})
    return settings, make_redactor(settings, tmp_path)


def test_keys_that_servers_of_tools_are_given_are_known(tmp_path: Path) -> None:
    _, redactor = guard_of(tmp_path, {"mcp_servers": SERVERS})
    assert "zq7Fh2Lk9Pw4" not in redactor.mask("it printed zq7Fh2Lk9Pw4 there")
    assert "Xy12Zw34Qv56" not in redactor.mask("got Xy12Zw34Qv56 back")
    plain = "npx @acme/server-x1 of core-team at debug12"
    assert redactor.mask(plain) is plain


@pytest.mark.parametrize("odd", [None, "ACME_TOKEN=x", ["x"], {"ACME_TOKEN": None}, {"ACME_TOKEN": 12345678}])
def test_an_odd_table_of_a_server_keeps_nobody_from_other_work(tmp_path: Path, odd: object) -> None:
    """``env:`` with nothing behind it is legal, and a wrong one is refused where the server is started."""
    servers = {"local": {"command": "npx", "env": odd}, "far": {"url": "https://mcp.example/x", "headers": odd}}
    _, redactor = guard_of(tmp_path, {"mcp_servers": servers})
    assert redactor.mask("hello") == "hello"


ADDRESSES = {
    "llm.openai.base_url": "https://me:Pa55wordXy@llm.example/v1",
    "tracing.endpoint": "https://me:Pa55wordXy@otel.example",
}


@pytest.mark.parametrize("key", ADDRESSES)
def test_a_password_in_an_address_of_the_settings_is_not_shown(tmp_path: Path, key: str) -> None:
    settings = load_settings(None, environ={}).replace(**{key: ADDRESSES[key]})
    told = json.dumps(settings_as_dict(settings, None))
    assert "Pa55wordXy" not in told
    assert ADDRESSES[key].partition("@")[2] in told
    assert settings.get(key) == ADDRESSES[key]
    redactor = make_redactor(settings, tmp_path)
    assert "Pa55wordXy" not in redactor.mask("it printed Pa55wordXy there")


def test_what_a_server_of_tools_says_before_it_dies_is_told_without_its_key(tmp_path: Path) -> None:
    server = {"command": "sh", "args": ["-c", "echo my key is $ACME_TOKEN >&2; exit 3"]}
    written = {
        "mcp_servers": {"bad": {**server, "env": {"ACME_TOKEN": "Qv56Xy12Zw34Rt"}}},
        "logging": {"file": str(tmp_path / "orihon.log"), "level": "DEBUG"},
    }
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(written), encoding="utf-8")
    ended = run("-vv", "--config", config, "--base-dir", tmp_path / "base", "tools")
    assert "could not be started" in ended.err
    assert "Qv56Xy12Zw34Rt" not in ended.out + ended.err
    config.unlink()
    assert leaking(tmp_path, "Qv56Xy12Zw34Rt") == []
