"""Transcripts of other agents become tasks: once, completely, and again only what is new."""

from __future__ import annotations

import base64
import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import import_transcripts
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.importers.report import ImportReport
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskStatus
from tests.damage import BACKENDS
from tests.helpers import SomeSteps
from tests.importing import (
    CHAT,
    CLAUDE_SESSION,
    claude_answer,
    claude_record,
    claude_records,
    codex_record,
    codex_records,
    make_chat_lines,
    make_claude_code,
    make_codex,
    write_lines,
)
from tests.integration.killing import count_changes, killed_at_change
from tests.services import Database

OLD = 1_700_000_000.0  # nobody writes to a file of that age any more


def settings_for(backend: str = "files", **more: Any) -> Settings:
    """A process that is killed loses nothing that the operating system has: these tests need not wait for the disk."""
    return load_settings({"context_storage": {"backend": backend, "durability": "os", **more}}, environ={})


def bring(base: Path, *paths: Path, settings: Settings | None = None, **options: Any) -> ImportReport:
    return import_transcripts(base, settings or settings_for(), paths, **options)


def rows(base: Path, settings: Settings | None = None) -> list[TaskRow]:
    with open_catalogue(base, settings or settings_for()) as catalogue:
        return sorted(catalogue.tasks.page(), key=lambda row: row.task_id)


def story(base: Path, uuid: str, settings: Settings | None = None) -> dict[str, Any]:
    """What a task holds, without what differs from import to import."""
    wanted = settings or settings_for()
    with OpenBase(base, wanted) as opened:
        folder = opened.folders.find(uuid)
        assert folder is not None
        with closing(open_for_reading(folder.folder, wanted, name=uuid)) as store:
            return {
                "messages": [
                    (one.message.body(), one.timestamp, one.call and one.call.as_dict()) for one in store.messages()
                ],
                "view": [json.loads(line) for line in store.view_lines()],
                "tools": list(store.read("tools")),
                "plans": list(store.read("planning")),
                "folds": [(fold.start_seq, fold.end_seq, fold.text, fold.made_by) for fold in store.state()[0]],
                "folded_at": [fold.created_at for fold in store.state()[0]],
            }


