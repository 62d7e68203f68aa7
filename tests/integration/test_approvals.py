"""People in the loop, on every back end: asking, waiting, answering, time limits, and what follows in the view."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orihon import (
    Approval,
    ApprovalHandler,
    Checkpoint,
    Settings,
    TaskContextManager,
    TaskKey,
    Waiting,
    archive_task,
    delete_old_contexts,
    delete_old_phase_archives,
    fork_task,
    list_notifications,
    load_settings,
    partial_restore,
    restore_context,
)
from orihon.catalogue.connect import open_catalogue
from orihon.errors import IllegalTransition, InvalidInput, NotWaiting, TaskNotFound
from orihon.store.checkpoints import CLOCK, Ledger, read_ledger
from orihon.store.factory import open_for_reading
from orihon.tasks.approvals import answers as answering
from orihon.tasks.approvals.answers import PendingApproval, SweepReport, approve, pending, reject, revise, sweep
from orihon.tasks.approvals.phase_restore import read_phase, restore_phase
from orihon.tasks.base import OpenBase
from orihon.tasks.place import folders_of
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskStatus
from tests.conformance.backends import BACKENDS
from tests.helpers import SomeSteps, refused
from tests.integration.answering import start, told

DETAILS = "\n".join(f"- 比較 {number}: 細かい点を一つずつ調べた結果です。" for number in range(60))
EXPLORATION = f"""## 調査フェーズ

### ゲームエンジンの選定

まず、2Dアクションゲームに適したゲームエンジンを調査しました。

#### Unity
Unityは最も人気のあるゲームエンジンの1つです。
{DETAILS}

#### Godot
Godotはオープンソースのゲームエンジンです。スクリプトは GDScript です。
{DETAILS}

### 結論
検討の結果、Unityを採用することにしました。理由は以下の通りです：
1. 開発者の経験
2. 豊富なリソース

## 依存関係

