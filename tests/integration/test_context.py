"""The life of a task: pause, resume anywhere, take over from the dead, end in one place."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore, TaskContextManager, TaskKey, TaskStatus
from orihon.errors import (
    DamagedStore,
    IllegalTransition,
    InvalidId,
    InvalidInput,
    InvalidSettings,
    StaleWriter,
    StorageError,
    TaskBusy,
    TaskNotFound,
)
from tests.helpers import refused

KEY = TaskKey("github", "me", "project", "issue", "27", "me")


@pytest.fixture(params=["files", "sqlite"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"context_storage": {"backend": request.param}, "llm": {"openai": {"context_length": 8000}}}


def filled(base_dir: Path, config: dict[str, Any], messages: int = 12) -> TaskContextManager:
    ctx = TaskContextManager(base_dir, KEY, config)
    ctx.message_store.add_message("system", "You are careful.")
    for number in range(2, messages + 1):
        ctx.message_store.add_message("user" if number % 2 else "assistant", f"message {number} " + "x" * 50)
    return ctx


def child(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs ``program`` and says things on its standard output."""
    source = textwrap.dedent(program)
    words = [sys.executable, "-c", source, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


HOLDER = """
    import json, sys
    from orihon import TaskContextManager
    from orihon.errors import OrihonError
    ctx = TaskContextManager.resume(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    print(ctx.message_store.add_message("user", "from the holder"), flush=True)
    for line in sys.stdin:
        try:
            print(ctx.message_store.add_message("user", "again"), flush=True)
        except OrihonError as error:
            print(type(error).__name__, flush=True)
"""


@pytest.fixture
def holder(tmp_path: Path, config: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that owns a running task."""
    ctx = filled(tmp_path, config)
    ctx.stop()
    with child(HOLDER, tmp_path, ctx.uuid, json.dumps(config)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "13\n"
        yield process, ctx.uuid
        process.kill()


def test_a_task_pauses_and_resumes_at_exactly_its_view(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.message_store.create_summary(2, 7, "The first messages.")
    before = ctx.message_store.get_current_context_file().read_bytes()
    ctx.stop()
    assert (tmp_path / "paused" / ctx.uuid / "metadata.json").exists()
    assert ctx.catalogue.tasks.get(ctx.uuid).status is TaskStatus.PAUSED
    again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert again.message_store.get_current_context_file().read_bytes() == before
    assert again.context_dir == tmp_path / "running" / ctx.uuid
    again.message_store.folding.undo()
    assert len(again.message_store.get_messages_for_llm()) == 12
    again.complete()


def test_completion_writes_summary_figures_and_place(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.message_store.create_summary(2, 7, "The first messages.")
    ctx.tool_store.add_tool_call("grep", {"word": "x"}, "found")
    ctx.complete()
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert row.status is TaskStatus.COMPLETED
    assert (row.total_messages, row.total_summaries, row.total_tool_calls) == (12, 1, 1)
    assert row.final_message_count == 7
    assert row.completed_at is not None
    assert row.lease_owner is None
    folder = tmp_path / "completed" / ctx.uuid
    assert ctx.context_dir == folder
    assert "message 11" in (folder / "final_summary.txt").read_text(encoding="utf-8")
    assert ctx.message_store.count_messages() == 12, "a finished task can still be read"
    with refused(IllegalTransition, "closed"):
        ctx.message_store.add_message("user", "too late")
    with refused(IllegalTransition, "closed"):
        ctx.complete()
    with refused(IllegalTransition, "change"):
        TaskContextManager.resume(tmp_path, ctx.uuid, config)


def test_metadata_says_what_the_task_is(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    metadata = json.loads((ctx.context_dir / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["uuid"] == ctx.uuid
    assert metadata["task_key"] == {
        "task_source": "github",
        "owner": "me",
        "repo": "project",
        "task_type": "issue",
        "task_id": "27",
    }
    assert metadata["repository"] == "me/project"
    assert metadata["process_id"] == os.getpid()
    assert metadata["config"]["context_length"] == 8000
    ctx.close()


def test_failure_keeps_the_error_without_its_secrets(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    token = "ghp_" + "a1B2" * 9
    ctx.fail(f"push refused for {token}")
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert row.status is TaskStatus.FAILED
    assert row.error_message is not None
    assert token not in row.error_message
    assert "[GITHUB_TOKEN]" in row.error_message


def test_a_block_completes_fails_or_pauses_its_task(tmp_path: Path, config: dict[str, Any]) -> None:
    with TaskContextManager(tmp_path, KEY, config) as done:
        done.message_store.add_message("user", "hello")
    with pytest.raises(ValueError, match="broken"), TaskContextManager(tmp_path, KEY, config) as failed:
        raise ValueError("broken")
    with pytest.raises(KeyboardInterrupt), TaskContextManager(tmp_path, KEY, config) as paused:
        raise KeyboardInterrupt
    states = [done.catalogue.tasks.get(ctx.uuid).status for ctx in (done, failed, paused)]
    assert states == [TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.PAUSED]


def test_hooks_run_and_a_broken_one_does_not_stop_the_end(
    tmp_path: Path, config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []
    ctx = filled(tmp_path, config)
    ctx.register_stop_hook("note", lambda: called.append("stop"))
    ctx.stop()
    ctx = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    ctx.register_completion_hook("broken", lambda: 1 // 0)
    ctx.register_completion_hook("note", lambda: called.append("done"))
    ctx.complete()
    assert called == ["stop", "done"]
    assert "the hook broken failed" in caplog.text
    assert ctx.catalogue.tasks.get(ctx.uuid).status is TaskStatus.COMPLETED


def test_a_live_owner_is_not_disturbed(
    tmp_path: Path, config: dict[str, Any], holder: tuple[subprocess.Popen[str], str]
) -> None:
    process, uuid = holder
    with refused(TaskBusy, "lease") as caught:
        TaskContextManager.resume(tmp_path, uuid, config)
    assert caught.value.fields["pid"] == process.pid


def test_a_dead_owner_is_taken_over_and_nothing_is_lost(
    tmp_path: Path, config: dict[str, Any], holder: tuple[subprocess.Popen[str], str]
) -> None:
    process, uuid = holder
    process.send_signal(signal.SIGKILL)
    process.wait()
    ctx = TaskContextManager.resume(tmp_path, uuid, config)
    assert ctx.message_store.count_messages() == 13
    assert ctx.message_store.add_message("assistant", "I go on.") == 14
    ctx.complete()


def test_a_stopped_owner_is_refused_when_it_wakes(
    tmp_path: Path, config: dict[str, Any], holder: tuple[subprocess.Popen[str], str]
) -> None:
    process, uuid = holder
    assert process.stdin is not None
    assert process.stdout is not None
    process.send_signal(signal.SIGSTOP)
    ctx = TaskContextManager.resume(tmp_path, uuid, config, take_over=True)
    assert ctx.message_store.add_message("assistant", "taken over") == 14
    process.stdin.write("\n")
    process.stdin.flush()
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "StaleWriter\n"
    assert ctx.message_store.count_messages() == 14
    assert [stored.epoch for stored in ctx.message_store.get_messages(12, 14)] == sorted(
        {stored.epoch for stored in ctx.message_store.get_messages(12, 14)}
    )
    ctx.complete()


def test_an_owner_that_was_taken_over_cannot_end_the_task(tmp_path: Path, config: dict[str, Any]) -> None:
    first = filled(tmp_path, config)
    called: list[str] = []
    first.register_completion_hook("note", lambda: called.append("done"))
    second = TaskContextManager.resume(tmp_path, first.uuid, config, take_over=True)
    with pytest.raises(StaleWriter):
        first.message_store.add_message("user", "late")
    with pytest.raises(StaleWriter):
        first.complete()
    assert called == []
    assert not (second.context_dir / "final_summary.txt").exists()
    assert not first.is_open
    with refused(IllegalTransition, "closed"):
        first.complete()
    assert second.catalogue.tasks.get(first.uuid).status is TaskStatus.RUNNING
    assert second.catalogue.tasks.get(first.uuid).lease_owner is not None
    second.complete()


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_block_whose_task_was_taken_over_leaves_it_to_the_new_owner(
    tmp_path: Path, config: dict[str, Any], interrupted: bool
) -> None:
    first = filled(tmp_path, config)
    with pytest.raises(KeyboardInterrupt if interrupted else StaleWriter), first:
        second = TaskContextManager.resume(tmp_path, first.uuid, config, take_over=True)
        if interrupted:
            raise KeyboardInterrupt
        first.message_store.add_message("user", "late")
    assert not first.is_open
    assert not (second.context_dir / "final_summary.txt").exists()
    row = second.catalogue.tasks.get(first.uuid)
    assert (row.status, row.epoch) == (TaskStatus.RUNNING, second.lease.epoch)
    second.complete()


def test_an_owner_that_was_taken_over_changes_nothing_in_the_catalogue(tmp_path: Path, config: dict[str, Any]) -> None:
    first = filled(tmp_path, config)
    second = TaskContextManager.resume(tmp_path, first.uuid, config, take_over=True)
    before = second.catalogue.tasks.get(first.uuid)
    for act in (
        lambda: first.update_statistics(llm_calls=1),
        lambda: first.update_statistics(total_messages=1),
        lambda: first.report_usage({"prompt_tokens": 300}),
        lambda: first.change_model("gpt-4", 4000),
        first.heartbeat,
    ):
        with refused(StaleWriter, "lease"):
            act()
    assert second.catalogue.tasks.get(first.uuid) == before
    assert (first.model, first.correction.factor) == ("gpt-4o", 1.0), "what was refused has not happened here either"
    first.close()
    second.complete()


def test_after_close_nothing_is_written_without_a_lease(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.close()
    for act in (
        lambda: ctx.message_store.add_message("user", "late"),
        lambda: ctx.planning_store.add_plan("initial", "late"),
        lambda: ctx.update_statistics(llm_calls=1),
        ctx.heartbeat,
    ):
        with refused(IllegalTransition, "closed"):
            act()
    assert ctx.message_store.count_messages() == 12


def test_an_end_whose_folder_cannot_move_is_an_end_all_the_same(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    (tmp_path / "completed").write_text("in the way")
    with pytest.raises(StorageError):
        ctx.complete()
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert (row.status, row.lease_owner, ctx.is_open) == (TaskStatus.COMPLETED, None, False)
    with refused(IllegalTransition, "closed"):
        ctx.message_store.add_message("user", "too late")
    (tmp_path / "completed").unlink()
    with refused(IllegalTransition, "change"):
        TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert [place.position for place in ctx.base.folders.places(ctx.uuid)] == ["completed"]


@pytest.mark.parametrize(("status", "place"), [(TaskStatus.PAUSED, "running"), (TaskStatus.RUNNING, "paused")])
def test_a_crash_between_catalogue_and_folder_is_put_right(
    tmp_path: Path, config: dict[str, Any], status: TaskStatus, place: str
) -> None:
    ctx = filled(tmp_path, config)
    ctx.stop()
    if status is TaskStatus.RUNNING:
        ctx.catalogue.tasks.change_status(ctx.uuid, TaskStatus.RUNNING)
    else:
        (tmp_path / "paused" / ctx.uuid).rename(tmp_path / "running" / ctx.uuid)
    again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert again.message_store.count_messages() == 12
    assert again.context_dir.parent.name == "running"
    again.stop()
    assert [place.position for place in again.base.folders.places(ctx.uuid)] == ["paused"]


def test_a_log_that_has_lost_acknowledged_messages_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    ctx = filled(tmp_path, {})
    ctx.stop()
    folder = tmp_path / "paused" / ctx.uuid
    log = folder / "messages.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:5]))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with refused(DamagedStore, "log_lost"):
        TaskContextManager.resume(tmp_path, ctx.uuid)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert (row.status, row.lease_owner) == (TaskStatus.PAUSED, None)
    assert [place.position for place in ctx.base.folders.places(ctx.uuid)] == ["paused"]


def test_a_task_whose_folder_is_gone_does_not_begin_anew(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.stop()
    shutil.rmtree(tmp_path / "paused" / ctx.uuid)
    with refused(DamagedStore, "log_lost"):
        TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert ctx.catalogue.tasks.get(ctx.uuid).status is TaskStatus.PAUSED
    assert ctx.base.folders.places(ctx.uuid) == []


@pytest.mark.parametrize("durability", ["full", "os"])
def test_what_a_crash_may_lose_depends_on_the_durability(
    tmp_path: Path, durability: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"context_storage": {"durability": durability}}
    ctx = filled(tmp_path, config)
    ctx.heartbeat()
    ctx.close()
    for name in ("messages.jsonl", "current.jsonl"):
        path = ctx.context_dir / name
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    if durability == "full":
        with refused(DamagedStore, "log_lost"):
            TaskContextManager.resume(tmp_path, ctx.uuid, config)
    else:
        again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
        assert again.message_store.count_messages() == 5
        assert "5 of 12 messages have survived" in caplog.text
        again.complete()


def test_a_back_end_that_is_not_there_leaves_no_task(tmp_path: Path) -> None:
    with refused(InvalidSettings, "no_database_url"):
        TaskContextManager(tmp_path, KEY, {"context_storage": {"backend": "postgres"}}, uuid="one")
    with TaskContextManager(tmp_path, KEY, uuid="two") as ctx:
        assert [row.uuid for row in ctx.catalogue.tasks.page()] == ["two"]
        assert ctx.base.folders.places("one") == []


def test_a_task_that_does_not_open_is_free_for_the_next_try(tmp_path: Path) -> None:
    ctx = filled(tmp_path, {})
    ctx.stop()
    log = tmp_path / "paused" / ctx.uuid / "messages.jsonl"
    good = log.read_bytes()
    log.write_bytes(b"not a record\n" + good.partition(b"\n")[2])
    with pytest.raises(DamagedStore):
        TaskContextManager.resume(tmp_path, ctx.uuid)
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert (row.status, row.lease_owner) == (TaskStatus.PAUSED, None)
    log.write_bytes(good)
    TaskContextManager.resume(tmp_path, ctx.uuid).complete()


def test_figures_by_increments_and_by_totals(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.update_statistics(llm_calls=1, tool_calls=2, tokens=300, compressions=1)
    ctx.update_statistics(llm_calls=1)
    ctx.message_store.create_summary(2, 5, "so far")
    ctx.update_statistics(total_messages=11, total_summaries=1, final_token_count=77)
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert (row.llm_call_count, row.tool_call_count, row.total_tokens, row.compression_count) == (2, 2, 300, 1)
    assert (row.total_messages, row.total_summaries, row.final_token_count) == (11, 1, 77)
    ctx.cancel()
    assert ctx.catalogue.tasks.get(ctx.uuid).status is TaskStatus.CANCELLED


def test_totals_cannot_exceed_what_is_stored(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.update_statistics(total_messages=999, total_summaries=9, total_tool_calls=9)
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert (row.total_messages, row.total_summaries, row.total_tool_calls) == (12, 0, 0)
    ctx.close()
    TaskContextManager.resume(tmp_path, ctx.uuid, config).complete()


def test_a_store_on_the_folder_alone_does_not_lock_the_task_out(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.stop()
    for number in range(5):
        alone = MessageStore(ctx.context_dir, config)
        alone.add_message("user", f"from outside {number}")
        alone.close()
    again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert again.message_store.add_message("user", "and on") == 18
    assert again.catalogue.tasks.get(ctx.uuid).epoch == again.lease.epoch
    again.heartbeat()
    again.complete()
    row = again.catalogue.tasks.get(ctx.uuid)
    assert (row.status, row.lease_owner) == (TaskStatus.COMPLETED, None)


FORKED = """
    import json, os, sys
    from orihon import TaskContextManager, TaskKey
    from orihon.errors import IllegalTransition
    key = TaskKey("github", "me", "project", "issue", "27", "me")
    with TaskContextManager(sys.argv[1], key, json.loads(sys.argv[2])) as ctx:
        ctx.message_store.add_message("user", "before the fork")
        pid = os.fork()
        if pid == 0:
            refused = 0
            for end in (ctx.stop, ctx.complete, ctx.cancel, lambda: ctx.fail("no")):
                try:
                    end()
                except IllegalTransition as error:
                    refused += (error.reason, error.fields["pid"]) == ("other_process", os.getppid())
            ctx.close()
            ctx.__exit__(None, None, None)
            sys.exit(refused)  # leaves the block as well
        refused = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        row = ctx.catalogue.tasks.get(ctx.uuid)
        alive = row.lease_owner is not None and ctx.is_open
        print(refused, row.status.value, alive, ctx.message_store.add_message("user", "after it"), flush=True)
    print(ctx.catalogue.tasks.get(ctx.uuid).status.value)
"""


def test_a_fork_that_leaves_the_block_does_not_end_the_task(tmp_path: Path, config: dict[str, Any]) -> None:
    out, _ = child(FORKED, tmp_path, json.dumps(config)).communicate(timeout=240)
    assert out.splitlines() == ["4 running True 2", "completed"]


def test_a_heartbeat_says_how_far_a_running_task_is(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    ctx.heartbeat()
    row = ctx.catalogue.tasks.get(ctx.uuid)
    tokens = ctx.message_store.get_current_token_count()
    assert (row.status, row.total_messages, row.view_tokens) == (TaskStatus.RUNNING, 12, tokens)
    ctx.message_store.create_summary(2, 11, "Short.")
    ctx.stop()
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert row.view_tokens == row.final_token_count == ctx.message_store.get_current_token_count() < tokens


def test_an_unknown_status_is_refused_by_name(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    with refused(InvalidInput, "unknown_status"):
        ctx.update_status("finished")
    with refused(IllegalTransition, "change"):
        ctx.update_status("queued")
    assert ctx.message_store.add_message("user", "still open") == 13
    ctx.complete()


def test_a_reserve_that_somebody_has_set_is_kept_whole(tmp_path: Path) -> None:
    config = {"llm": {"openai": {"context_length": 8000, "reserve_output": 5000}}}
    with TaskContextManager(tmp_path, KEY, config) as ctx:
        assert ctx.budget.tokens == 3000
        with refused(InvalidSettings, "budget"):
            ctx.change_model("gpt-4", 4000)
        assert (ctx.model, ctx.context_length) == ("gpt-4o", 8000)
        assert ctx.catalogue.tasks.get(ctx.uuid).context_length == 8000


def test_usage_is_held_against_what_was_sent(tmp_path: Path, config: dict[str, Any]) -> None:
    def asked(uuid: str) -> TaskContextManager:
        ctx = TaskContextManager(tmp_path, KEY, config, uuid=uuid, inherit=False)
        ctx.message_store.add_message("user", "x" * 4 * 500)
        return ctx

    answered = asked("answered")
    answered.message_store.add_message("assistant", "y" * 4 * 500)
    answered.report_usage({"prompt_tokens": 500})
    assert answered.correction.factor == 1.0
    later = asked("later")
    sent = later.message_store.get_current_token_count()
    later.message_store.add_message("assistant", "y" * 4 * 500)
    later.message_store.add_message("user", "z" * 4 * 500)
    later.report_usage({"prompt_tokens": 600}, request_tokens=sent)
    assert later.correction.factor == pytest.approx(1.2)
    for ctx in (answered, later):
        ctx.complete()


def test_reported_usage_corrects_the_estimate_and_is_remembered(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    estimated = ctx.message_store.get_current_token_count()
    plain = ctx.usage
    usage = {"prompt_tokens": 2 * estimated, "prompt_tokens_details": {"cached_tokens": estimated}}
    ctx.report_usage(usage, request_tokens=estimated)
    assert ctx.usage == pytest.approx(2 * plain, rel=0.01)
    ctx.report_usage({"nonsense": True})
    ctx.stop()
    again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert again.usage == pytest.approx(2 * plain, rel=0.01)
    assert again.catalogue.tasks.get(ctx.uuid).total_tokens == 2 * estimated
    again.complete()


def test_another_model_in_mid_task_refits_the_counts(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    by_first = ctx.message_store.get_exact_token_count("o200k_base")
    by_second = ctx.change_model("gpt-4", 4000)
    assert by_second == ctx.message_store.get_exact_token_count("cl100k_base")
    assert by_first > 0
    assert ctx.budget.window == 4000
    ctx.stop()
    again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    assert (again.model, again.context_length) == ("gpt-4", 4000)
    again.complete()


def test_the_next_task_on_the_key_inherits_and_others_do_not(tmp_path: Path, config: dict[str, Any]) -> None:
    first = filled(tmp_path, config)
    first.planning_store.add_plan("initial", "first the parser, then the tests")
    first.complete()
    second = TaskContextManager(tmp_path, KEY, config)
    assert second.has_inheritance_context()
    seq = second.create_initial_context_with_inheritance("You are careful.")
    inherited = second.message_store.get_message(seq).message
    assert inherited.role == "system"
    assert "first the parser" in inherited.text
    assert first.uuid in (second.get_inheritance_notification_comment() or "")
    assert second.catalogue.tasks.get(second.uuid).inherits_from == first.uuid
    second.complete()
    other = TaskContextManager(tmp_path, TaskKey("github", "me", "project", "issue", "28", "me"), config)
    assert other.get_inheritance_context() is None
    assert other.get_inheritance_notification_comment() is None
    other.complete()
    alone = TaskContextManager(tmp_path, KEY, config, inherit=False)
    assert not alone.has_inheritance_context()
    alone.complete()


def test_keywords_of_the_first_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ctx = TaskContextManager(
        task_key={"task_source": "github", "owner": "o", "repo": "r", "task_type": "issue", "task_id": "1"},
        uuid="550e8400-e29b-41d4-a716-446655440000",
        config={"context_storage": {"base_dir": "logs"}},
    )
    assert ctx.context_dir == tmp_path / "logs/running/550e8400-e29b-41d4-a716-446655440000"
    assert ctx.get_message_store() is ctx.message_store
    assert ctx.get_summary_store() is ctx.summary_store
    assert ctx.get_tool_store() is ctx.tool_store
    assert ctx.get_planning_store() is ctx.planning_store
    ctx.update_status("running")
    ctx.update_status("failed", "no reason")
    assert ctx.catalogue.tasks.get(ctx.uuid).error_message == "no reason"


@pytest.mark.parametrize("uuid", ["../x", "/etc", "a\0b", "x" * 300, "", "a/b", "."])
def test_an_id_that_is_a_path_is_refused_and_nothing_is_made(tmp_path: Path, uuid: str) -> None:
    base = tmp_path / "contexts"
    if uuid == "":
        with pytest.raises(TaskNotFound):
            TaskContextManager(base, None, uuid="nobody", is_resumed=True)
        return
    with refused(InvalidId, "unsafe"):
        TaskContextManager(base, KEY, uuid=uuid)
    assert not (base / "running").exists()


def test_a_second_start_of_the_same_task_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = filled(tmp_path, config)
    with refused(IllegalTransition, "exists"):
        TaskContextManager(tmp_path, KEY, config, uuid=ctx.uuid, is_resumed=False)
    with pytest.raises(InvalidInput):
        TaskContextManager(tmp_path, {"task_source": 7}, config)
    ctx.close()
    assert ctx.catalogue.tasks.get(ctx.uuid).status is TaskStatus.RUNNING
    again = TaskContextManager.resume(tmp_path, ctx.uuid, config)
    again.heartbeat()
    again.complete()
