"""``orihon compress``, by the real executable: every option, previews, edits, refusals, and undo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orihon.catalogue.connect import open_catalogue
from orihon.settings import load_settings
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskStatus
from tests.acceptance.test_cli import Ended, run
from tests.acceptance.test_view_commands import records, row_of, view_bytes, working_agent
from tests.damage import BACKENDS, KEY, settings_for

STRATEGIES = ("summarize", "prune", "offload", "sections")
#: Every strategy with one back end, the preset's own way with each.
PAIRS = [("files", None), ("sqlite", None), *(("files", name) for name in STRATEGIES)]
CONFIG = """\
llm:
  openai: {context_length: 8000, reserve_output: 1000}
compression: {keep_recent: 4, min_to_compress: 5}
context_storage: {blob_bytes: 1024}
"""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def work(task: TaskContextManager, turns: int = 12) -> None:
    store = task.message_store
    store.add_message("system", "You are a careful agent.")
    for number in range(turns):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}}
        rows = [f"tests/test_part_{number}.py::case_{line} sets option_{number}_{line}" for line in range(25)]
        thought = "Looking at this from one side and from the other takes time, and nothing comes of it. " * 4
        store.add_message(
            "user", f"Next, module_{number} must be repaired. 変更は src/part_{number}.py だけにすること。"
        )
        store.add_message("assistant", None, tool_calls=[call])
        store.add_message("tool", "\n".join(rows), tool_call_id=f"c{number}")
        decision = f"## Decisions\n\nmodule_{number} gets a guard.\n"
        store.add_message("assistant", f"## Research\n\n{thought}\n\n{thought}\n\n{decision}")


def resting_task(base: Path, backend: str, turns: int = 12) -> tuple[str, Path]:
    """A paused task with a long view, and its folder."""
    settings = load_settings(
        {"context_storage": {"backend": backend, "blob_bytes": 1024}, "llm": {"openai": {"context_length": 8000}}},
        environ={},
    )
    task = TaskContextManager(base, KEY, settings)
    work(task, turns)
    task.stop()
    task.catalogue.close()
    return task.uuid, task.context_dir


def compress(base: Path, config: Path, uuid: str, *arguments: object, language: str = "en", **more: str) -> Ended:
    return run(
        "--base-dir", base, "--config", config, "compress", uuid, *arguments, language=language, cwd=base.parent, **more
    )


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.match("*-shm")}


def printed(ended: Ended) -> Any:
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


# ---- folding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "ja"])
def test_help(language: str) -> None:
    shown = run("compress", "--help", language=language)
    assert shown.code == 0
    options = ("--strategy", "--level", "--target", "--preview", "--edit", "--json", "UUID")
    assert [option for option in options if option not in shown.out] == []
    assert ("どれだけ省くか" in shown.out) == (language == "ja")


@pytest.mark.parametrize(("backend", "strategy"), PAIRS)
def test_a_view_is_folded_and_undo_gives_its_bytes_back(
    base: Path, config: Path, backend: str, strategy: str | None
) -> None:
    uuid, folder = resting_task(base, backend)
    before = view_bytes(folder, backend)
    options = [] if strategy is None else ["--strategy", strategy]
    ended = compress(base, config, uuid[:8], *options, "--target", "0.2")
    assert (ended.code, ended.err) == (0, "")
    (record,) = records(folder, backend)
    assert (record["kind"], record["trigger"], record["made_by"]) == ("compress", "manual", "cli")
    name = strategy or str(record["strategy"])
    assert ended.out.startswith(f"Folded by {name} (")
    assert f"{record['before_tokens']:,} → {record['after_tokens']:,} tokens" in ended.out
    after = view_bytes(folder, backend)
    assert len(after) < 0.9 * len(before)
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[-1] == before.splitlines()[-1]
    assert row_of(base, backend, uuid) == (TaskStatus.PAUSED, None, record["after_tokens"])
    assert run("--base-dir", base, "undo", uuid).code == 0
    assert view_bytes(folder, backend) == before
    assert run("--base-dir", base, "verify", uuid).code == 0


def test_a_level_means_sections(base: Path, config: Path) -> None:
    uuid, folder = resting_task(base, "files")
    sizes = []
    for level in ("light", "standard", "aggressive"):
        record = printed(compress(base, config, uuid, "--level", level, "--target", "0.01", "--json"))
        assert (record["strategy"], record["level"]) == ("sections", level)
        sizes.append(record["after_tokens"])
        run("--base-dir", base, "undo", uuid)
    assert sizes[0] > sizes[1] >= sizes[2]
    assert b"module_0 gets a guard." in view_bytes(folder, "files")


def test_the_target_is_a_share_of_the_window(base: Path, config: Path) -> None:
    uuid, _ = resting_task(base, "files")
    for target, most in (("0.5", 4000), ("0.3", 2400)):
        record = printed(compress(base, config, uuid, "--target", target, "--json"))
        assert record["after_tokens"] <= most
        run("--base-dir", base, "undo", uuid)


def test_each_compression_is_counted(base: Path, config: Path, backend: str) -> None:
    uuid, _ = resting_task(base, backend)
    assert compress(base, config, uuid, "--strategy", "offload", "--target", "0.5").code == 0
    assert compress(base, config, uuid, "--strategy", "summarize", "--target", "0.1").code == 0
    assert compress(base, config, uuid, "--preview").code == 0
    with open_catalogue(base, settings_for(backend)) as catalogue:
        assert catalogue.tasks.get(uuid).compression_count == 2


@pytest.mark.parametrize("language", ["en", "ja"])
def test_nothing_to_fold_is_no_error(base: Path, config: Path, backend: str, language: str) -> None:
    uuid, folder = resting_task(base, backend, turns=1)
    ended = compress(base, config, uuid, language=language)
    words = {
        "en": "Nothing was folded: everything that may be folded is among",
        "ja": "何も折りませんでした: 折れるもの",
    }
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(words[language])
    told = printed(compress(base, config, uuid, "--json", language=language))
    assert told == {"folds": [], "nothing": "nothing_old", "strategy": "summarize"}
    assert records(folder, backend) == []


# ---- preview and edit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backend", "strategy"), PAIRS)
def test_a_preview_changes_nothing_and_is_what_happens_then(
    base: Path, config: Path, backend: str, strategy: str | None
) -> None:
    uuid, folder = resting_task(base, backend)
    before = files_of(folder)
    options = ["--target", "0.2", *([] if strategy is None else ["--strategy", strategy])]
    planned = printed(compress(base, config, uuid, *options, "--preview", "--json"))
    shown = compress(base, config, uuid, *options, "--preview").out
    assert files_of(folder) == before
    assert planned["after_tokens"] < planned["before_tokens"]
    assert all(0 <= fold["report"]["kept"] <= fold["report"]["found"] for fold in planned["folds"])
    assert shown.splitlines()[-1] == (
        f"The view would go from {planned['before_tokens']:,} to {planned['after_tokens']:,} tokens "
        f"(folds: {len(planned['folds'])}, goal: {planned['goal']:,})."
    )
    first = planned["folds"][0]
    assert shown.startswith(f"messages {first['start_seq']} to {first['end_seq']} (")
    record = printed(compress(base, config, uuid, *options, "--json"))
    assert record["strategy"] == planned["strategy"]
    assert (record["before_tokens"], record["after_tokens"]) == (planned["before_tokens"], planned["after_tokens"])
    seen = json.loads(run("--base-dir", base, "view", uuid, "--json").out)["view"]
    texts = [entry["message"]["content"] for entry in seen if entry.get("fold")]
    assert [text.removeprefix("[Previous conversation summary]\n") for text in texts] == [
        fold["text"] for fold in planned["folds"]
    ]


def test_a_preview_names_what_would_be_lost_in_both_languages(base: Path, config: Path) -> None:
    uuid, _ = resting_task(base, "files")
    options = ("--strategy", "summarize", "--target", "0.05", "--preview")
    assert "\n  lost: " in compress(base, config, uuid, *options).out
    japanese = compress(base, config, uuid, *options, language="ja").out
    assert "\n  失われるもの: " in japanese
    assert "件の折りで、ビューは" in japanese


def test_texts_are_edited_before_they_are_folded(base: Path, config: Path, backend: str, tmp_path: Path) -> None:
    uuid, folder = resting_task(base, backend)
    editor, seen = tmp_path / "editor", tmp_path / "seen"
    editor.write_text(f"#!/bin/sh\ncat \"$1\" > '{seen}'\necho '弁は閉じてある。' > \"$1\"\n", encoding="utf-8")
    editor.chmod(0o700)
    options = ("--strategy", "summarize", "--target", "0.2")
    planned = printed(compress(base, config, uuid, *options, "--preview", "--json"))
    ended = compress(base, config, uuid, *options, "--edit", EDITOR=str(editor), VISUAL="")
    assert ended.code == 0
    assert seen.read_text(encoding="utf-8") == planned["folds"][0]["text"] + "\n"
    assert "[Previous conversation summary]\\n弁は閉じてある。".encode() in view_bytes(folder, backend)
    fold = json.loads(run("--base-dir", base, "view", uuid, "--fold", 1, "--json").out)
    assert fold["summary"] == "弁は閉じてある。"
    assert "report" not in fold or fold["report"] is None


@pytest.mark.parametrize(
    ("editor", "words"), [("false", "The editor false failed (1)."), ("", "neither $VISUAL nor $EDITOR is set")]
)
def test_an_editor_that_fails_folds_nothing(base: Path, config: Path, editor: str, words: str) -> None:
    uuid, folder = resting_task(base, "files")
    before = files_of(folder)
    ended = compress(base, config, uuid, "--edit", EDITOR=editor, VISUAL="")
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
    assert files_of(folder) == before


def test_an_empty_text_is_refused(base: Path, config: Path, tmp_path: Path) -> None:
    uuid, folder = resting_task(base, "files")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\n: > "$1"\n', encoding="utf-8")
    editor.chmod(0o700)
    ended = compress(base, config, uuid, "--edit", EDITOR=str(editor), VISUAL="")
    assert (ended.code, ended.out) == (2, "")
    assert "no text" in ended.err
    assert records(folder, "files") == []


# ---- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "english", "japanese"),
    [
        (["UUID", "--strategy", "magic"], "There is no strategy 'magic'.", "magic"),
        (["UUID", "--level", "brutal"], "There is no level 'brutal'.", "brutal"),
        (["UUID", "--target", "0"], "no share of the window", "ウィンドウに対する割合"),
        (["UUID", "--target", "1.5"], "no share of the window", "ウィンドウに対する割合"),
        (["UUID", "--target", "half"], "--target", "--target"),
        (["nobody"], "There is no task nobody.", "nobody"),
        (["../x"], "cannot be used as an id.", "ID として使えません。"),
        ([], "TASK is missing.", "TASK が指定されていません。"),
    ],
)
def test_a_mistake_is_one_clear_line_and_code_2(
    base: Path, config: Path, arguments: list[str], english: str, japanese: str
) -> None:
    uuid, folder = resting_task(base, "files", turns=3)
    given = [uuid if argument == "UUID" else argument for argument in arguments]
    for language, words in (("en", english), ("ja", japanese)):
        ended = run("--base-dir", base, "--config", config, "compress", *given, language=language)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
        assert words in ended.err
    assert records(folder, "files") == []


def test_protected_text_that_does_not_fit_is_named(base: Path, config: Path) -> None:
    uuid, folder = resting_task(base, "files")
    config.write_text("llm: {openai: {context_length: 200}}\ncompression: {pin_roles: [user]}\n", encoding="utf-8")
    task = TaskContextManager.resume(base, uuid, settings_for("files"))
    task.change_model("gpt-4", 200)
    task.stop()
    task.catalogue.close()
    ended = compress(base, config, uuid)
    assert (ended.code, ended.out) == (2, "")
    assert "The protected text alone is larger than the budget of" in ended.err
    assert records(folder, "files") == []


# ---- whose task it is ------------------------------------------------------------------------------------------------


def test_a_task_that_a_live_process_owns(base: Path, backend: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("compression: {keep_recent: 1, min_to_compress: 1}\n", encoding="utf-8")
    with working_agent(base, backend) as (uuid, agent):
        assert agent.stdin is not None
        assert agent.stdout is not None
        for number in range(20):
            agent.stdin.write(f"module_{number} " + "is looked at from every side, for a long time, " * 8 + "\n")
            agent.stdin.flush()
            agent.stdout.readline()
        planned = printed(compress(base, config, uuid, "--strategy", "summarize", "--preview", "--json"))
        assert planned["folds"], "looking is always possible"
        ended = compress(base, config, uuid, "--strategy", "summarize")
        japanese = compress(base, config, uuid, "--strategy", "summarize", language="ja")
        if backend == "files":
            assert (ended.code, ended.out) == (2, "")
            assert f"(process {agent.pid} on " in ended.err
            assert "作業中です" in japanese.err
        else:
            assert ended.out.startswith("Folded by summarize (")
        agent.stdin.write("still here\n")
        agent.stdin.flush()
        assert int(agent.stdout.readline()) > 0, "its owner goes on"
    assert row_of(base, backend, uuid)[:2] == (TaskStatus.PAUSED, None)
    assert run("--base-dir", base, "verify", uuid).code == 0


def test_a_finished_task_can_be_previewed_and_not_folded(base: Path, config: Path, backend: str) -> None:
    task = TaskContextManager(base, KEY, settings_for(backend))
    work(task)
    task.complete()
    task.catalogue.close()
    before = view_bytes(task.context_dir, backend)
    ended = compress(base, config, task.uuid)
    assert (ended.code, ended.out) == (2, "")
    assert f"The task {task.uuid} is completed" in ended.err
    assert printed(compress(base, config, task.uuid, "--preview", "--json"))["folds"]
    assert view_bytes(task.context_dir, backend) == before
