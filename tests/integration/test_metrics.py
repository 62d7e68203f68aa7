"""Metrics of real work: from the catalogue, over HTTP, with labels that stay few."""

from __future__ import annotations

import http.client
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from orihon import TaskContextManager, TaskKey
from orihon.catalogue.connect import open_catalogue
from orihon.errors import InvalidInput, StorageUnavailable
from orihon.llm.scripted import Fault, Reply
from orihon.reports.metrics import MetricsServer, collect_metrics
from orihon.reports.metrics.collect import MOST_TASKS, write_ages
from orihon.reports.storage import NAME, known_sizes, measure, sizes_of
from orihon.settings import Settings, load_settings
from orihon.system.files import folder_size
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from tests.damage import start_task
from tests.helpers import raw_database, refused
from tests.integration.agents import world
from tests.integration.run_supervisor import eventually
from tests.services import Database
from tests.unit.test_counts import parsed

CALLS = [("effects_write", {"text": "one"}), ("effects_put", {"text": "bad"})]


def figures(base: Path, settings: Settings | dict[str, Any] | None = None) -> dict[str, float]:
    """Every series of the output."""
    found = parsed(collect_metrics(base, load_settings(settings or {}, environ={})))
    return {name: value for family in found.values() for name, value in family.items()}


def test_an_agents_work_is_counted(tmp_path: Path) -> None:
    with world(tmp_path, [Reply(calls=CALLS), Reply("Done.")]) as made:
        made.put()
        assert made.work() is TaskStatus.COMPLETED
        settings = made.settings
    found = figures(tmp_path, settings)
    messages = {role: found[f'context_messages_total{{role="{role}",task_source="cli"}}'] for role in ("user", "tool")}
    assert messages == {"user": 1, "tool": 2}
    assert found['context_messages_total{role="assistant",task_source="cli"}'] == 2
    assert found['orihon_tool_calls_total{status="success"}'] == 1
    assert found['orihon_tool_calls_total{status="error"}'] == 1
    assert found["orihon_tool_call_duration_seconds_count"] == 2
    assert found['orihon_model_calls_total{model="tiny",purpose="answer"}'] == 2
    assert found['orihon_model_calls_total{model="tiny",purpose="summary"}'] == 1, "the final summary"
    assert found["orihon_model_call_duration_seconds_count"] == 3
    assert found["orihon_model_call_duration_seconds_sum"] > 0
    assert found['orihon_model_tokens_total{kind="input",model="tiny"}'] > 0
    assert 'orihon_model_cost_total{model="tiny"}' not in found, "nobody has named its price"
    assert found['orihon_tasks{status="completed"}'] == 1


def test_tokens_come_to_a_cost_where_there_is_a_price(tmp_path: Path) -> None:
    reply = Reply("Done.", usage={"input": 1_000_000, "output": 500_000})
    sections = {"prices": {"tiny": {"input": 2, "output": 10}}}
    with world(tmp_path, [reply], sections) as made:
        made.put()
        made.work()
        settings = made.settings
    assert figures(tmp_path, settings)['orihon_model_cost_total{model="tiny"}'] >= 7


def test_models_that_fail_are_counted(tmp_path: Path) -> None:
    with world(tmp_path, [Fault(400), Fault(400)]) as made:
        made.put()
        made.work()
    found = figures(tmp_path)
    errors = {name: value for name, value in found.items() if name.startswith("orihon_model_errors_total")}
    assert sum(errors.values()) >= 1
    assert all('model="tiny"' in name for name in errors)


