"""docs/deploy.md promises that three addresses change and nothing else: one file of settings, the real executable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.llm.scripted import Reply, ScriptedModel
from tests.acceptance.test_cli import Ended, run
from tests.brokers import own_queue
from tests.conformance.child import ROOT
from tests.services import Database

CONFIG = ROOT / "deploy" / "config.yaml"


@pytest.fixture(params=["one machine", "with Redis", "with RabbitMQ", "many machines"])
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What the file ``environment`` would say."""
    if request.param == "one machine":
        yield {}
        return
    found: dict[str, str] = {}
    if request.param == "many machines":
        database: Database = request.getfixturevalue("postgres")
        (tmp_path / "storage").mkdir()
        found = {
            "DATABASE_URL": database.url,
            "ORIHON_DATABASE__SCHEMA": database.schema,
            "ARCHIVE_URL": (tmp_path / "storage").as_uri(),
        }
    for queue in own_queue(request.getfixturevalue("redis" if request.param == "with Redis" else "rabbitmq")):
        yield {**found, "QUEUE_URL": queue.url, "QUEUE_NAME": queue.name}


def test_the_same_file_and_the_same_commands_serve_every_shape(addresses: dict[str, str], tmp_path: Path) -> None:
    def orihon(host: str, *arguments: object) -> Ended:
        options = ("--config", CONFIG, "--base-dir", tmp_path / host)
        variables = {**addresses, "OPENAI_BASE_URL": model.base_url}
        ended = run(*options, *arguments, language="en", cwd=None, **variables)
        assert ended.code == 0, (arguments, ended.err)
        return ended

    other = "host-b" if "DATABASE_URL" in addresses else "host-a"
    with ScriptedModel([Reply("It is done."), Reply("What was done.")]) as model:
        uuid = orihon("host-a", "enqueue", "Do it.").out.strip()
        orihon(other, "worker", "-n", "2", "--until-empty")
        assert "completed" in orihon("host-a", "list").out
        orihon("host-a", "archive", uuid)
        assert "archived" in orihon(other, "list").out
        orihon(other, "unarchive", uuid)
        orihon("host-a", "verify", uuid)
        orihon("host-a", "doctor")
    kept = tmp_path / "storage" if "ARCHIVE_URL" in addresses else tmp_path / "host-a" / "archive"
    assert kept.is_dir()
    assert (tmp_path / "host-a" / "tasks.db").exists() is ("DATABASE_URL" not in addresses)
