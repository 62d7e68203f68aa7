"""The parts of the agent by themselves: what the settings mean to it, its limits, its tools, its voice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, TaskKey, load_settings
from orihon.catalogue import TaskRow
from orihon.errors import GaveUp, InvalidSettings, SourceError
from orihon.llm.clients import get_llm_client
from orihon.runtime.agent import TaskLimits, system_prompt
from orihon.runtime.agent_tools import plan_server
from orihon.runtime.builtin_tools import BuiltinServer, BuiltinTool
from orihon.runtime.poller import sources_of
from orihon.runtime.queue import QueueLimits
from orihon.runtime.sources.base import SourceReporter
from orihon.runtime.sources.folder import FolderSource
from orihon.runtime.sources.github import GitHubSource
from orihon.runtime.sources.gitlab import GitLabSource
from orihon.runtime.tool import ServerAnswer
from orihon.runtime.tools import TaskTools, ToolBox, ToolOptions, ToolSupply, tool_options
from orihon.values.records import Usage
from orihon.values.task import TaskStatus
from tests.helpers import refused
from tests.integration.agents import CommandSource

KEY = TaskKey("cli", "", "", "task", "1", "me")
ROW = TaskRow.of(KEY, "one", TaskStatus.RUNNING, created_at="", updated_at="")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[TaskContextManager]:
    made = TaskContextManager(tmp_path, KEY, {})
    yield made
    made.close()


# --- What the settings say ---


def test_the_settings_reach_the_tools_the_queue_and_the_client(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "tools": {"timeout": 5, "max_output_bytes": 4096, "workspace": str(tmp_path), "shell": True},
            "multiprocess": {"max_attempts": 9, "drain_seconds": 7, "tasks_per_user": 2},
            "llm": {"provider": "ollama", "timeout": 3, "retries": 2, "stream": False},
        }
    )
    assert tool_options(settings) == ToolOptions(5, 4096, tmp_path, shell=True)
    assert tool_options(load_settings({})) == ToolOptions()
    limits = QueueLimits.of(settings)
    assert (limits.max_attempts, limits.drain_seconds, limits.tasks_per_user) == (9, 7, 2)
    assert QueueLimits.of(load_settings({})) == QueueLimits()
    client = get_llm_client(settings)
    assert not client.stream
    assert client._retry.retries == 2
    client.close()


def test_cache_and_rate_limit_are_on_when_the_settings_say_so(context: TaskContextManager) -> None:
    plain = get_llm_client({"llm": {"provider": "ollama"}}, task_ctx=context)
    assert plain._cache is None
    assert plain._rate_limit is None
    config = {"llm": {"provider": "ollama", "cache": True, "requests_per_minute": 30}}
    client = get_llm_client(config, task_ctx=context)
    assert client._cache is not None
    assert client._rate_limit is not None
    assert client._rate_limit.take("ollama") == 0
    assert client._rate_limit.take("ollama") > 1
    for made in (plain, client):
        made.close()


def test_the_sources_are_those_that_the_settings_name(tmp_path: Path) -> None:
    assert sources_of(load_settings({})) == []
    wanted = {
        "folder": str(tmp_path),
        "github": {"repositories": ["acme/shop"], "token": "abc"},
        "gitlab": {"repositories": ["acme/shop"], "token": "abc"},
        "labels": {"todo": "robot"},
    }
    github, gitlab, folder = sources_of(load_settings({"sources": wanted}))
    assert isinstance(github, GitHubSource)
    assert isinstance(gitlab, GitLabSource)
    assert isinstance(folder, FolderSource)
    assert github._labels.todo == gitlab._labels.todo == "robot"
    assert "abc" not in repr(load_settings({"sources": wanted}))


def test_a_source_without_its_token_and_labels_that_are_the_same_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    repositories = {"repositories": ["acme/shop"]}
    with refused(InvalidSettings, "source_token"):
        sources_of(load_settings({"sources": {"github": {**repositories, "token": "${NOT_SET_AT_ALL}"}}}))
    with refused(InvalidSettings, "source_label"):
        sources_of(load_settings({"sources": {"labels": {"todo": "x", "failed": "x"}}}))


def test_mcp_servers_are_taken_from_the_settings_as_they_stand(tmp_path: Path) -> None:
    config = {"mcp_servers": {"one": {"command": ["server", "$${HOME}"], "env": {"A": "${WHO:-me}"}}}}
    supply = ToolSupply(load_settings(config, environ={}), tmp_path)
    (server,) = supply.mcp_servers()
    assert server.config.command == ("server", "${HOME}")  # type: ignore[attr-defined]
    assert dict(server.config.env) == {"A": "me"}  # type: ignore[attr-defined]
    supply.close()


@pytest.mark.parametrize("servers", ["server", ["server"], {"one": "server"}, 3])
def test_mcp_servers_of_a_wrong_shape_are_refused(servers: Any) -> None:
    with refused(InvalidSettings, "not_servers"):
        load_settings({"mcp_servers": servers})


def test_the_system_prompt_of_the_settings_wins(tmp_path: Path) -> None:
    file = tmp_path / "prompt"
    file.write_text("from the file")
    assert "plan_record" in system_prompt(load_settings({}))
    runtime: dict[str, Any] = {"system_prompt_file": str(file)}
    assert system_prompt(load_settings({"runtime": runtime})) == "from the file"
    runtime["system_prompt"] = "in words"
    assert system_prompt(load_settings({"runtime": runtime})) == "in words"


# --- Limits ---


def test_money_and_time_are_kept_over_attempts(context: TaskContextManager) -> None:
    settings = load_settings({"runtime": {"max_cost": 1}, "prices": {"gpt": {"input": 10, "cached": 1, "output": 100}}})
    limits = TaskLimits(context, settings)
    context.update_statistics(llm_calls=1, tokens=50_000)
    limits.add(Usage(50_000, 40_000, 1000))  # 0.04 + 0.1 + 0.1
    limits.check()
    kept = context.catalogue.tasks.get(context.uuid).metadata["spent"]
    assert kept["cost"] == pytest.approx(0.24)
    again = TaskLimits(context, settings)
    assert again.seconds >= kept["seconds"]
    again.add(Usage(0, 0, 7600))
    with refused(GaveUp, "limit_cost"):
        again.check()


def test_tokens_of_summaries_cost_too(context: TaskContextManager) -> None:
    settings = load_settings({"runtime": {"max_cost": 1}, "prices": {"gpt": {"input": 10}}})
    context.update_statistics(llm_calls=1, tokens=200_000)
    with refused(GaveUp, "limit_cost"):
        TaskLimits(context, settings).check()


def test_without_limits_nothing_is_written_and_nothing_refused(context: TaskContextManager) -> None:
    limits = TaskLimits(context, load_settings({}))
    limits.add(Usage(10**9, 0, 10**9))
    limits.check()
    assert "spent" not in context.catalogue.tasks.get(context.uuid).metadata


# --- Tools ---


def _box(server: str, said: str) -> ToolBox:
    return ToolBox(
        [BuiltinServer(server, [BuiltinTool("say", "", {}, lambda arguments, deadline: ServerAnswer(said))])]
    )


def test_of_two_tools_of_one_name_the_first_is_called() -> None:
    tools = TaskTools(
        [_box("a", "first"), ToolBox([*_box("a", "second")._servers.values(), *_box("b", "third")._servers.values()])]
    )
    assert [schema["function"]["name"] for schema in tools.schemas()] == ["a_say", "b_say"]
    assert tools.call("a_say", "{}", call_id="1").text == "first"
    assert tools.call("b_say", "{}", call_id="2").text == "third"
    assert tools.call("c_say", "{}", call_id="3").is_error
    assert tools.is_repeatable("b_say")
    assert not tools.is_repeatable("c_say")


def test_a_plan_is_recorded_once_however_often_the_call_is_made(context: TaskContextManager) -> None:
    box = ToolBox([plan_server(context.planning_store)])
    plan = {"plan_type": "initial", "content": "1. look"}
    assert box.call("plan_record", plan).text == box.call("plan_record", plan).text == "Plan 1 recorded."
    assert box.call("plan_record", {**plan, "plan_type": "revision"}).text == "Plan 2 recorded."
    assert box.call("plan_record", {"plan_type": "initial"}).is_error
    assert [found["plan_type"] for found in context.planning_store.get_plans()] == ["initial", "revision"]


# --- The source ---


class _Deaf(CommandSource):
    def comment(self, *_: object, **__: object) -> None:
        raise SourceError("file_gone", id="1", path="nowhere")


def test_a_source_that_cannot_be_told_is_no_reason_to_stop(caplog: pytest.LogCaptureFixture) -> None:
    teller = SourceReporter(_Deaf("Do it."), ROW)
    teller.begin("inherited")
    teller.go_on()
    teller.trouble(1, "trouble")
    teller.finish("failed", "failed")
    assert caplog.text.count("could not be notified") == 4
    with refused(SourceError, "file_gone"):
        teller.finish("completed", "done", insist=True)
    SourceReporter(None, ROW).finish("completed", "done", insist=True)