def test_a_compression_is_timed_and_a_model_that_gives_no_summary_is_a_failure(tmp_path: Path) -> None:
    sections = {"llm": {"openai": {"context_length": 2000, "max_token": 100}}, "compression": {"summary_retries": 0}}
    settings = load_settings(sections, environ={})

    class Mute:
        def create_chat_completion(self, messages: Any, *, max_tokens: int, temperature: float) -> str:
            return ""

    with TaskContextManager(tmp_path, TaskKey("github", "a", "b", "issue", "1"), settings, Mute()) as context:
        for turn in range(30):
            context.message_store.add_message("user", f"Step {turn}: the export of the figures goes on and on. " * 4)
        assert context.compressor.compress(strategy="summarize").changed
    found = figures(tmp_path, settings)
    assert found["context_compression_duration_seconds_count"] == 1
    assert found['context_compression_failures_total{reason="model"}'] == 1
    assert found['context_compression_failures_total{reason="error"}'] == 0
    assert found['context_summaries_total{task_source="github"}'] >= 1


@pytest.mark.parametrize("backend", ["files", "sqlite", "postgres"])
def test_only_tasks_at_work_have_series_of_their_own(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sections: dict[str, Any] = {"context_storage": {"backend": backend}}
    if backend == "postgres":
        database: Database = request.getfixturevalue("postgres")
        sections["database"] = database.settings
    settings = load_settings(sections, environ={})
    began = time.monotonic()
    task = start_task(tmp_path, settings)
    task.heartbeat()
    label = f'{{task_id="{task.uuid}"}}'
    found = figures(tmp_path, settings)
    assert 0 <= found[f"orihon_durable_write_age_seconds{label}"] < time.monotonic() - began + 1
    assert 0 < found[f"orihon_context_usage_ratio{label}"] < 1
    assert found[f"orihon_lease_remaining_seconds{label}"] > 0
    assert found['orihon_leases{state="held"}'] == 1
    if backend != "postgres":
        assert found[f"context_db_size_bytes{label}"] == folder_size(task.context_dir)
    assert found['context_db_size_bytes{task_id="other"}'] > 0
    task.complete()
    after = figures(tmp_path, settings)
    assert [name for name in after if task.uuid in name] == []
    task.catalogue.close()


def test_a_thousand_tasks_that_nobody_ended_do_not_become_a_thousand_series(tmp_path: Path) -> None:
    settings = load_settings({}, environ={})
    open_catalogue(tmp_path, settings).close()
    with raw_database(tmp_path / "tasks.db") as connection:
        connection.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000) "
            "INSERT INTO tasks (uuid, task_source, task_type, task_id, task_identifier, status, created_at, "
            "updated_at, context_length, view_tokens) "
            "SELECT 'task-' || n, 'github', 'issue', n, n, 'running', '2026', '2026', 1000, 10 FROM numbers"
        )
    names = [name for name in figures(tmp_path, settings) if name.startswith("orihon_context_usage_ratio")]
    assert len(names) == MOST_TASKS


def test_an_empty_folder_gives_zeros_and_stays_empty(tmp_path: Path) -> None:
    assert figures(tmp_path)["orihon_take_overs_total"] == 0
    assert list(tmp_path.iterdir()) == []
    with refused(StorageUnavailable, "no_base_dir"):
        collect_metrics(tmp_path / "nowhere", Settings())


# ---- over HTTP -----------------------------------------------------------------------------------------------------


@contextmanager
def served(base: Path, **options: Any) -> Iterator[MetricsServer]:
    with MetricsServer(base, Settings(), **options) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        # Who closes it before it answers, or a folder that it has not finished measuring, are not what is tested.
        eventually(lambda: server._http._is_serving.is_set() and server._sizes is not None)
        yield server
    thread.join(60)
    assert not thread.is_alive()


