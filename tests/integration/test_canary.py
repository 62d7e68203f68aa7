"""Canaries: one secret of every kind goes into every sink, and afterwards no file, row or message has one of them."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, export_task, import_transcripts, search_history
from orihon.errors import OrihonError
from orihon.guard.logs import configure
from orihon.llm.openai import OpenAIClient
from orihon.llm.response_cache import ResponseCache
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptStep
from orihon.runtime.queue import TaskQueue
from orihon.settings import load_settings
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold

KEY = TaskKey("test", "a", "b", "issue", "1")
TOKEN = "ghp_" + "a1B2" * 9
HIDDEN = "ghp_" + "c3D4" * 9
BASIC = b64encode(b"me:canaryBasic66").decode()
# Kind, as it is said, and what must not be found afterwards.
CANARIES = {
    "provider": (f"use {TOKEN} now", TOKEN),
    "anthropic": ("key sk-ant-api03-" + "Ab3_" * 12, "Ab3_Ab3_"),
    "assignment": ("DB_PASSWORD=canary-Pw-4711", "canary-Pw-4711"),
    "json": ('{"password": "canaryJson77"}', "canaryJson77"),
    "said": ("the password is canarySaid88!", "canarySaid88"),
    "japanese": ("パスワードはcanaryJa99です", "canaryJa99"),
    "url": ("postgres://app:canaryUrl55@db/x", "canaryUrl55"),
    "basic": (
        "Authorization: Basic " + b64encode(b"me:canaryBasic66").decode(),
        b64encode(b"me:canaryBasic66").decode(),
    ),
    "cookie": ("Cookie: session=canaryCookie1234567", "canaryCookie1234567"),
    "invisible": (f"x {HIDDEN[:9]}\u200b{HIDDEN[9:]} y", HIDDEN[9:]),
    "base64": (b64encode(b"password=canaryEnc333").decode(), b64encode(b"password=canaryEnc333").decode()[:24]),
    "pem": ("-----BEGIN PRIVATE " + "KEY-----\n" + "canaryPem0" * 6 + "\n-----END PRIVATE " + "KEY-----", "canaryPem0"),
}
ALL = "\n".join(said for said, _ in CANARIES.values())


@pytest.fixture(params=["files", "sqlite", "postgres"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    config: dict[str, Any] = {"context_storage": {"backend": request.param, "blob_bytes": 4096}}
    if request.param == "postgres":
        config["database"] = request.getfixturevalue("emptied_postgres").settings
    return config


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    configure("DEBUG", tmp_path / "agent.log", screen="CRITICAL")
    yield tmp_path / "agent.log"
    configure("WARNING")


def found_in(base: Path, config: dict[str, Any]) -> dict[str, list[str]]:
    """The canaries that are alive, and where: files below ``base``, rows of the database."""
    contents = {str(path): path.read_bytes() for path in base.rglob("*") if path.is_file()}
    if "database" in config:
        import psycopg

        schema = config["database"]["schema"]
        with psycopg.connect(config["database"]["url"]) as connection:
            named = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
            for (table,) in connection.execute(named, (schema,)).fetchall():
                rows = connection.execute(f'SELECT t::text FROM "{schema}"."{table}" t').fetchall()
                contents[table] = "\n".join(row for (row,) in rows).encode()
    alive = {
        kind: [place for place, data in contents.items() if secret.encode() in data]
        for kind, (_, secret) in CANARIES.items()
    }
    return {kind: places for kind, places in alive.items() if places}


def fill(context: TaskContextManager) -> None:
    """Every store of a task."""
    store = context.message_store
    store.add_message("system", ALL)
    for said, _ in CANARIES.values():
        store.add_message("user", said)
    call = {"id": "c1", "type": "function", "function": {"name": "login", "arguments": json.dumps({"text": ALL})}}
    store.add_message("assistant", None, tool_calls=[call], reasoning=ALL)
    store.add_message("tool", ALL, "login", tool_call_id="c1")
    store.add_message("user", ALL + " long" * 2000)
    store.folding.compress([PlannedFold(2, 6, ALL, reason=ALL)], trigger=ALL, made_by=ALL)
    context.tool_store.add_tool_call("curl", {"text": ALL, "password": "canaryJson77"}, {"body": ALL}, ALL)
    context.planning_store.add_plan(ALL, {"steps": [ALL]})
    context.summary_store.add_summary(ALL, 3, 100)
    context.checkpoints.begin_phase("planning")
    context.outbox.add("canary", "info", context.uuid, {"text": ALL, "password": "canaryJson77"})
    logging.getLogger("orihon.test").error("it said %s", ALL)
    context.fail(ALL)


def ask(context_dir: Path, config: dict[str, Any], cache: Path) -> None:
    """A model that says secrets in pieces, and a server that quotes them in its errors."""
    script: list[ScriptStep] = [Reply(ALL, calls=[("login", {"text": ALL})]), Fault(400, {"error": {"message": ALL}})]
    with ScriptedModel(script) as model:
        llm = {"llm": {"openai": {"base_url": model.base_url, "api_key": "zz-canaryApiKey-1234567"}}}
        client = OpenAIClient({**config, **llm}, context_dir=context_dir, cache=ResponseCache(cache))
        client.send_user_message(ALL)
        client.get_response()
        client.send_function_result("login", "my key is zz-canaryApiKey-1234567")
        with pytest.raises(OrihonError) as caught:
            client.get_response()
        for kind, (_, secret) in CANARIES.items():
            assert secret not in str(caught.value), kind
        client.close()


def test_no_sink_keeps_a_secret(tmp_path: Path, config: dict[str, Any], log_file: Path) -> None:
    base = tmp_path / "base"
    settings = load_settings(config, environ={})
    context = TaskContextManager(base, KEY, settings, uuid="canary-1")
    fill(context)
    with closing(TaskQueue(base, settings)) as queue:
        queue.enqueue(KEY, prompt=ALL)
    ask(base / "by-folder", config, base / "cache")
    transcript = tmp_path / "chat.jsonl"
    transcript.write_text(json.dumps({"messages": [{"role": "user", "content": ALL}]}) + "\n", encoding="utf-8")
    import_transcripts(base, settings, [transcript])
    transcript.unlink()
    search_history(base, settings, "password")
    for form in ("jsonl", "markdown", "html"):
        export_task(base, "canary-1", settings, form, base / f"out.{form}")
    assert found_in(tmp_path, config) == {}
    assert b"zz-canaryApiKey" not in b"".join(path.read_bytes() for path in base.rglob("*") if path.is_file())
    assert b"[GITHUB_TOKEN]#" in log_file.read_bytes()
