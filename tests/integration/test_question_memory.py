"""Open questions that a server remembers: a task is opened again when it has changed, and only then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orihon.tasks.approvals.answers import approve, pending, sweep
from orihon.tasks.approvals.question_cache import QuestionMemory
from orihon.tasks.base import OpenBase
from orihon.tasks.place import folders_of
from tests.conformance.backends import BACKENDS
from tests.integration.test_approvals import Loop, files_loop


def names(loop: Loop, memory: QuestionMemory) -> list[tuple[str, int]]:
    found = pending(OpenBase(loop.base, loop.settings), memory=memory)
    return [(one.checkpoint.name, len(one.checkpoint.reminded_at)) for one in found if one.uuid == loop.uuid]


def test_what_is_remembered_follows_asking_reminding_and_answering(kind: str, tmp_path: Path) -> None:
    loop, memory = Loop(tmp_path / "contexts", BACKENDS[kind].config()), QuestionMemory()
    assert names(loop, memory) == []
    loop.ask(remind_every=0.001)
    assert names(loop, memory) == names(loop, memory) == [("concept", 0)]
    sweep(OpenBase(loop.base, loop.settings))
    assert names(loop, memory) == [("concept", 1)]
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="mika")
    assert names(loop, memory) == []
    loop.resume()
    loop.ask("plan")
    assert names(loop, memory) == [("plan", 0)]


def test_a_task_that_has_not_changed_is_not_opened_again(tmp_path: Path) -> None:
    loop, memory = files_loop(tmp_path), QuestionMemory()
    loop.ask()
    assert names(loop, memory) == [("concept", 0)]
    folder = folders_of(loop.base, loop.settings).find(loop.uuid)
    assert folder is not None
    folder.folder.rename(tmp_path / "elsewhere")
    assert names(loop, memory) == [("concept", 0)]
    assert names(loop, QuestionMemory()) == []


def test_a_task_that_somebody_holds_is_not_remembered(tmp_path: Path) -> None:
    loop, memory = files_loop(tmp_path), QuestionMemory()
    loop.ask()
    (asked,) = loop.ledger().open
    held = replace(loop.row(), lease_owner="somebody")
    assert memory.of(held, lambda: (asked,)) == (asked,)
    assert memory.of(held, lambda: ()) == ()


def test_only_the_questions_of_one_user(tmp_path: Path) -> None:
    """Also where the memory was filled by somebody who sees everybody's."""
    loop, memory = files_loop(tmp_path), QuestionMemory()
    loop.ask()
    for user in (None, "me", None):
        assert [one.uuid for one in pending(OpenBase(loop.base, loop.settings), user=user, memory=memory)] == [
            loop.uuid
        ]
        assert pending(OpenBase(loop.base, loop.settings), user="somebody", memory=memory) == []
