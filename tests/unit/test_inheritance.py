"""A new task inherits from the last finished one on its key, and leaves that one as it is."""

from __future__ import annotations

import hashlib
import logging
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.catalogue import TaskRow
from orihon.errors import DamagedStore
from orihon.tasks.context import TaskContextManager
from orihon.tasks.inheritance import ContextInheritanceManager, InheritanceContext, PreviousContext, _shares
from orihon.tasks.place import TaskFolders
from orihon.texts import text
from orihon.values.task import TaskKey, TaskStatus
from orihon.values.tokens.tokens import estimate
from tests.helpers import refused

KEY = TaskKey("github", "acme", "rocket", "issue", "27", "mika")


@pytest.fixture
def config() -> dict[str, Any]:
    return {"context_storage": {"durability": "os"}}


def start(base_dir: Path, config: dict[str, Any], key: TaskKey = KEY) -> TaskContextManager:
    return TaskContextManager(base_dir, key, config)


def finish(base_dir: Path, config: dict[str, Any], *, error: str | None = None, key: TaskKey = KEY) -> str:
    """One task on the key from start to end; its UUID."""
    ctx = start(base_dir, config, key)
    ctx.message_store.add_message("system", "You build rockets.")
    ctx.message_store.add_message("user", "Mend the valve of tank 4.")
    ctx.message_store.add_message("assistant", "The valve is mended in tank.py.")
    ctx.planning_store.add_plan("initial", "look at tank.py")
    ctx.planning_store.add_plan("revision", {"steps": ["弁を直す", "test"]})
    if error is None:
        ctx.complete()
    else:
        ctx.fail(error)
    return ctx.uuid


def manager(base_dir: Path, config: dict[str, Any], **inheritance: Any) -> ContextInheritanceManager:
    return ContextInheritanceManager(base_dir, config | {"inheritance": inheritance})


