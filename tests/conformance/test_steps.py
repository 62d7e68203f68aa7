"""Random lives of a task, and every step of them seen again: by a fork, and by a rewind that is undone.

After each act the view is written down under the length that the log had. A fork at a step must give exactly that view,
and a rewind to it that view with a notice behind it; undoing the rewind gives what there was before, byte for byte.
"""

from __future__ import annotations

import random
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore, fork_task
from orihon.errors import IllegalFold, NoSuchMessage, NothingToUndo, ToolCallError
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.place import folders_of
from orihon.tasks.verify.verify import verify, verify_task
from orihon.values.records import FORKED_FROM, Pin
from orihon.values.task import TaskKey, TaskStatus
from orihon.values.view import PlannedFold, foldable_runs
from tests.conformance.backends import BACKENDS
from tests.conformance.invariants import check_task
from tests.damage import edit_record, with_fields
from tests.helpers import refused

LIVES = 2
KEY = TaskKey("github", "owner", "repo", "issue", "27", "user")
TOOL = "read_file"


def settings_of(kind: str) -> Settings:
    config = BACKENDS[kind].config()
    config["context_storage"] |= {"durability": "os", "blob_bytes": 1_000}
    return load_settings(config, environ={})


def lines_of(store: MessageStore) -> bytes:
    return b"".join(line + b"\n" for line in store.task_store.view_lines())


class Life:
    """A task that is lived at random; ``views`` and ``pins`` are what there was at each step."""

    def __init__(self, base: Path, settings: Settings, chance: random.Random) -> None:
        self.task = TaskContextManager(base, KEY, settings)
        self.store = self.task.message_store
        self._chance = chance
        self.views: dict[int, bytes] = {}
        self.pins: dict[int, tuple[Pin, ...]] = {}
        self.counts: dict[int, tuple[int, ...]] = {}
        self.calls = 0
        self._say("system", "You are careful.")

    def live(self, acts: int) -> None:
        for _ in range(acts):
            act = self._chance.choice([self._turn] * 6 + [self._fold] * 4 + [self._step, self._open, self._pin] * 2)
            with suppress(IllegalFold, NothingToUndo):
                act()
            self._note()

    @property
    def legal(self) -> list[int]:
        """The steps at which no tool call waits for its result."""
        waiting: set[str] = set()
        found = []
        for stored in self.store.get_messages():
            waiting |= {call.id for call in stored.message.tool_calls}
            waiting.discard(stored.message.tool_call_id or "")
            if not waiting:
                found.append(stored.seq)
        return found

    def _say(self, role: str, text: str, **fields: Any) -> None:
        self.store.add_message(role, text, **fields)
        self._note()

    def _note(self) -> None:
        last = self.store.count_messages()
        self.views[last] = lines_of(self.store)
        self.pins[last] = self.store.view().pins
        tools, plans = self.task.tool_store, self.task.planning_store
        self.counts[last] = (tools.count_tool_calls(), plans.count_plans())

    def _turn(self) -> None:
        number = self.store.count_messages()
        self._say("user", f"question {number}\nkeep this line {number}")
        if self._chance.random() < 0.3:
            self.task.planning_store.add_plan("revision", f"plan {number}")
            self._note()
        if self._chance.random() < 0.5:
            self._use_tools(self._chance.randrange(1, 4))
        self._say("assistant", f"answer {number} " * self._chance.randrange(1, 20))

    def _use_tools(self, count: int) -> None:
        ids = [f"call-{self.calls + number}" for number in range(count)]
        self.calls += count
        calls = [{"id": one, "type": "function", "function": {"name": TOOL, "arguments": "{}"}} for one in ids]
        self._say("assistant", "let me see", tool_calls=calls)
        for one in ids:
            said = f"output of {one} " * self._chance.choice([3, 200])  # the longer one goes to a blob
            self.task.tool_store.add_tool_call(TOOL, {}, said, call_id=one)
            self._note()
            self._say("tool", said, tool_call_id=one)

    def _fold(self) -> None:
        runs = foldable_runs(self.store.view())
        if not runs:
            return
        start, end = self._chance.choice(runs)
        if start < end and self._chance.random() < 0.3:
            seqs = [
                seq
                for seq in range(start, end + 1)
                if self.store.view().entries[self.store.view().index_of(seq)].fold is None
            ]
            previews = [PlannedFold(seq, seq, f"short {seq}", "preview") for seq in seqs[:2]]
            self.store.folding.compress(previews)
            return
        kept = "\n".join(pin.line for pin in self.store.view().pins if start <= pin.seq <= end)
        self.store.folding.compress([PlannedFold(start, end, f"summary of {start} to {end}\n{kept}")])

    def _step(self) -> None:
        self._chance.choice([self.store.folding.undo, self.store.folding.redo])()

    def _open(self) -> None:
        folds = self.store.view().folds
        if folds:
            fold = self._chance.choice(folds)
            if fold.form == "summary" and self._chance.random() < 0.4:
                self.store.folding.edit(fold.id, f"{fold.text} edited")
            else:
                self.store.folding.unfold(fold.id)

    def _pin(self) -> None:
        if pins := self.store.view().pins:
            pin = self._chance.choice(pins)
            self.store.folding.unpin(pin.seq, pin.line)
        else:
            seq = self._chance.randrange(1, self.store.count_messages() + 1)
            self.store.folding.pin(seq)


