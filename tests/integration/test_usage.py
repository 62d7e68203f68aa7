"""Calls of models: written down as they are made, and the same again from the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon import MessageStore, TaskContextManager, TaskKey, fork_task, get_llm_client
from orihon.catalogue import UsageRow
from orihon.catalogue.connect import open_catalogue
from orihon.errors import OrihonError
from orihon.llm.base import LLMClient
from orihon.llm.response_cache import ResponseCache
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest, ScriptStep
from orihon.reports.costs import cost_report, costs_of_task
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.place import folders_of
from orihon.tasks.usage import record_usage_of_log, usage_rows
from orihon.transfer.migrate import migrate_tasks
from orihon.upkeep.doctor import examine, repair
from orihon.values.records import ModelCall, Usage
from orihon.values.view import PlannedFold
from tests.helpers import lasting_day
from tests.services import Database

KEY = TaskKey("github", "acme", "shop", "issue", "27", "mia")
LONG = "The export of the monthly figures goes through several steps, one after another, every night. " * 8
SUMMARY = "The export of the monthly figures was looked at step by step; nothing was decided."


@pytest.fixture(autouse=True)
def _one_day() -> None:
    """Calls are summed up by days."""
    lasting_day()


def say(request: ScriptedRequest) -> ScriptStep:
    """A model that also writes summaries; it reports what each call used."""
    tools = request.body.get("max_tokens") or request.body.get("max_completion_tokens")
    is_summary = len(request.body["messages"]) == 2 and request.body["messages"][0]["role"] == "system" and tools
    text = SUMMARY if is_summary else LONG
    return Reply(text, usage={"input": 1000 + request.number, "cached": 400, "output": 50})


@pytest.fixture(params=["files", "sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings for each back end; the third has its catalogue in the database, too."""
    if request.param == "postgres":
        database: Database = request.getfixturevalue("emptied_postgres")
        return {"database": database.settings}
    return {"context_storage": {"backend": request.param}}


@contextmanager
def at_work(
    base: Path, sections: dict[str, Any], answers: Any = say, *, window: int = 100_000, **parts: Any
) -> Iterator[tuple[TaskContextManager, LLMClient]]:
    """A task and its model."""
    with ScriptedModel(answers) as model, working(base, model, sections, window, **parts) as at_work:
        yield at_work


@contextmanager
def working(
    base: Path, model: ScriptedModel, sections: dict[str, Any], window: int = 100_000, **parts: Any
) -> Iterator[tuple[TaskContextManager, LLMClient]]:
    """A task at work with this model; it completes when the block ends."""
    openai = {"base_url": model.base_url, "model": "gpt-4o", "context_length": window, "reserve_output": 200}
    settings = load_settings({"llm": {"provider": "openai", "openai": openai}, **sections}, environ={})
    with ExitStack() as stack:
        context = TaskContextManager(base, KEY, settings)
        client = get_llm_client(settings, task_ctx=context, **parts)
        stack.callback(client.close)  # when the final summary is written
        stack.enter_context(context)
        context.set_llm_client(client)
        context.message_store.add_message("system", "You look at exports.")
        yield context, client


def rows(base: Path, settings: Settings, uuid: str) -> list[UsageRow]:
    with closing(open_catalogue(base, settings)) as catalogue:
        return catalogue.usage.of_task(uuid)


def rows_of_log(base: Path, settings: Settings, uuid: str, after: int = 0) -> list[UsageRow]:
    place = folders_of(base, settings).find(uuid)
    assert place is not None
    with closing(open_for_reading(place.folder, settings, name=uuid)) as store:
        return usage_rows(store, uuid, after=after)


def converse(client: LLMClient, turns: int) -> None:
    for turn in range(turns):
        client.send_user_message(f"Step {turn}: {LONG}")
        client.get_response()


def test_what_is_written_down_while_a_task_runs_is_what_its_log_says(tmp_path: Path, sections: dict[str, Any]) -> None:
    with at_work(tmp_path, sections, window=4000) as (context, client):
        converse(client, 14)
        assert context.message_store.compressions(), "the view was folded on the way"
        settings = context.settings
    written = rows(tmp_path, settings, context.uuid)
    by_purpose = {row.purpose: row for row in written}
    assert by_purpose["answer"].calls == 14
    assert by_purpose["answer"].cached_tokens == 14 * 400
    assert by_purpose["answer"].output_tokens == 14 * 50
    assert by_purpose["answer"].saved_tokens > 0, "calls after a fold sent less than the log has"
    assert by_purpose["summary"].calls >= 1
    assert by_purpose["summary"].saved_tokens == 0
    derived = {row.purpose: row for row in rows_of_log(tmp_path, settings, context.uuid)}
    assert derived == by_purpose, "with the call for the final summary, which belongs to no compression"
    row = context.catalogue.tasks.get(context.uuid)
    assert row.llm_call_count == sum(row.calls for row in written)


