"""Random lives of a task: what the model saw at every step can be seen again, byte for byte, and what each change did.

Also what was really sent: a server keeps the bodies of requests, and each is the view of the step before its answer.
"""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from orihon import TaskContextManager, TaskKey, get_llm_client, view_at, view_diff
from orihon.errors import NoSuchMessage, NothingToUndo
from orihon.llm.scripted import Reply, ScriptedModel
from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.values.records import Fold
from orihon.values.view import PlannedFold, layout
from tests.conformance.test_steps import Life, settings_of
from tests.damage import edit_record, start_task, with_fields
from tests.helpers import refused

LIVES = 2
ACTS = 30


@pytest.mark.parametrize("seed", range(LIVES))
def test_every_step_of_a_life_is_seen_again(kind: str, seed: int, tmp_path: Path) -> None:
    settings = settings_of(kind)
    life = Life(tmp_path, settings, random.Random(f"{kind} {seed}"))
    life.live(ACTS)
    uuid = life.task.uuid
    for seq, view in life.views.items():
        seen = view_at(tmp_path, uuid, seq, settings)
        assert b"".join(line + b"\n" for line in seen.lines) == view
        assert [jsonio.encode(entry.message) for entry in seen.entries] == list(seen.lines)
        assert seen.figures.entries == len(seen.lines)
        assert sum(entry.entry.end - entry.entry.start + 1 for entry in seen.entries) == seq
    for number in range(1, life.task.task_store.count("compressions") + 1):
        check_diff(tmp_path, uuid, number, life)
    life.task.stop()
    life.task.catalogue.close()


def check_diff(base: Path, uuid: str, number: int, life: Life) -> None:
    """The view before, less what went, plus what came, is the view after; the tokens are what was recorded."""
    settings = life.task.settings
    found = view_diff(base, uuid, settings, number)
    assert (found.before.tokens, found.after.tokens) == (
        found.compression.before_tokens,
        found.compression.after_tokens,
    )
    assert found.after.entries == found.compression.after_entries
    with reading_task(OpenBase(base, settings), uuid) as (store, row):
        reading = ViewReading(store, row, settings)
        before, after = (_places(reading.as_of(one, found.last_seq)) for one in (number - 1, number))
    gone = {_place(entry.entry.start, entry.entry.end, entry.entry.fold) for hunk in found.hunks for entry in hunk.gone}
    come = {_place(entry.entry.start, entry.entry.end, entry.entry.fold) for hunk in found.hunks for entry in hunk.come}
    assert (before - gone) | come == after
    assert gone <= before
    assert not gone & after
    assert not come & before


def _places(reading: ViewReading) -> set[tuple[int, int, int]]:
    found = set()
    for item in layout(reading.last_seq, reading.folds):
        if isinstance(item, Fold):
            found.add(_place(item.start_seq, item.end_seq, item))
        else:
            found |= {_place(seq, seq, None) for seq in range(item[0], item[1] + 1)}
    return found


def _place(start: int, end: int, fold: Fold | None) -> tuple[int, int, int]:
    return start, end, 0 if fold is None else fold.id


def test_a_request_is_the_view_of_the_step_that_it_answers(tmp_path: Path) -> None:
    script = ScriptedModel(lambda request: Reply(f"answer to {len(request.body['messages'])}", usage={}))
    with ExitStack() as stack, script as model:
        config = {"llm": {"openai": {"base_url": model.base_url, "api_key": "a-key"}}, "context_storage": {}}
        settings = load_settings(config, environ={})
        with TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1"), settings) as task:
            client = stack.enter_context(closing(get_llm_client(task_ctx=task)))
            client.send_system_prompt("Be careful.")
            for turn in range(6):
                client.send_user_message(f"Question {turn}")
                if turn in (2, 4):
                    task.message_store.folding.compress([PlannedFold(2, 2 * turn - 1, f"{turn} questions")])
                if turn == 5:
                    task.message_store.folding.undo()
                client.get_response()
            uuid, answers = task.uuid, [seq for seq in range(1, 14) if task.message_store.get_message(seq).call]
    assert len(model.requests) == len(answers) == 6
    for request, answer in zip(model.requests, answers, strict=True):
        assert request.body["messages"] == [
            jsonio.decode(line) for line in view_at(tmp_path, uuid, answer - 1, settings).lines
        ]


def test_a_step_that_is_not_there_is_refused(kind: str, tmp_path: Path) -> None:
    settings = settings_of(kind)
    task = start_task(tmp_path, settings)
    for seq in (0, 14):
        with refused(NoSuchMessage, "seq"):
            view_at(tmp_path, task.uuid, seq, settings)
    with refused(NothingToUndo, "no_compression"):
        view_diff(tmp_path, task.uuid, settings, 6)
    assert view_diff(tmp_path, task.uuid, settings).compression.id == 4, "a pin comes and goes with no fold"
    assert view_diff(tmp_path, task.uuid, settings, 5).pinned != ()
    task.stop()
    task.catalogue.close()


def test_nothing_folded_yet(tmp_path: Path) -> None:
    settings = settings_of("files")
    life = Life(tmp_path, settings, random.Random(1))
    with refused(NothingToUndo, "no_compressions"):
        view_diff(tmp_path, life.task.uuid, settings)
    life.task.stop()
    life.task.catalogue.close()


def test_records_from_before_entries_were_counted_are_placed_by_the_clock(tmp_path: Path) -> None:
    settings = settings_of("files")
    life = Life(tmp_path, settings, random.Random(2))
    for _ in range(4):
        life._turn()
    life.store.folding.compress([PlannedFold(2, 3, "short")])
    made_at = life.store.count_messages()
    life._note()
    life._turn()
    life.task.stop()
    life.task.catalogue.close()
    edit_record(tmp_path / "paused" / life.task.uuid, "compressions", 1, with_fields(after_entries=None))
    assert view_diff(tmp_path, life.task.uuid, settings, 1).last_seq == made_at
    for seq, view in life.views.items():
        seen = view_at(tmp_path, life.task.uuid, seq, settings)
        assert b"".join(line + b"\n" for line in seen.lines) == view