def check_fork(base: Path, settings: Settings, life: Life, at: int) -> None:
    new = fork_task(base, life.task.uuid, settings, at)
    here = folders_of(base, settings).find(new)
    assert here is not None
    with closing(open_for_reading(here.folder, settings, name=new)) as store:
        assert verify_task(store, here.folder if here.folder.is_dir() else None) == []
        assert b"".join(line + b"\n" for line in store.view_lines()) == life.views[at]
        assert store.view().pins == life.pins[at]
        assert (store.count("tools"), store.count("planning")) == life.counts[at]
        ours, theirs = store.records, life.task.task_store.records
        assert list(ours.read("messages")) == list(theirs.read("messages", (1, at)))
    row = life.task.catalogue.tasks.get(new)
    assert (row.status, row.total_messages, row.lease_owner) == (TaskStatus.PAUSED, at, None)
    assert row.metadata[FORKED_FROM] == {"uuid": life.task.uuid, "at": at}
    with TaskContextManager.resume(base, new, settings) as fork:
        fork.message_store.add_message("user", "and now something else")
        assert fork.message_store.get_messages_for_llm()[-1]["content"] == "and now something else"
        assert lines_of(fork.message_store).startswith(life.views[at])
        check_task(fork.message_store)
        assert verify_task(fork.task_store) == []
    if here.folder.is_dir() or settings.database.url is None:
        assert verify(OpenBase(base, settings), new) == []


def check_rewind(life: Life, at: int) -> bool:
    """Rewind, look, undo; ``False`` when something that is pinned stands in the way."""
    store = life.store
    before, tokens = lines_of(store), store.task_store.tail.view_tokens
    try:
        record = store.rewind(at)
    except IllegalFold as refusal:
        if refusal.reason not in ("pinned", "drops_line", "system_head", "open_calls"):
            raise
        return False
    shown = lines_of(store)
    assert shown.startswith(life.views[at])
    (notice,) = shown[len(life.views[at]) :].splitlines()
    assert f"taken back to message {at}" in jsonio.decode(notice)["content"]
    assert (record.kind, record.strategy) == ("compress", "rewind")
    check_task(store)
    store.folding.undo()
    assert lines_of(store) == before
    assert store.task_store.tail.view_tokens == tokens
    store.folding.redo()
    assert lines_of(store) == shown
    store.folding.undo()
    return True


@pytest.mark.parametrize("number", range(LIVES))
def test_a_fork_has_the_view_of_its_step_and_a_rewind_comes_back(kind: str, number: int, tmp_path: Path) -> None:
    chance = random.Random(number)
    settings = settings_of(kind)
    life = Life(tmp_path, settings, chance)
    life.live(30)
    legal = life.legal
    before = dict(BACKENDS[kind].unchanged(life.task.context_dir))
    for at in {legal[0], legal[-1], *chance.sample(legal, min(5, len(legal)))}:
        check_fork(tmp_path, settings, life, at)
    assert BACKENDS[kind].unchanged(life.task.context_dir) == before
    for pin in life.store.view().pins:
        if chance.random() < 0.7:
            life.store.folding.unpin(pin.seq, pin.line)
    rewound = [at for at in chance.sample(legal[:-1], min(8, len(legal) - 1)) if check_rewind(life, at)]
    if not rewound:
        assert life.store.view().pins, "only a pin may stand in the way of all of them"
        life.task.stop()
        return
    # Rewound for good, the task goes on, and its steps are still what they were.
    life.store.rewind(rewound[0])
    life.live(10)
    for at in chance.sample(life.legal, 4):
        check_fork(tmp_path, settings, life, at)
    folder = None if kind == "postgres" else life.task.context_dir
    assert verify_task(life.task.task_store, folder, in_use=True) == []
    life.task.stop()