STEPS = st.lists(
    st.sampled_from(["answer", "silent", "fold", "undo", "redo", "unfold", "pin", "edit", "rewind"]), max_size=25
)


@settings(max_examples=10, deadline=None)
@given(STEPS)
def test_whatever_was_folded_on_the_way_the_log_says_the_same(steps: list[str]) -> None:
    wanted = load_settings({"context_storage": {"durability": "os"}}, environ={})
    with TemporaryDirectory() as base, TaskContextManager(base, KEY, wanted) as context:
        store = context.message_store
        store.add_message("system", "You look at exports.")
        for number, step in enumerate(steps):
            if step in ("answer", "silent"):
                call = ModelCall("gpt-4o", None if step == "silent" else Usage(100 + number, 10, 5))
                store.add_message("user", f"Step {number}: {LONG}")
                store.add_message("assistant", "Go on.", call=call)
                context.report_usage({}, call=call)
            else:
                with suppress(OrihonError):  # what is not possible now is not the point here
                    change(store, step)
        assert context.catalogue.usage.of_task(context.uuid) == usage_rows(context.task_store, context.uuid)


def change(store: MessageStore, step: str) -> None:
    last, folds = store.count_messages(), store.view().folds
    if step == "fold":
        store.folding.compress([PlannedFold(2, last - 1, "The export was looked at.")])
    elif step in ("undo", "redo"):
        getattr(store.folding, step)()
    elif step == "pin":
        store.folding.pin(last)
    elif step == "rewind":
        store.rewind(last - 2)
    elif step == "unfold":
        store.folding.unfold(folds[0].id if folds else 1)
    else:
        store.folding.edit(folds[0].id if folds else 1, "Another text.")


def test_each_answer_keeps_its_call(tmp_path: Path) -> None:
    with at_work(tmp_path, {}) as (context, client):
        converse(client, 2)
        kept = [stored.call for stored in context.message_store.get_messages()]
    first, second = (ModelCall("gpt-4o", Usage(1000 + number, 400, 50)) for number in (1, 2))
    assert kept == [None, None, first, None, second]


def test_a_provider_that_reports_nothing_is_counted_by_our_estimates(tmp_path: Path) -> None:
    with at_work(tmp_path, {}, lambda request: Reply(LONG, usage={})) as (context, client):
        client.send_user_message(LONG)
        sent = context.message_store.get_current_token_count()
        client.get_response()
        said = context.message_store.get_current_token_count() - sent
        (row,) = context.catalogue.usage.of_task(context.uuid)
        assert (row.calls, row.input_tokens, row.output_tokens) == (1, sent, said)
        assert context.message_store.get_message(3).call == ModelCall("gpt-4o")
        settings = context.settings
    (derived,) = [row for row in rows_of_log(tmp_path, settings, context.uuid) if row.purpose == "answer"]
    assert derived == row


def test_an_answer_that_was_kept_has_used_nothing(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path / "answers")
    with ScriptedModel(say) as model:
        for base in ("first", "second"):
            with working(tmp_path / base, model, {}, cache=cache) as (context, client):
                client.send_user_message("Again?")
                client.get_response()
                (row,) = context.catalogue.usage.of_task(context.uuid)
    assert (row.calls, row.input_tokens, row.output_tokens) == (1, 0, 0)
    report = cost_report(tmp_path / "second", context.settings, by="model")
    assert (report.total.unpriced_calls, report.total.calls) == (0, 2), "the final summary is the other"


def test_a_cost_that_a_provider_names_is_kept(tmp_path: Path) -> None:
    with at_work(tmp_path, {}) as (context, _):
        context.message_store.add_message("user", "Go on.")
        context.message_store.add_message("assistant", "Yes.")
        context.report_usage({"prompt_tokens": 100, "completion_tokens": 5, "cost": 0.25})
        context.report_usage({"prompt_tokens": 100, "completion_tokens": 5, "cost": "free"})
        context.report_usage({"nothing": "known"})
        found = {row.cost: row.calls for row in context.catalogue.usage.of_task(context.uuid)}
    assert found == {0.25: 1, None: 1}


def test_the_doctor_writes_down_again_what_a_lost_catalogue_knew(tmp_path: Path) -> None:
    with at_work(tmp_path, {"context_storage": {"backend": "files"}}) as (context, client):
        converse(client, 3)
        settings = context.settings
    before = rows(tmp_path, settings, context.uuid)
    for path in tmp_path.glob("tasks.db*"):
        path.unlink()
    repair(OpenBase(tmp_path, settings))
    assert rows(tmp_path, settings, context.uuid) == before
    with closing(open_catalogue(tmp_path, settings)) as catalogue:
        row = catalogue.tasks.get(context.uuid)
    assert (row.llm_call_count, row.total_tokens) == (4, 1001 + 1002 + 1003 + 1004 + 4 * 50), (
        "the last is the final summary's"
    )