def ask(server: MetricsServer, path: str, host: str, method: str = "GET") -> tuple[int, bytes]:
    place = urlsplit(server.address)
    with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)) as connection:
        connection.request(method, path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_the_server_answers_for_metrics_and_nothing_else(tmp_path: Path) -> None:
    start_task(tmp_path, "files").stop()
    with served(tmp_path) as server:
        answer = httpx.get(server.address, timeout=60)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert parsed(answer.text)["orihon_tasks"]['orihon_tasks{status="paused"}'] == 1
        assert ask(server, "/metrics?x=1", "localhost")[0] == 200
        assert ask(server, "/metrics", "localhost", "HEAD") == (200, b"")
        assert ask(server, "/", "127.0.0.1:1234")[0] == 404
        assert ask(server, "/metrics", "localhost", "POST")[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1:80"])
def test_a_web_page_that_has_its_name_point_here_is_refused(tmp_path: Path, host: str) -> None:
    with served(tmp_path) as server:
        assert ask(server, "/metrics", host)[0] == 403


def test_who_listens_to_others_is_asked_by_any_name(tmp_path: Path) -> None:
    with served(tmp_path, host="0.0.0.0") as server:
        port = urlsplit(server.address).port
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/metrics", headers={"Host": "metrics.example"})
            assert connection.getresponse().status == 200


def test_a_catalogue_that_cannot_be_read_is_an_error_for_this_time_only(tmp_path: Path) -> None:
    (tmp_path / "tasks.db").write_bytes(b"this is no database at all" * 100)
    with served(tmp_path) as server:
        status, said = ask(server, "/metrics", "localhost")
        assert (status, b"tasks.db" in said) == (503, True)
        (tmp_path / "tasks.db").unlink()
        assert ask(server, "/metrics", "localhost")[0] == 200


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with MetricsServer(tmp_path, Settings()) as server, refused(InvalidInput, "cannot_listen"):
        MetricsServer(tmp_path, Settings(), port=urlsplit(server.address).port or 0)
    with refused(InvalidInput, "cannot_listen"):
        MetricsServer(tmp_path, Settings(), host="no such host")
    with refused(InvalidInput, "no_host"):
        MetricsServer(tmp_path, Settings(), host=" ")  # a variable that is not set; to the system it means everybody


def test_a_catalogue_that_is_gone_has_no_figures_any_more(tmp_path: Path) -> None:
    start_task(tmp_path, "files").stop()
    with served(tmp_path) as server:
        assert "orihon_build_info{" in server.text()
        shutil.rmtree(tmp_path)
        assert "orihon_build_info{" not in server.text(), "which the rule OrihonMetricsMissing looks for"
        assert not tmp_path.exists(), "who looks makes nothing"
        start_task(tmp_path, "files").stop()
        assert "orihon_build_info{" in server.text()


# ---- sizes and ages ------------------------------------------------------------------------------------------------


def test_sizes_are_measured_once_and_kept(tmp_path: Path) -> None:
    (tmp_path / "running" / "a").mkdir(parents=True)
    (tmp_path / "running" / "a" / "messages.jsonl").write_bytes(b"x" * 100)
    (tmp_path / "completed" / "b" / "blobs").mkdir(parents=True)
    (tmp_path / "completed" / "b" / "blobs" / "c").write_bytes(b"x" * 1000)
    (tmp_path / "loop").symlink_to(tmp_path)
    first = measure(tmp_path)
    assert (first.running, first.rest, first.total) == ({"a": 100}, 1000, 1100)
    (tmp_path / "running" / "a" / "messages.jsonl").write_bytes(b"x" * 200)
    assert sizes_of(tmp_path, 60) == first
    again = sizes_of(tmp_path, 0)
    assert again.running == {"a": 200}
    assert again.rest > first.rest, "the file that keeps the sizes is there now, too"


@pytest.mark.parametrize("broken", [b"", b"[]", b"{}", b'{"running": 5}', b"\xff"])
def test_a_broken_file_of_sizes_costs_a_walk(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / NAME).write_bytes(broken)
    assert known_sizes(tmp_path) is None
    assert sizes_of(tmp_path, 60).rest == len(broken)


def test_the_age_of_a_write_follows_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "running" / "a"
    folder.mkdir(parents=True)
    for name, age in (("messages.jsonl", 500), ("tools.jsonl", 100)):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age,) * 2)
    assert write_ages(OpenBase(tmp_path, Settings()), ["a", "b"]) == {"a": pytest.approx(200, abs=100)}
