"""The pages about trouble and notifications: their commands and settings exist, their receiver takes what we send."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer

from orihon import load_settings
from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.cli.main import build
from orihon.notifications import webhook
from orihon.notifications.webhook import Delivery, Webhook, deliver, signed_headers
from orihon.settings import schema

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [f"{folder}{page}.md" for folder in ("", "ja/") for page in ("troubleshooting", "notifications")]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SETTING = re.compile(r"`([a-z_]+\.[a-z_]+)`")


def blocks(page: str, kind: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [body for found, body in _BLOCK.findall(text) if found == kind]


def command_lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in blocks(page, "sh"):
            yield from ((page, line) for line in block.splitlines() if line.startswith("orihon "))


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    app: Any = typer.main.get_command(build())
    found = dict(app.commands)
    for name, command in app.commands.items():
        found |= {f"{name} {inner}": one for inner, one in getattr(command, "commands", {}).items()}
    return found


def test_every_command_and_option_of_the_pages_exists(commands: dict[str, Any]) -> None:
    lines = list(command_lines())
    assert len(lines) > 60
    for page, line in lines:
        _, *words = shlex.split(line, comments=True)
        two = " ".join(words[:2])
        command = commands.get(two, commands.get(words[0]))
        assert command is not None, (page, line)
        given = {word for word in words if word.startswith("-")}
        assert given <= options_of(command), (page, line)


@pytest.mark.parametrize("page", PAGES)
def test_every_setting_of_the_pages_exists(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    sections = {key.partition(".")[0] for key in schema()}
    named = {name for name in _SETTING.findall(text) if name.partition(".")[0] in sections}
    assert named <= set(schema())
    for block in blocks(page, "yaml"):
        path = block.replace("${ORIHON_WEBHOOK_SECRET}", "x")
        import yaml

        load_settings(yaml.safe_load(path), environ={})


@pytest.mark.parametrize("page", ["notifications.md", "ja/notifications.md"])
def test_the_receiver_of_the_page_takes_what_we_send_and_nothing_else(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(webhook, "TIMEOUT", 120.0)  # seconds; nothing here takes so long unless it hangs
    (source,) = [block for block in blocks(page, "python") if "class Hook" in block]
    example: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, page, "exec"), example)
    example["Hook"].log_message = lambda *_: None
    with HTTPServer(("127.0.0.1", 0), example["Hook"]) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            with Catalogue(tmp_path / "tasks.db") as catalogue:
                catalogue.outbox.add(NewNotice("one", "failed", "error", "task-1", {}))
                assert deliver(catalogue, Webhook(url, "wrong")) == Delivery(failed=1, waiting=1)
                assert deliver(catalogue, Webhook(url, "s3cret"), early=True) == Delivery(delivered=1)
        finally:
            server.shutdown()
            thread.join()
    assert capsys.readouterr().out == "failed task-1 The task has failed\n"
    old = signed_headers("s3cret", "one", b"{}", 1)
    assert not example["is_genuine"](old, b"{}")