def test_a_broken_file_of_calls_costs_its_figures(tmp_path: Path) -> None:
    with at_work(tmp_path, {"context_storage": {"backend": "files"}}) as (context, client):
        converse(client, 1)
        settings = context.settings
    (kept,) = tmp_path.glob("completed/*/calls.json")
    kept.write_bytes(b"[")
    assert [row.purpose for row in rows_of_log(tmp_path, settings, context.uuid)] == ["answer"]


def test_the_doctor_counts_a_call_whose_process_died_before_it_was_counted(tmp_path: Path) -> None:
    with at_work(tmp_path, {}) as (context, client):
        converse(client, 2)
        settings = context.settings
        context.message_store.add_message("user", "And?")
        context.message_store.add_message("assistant", "Yes.", call=ModelCall("gpt-4o", Usage(10, 0, 5)))
        uncounted = context.catalogue.usage.of_task(context.uuid)
    with closing(open_catalogue(tmp_path, settings)) as catalogue:
        before = catalogue.tasks.get(context.uuid)
    (found,) = examine(OpenBase(tmp_path, settings))
    assert (found.kind, found.fields["count"]) == (("catalogue", "usage"), 1)
    repair(OpenBase(tmp_path, settings))
    assert examine(OpenBase(tmp_path, settings)) == []
    answers, summaries = rows(tmp_path, settings, context.uuid)
    assert (answers.calls, answers.input_tokens) == (uncounted[0].calls + 1, uncounted[0].input_tokens + 10)
    assert summaries.calls == 1, "the final summary"
    with closing(open_catalogue(tmp_path, settings)) as catalogue:
        row = catalogue.tasks.get(context.uuid)
    assert (row.llm_call_count, row.total_tokens) == (4, before.total_tokens + 10)


def test_a_task_that_moves_to_another_catalogue_takes_its_usage_along(tmp_path: Path, postgres: Database) -> None:
    with at_work(tmp_path, {"context_storage": {"backend": "files"}}) as (context, client):
        converse(client, 2)
        settings = context.settings
        before = context.catalogue.usage.of_task(context.uuid)
    home = settings.replace(**{f"database.{name}": value for name, value in postgres.settings.items()})
    migrate_tasks(tmp_path, home, source="files", target="postgres")
    after = rows(tmp_path, home, context.uuid)
    assert [row for row in after if row.purpose == "answer"] == before, "the final summary came later"
    assert rows(tmp_path, settings, context.uuid) == []


def test_a_fork_has_not_made_the_calls_that_it_has_copied(tmp_path: Path) -> None:
    with at_work(tmp_path, {}) as (context, client):
        converse(client, 3)
        settings = context.settings
    new = fork_task(tmp_path, context.uuid, settings, 5)
    assert rows(tmp_path, settings, new) == []
    assert rows_of_log(tmp_path, settings, new, after=5) == []
    for path in tmp_path.glob("tasks.db*"):
        path.unlink()
    repair(OpenBase(tmp_path, settings))
    assert rows(tmp_path, settings, new) == []


def test_another_model_that_writes_the_summaries_is_counted_by_its_own_name(tmp_path: Path) -> None:
    with ScriptedModel(say) as model, at_work(tmp_path, {}, window=4000) as (context, client):
        cheap = {"base_url": model.base_url, "model": "gpt-4o-mini", "context_length": 8000, "max_token": 200}
        writer = get_llm_client(load_settings({"llm": {"provider": "openai", "openai": cheap}}, environ={}))
        context.set_llm_client(writer)
        converse(client, 10)
        settings = context.settings
    writer.close()
    models = {(row.model, row.purpose) for row in rows(tmp_path, settings, context.uuid)}
    assert models == {("gpt-4o", "answer"), ("gpt-4o-mini", "summary")}
    assert {(row.model, row.purpose) for row in rows_of_log(tmp_path, settings, context.uuid)} == models


def test_writing_down_a_log_again_changes_nothing(tmp_path: Path) -> None:
    with at_work(tmp_path, {}) as (context, client):
        converse(client, 2)
        first = record_usage_of_log(context.catalogue, context.task_store, context.uuid)
        assert record_usage_of_log(context.catalogue, context.task_store, context.uuid) == first
        assert context.catalogue.usage.of_task(context.uuid) == first
        assert costs_of_task(context.catalogue, context.settings, context.uuid).calls == 2