def long_session() -> list[dict[str, Any]]:
    """Everything that a session can have: calls in pieces, parallel ones, a plan, a compaction, a call left open."""

    def use(call_id: str, name: str = "Bash", **asked: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": call_id, "name": name, "input": asked}

    def results(*pairs: tuple[str, str]) -> dict[str, Any]:
        blocks = [{"type": "tool_result", "tool_use_id": one, "content": said} for one, said in pairs]
        return {"role": "user", "content": blocks}

    todos = [{"content": "count", "status": "pending"}]
    compacted = {"role": "user", "content": "This session is being continued: pears were counted."}
    return [
        *claude_records(),
        claude_record(6, "user", {"role": "user", "content": "Count them."}),
        claude_record(7, "assistant", claude_answer("msg_3", use("toolu_2", "TodoWrite", todos=todos))),
        claude_record(8, "user", results(("toolu_2", "ok"))),
        claude_record(9, "assistant", claude_answer("msg_3", use("toolu_3", command="wc"))),
        claude_record(10, "user", results(("toolu_3", "17"))),
        {"type": "system", "subtype": "compact_boundary", "sessionId": CLAUDE_SESSION, "uuid": "c"},
        claude_record(11, "user", compacted, isCompactSummary=True),
        claude_record(12, "user", {"role": "user", "content": "And the apples?"}),
        claude_record(13, "assistant", claude_answer("msg_4", {"type": "text", "text": "I ask."})),
        claude_record(14, "assistant", claude_answer("msg_4", use("toolu_4"), use("toolu_5"))),
        claude_record(15, "user", results(("toolu_5", "5 apples"))),
    ]


# ---- once ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_session_is_a_completed_task(base: Path, tmp_path: Path, backend: str) -> None:
    settings = settings_for(backend)
    report = bring(base, make_claude_code(tmp_path), settings=settings)
    assert (report.is_clean, report.new_tasks, report.messages, report.tool_calls) == (True, 1, 4, 1)
    (row,) = rows(base, settings)
    assert row.status is TaskStatus.COMPLETED
    assert (row.key.task_source, row.key.repo, row.key.task_type) == ("claude-code", "shop", "session")
    assert (row.task_id, row.model, row.backend) == (CLAUDE_SESSION, "claude-sonnet-4-5", backend)
    assert (row.total_messages, row.llm_call_count, row.total_tokens) == (4, 2, 268 + 40)
    assert row.created_at == "2026-01-20T11:57:01.000000+00:00"
    assert row.completed_at == "2026-01-20T11:57:05.000000+00:00"
    assert row.metadata["title"] == "Counting pears"
    assert row.metadata["import"]["format"] == "claude-code"
    told = story(base, row.uuid, settings)
    assert [body["role"] for body, _, _ in told["messages"]] == ["user", "assistant", "tool", "assistant"]
    body, moment, call = told["messages"][1]
    assert (body["content"], body["tool_calls"][0]["function"]["name"]) == ("I look.", "Bash")
    assert moment == "2026-01-20T11:57:02.000000+00:00"
    assert call == {"model": "claude-sonnet-4-5", "usage": {"input": 134, "cached": 100, "output": 20}}
    assert examine(OpenBase(base, settings)) == []
    with open_catalogue(base, settings) as catalogue:
        (used,) = catalogue.usage.of_task(row.uuid)
        assert (used.day, used.calls, used.input_tokens, used.output_tokens) == ("2026-01-20", 2, 268, 40)


def test_tasks_in_a_database(tmp_path: Path, base: Path, postgres: Database) -> None:
    database = {"url": postgres.url, "schema": postgres.schema}
    settings = load_settings({"context_storage": {"backend": "postgres"}, "database": database}, environ={})
    path = write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", long_session()[:-3])
    assert bring(base, path, settings=settings).new_tasks == 1
    write_lines(path, long_session())
    again = bring(base, path, settings=settings)
    assert (again.grown_tasks, again.messages) == (1, 2)
    assert bring(base, path, settings=settings).unchanged == 1
    (row,) = rows(base, settings)
    assert story(base, row.uuid, settings)["folds"]
    assert examine(OpenBase(base, settings)) == []


def test_secrets_are_masked_wherever_they_stand(base: Path, tmp_path: Path) -> None:
    secret = "sk-proj-" + "Ab3" * 16
    chat = [*CHAT, {"role": "user", "content": f"my key is {secret}"}]
    chat[0] = {"role": "system", "content": f"{secret}"}
    bring(base, write_lines(tmp_path / "chat.jsonl", chat))
    assert not [path for path in base.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_side_chains_and_files_of_agents_are_children(base: Path, tmp_path: Path) -> None:
    def side(number: int, kind: str, message: dict[str, Any], **more: Any) -> dict[str, Any]:
        return claude_record(number, kind, message, isSidechain=True, **more)

    prompt = {"role": "user", "content": "Look for pears."}
    inside = [
        *claude_records(),
        {**side(20, "user", prompt), "parentUuid": None},
        side(21, "assistant", claude_answer("msg_9", {"type": "text", "text": "None."})),
        {**side(30, "user", {"role": "user", "content": "Look for plums."}), "parentUuid": None},
    ]
    write_lines(tmp_path / "p" / f"{CLAUDE_SESSION}.jsonl", inside)
    agent = [side(1, "user", prompt, agentId="a1b2"), side(2, "assistant", claude_answer("m"), agentId="a1b2")]
    write_lines(tmp_path / "p" / CLAUDE_SESSION / "subagents" / "agent-a1b2.jsonl", agent)
    report = bring(base, tmp_path / "p")
    assert (report.is_clean, report.new_tasks) == (True, 4)
    main, *children = rows(base)
    assert main.task_id == CLAUDE_SESSION
    assert {child.parent_uuid for child in children} == {main.uuid}
    with open_catalogue(base, settings_for()) as catalogue:
        assert len(catalogue.tasks.children(main.uuid)) == 3


def test_a_branch_that_was_left_goes_out_of_the_view(base: Path, tmp_path: Path) -> None:
    back = {**claude_record(6, "user", {"role": "user", "content": "Which folders?"}), "parentUuid": None}
    bring(base, write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", [*claude_records(), back]))
    (row,) = rows(base)
    told = story(base, row.uuid)
    assert len(told["messages"]) == 5
    assert [entry["role"] for entry in told["view"]] == ["system", "user"]
    assert told["view"][0]["content"].endswith("[4 messages that were taken back]")
    assert examine(OpenBase(base, settings_for())) == []


def test_a_clock_that_was_wrong_puts_no_task_into_the_future(base: Path, tmp_path: Path) -> None:
    said = {"role": "user", "content": "hi", "timestamp": "9998-01-01T00:00:00Z"}
    bring(base, write_lines(tmp_path / "chat.jsonl", [said, {**said, "timestamp": "soon"}]))
    (row,) = rows(base)
    assert row.created_at <= (row.completed_at or "") <= row.updated_at
    assert [moment[:4] for _, moment, _ in story(base, row.uuid)["messages"]] == ["9998", "9998"]


def test_the_compaction_of_the_other_agent_is_a_fold(base: Path, tmp_path: Path) -> None:
    bring(base, write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", long_session()))
    (row,) = rows(base)
    told = story(base, row.uuid)
    assert told["folds"] == [(1, 8, "This session is being continued: pears were counted.", "claude-code")]
    assert told["folded_at"] == ["2026-01-20T11:57:11.000000+00:00"]
    assert told["view"][0]["content"].endswith("pears were counted.")
    assert [entry["content"] for entry in told["view"][1:3]] == ["And the apples?", "I ask."]
    assert [plan["plan_content"] for plan in told["plans"]] == [[{"content": "count", "status": "pending"}]]
    assert row.compression_count == 1


def test_pictures_and_thoughts_are_kept_as_ever(base: Path, tmp_path: Path) -> None:
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3000)).decode()
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture}}
    thought = {"type": "thinking", "thinking": "a pear", "signature": "s"}
    records = [
        claude_record(1, "user", {"role": "user", "content": [{"type": "text", "text": "What is this?"}, shown]}),
        claude_record(2, "assistant", claude_answer("m1", thought)),
        claude_record(3, "assistant", claude_answer("m1", {"type": "text", "text": "A pear."})),
    ]
    bring(base, write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", records))
    (row,) = rows(base)
    (asked, _, _), (answered, _, _) = story(base, row.uuid)["messages"]
    assert asked["parts"][1]["image_url"]["url"] == f"data:image/png;base64,{picture}"
    assert len(list((base / "completed" / row.uuid / "blobs").iterdir())) == 1
    assert (answered["content"], answered["extra"]["$orihon"]["reasoning"]) == ("A pear.", [thought])


def test_a_message_that_is_too_large_is_left_out_and_told(base: Path, tmp_path: Path) -> None:
    settings = settings_for(max_message_bytes=100_000, blob_bytes=1_000_000)
    chat = [CHAT[0], {"role": "user", "content": "x" * 200_000}, {"role": "assistant", "content": "fine"}]
    path = write_lines(tmp_path / "chat.jsonl", chat)
    report = bring(base, path, settings=settings)
    assert [problem.cause for problem in report.problems] == ["message"]
    (row,) = rows(base, settings)
    said = [body["content"] for body, _, _ in story(base, row.uuid, settings)["messages"]]
    assert said[0] == CHAT[0]["content"]
    assert said[1].startswith("[left out:")
    assert said[2] == "fine"
    write_lines(path, [*chat, {"role": "user", "content": "more"}])
    assert bring(base, path, settings=settings).messages == 1


def test_a_dry_run_writes_nothing(base: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", claude_records())
    report = bring(base, path, dry_run=True)
    assert (report.new_tasks, report.messages) == (1, 4)
    assert not base.exists()
    bring(base, path)
    before = {file: file.stat().st_mtime_ns for file in base.rglob("*") if file.suffix != ".db-shm"}
    write_lines(path, long_session())
    assert bring(base, path, dry_run=True).messages > 4
    assert {file: file.stat().st_mtime_ns for file in base.rglob("*") if file.suffix != ".db-shm"} == before


# ---- again ---------------------------------------------------------------------------------------------------------


def test_a_file_that_has_not_changed_is_not_read_again(base: Path, tmp_path: Path) -> None:
    path = make_claude_code(tmp_path)
    bring(base, path)
    again = bring(base, path)
    assert (again.unchanged, again.size, again.messages) == (1, 0, 0)
    os.utime(path, (OLD, OLD))  # it looks different now, and says the same
    touched = bring(base, path)
    assert (touched.unchanged, touched.messages, touched.new_tasks, touched.grown_tasks) == (1, 0, 0, 0)
    assert touched.size > 0
    (base / "imports.db").unlink()
    assert bring(base, path).messages == 0


@pytest.mark.parametrize("age", ["live", "old"])
def test_a_file_that_grows_is_the_same_task_as_one_that_was_imported_at_once(
    tmp_path: Path, age: str, some_steps: SomeSteps
) -> None:
    """Whatever line the first import ends with, also in the middle of it: no message is missing or twice."""
    records = long_session()
    whole = bring_whole(tmp_path / "whole", records)
    for cut in some_steps(range(1, len(records))):
        here = tmp_path / f"cut-{cut}"
        path = write_lines(here / f"{CLAUDE_SESSION}.jsonl", records[:cut])
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(records[cut])[:-20])
        moment = OLD if age == "old" else time.time()
        os.utime(path, (moment, moment))
        bring(here / "base", path)
        write_lines(path, records)
        os.utime(path, (OLD, OLD))
        bring(here / "base", path)
        (row,) = rows(here / "base")
        told = story(here / "base", row.uuid)
        said = "\n".join(sorted(words(told)))
        assert said == "\n".join(sorted(words(whole))), cut
        assert told["folds"][-1][2] == whole["folds"][-1][2]
        assert row.total_messages == len(told["messages"])
        assert row.llm_call_count == sum(call is not None for _, _, call in told["messages"])


def test_an_agent_at_work_is_imported_again_and_again(tmp_path: Path) -> None:
    """Parallel calls whose results come between them, and a word meanwhile: as if it was imported at the end."""

    def record(number: int, kind: str, *blocks: dict[str, Any], answer: str = "") -> dict[str, Any]:
        message = claude_answer(answer, *blocks) if answer else {"role": "user", "content": list(blocks)}
        return claude_record(number, kind, message, timestamp=utc_now())

    def use(call: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": call, "name": "Bash", "input": {}}

    def result(call: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": call, "content": f"done {call}"}

    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    records = [
        record(1, "user", text("all three")),
        record(2, "assistant", use("a"), answer="msg_1"),
        record(3, "assistant", use("b"), answer="msg_1"),
        record(4, "user", result("b")),
        record(5, "assistant", use("c"), answer="msg_1"),
        record(6, "user", text("quickly")),
        record(7, "user", result("c")),
        record(8, "user", result("a")),
        record(9, "assistant", use("d"), answer="msg_2"),
    ]
    path = tmp_path / f"{CLAUDE_SESSION}.jsonl"
    for count in range(1, len(records) + 1):
        bring(tmp_path / "grown", write_lines(path, records[:count]))
    assert [report.growing for report in (bring(tmp_path / "grown", path), bring(tmp_path / "grown", path))] == [1, 1]
    os.utime(path, (OLD, OLD))
    last = bring(tmp_path / "grown", path)
    assert (last.growing, last.messages) == (0, 2)  # now nobody waits for the last result
    bring(tmp_path / "whole", path)
    (row,) = rows(tmp_path / "whole")
    assert story(tmp_path / "grown", row.uuid) == story(tmp_path / "whole", row.uuid)
    assert row.llm_call_count == 2


def words(told: dict[str, Any]) -> list[str]:
    """All that was said, but for what pairing adds."""
    said = []
    for body, _, _ in told["messages"]:
        texts = [body["content"]] if body.get("parts") is None else [part.get("text") for part in body["parts"]]
        said += [one for one in texts if one and not one.startswith("[no result")]
    return said


def bring_whole(folder: Path, records: list[dict[str, Any]]) -> dict[str, Any]:
    path = write_lines(folder / f"{CLAUDE_SESSION}.jsonl", records)
    os.utime(path, (OLD, OLD))
    bring(folder / "base", path)
    (row,) = rows(folder / "base")
    return story(folder / "base", row.uuid)


def test_a_result_that_comes_later_answers_its_call(base: Path, tmp_path: Path) -> None:
    records = long_session()
    path = write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", records)
    bring(base, path)
    late = {"type": "tool_result", "tool_use_id": "toolu_4", "content": "3 plums"}
    write_lines(path, [*records, claude_record(16, "user", {"role": "user", "content": [late]})])
    report = bring(base, path)
    assert (report.messages, report.mended.calls_closed, report.mended.calls_added) == (1, 0, 0)


def test_a_past_that_has_changed_is_told_and_imported_only_when_wanted(base: Path, tmp_path: Path) -> None:
    path = make_claude_code(tmp_path)
    bring(base, path)
    (row,) = rows(base)
    before = story(base, row.uuid)
    other = claude_records()
    other[1]["message"]["content"] = "Something else."
    write_lines(path, [*other, claude_record(6, "user", {"role": "user", "content": "more"})])
    report = bring(base, path)
    assert [problem.cause for problem in report.problems] == ["changed"]
    assert report.messages == 0
    assert story(base, row.uuid) == before
    anew = bring(base, path, again=True)
    assert (anew.is_clean, anew.new_tasks, anew.messages) == (True, 1, 5)
    assert len(rows(base)) == 2
    write_lines(path, [*other, *(claude_record(n, "user", {"role": "user", "content": "m"}) for n in (6, 7))])
    assert [problem.cause for problem in bring(base, path).problems] == ["changed"]
    assert bring(base, path, again=True).new_tasks == 1


def test_an_older_copy_is_no_other_past(base: Path, tmp_path: Path) -> None:
    path = make_chat_lines(tmp_path)
    bring(base, path)
    write_lines(path, CHAT[:4])
    os.utime(path, (OLD, OLD))
    report = bring(base, path)
    assert (report.is_clean, report.messages) == (True, 0)


def test_progress_is_told_in_bytes(base: Path, tmp_path: Path) -> None:
    files = [make_claude_code(tmp_path / "f"), make_codex(tmp_path / "f")]
    told: list[tuple[int, int]] = []
    bring(base, tmp_path / "f", progress=lambda done, of: told.append((done, of)))
    whole = sum(file.stat().st_size for file in files)
    assert told == [(files[0].stat().st_size, whole), (whole, whole)]


def test_two_users_have_two_tasks(base: Path, tmp_path: Path) -> None:
    path = make_codex(tmp_path)
    bring(base, path, user="kim")
    assert bring(base, path, user="lee").new_tasks == 1
    assert sorted(row.user for row in rows(base)) == ["kim", "lee"]


def test_a_task_that_somebody_holds_is_told(base: Path, tmp_path: Path) -> None:
    path = make_claude_code(tmp_path)
    bring(base, path)
    (row,) = rows(base)
    write_lines(path, long_session())
    with open_catalogue(base, settings_for()) as catalogue:
        lease = catalogue.leases.acquire(row.uuid, owner="somebody")
        report = bring(base, path)
        assert [problem.cause for problem in report.problems] == ["task"]
        catalogue.leases.release(lease)
    assert bring(base, path).is_clean


# ---- killed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_import_that_was_killed_is_completed_by_the_next(
    tmp_path: Path, backend: str, some_steps: SomeSteps
) -> None:
    """Killed before any of its changes (kill -9), the next import gives what one import would have given."""
    settings = settings_for(backend)
    path = write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", long_session())
    os.utime(path, (OLD, OLD))
    whole = tmp_path / "whole"
    bring(whole, path, settings=settings)
    (row,) = rows(whole, settings)
    expected = story(whole, row.uuid, settings)
    changes = count_changes(lambda: bring(tmp_path / "counted", path, settings=settings))
    for number in some_steps(some_steps(range(1, changes + 1))):  # there are hundreds
        here = tmp_path / f"killed-{number}"
        killed_at_change(number, lambda here=here: bring(here, path, settings=settings))  # type: ignore[misc]
        report = bring(here, path, settings=settings)
        assert report.is_clean
        (again,) = rows(here, settings)
        assert story(here, again.uuid, settings) == expected, number
        assert (again.total_messages, again.llm_call_count, again.total_tokens, again.compression_count) == (
            row.total_messages,
            row.llm_call_count,
            row.total_tokens,
            row.compression_count,
        )
        assert [found for found in examine(OpenBase(here, settings)) if found.severity == "error"] == []


def test_codex_items_and_events_become_one_conversation(base: Path, tmp_path: Path) -> None:
    done = {"type": "exec_command_end", "call_id": "call_1", "duration": {"secs": 2, "nanos": 500_000_000}}
    records = codex_records()
    records.insert(7, codex_record(4, "event_msg", done))
    bring(base, write_lines(make_codex(tmp_path), records))
    (row,) = rows(base)
    assert (row.owner, row.repo, row.model) == ("kim", "shop", "gpt-5-codex")
    told = story(base, row.uuid)
    assert [body["role"] for body, _, _ in told["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert [call and call["usage"] for _, _, call in told["messages"]] == [
        None,
        {"input": 100, "cached": 50, "output": 10},
        None,
        {"input": 120, "cached": 60, "output": 10},
    ]
    assert told["messages"][1][0]["extra"]["$orihon"]["reasoning"][0]["encrypted_content"] == "gAAA"
    assert told["tools"][0]["duration_ms"] == 2500.0
