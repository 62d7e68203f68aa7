"""``orihon privacy erase``, by the real executable: what it says, and how it ends when it is not complete."""

from __future__ import annotations

import json
from pathlib import Path

from orihon import TaskContextManager, load_settings, search_history
from orihon.search.sqlite_index import index_turn
from orihon.values.task import TaskKey
from tests.acceptance.test_cli import run
from tests.damage import start_task


def test_an_erasure_that_is_not_complete_says_so_and_is_finished_by_the_next(tmp_path: Path) -> None:
    base = tmp_path / "contexts"
    start_task(base, "files", uuid="task-1").complete()
    search_history(base, load_settings({}), "anything")
    erase = ("--base-dir", base, "privacy", "erase", "somebody")
    with index_turn(base, 5.0) as is_ours:
        assert is_ours
        stuck = run(*erase, "--yes", "--wait", "0")
        told = json.loads(run(*erase, "--yes", "--wait", "0", "--json").out)
    assert stuck.code == 1
    assert "Search index: not cleared" in stuck.err
    assert "Run it again" in stuck.err
    assert [left["place"] for left in told["left"]] == ["search"]
    done = run("--lang", "ja", *erase, "--yes")
    assert (done.code, "索引" in done.err) == (0, False)


def test_nobody_is_erased_without_a_yes(tmp_path: Path) -> None:
    """Also where there are no tasks: tokens and entries of the audit cannot be had back either."""
    base = tmp_path / "contexts"
    start_task(base, "files", uuid="task-1").complete()
    for user in ("somebody", "me"):
        assert "--yes" in (refused := run("--base-dir", base, "privacy", "erase", user)).err
        assert refused.code == 2


def test_verify_says_which_command_has_redacted_what(tmp_path: Path) -> None:
    base, secret = tmp_path / "contexts", "ghp_" + "a1B2" * 9
    unmasked = load_settings({"masking": {"enabled": False}})
    task = TaskContextManager(base, TaskKey("cli", "", "", "task", "1", "hanako"), unmasked)
    for said in (f"use {secret} here", "my name is John Smith", f"Dear Jane Miller, {secret}", "nothing"):
        task.message_store.add_message("user", said)
    task.complete()
    verify = ("--base-dir", base, "verify", task.uuid)
    assert run("--base-dir", base, "privacy", "anonymize", task.uuid).code == 0
    people = run(*verify)
    assert (people.code, "scan --fix" in people.out) == (0, False)
    assert "2 records by 'orihon privacy anonymize'" in people.out
    assert run("--base-dir", base, "scan", "--fix").code == 0
    both = run(*verify)
    assert "2 records by 'orihon privacy anonymize'" in both.out
    assert "2 records by 'orihon scan --fix'" in both.out
    told = json.loads(run(*verify, "--json").out)
    assert (told["redacted"], told["redacted_secrets"], told["redacted_people"]) == (3, 2, 2)