- Unity 2022.3
"""
QUESTION = "Unity でよいですか？"


class Loop:
    """A task with an exploration, and the people around it."""

    def __init__(self, base: Path, config: dict[str, Any]) -> None:
        self.base = base
        self.config = config
        self.settings: Settings = load_settings(config)
        self.ctx = TaskContextManager(base, TaskKey("cli", "", "", "task", base.name, "me"), self.settings)
        self.uuid = self.ctx.uuid
        self.ctx.message_store.add_message("system", "You plan games.")
        self.ctx.message_store.add_message("user", "Choose an engine.")
        self.ctx.phase("exploration")
        self.ctx.message_store.add_message("assistant", EXPLORATION)

    def ask(self, name: str = "concept", **options: Any) -> Waiting:
        with pytest.raises(Waiting) as caught:
            self.ctx.checkpoint(name, QUESTION, **options)
        return caught.value

    def resume(self) -> TaskContextManager:
        self.ctx = TaskContextManager.resume(self.base, self.uuid, self.settings)
        return self.ctx

    def pending(self) -> list[PendingApproval]:
        return [one for one in pending(OpenBase(self.base, self.settings)) if one.uuid == self.uuid]

    def row(self) -> Any:
        with closing(open_catalogue(self.base, self.settings)) as catalogue:
            return catalogue.tasks.get(self.uuid)

    def compressions(self) -> int:
        """As they are counted by time; a database may have those of other tests, too."""
        with closing(open_catalogue(self.base, self.settings)) as catalogue:
            return catalogue.counters.counted("")["compressions"]

    def read(self, look: Callable[[Any], Any]) -> Any:
        folder = folders_of(self.base, self.settings).find(self.uuid)
        assert folder is not None
        with closing(open_for_reading(folder.folder, self.settings, name=self.uuid)) as store:
            return look(store)

    def ledger(self) -> Ledger:
        found: Ledger = self.read(read_ledger)
        return found

    def file(self, name: str) -> str:
        return str(self.read(lambda store: store.records.kept_file(f"archives/{name}")).decode())

    def log(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.file("compression_log.json"))["compressions"]
        return found

    def shown(self) -> str:
        lines: list[bytes] = self.read(lambda store: list(store.view_lines()))
        return "\n".join(str(json.loads(line)["content"]) for line in lines)

    def check(self) -> None:
        findings = verify(OpenBase(self.base, self.settings), self.uuid)
        assert [found for found in findings if found.severity != "warning"] == []


@pytest.fixture
def loop(kind: str, tmp_path: Path) -> Loop:
    return Loop(tmp_path / "contexts", BACKENDS[kind].config())


def files_loop(tmp_path: Path, **compression: Any) -> Loop:
    return Loop(tmp_path / "contexts", {"compression": compression})


# ---- asking and answering ----------------------------------------------------------------------------------------


def test_a_task_that_asks_waits_and_goes_on_where_it_stood(loop: Loop) -> None:
    waiting = loop.ask(context="the comparison", timeout=3600)
    assert waiting.fields["question"] == QUESTION
    row = loop.row()
    assert (row.status, row.lease_owner) == (TaskStatus.WAITING, None)
    (found,) = loop.pending()
    assert (found.checkpoint.name, found.checkpoint.context) == ("concept", "the comparison")
    assert found.checkpoint.phase is not None
    assert found.checkpoint.phase.name == "exploration"
    done = approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann", reason="fine")
    assert (done.status, done.requested, loop.pending()) == (TaskStatus.PAUSED, None, [])
    ctx = loop.resume()
    answer = ctx.checkpoint("concept", QUESTION)
    assert (answer.approved, answer.by, answer.reason, answer.seq) == (True, "ann", "fine", 4)
    said = ctx.message_store.get_message(4).message
    assert (said.role, said.text.splitlines()[0]) == ("user", "## Approved: concept")
    ctx.complete()
    loop.check()


def test_an_approval_folds_the_exploration_and_keeps_what_the_next_phase_needs(loop: Loop) -> None:
    before = loop.ctx.message_store.get_current_token_count()
    loop.ask()
    counted = loop.compressions()
    done = approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    assert done.after_tokens < before / 5
    shown = loop.shown()
    assert "- **決定**: Unity" in shown
    assert "- **理由**: 開発者の経験、豊富なリソース" in shown
    assert "- **詳細**: archives/phase1_exploration.md" in shown
    assert "## 依存関係\n\n- Unity 2022.3" in shown
    assert "GDScript" not in shown
    (entry,) = loop.log()
    assert (entry["trigger"], entry["checkpoint"], entry["level"]) == ("approval", "concept", "standard")
    assert entry["archived_to"] == "phase1_exploration.md"
    assert entry["original_tokens"] > 5 * entry["compressed_tokens"]
    assert EXPLORATION in loop.file("phase1_exploration.md")
    decisions = loop.file("phase1_decisions.md")
    assert "- **決定**: Unity" in decisions
    assert "- **concept**: approved, ann" in decisions
    assert "細かい点" not in decisions
    assert loop.compressions() == counted + 1  # the monitor and the month know of it
    loop.check()


def test_changes_that_are_wanted_open_what_they_are_about(loop: Loop) -> None:
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    ctx = loop.resume()
    ctx.phase("building")
    ctx.message_store.add_message("assistant", "Built with Unity.")
    loop.ask("build")
    done = revise(
        OpenBase(loop.base, loop.settings), loop.uuid, by="bob", instructions="Godot の比較をもう一度見せてください"
    )
    assert done.after_tokens > 5 * done.before_tokens
    assert "GDScript" in loop.shown()
    ctx = loop.resume()
    answer = ctx.checkpoint("build", QUESTION)
    assert (answer.approved, answer.decision) == (False, "revise")
    assert answer.instructions.startswith("Godot")
    assert ctx.checkpoint("build", QUESTION) == answer  # nothing has changed since
    ctx.message_store.add_message("assistant", "Built with Godot.")
    loop.ask("build")
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="bob")
    assert loop.resume().checkpoint("build", QUESTION).approved
    loop.ctx.complete()
    loop.check()


@pytest.mark.parametrize(
    ("reason", "sections", "is_opened"),
    [
        ("GDScript を使いたい", (), True),  # by a word that only the folded text has
        ("もっと安く", (), False),
        ("もっと安く", ("unity",), True),
        ("Godot!", ("Plan",), False),  # what is named counts, and that is open
    ],
)
def test_a_rejection_opens_by_name_or_by_words(
    tmp_path: Path, reason: str, sections: tuple[str, ...], is_opened: bool
) -> None:
    loop = files_loop(tmp_path)
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    loop.resume().message_store.add_message("assistant", "## Plan\n\nGo.")
    loop.ask("second")
    reject(OpenBase(loop.base, loop.settings), loop.uuid, by="bob", reason=reason, sections=sections)
    assert (EXPLORATION in loop.shown()) == is_opened
    assert loop.ledger().checkpoints[-1].answer is not None
    loop.check()


@pytest.mark.parametrize("named", ["Phaser", " "])
def test_a_section_that_there_is_not_is_refused_before_anything_is_written(tmp_path: Path, named: str) -> None:
    loop = files_loop(tmp_path)
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    loop.resume().message_store.add_message("assistant", "Go.")
    loop.ask("second")
    before = loop.shown(), loop.ledger(), loop.row().status
    with refused(InvalidInput, "no_section") as caught:
        revise(
            OpenBase(loop.base, loop.settings), loop.uuid, by="bob", instructions="Godot!", sections=["Godot", named]
        )
    assert f"No section is called {named}. There are: 調査フェーズ, ゲームエンジンの選定, Unity" in caught.value.cause
    assert (loop.shown(), loop.ledger(), loop.row().status) == before
    ctx = loop.resume()
    handler = ApprovalHandler(ctx.message_store, ctx.compressor)
    with refused(InvalidInput, "no_section"):
        handler.on_rejection(loop.ledger().checkpoints[-1], Approval("reject", "bob", "no", sections=(named,)))
    assert loop.ledger().checkpoints[-1].is_open
    ctx.close()
    loop.check()


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_an_approval_folds_again_what_a_rejection_in_the_same_phase_has_opened(loop: Loop, is_confirmed: bool) -> None:
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    folded = loop.shown()
    loop.resume().phase("building")
    loop.ctx.message_store.add_message("assistant", "Built with Unity.")
    loop.ask("build")
    reject(OpenBase(loop.base, loop.settings), loop.uuid, by="bob", reason="Godot の比較をもう一度見せてください")
    loop.resume().message_store.add_message("assistant", "Built with Unity, once more.")
    loop.ask("build")
    assert EXPLORATION in loop.shown()
    settings = loop.settings.replace(**{"compression.confirm_before_compress": is_confirmed})
    done = approve(OpenBase(loop.base, settings), loop.uuid, by="bob")
    assert (EXPLORATION in loop.shown()) == is_confirmed
    if not is_confirmed:
        assert done.after_tokens < done.before_tokens / 5
        assert loop.shown().startswith(folded)
        last = loop.log()[-1]
        assert (last["checkpoint"], last["archived_to"]) == ("build", "phase1_exploration.md")
    loop.check()


def test_so_it_is_with_what_was_folded_before_anybody_was_asked(tmp_path: Path) -> None:
    loop = files_loop(tmp_path, keep_recent=1, min_to_compress=1)
    loop.ctx.message_store.add_message("user", "So?")
    loop.ctx.compressor.compress(strategy="sections", target=0.001)
    assert EXPLORATION not in loop.shown()
    loop.ask()
    reject(OpenBase(loop.base, loop.settings), loop.uuid, by="ann", reason="Show me Godot", sections=["Godot"])
    assert EXPLORATION in loop.shown()
    loop.resume().message_store.add_message("assistant", "Unity it is.")
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    assert EXPLORATION not in loop.shown()
    loop.check()


def test_what_somebody_has_opened_by_hand_or_in_another_phase_stays_open(tmp_path: Path) -> None:
    loop = files_loop(tmp_path)
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    folding = loop.resume().message_store.folding
    folding.unfold(loop.ctx.message_store.view().folds[0].id, made_by="ann")
    loop.ctx.phase("building")
    loop.ctx.message_store.add_message("assistant", "Built with Unity.")
    loop.ask("build")
    reject(OpenBase(loop.base, loop.settings), loop.uuid, by="bob", reason="Godot?")
    loop.resume().message_store.add_message("assistant", "Built again.")
    loop.ask("build")
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="bob")
    assert EXPLORATION in loop.shown()


def test_who_comes_too_late_is_told(loop: Loop) -> None:
    with refused(NotWaiting, "running"):
        loop.ctx.checkpoints.ask(Checkpoint(0, "early", "?"))
        approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    loop.ctx.checkpoints.answer(2, Approval("approve", "ann"))
    with refused(NotWaiting, "answered"):
        approve(OpenBase(loop.base, loop.settings), loop.uuid, by="bob")
    loop.ask()
    with refused(InvalidInput, "empty_text"):
        reject(OpenBase(loop.base, loop.settings), loop.uuid, by="bob", reason=" ")
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    with refused(NotWaiting, "answered") as caught:
        reject(OpenBase(loop.base, loop.settings), loop.uuid, by="bob", reason="no")
    assert "approved, by ann" in caught.value.cause
    loop.resume().complete()
    with refused(NotWaiting, "ended"):
        approve(OpenBase(loop.base, loop.settings), loop.uuid, by="bob")


def test_a_program_may_wait_for_the_answer(loop: Loop) -> None:
    store = loop.ctx.message_store
    somebody = start(
        what="answer", base=str(loop.base), config=loop.config, uuid=loop.uuid, by="ann", decision="approve",
        waits=True,
    )  # fmt: skip
    answer = loop.ctx.checkpoint("concept", QUESTION, wait=True, timeout=600)  # not for ever, if nobody comes
    assert told(somebody) is not None
    assert (answer.by, store.count_messages()) == ("ann", answer.seq)
    assert loop.row().status is TaskStatus.RUNNING
    store.add_message("assistant", "It goes on with the same stores.")
    loop.ctx.complete()
    loop.check()


# ---- time --------------------------------------------------------------------------------------------------------


def test_a_time_limit_answers_and_reminders_are_written(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.ask(timeout=7200, remind_every=3600)
    asked_at = datetime.now(UTC)

    def swept(minutes: int) -> SweepReport:
        """So long after the question: a real limit would have to outlast whatever keeps this process waiting."""
        then = (asked_at + timedelta(minutes=minutes)).isoformat(timespec="microseconds")
        monkeypatch.setattr(answering, "utc_now", lambda: then)
        return sweep(OpenBase(loop.base, loop.settings))

    assert loop.uuid not in {one.uuid for one in swept(30).reminded}
    report = swept(90)
    assert loop.uuid in {one.uuid for one in report.reminded}
    assert loop.uuid not in {one.uuid for one in report.expired}
    assert len(loop.ledger().checkpoints[0].reminded_at) == 1
    assert loop.uuid in {one.uuid for one in swept(150).expired}
    answer = loop.resume().checkpoint("concept", QUESTION)
    assert (answer.decision, answer.by) == ("reject", CLOCK)
    assert "Nobody has answered until" in answer.reason
    loop.ctx.complete()
    assert loop.uuid not in swept(150).settled


def test_the_outcome_of_a_time_limit_can_be_chosen_and_a_waiting_program_sees_to_it(tmp_path: Path) -> None:
    loop = files_loop(tmp_path)
    answer = loop.ctx.checkpoint("concept", QUESTION, timeout=0.05, on_timeout="approve", wait=True)
    assert (answer.decision, answer.by) == ("approve", CLOCK)
    with refused(InvalidInput, "decision"):
        loop.ctx.checkpoint("next", QUESTION, on_timeout="perhaps")  # type: ignore[arg-type]
    loop.ctx.complete()


# ---- triggers and confirmation -----------------------------------------------------------------------------------


def test_every_trigger_has_its_own_rung_and_stands_in_the_log(tmp_path: Path) -> None:
    events = [
        {"event": "approval", "strategies": ["sections"], "level": "light"},
        {"event": "phase_end", "strategies": ["sections"], "level": "standard", "target": 0.01},
        {"event": "iteration_end", "strategies": ["sections"], "level": "aggressive", "target": 0.01},
    ]
    usage = {"usage": 0.02, "strategies": ["offload", "summarize"], "target": 0.01}
    loop = files_loop(tmp_path, ladder=[usage, *events], keep_recent=1, min_to_compress=1)
    ctx, store = loop.ctx, loop.ctx.message_store
    ctx.phase("second")
    store.add_message("assistant", EXPLORATION)
    store.add_message("user", "So?")
    result = ctx.end_iteration()
    assert result is not None
    assert result.changed
    for _ in range(3):
        store.add_message("user", "word " * 2000)
    assert ctx.compress_if_needed()
    store.add_message("assistant", EXPLORATION)
    store.add_message("user", "So?")
    ctx.compressor.compress(strategy="summarize")
    found = [(entry["trigger"], entry["level"]) for entry in loop.log()]
    assert found == [("phase_end", "standard"), ("iteration_end", "aggressive"), ("usage", ""), ("manual", "")]
    ctx.complete()
    loop.check()


def test_an_approval_folds_nothing_where_the_settings_do_not_want_it(tmp_path: Path) -> None:
    loop = files_loop(tmp_path, auto_compress_on_approval=False)
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    assert EXPLORATION in loop.shown()
    assert loop.read(lambda store: [name for name in store.records.kept_files() if "archives" in name]) == []


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_compression_can_be_a_checkpoint_that_shows_its_preview(tmp_path: Path, is_confirmed: bool) -> None:
    loop = files_loop(tmp_path, confirm_before_compress=True)
    loop.ask()
    done = approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    assert done.status is TaskStatus.WAITING
    assert done.waits_for is not None
    assert "- **決定**: Unity" in done.waits_for.context
    assert EXPLORATION in loop.shown()
    messages = loop.read(lambda store: store.count("messages"))
    if is_confirmed:
        done = approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    else:
        done = reject(OpenBase(loop.base, loop.settings), loop.uuid, by="ann", reason="I want to read it.")
    assert (done.status, done.waits_for) == (TaskStatus.PAUSED, None)
    assert (EXPLORATION in loop.shown()) != is_confirmed
    assert loop.read(lambda store: store.count("messages")) == messages  # the model has nothing to do with it
    assert loop.resume().checkpoint("concept", QUESTION).approved
    loop.ctx.complete()
    loop.check()


def test_a_full_view_asks_before_it_is_folded(tmp_path: Path) -> None:
    loop = files_loop(tmp_path, confirm_before_compress=True, token_threshold=1500, keep_recent=1, min_to_compress=1)
    loop.ctx.message_store.add_message("user", "So?")
    with pytest.raises(Waiting):
        loop.ctx.compress_if_needed()
    done = approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    assert done.after_tokens < done.before_tokens
    ctx = loop.resume()
    assert not ctx.compress_if_needed()
    (entry,) = loop.log()
    assert entry["trigger"] == "usage"
    ctx.complete()


# ---- archives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("archive_format", ["markdown", "json"])
def test_an_archive_opens_again_whole_and_by_section(tmp_path: Path, archive_format: str) -> None:
    loop = files_loop(tmp_path, archive_format=archive_format)
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    (path,) = (loop.base / "paused" / loop.uuid / "archives").glob("phase1_exploration.*")
    assert restore_context(path) == EXPLORATION
    godot = partial_restore(path, "godot")
    assert godot.startswith("#### Godot\nGodotはオープンソース")
    assert "結論" not in godot
    with refused(InvalidInput, "no_section") as caught:
        partial_restore(path, "Phaser")
    assert "Godot" in caught.value.cause
    plain = tmp_path / "plain.md"
    plain.write_text(EXPLORATION, encoding="utf-8")
    assert restore_context(plain) == EXPLORATION
    assert partial_restore(plain, "Godot") == godot


def test_a_phase_is_read_and_restored_on_every_back_end_also_without_its_archive(loop: Loop) -> None:
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    later = datetime.now(UTC) + timedelta(days=6)
    assert not [name for name in delete_old_phase_archives(loop.base, loop.settings, now=later) if loop.uuid in name]
    assert read_phase(OpenBase(loop.base, loop.settings), loop.uuid, section="Godot").startswith("#### Godot")
    later += timedelta(days=2)
    deleted = delete_old_phase_archives(loop.base, loop.settings, now=later)
    assert f"{loop.uuid}/archives/phase1_exploration.md" in deleted
    assert "Unity" in loop.file("phase1_decisions.md")
    assert EXPLORATION in read_phase(OpenBase(loop.base, loop.settings), loop.uuid, phase=1)
    assert "GDScript" not in loop.shown()
    restored = restore_phase(OpenBase(loop.base, loop.settings), loop.uuid, section="Godot")
    assert len(restored.folds) == 1
    assert EXPLORATION in loop.shown()
    assert restore_phase(OpenBase(loop.base, loop.settings), loop.uuid).folds == ()
    with refused(InvalidInput, "no_phase") as caught:
        read_phase(OpenBase(loop.base, loop.settings), loop.uuid, phase=7)
    assert caught.value.fields["known"] == "1"
    loop.check()


def test_a_phase_of_a_task_that_is_put_away_is_not_unknown(tmp_path: Path) -> None:
    loop = files_loop(tmp_path)
    loop.ctx.complete()
    archive_task(loop.base, loop.uuid, loop.settings)
    with refused(TaskNotFound, "packed"):
        read_phase(OpenBase(loop.base, loop.settings), loop.uuid)
    delete_old_contexts(loop.base, loop.settings, days=0)
    with refused(IllegalTransition, "cleaned"):
        read_phase(OpenBase(loop.base, loop.settings), loop.uuid)
    with refused(TaskNotFound, "uuid"):
        read_phase(OpenBase(loop.base, loop.settings), "nobody")


def test_a_handler_without_a_task_works_on_the_text_of_the_checkpoint() -> None:
    handed_on = ApprovalHandler().on_approval(
        Checkpoint(1, "concept", QUESTION, exploration_context=EXPLORATION), Approval("approve", "ann")
    )
    assert "- **決定**: Unity" in handed_on
    assert len(handed_on) < len(EXPLORATION) / 5


# ---- several people, and misfortunes -----------------------------------------------------------------------------


def test_of_two_people_who_answer_at_once_one_wins_and_the_other_is_told(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_PATIENCE", 300.0)  # in both processes: the winner may be kept from its work
    loop.ask()
    plan = {"what": "answer", "base": str(loop.base), "config": loop.config, "uuid": loop.uuid, "at": time.time() + 0.3}
    both = [start(**plan, by=by, decision=what) for by, what in (("ann", "approve"), ("bob", "reject"))]
    said = [told(process) for process in both]
    winner = 0 if said[0] is not None and "status" in said[0] else 1
    won, lost = said[winner], said[1 - winner]
    assert won is not None
    assert lost is not None
    assert won["status"] == "paused"
    assert (lost["refused"], lost["by"]) == ("answered", ("ann", "bob")[winner])
    (asked,) = loop.ledger().checkpoints
    assert asked.answer is not None
    assert (asked.answer.by, asked.answer.at) == (lost["by"], lost["at"])
    assert loop.read(lambda store: store.count("messages")) == 4
    loop.check()


def spread(count: int, most: int = 14) -> list[int]:
    """Steps from the first to the last, a few more towards the end where things are written."""
    return sorted({1 + round((count - 1) * (place / (most - 1)) ** 0.8) for place in range(most)})


def test_a_death_at_any_step_of_answering_leaves_one_answer_and_a_task_that_goes_on(
    loop: Loop, some_steps: SomeSteps
) -> None:
    loop.ask()
    plan = {"what": "answer", "base": str(loop.base), "config": loop.config, "uuid": loop.uuid}
    rehearsal = Loop(loop.base, loop.config)
    rehearsal.ask()
    counted = told(start(**{**plan, "uuid": rehearsal.uuid}, by="ann", decision="approve"))
    assert counted is not None
    for round_, step in enumerate(some_steps(spread(counted["steps"]))):
        if round_:
            loop = Loop(loop.base, loop.config)
            loop.ask()
        killed = start(**{**plan, "uuid": loop.uuid}, by="ann", decision="approve", die_at=step)
        assert told(killed) is None or step == counted["steps"]
        sweep(OpenBase(loop.base, loop.settings))
        with suppress(NotWaiting):  # the answer of the one who died counts
            approve(OpenBase(loop.base, loop.settings), loop.uuid, by="bob")
        assert loop.row().status is TaskStatus.PAUSED
        ctx = loop.resume()
        answer = ctx.checkpoint("concept", QUESTION)
        assert (answer.approved, answer.by in ("ann", "bob")) == (True, True)
        texts = [stored.message.text for stored in ctx.message_store.get_messages()]
        assert [seq for seq, said in enumerate(texts, start=1) if said.startswith("## Approved")] == [answer.seq] == [4]
        ctx.complete()
        assert "GDScript" not in loop.shown()
        assert [entry["trigger"] for entry in loop.log()] == ["approval"]
        assert notices(loop) == ["approval_asked", "approval_answered"]
        loop.check()


def notices(loop: Loop) -> list[str]:
    """What people were told about the questions of a task."""
    told = list_notifications(loop.base, loop.settings, task=loop.uuid, limit=1000)
    return [one.kind for one in told if one.kind.startswith("approval_")]


def test_a_death_at_any_step_of_asking_leaves_one_question(loop: Loop, some_steps: SomeSteps) -> None:
    loop.ctx.stop()
    plan = {"what": "ask", "base": str(loop.base), "config": loop.config}
    counted = told(start(**plan, uuid=loop.uuid))
    assert counted is not None
    for step in some_steps(spread(counted["steps"], most=10)):
        loop = Loop(loop.base, loop.config)
        loop.ctx.stop()
        assert told(start(**plan, uuid=loop.uuid, die_at=step)) is None or step == counted["steps"]
        if loop.row().status is not TaskStatus.WAITING:
            loop.resume()
            loop.ask()
        assert len(loop.ledger().checkpoints) == len(loop.pending()) == 1
        approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
        assert loop.resume().checkpoint("concept", QUESTION).approved
        loop.ctx.complete()
        assert notices(loop) == ["approval_asked", "approval_answered"]
        loop.check()


def test_a_fork_before_an_answer_does_not_know_it(loop: Loop) -> None:
    loop.ask()
    approve(OpenBase(loop.base, loop.settings), loop.uuid, by="ann")
    new = fork_task(loop.base, loop.uuid, loop.settings, 3)
    with TaskContextManager.resume(loop.base, new, loop.settings) as forked:
        assert [one.answer for one in forked.checkpoints.read().checkpoints] == [None]
        assert forked.message_store.count_messages() == 3
    at_end = fork_task(loop.base, loop.uuid, loop.settings, 4)
    with TaskContextManager.resume(loop.base, at_end, loop.settings) as forked:
        assert forked.checkpoint("concept", QUESTION).by == "ann"