def test_a_step_that_splits_tool_calls_from_their_results_is_refused(kind: str, tmp_path: Path) -> None:
    settings = settings_of(kind)
    with TaskContextManager(tmp_path, KEY, settings) as task:
        store = task.message_store
        known = [row.uuid for row in task.catalogue.tasks.unfinished(KEY)]
        store.add_message("user", "look")
        calls = [{"id": f"c{n}", "type": "function", "function": {"name": TOOL, "arguments": "{}"}} for n in (1, 2)]
        store.add_message("assistant", None, tool_calls=calls)
        store.add_message("tool", "one", tool_call_id="c1")
        for at in (2, 3):
            with refused(ToolCallError, "cut_open") as open_calls:
                fork_task(tmp_path, task.uuid, settings, at)
            assert open_calls.value.fields["before"] == 1
        with refused(IllegalFold, "open_calls"):
            store.rewind(1)
        store.add_message("tool", "two", tool_call_id="c2")
        store.add_message("assistant", "done")
        for at in (2, 3):
            with refused(ToolCallError, "cut") as cut:
                fork_task(tmp_path, task.uuid, settings, at)
            assert (cut.value.fields["before"], cut.value.fields["after"]) == (1, 4)
            with refused(ToolCallError, "cut"):
                store.rewind(at)
        for at in (0, 6):
            with refused(NoSuchMessage, "seq"):
                fork_task(tmp_path, task.uuid, settings, at)
        with refused(NothingToUndo, "at_end"):
            store.rewind(5)
        assert [row.uuid for row in task.catalogue.tasks.unfinished(KEY)] == known, "nothing was made"


def test_a_fork_has_the_files_that_its_messages_mention(kind: str, tmp_path: Path) -> None:
    settings = settings_of(kind)
    with TaskContextManager(tmp_path, KEY, settings) as task:
        for number in (1, 2):
            task.task_store.records.keep_file(f"outputs/shell-0000000{number}.txt", b"output %d" % number)
            task.message_store.add_message("user", f"see outputs/shell-0000000{number}.txt")
        new = fork_task(tmp_path, task.uuid, settings, 1)
    with TaskContextManager.resume(tmp_path, new, settings) as fork:
        records = fork.task_store.records
        assert records.kept_file("outputs/shell-00000001.txt") == b"output 1"
        assert records.kept_file("outputs/shell-00000002.txt") is None
        metadata = jsonio.decode(records.kept_file("metadata.json") or b"")
        assert (metadata["uuid"], metadata[FORKED_FROM]) == (new, {"uuid": task.uuid, "at": 1})


def test_what_is_pinned_after_the_step_refuses_the_rewind(kind: str, tmp_path: Path) -> None:
    with TaskContextManager(tmp_path, KEY, settings_of(kind)) as task:
        store = task.message_store
        for number in range(1, 7):
            store.add_message("user", f"message {number}\nline {number}")
        store.folding.pin(5)
        with refused(IllegalFold, "pinned") as pinned:
            store.rewind(3)
        assert pinned.value.fields["seq"] == 5
        store.folding.unpin(5)
        store.folding.pin(4, "line 4")
        with refused(IllegalFold, "drops_line"):
            store.rewind(3)
        store.rewind(3, "back to three; line 4 stays")
        assert store.get_messages_for_llm()[-1]["content"].endswith("back to three; line 4 stays")
        assert verify_task(task.task_store) == []


@pytest.mark.parametrize(
    "damage",
    [
        {"folds": [4]},  # a fold of that step has not come back
        {"removed": [2]},  # one that was made since still stands
        {"visible": [4]},
        {"strategy": "manual"},
    ],
)
def test_a_rewind_that_cannot_have_been_is_found(tmp_path: Path, damage: dict[str, Any]) -> None:
    with TaskContextManager(tmp_path, KEY, settings_of("files")) as task:
        store = task.message_store
        for number in range(1, 10):
            store.add_message("user", f"message {number}")
            if number == 5:
                store.create_summary(1, 2, "one and two")
        store.folding.unfold(1)
        store.create_summary(3, 7, "over the step")
        store.create_summary(8, 9, "after it")
        record = store.rewind(5)
        assert (record.folds, record.removed, record.visible) == ((1, 4), (2, 3), (1, 4))
    assert verify(OpenBase(tmp_path, settings_of("files")), task.uuid) == []
    edit_record(task.context_dir, "compressions", record.id, with_fields(**damage))
    found = verify(OpenBase(tmp_path, settings_of("files")), task.uuid)
    assert "folds" in {finding.check for finding in found}


def test_folds_made_since_are_opened_and_folds_opened_since_come_back(kind: str, tmp_path: Path) -> None:
    with TaskContextManager(tmp_path, KEY, settings_of(kind)) as task:
        store = task.message_store
        for number in range(1, 6):
            store.add_message("user", f"message {number}")
        first = store.create_summary(1, 2, "one and two")
        then = lines_of(store)
        for number in range(6, 10):
            store.add_message("user", f"message {number}")
        store.folding.unfold(first)
        store.create_summary(3, 7, "over the step")
        store.create_summary(8, 9, "after it")
        now = lines_of(store)
        record = store.rewind(5)
        assert lines_of(store).startswith(then)
        assert record.folds == (first, 4)
        assert record.removed == (2, 3)
        assert verify_task(task.task_store) == []
        store.add_message("user", "message 10")
        store.folding.undo()
        assert lines_of(store) == now + lines_of(store).splitlines(keepends=True)[-1]
        assert verify_task(task.task_store) == []