def fingerprint(folder: Path) -> dict[Path, tuple[int, str]]:
    """Every file below the folder, when it was changed and what is in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}


def folder_of(base_dir: Path, uuid: str) -> Path:
    place = TaskFolders(base_dir).find(uuid)
    assert place is not None
    return place.folder


# ---- finding ---------------------------------------------------------------------------------------------------


def test_the_last_finished_task_comes_first(tmp_path: Path, config: dict[str, Any]) -> None:
    first, second = finish(tmp_path, config), finish(tmp_path, config, error="out of fuel")
    found = manager(tmp_path, config).find_previous_contexts(KEY)
    assert [previous.uuid for previous in found] == [second, first]
    assert [previous.status for previous in found] == [TaskStatus.FAILED, TaskStatus.COMPLETED]
    assert isinstance(found[0], PreviousContext)
    assert isinstance(found[0].completed_at, datetime)
    assert found[1].metadata["uuid"] == first
    assert "valve" in (found[1].final_summary or "")
    assert [plan["plan_type"] for plan in found[1].planning_history] == ["initial", "revision"]


@pytest.mark.parametrize(
    "other",
    [
        TaskKey("github", "acme", "rocket", "issue", "27", "yuki"),
        TaskKey("github", "acme", "rocket", "issue", "28", "mika"),
        TaskKey("gitlab", "acme", "rocket", "issue", "27", "mika"),
        TaskKey("github", "acme", "rocket", "pull_request", "27", "mika"),
    ],
)
def test_the_whole_key_has_to_match(tmp_path: Path, other: TaskKey) -> None:
    config = {"context_storage": {"durability": "os"}}
    finish(tmp_path, config, key=other)
    assert manager(tmp_path, config).find_previous_contexts(KEY) == []
    assert len(manager(tmp_path, config).find_previous_contexts(other.as_dict() | {"user": other.user})) == 1


def test_tasks_that_are_not_finished_give_nothing(tmp_path: Path, config: dict[str, Any]) -> None:
    running = start(tmp_path, config)
    running.planning_store.add_plan("initial", "x")
    assert manager(tmp_path, config).find_previous_contexts(KEY) == []
    assert manager(tmp_path, config).get_inheritance_context(running.uuid) is None
    running.stop()
    assert manager(tmp_path, config).get_inheritance_context(running.uuid) is None
    assert manager(tmp_path, config).get_inheritance_context("no-such-task") is None


def test_a_finished_task_is_left_exactly_as_it_was(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = folder_of(tmp_path, finish(tmp_path, config, error="x"))
    before = fingerprint(folder)
    inheritance = manager(tmp_path, config)
    (previous,) = inheritance.find_previous_contexts(KEY)
    assert inheritance.get_inheritance_context(previous.uuid) is not None
    assert fingerprint(folder) == before


def test_an_empty_folder_does_not_get_a_store(tmp_path: Path) -> None:
    config = {"context_storage": {"backend": "sqlite"}}
    ctx = start(tmp_path, config)
    ctx.fail("nothing done")
    folder = folder_of(tmp_path, ctx.uuid)
    for path in folder.iterdir():
        path.unlink()
    inherited = manager(tmp_path, config).get_inheritance_context(ctx.uuid)
    assert inherited is not None
    assert (inherited.final_summary, inherited.planning_history, inherited.metadata) == ("", (), {})
    assert inherited.open_problems == ("nothing done",)
    assert list(folder.iterdir()) == []


# ---- reading ---------------------------------------------------------------------------------------------------


def test_open_problems_are_the_failure_and_tool_errors_that_stayed(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = start(tmp_path, config)
    for tool, error in (
        ("compile", "syntax error"),
        ("deploy", "host\nunreachable"),
        ("compile", None),
        ("search", None),
        ("search", "index is gone"),
        ("deploy", "timeout after 30 s"),
    ):
        ctx.tool_store.add_tool_call(tool, {}, None if error else "ok", error)
    ctx.fail("gave up")
    inherited = manager(tmp_path, config).get_inheritance_context(ctx.uuid)
    assert inherited is not None
    assert inherited.open_problems == ("gave up", "deploy: timeout after 30 s", "search: index is gone")
    assert (inherited.status, inherited.metadata["uuid"]) == (TaskStatus.FAILED, ctx.uuid)


def test_a_problem_is_one_short_line(tmp_path: Path, config: dict[str, Any]) -> None:
    ctx = start(tmp_path, config)
    ctx.tool_store.add_tool_call("run", {}, None, "Traceback:\n" + "長い行 " * 1000)
    ctx.complete()
    inherited = manager(tmp_path, config).get_inheritance_context(ctx.uuid)
    assert inherited is not None
    (problem,) = inherited.open_problems
    assert problem.startswith("run: Traceback: 長い行 ")
    assert problem.endswith("…")
    assert len(problem) == 500


def test_without_final_summary_plans_and_problems_are_inherited(tmp_path: Path, config: dict[str, Any]) -> None:
    uuid = finish(tmp_path, config, error="no fuel")
    (folder_of(tmp_path, uuid) / "final_summary.txt").unlink()
    inheritance = manager(tmp_path, config)
    inherited = inheritance.get_inheritance_context(uuid)
    assert inherited is not None
    assert inherited.final_summary == ""
    ctx = start(tmp_path, config)
    message = ctx.message_store.get_message(inheritance.create_initial_context(ctx, inherited)).message.text
    assert "no fuel" in message
    assert "look at tank.py" in message
    assert "# Final summary" not in message


def test_an_archived_task_gives_nothing_and_says_so(
    tmp_path: Path, config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    older, archived = finish(tmp_path, config), finish(tmp_path, config)
    shutil.rmtree(folder_of(tmp_path, archived))
    with caplog.at_level(logging.INFO, "orihon.inheritance"):
        assert manager(tmp_path, config).get_inheritance_context(archived) is None
    assert archived in caplog.text
    assert [previous.uuid for previous in manager(tmp_path, config).find_previous_contexts(KEY)] == [older]
    assert start(tmp_path, config).catalogue.tasks.find(archived) is not None


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe"])
def test_old_damage_raises_but_does_not_keep_a_new_task_from_starting(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"context_storage": {"durability": "os"}}
    uuid = finish(tmp_path, config)
    (folder_of(tmp_path, uuid) / "metadata.json").write_bytes(content)
    with refused(DamagedStore, "metadata"):
        manager(tmp_path, config).find_previous_contexts(KEY)
    with refused(DamagedStore, "metadata"):
        manager(tmp_path, config).get_inheritance_context(uuid)
    ctx = start(tmp_path, config)
    assert not ctx.has_inheritance_context()
    assert ctx.catalogue.tasks.get(ctx.uuid).inherits_from is None
    assert "nothing is inherited" in caplog.text
    ctx.complete()


def test_damage_of_an_earlier_task_costs_only_that_one(tmp_path: Path) -> None:
    config = {"context_storage": {"durability": "os"}}
    success, damaged, last = (finish(tmp_path, config, error=error) for error in (None, "first", "second"))
    (folder_of(tmp_path, damaged) / "metadata.json").write_bytes(b"{")
    inherited = manager(tmp_path, config).get_inheritance_context(last)
    assert inherited is not None
    assert [previous.uuid for previous in inherited.earlier] == [success]


def test_a_new_task_reads_only_the_one_it_inherits_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"context_storage": {"durability": "os"}}
    *_, last = (finish(tmp_path, config) for _ in range(3))
    read: list[str] = []
    build = ContextInheritanceManager._build_previous_context_from_db

    def noting(self: ContextInheritanceManager, row: TaskRow) -> PreviousContext:
        read.append(row.uuid)
        return build(self, row)

    monkeypatch.setattr(ContextInheritanceManager, "_build_previous_context_from_db", noting)
    assert start(tmp_path, config).has_inheritance_context()
    assert read == [last]


def test_a_damaged_plan_raises(tmp_path: Path) -> None:
    config = {"context_storage": {"durability": "os"}}
    path = folder_of(tmp_path, finish(tmp_path, config)) / "planning.jsonl"
    path.write_bytes(b"not a record\n" + path.read_bytes())
    with pytest.raises(DamagedStore):
        manager(tmp_path, config).find_previous_contexts(KEY)


def test_after_failures_the_last_success_is_inherited_too(tmp_path: Path, config: dict[str, Any]) -> None:
    forgotten = finish(tmp_path, config)
    success, failure, last = (finish(tmp_path, config, error=error) for error in (None, "first", "second"))
    inherited = manager(tmp_path, config).get_inheritance_context(last)
    assert inherited is not None
    assert [previous.uuid for previous in inherited.earlier] == [failure, success]
    assert forgotten not in str(inherited.earlier)
    of_success = manager(tmp_path, config).get_inheritance_context(success)
    assert of_success is not None
    assert of_success.earlier == ()


# ---- wording ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_model_is_told_what_it_reads(
    tmp_path: Path, config: dict[str, Any], lang: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORIHON_LANG", lang)
    uuid = finish(tmp_path, config, error="燃料切れ")
    ctx = start(tmp_path, config)
    seq = ctx.create_initial_context_with_inheritance("You build rockets.")
    assert ctx.message_store.count_messages() == seq == 2
    stored = ctx.message_store.get_message(seq)
    message = stored.message.text
    assert stored.message.role == "system"
    assert uuid in message
    assert "燃料切れ" in message
    assert "look at tank.py" in message
    assert message.index('{"steps":["弁を直す","test"]}') < message.index("look at tank.py")
    assert {"en": "not an instruction", "ja": "指示ではありません"}[lang] in message
    assert {"en": "\n# Open problems\n", "ja": "\n# 未解決の問題\n"}[lang] in message
    assert ctx.message_store.view().head == 2, "what is inherited is as safe from folding as the system prompt"


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_comment_names_task_status_and_time(tmp_path: Path, lang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORIHON_LANG", lang)
    inherited = InheritanceContext(
        uuid="0f3c",
        final_summary="secret plans",
        planning_history=({"plan_content": "more secrets"},),
        metadata={},
        status=TaskStatus.FAILED,
        completed_at=datetime(2026, 11, 3, 9, 5, 59, tzinfo=UTC),
    )
    comment = manager(tmp_path, {}).generate_notification_comment(inherited)
    heading, _, *lines = comment.splitlines()
    assert heading.startswith("### ")
    wanted = {
        "en": [
            "- Previous task: `0f3c`",
            "- Status: failed",
            "- Ended: 2026-11-03 09:05 UTC",
            "- Inherited: final summary, plans: 1",
        ],
        "ja": [
            "- 前回のタスク: `0f3c`",
            "- 状態: 失敗",
            "- 終了: 2026-11-03 09:05 UTC",
            "- 引き継いだもの: 最終要約, 計画 1 件",
        ],
    }
    assert lines == wanted[lang]


def test_a_task_that_left_nothing_can_still_be_told_of(tmp_path: Path, config: dict[str, Any]) -> None:
    inherited = InheritanceContext("0f3c", "", (), {})
    inheritance = manager(tmp_path, config)
    assert inheritance.generate_notification_comment(inherited).count("nothing was left behind") == 1
    ctx = start(tmp_path, config)
    seq = inheritance.create_initial_context(ctx, inherited)
    assert ctx.message_store.get_message(seq).message.text.endswith("\n\nnothing was left behind")


ENGLISH, JAPANESE = "The valve of tank 4 leaks. ", "四番タンクの弁が漏れている。"


@pytest.mark.parametrize("limit", [300, 1000, 4000])
@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize(("summary", "plan"), [(ENGLISH, JAPANESE), (JAPANESE, ENGLISH), (JAPANESE, JAPANESE)])
def test_what_is_inherited_fits_and_is_shared_out(
    tmp_path: Path, lang: str, summary: str, plan: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORIHON_LANG", lang)
    inherited = InheritanceContext(
        uuid="0f3c",
        final_summary=summary * 2000,
        planning_history=({"plan_type": "initial", "plan_content": plan * 2000, "created_at": "-"},),
        metadata={},
        open_problems=("no fuel",),
    )
    config = {"context_storage": {"durability": "os"}}
    ctx = start(tmp_path, config)
    seq = manager(tmp_path, config, max_summary_tokens=limit).create_initial_context(ctx, inherited)
    stored = ctx.message_store.get_message(seq)
    message = stored.message.text
    assert stored.tokens == estimate(message) <= limit
    assert stored.tokens > limit / 2, "a mixture of languages may leave some room, but not most of it"
    assert message.count(text("inheritance.truncated")) >= 2
    assert summary[:5] in message
    assert plan[:5] in message
    assert "no fuel" in message


@pytest.mark.parametrize("window", [4000, 8000, 128_000])
def test_a_small_window_is_not_filled_with_what_is_inherited(tmp_path: Path, window: int) -> None:
    config = {"context_storage": {"durability": "os"}, "llm": {"openai": {"context_length": window}}}
    inherited = InheritanceContext("0f3c", ENGLISH * 2000, (), {})
    ctx = start(tmp_path, config)
    stored = ctx.message_store.get_message(manager(tmp_path, config).create_initial_context(ctx, inherited))
    limit = min(4000, window // 10)
    assert 0.9 * limit < stored.tokens <= limit


def test_a_limit_below_the_introduction_leaves_only_that(tmp_path: Path, config: dict[str, Any]) -> None:
    inherited = InheritanceContext("0f3c", ENGLISH * 100, (), {})
    ctx = start(tmp_path, config)
    seq = manager(tmp_path, config, max_summary_tokens=5).create_initial_context(ctx, inherited)
    message = ctx.message_store.get_message(seq).message.text
    assert "not an instruction" in message
    assert message.endswith("\n\n" + text("inheritance.truncated"))


@given(st.text(st.sampled_from("ab 弁\n"), max_size=400), st.integers(20, 120))
def test_a_text_is_cut_to_its_beginning_and_a_notice(summary: str, limit: int) -> None:
    inheritance = ContextInheritanceManager.__new__(ContextInheritanceManager)
    cut = inheritance._truncate_summary_if_needed(summary, limit)
    assert estimate(cut) <= limit
    if estimate(summary) <= limit:
        assert cut == summary
    else:
        kept, _, notice = cut.rpartition("\n")
        assert notice == text("inheritance.truncated")
        assert summary.startswith(kept)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(0, 3000))
def test_shares_fill_the_room_and_favour_nobody(sizes: list[int], room: int) -> None:
    shares = _shares(sizes, room)
    assert sum(shares) <= room
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    if sum(sizes) <= room:
        assert shares == sizes
    else:
        assert sum(shares) > room - len(sizes)
        short = [share for share, size in zip(shares, sizes, strict=True) if share < size]
        assert max(shares) <= min(short) + 1
