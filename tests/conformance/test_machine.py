"""Random lives of a task: after every step the invariants of SPEC §2 hold, whatever came before.

The machine appends, pins, folds (legally and not, by every strategy, with summarizers that fail), undoes, redoes,
unfolds, edits, pauses and crashes. A crash
drops the writer without closing it and may leave what a dying machine leaves: a torn last line, a view with one
line too many or without its last ones.
"""

from __future__ import annotations

import gc
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.errors import BudgetExceeded, IllegalFold, InvalidInput, NothingToUndo
from orihon.settings.rungs import STRATEGIES
from orihon.values.message.wire import clean
from orihon.values.records import Compression
from orihon.values.view import PlannedFold, foldable_runs
from tests.conformance.backends import Backend, FilesBackend, PostgresBackend, SqliteBackend
from tests.conformance.invariants import check_task, shown
from tests.strategies import texts

WORDS = st.sampled_from(
    ["make the tests pass", "テストを通してください", "ok", "x" * 300, "必ず守ること\nmore"]
) | texts(30)
PIXEL = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 200 + "="}}
NEWEST_OR_ANY = st.sampled_from([None, None, None, 1, 2, 3, 4, 6, 8])
TOOLS = ("read_file", "run_tests")
MODELS = [
    None,
    TimeoutError("too slow"),
    "",
    "Error: 429 Too Many Requests",
    "longer " * 5_000,
    17,
    "output: question 1",
]


class AnsweringModel:
    """Gives one answer, whatever it is asked; an exception is raised."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def send_system_prompt(self, prompt: str) -> None: ...

    def send_user_message(self, message: str) -> None: ...

    def get_response(self) -> tuple[Any, list[Any]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer, []


class TaskMachine(RuleBasedStateMachine):
    """One task on one back end."""

    backend: ClassVar[Backend]

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="orihon-machine-"))
        self.folder = self.base / f"task-{secrets.token_hex(8)}"
        self.store = self.opened()
        self.log: list[bytes] = []
        self.calls = 0

    def opened(self) -> MessageStore:
        # What is fsynced cannot matter here: no power is cut.
        return self.backend.open(self.folder, durability="os", blob_bytes=1_000)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.base)

    # ---- the log -----------------------------------------------------------------------------------------------

    @initialize(prompts=st.lists(st.sampled_from(["system", "developer"]), max_size=2), turns=st.integers(0, 3))
    def begin(self, prompts: list[str], turns: int) -> None:
        for number, role in enumerate(prompts):
            self.store.add_message(role, f"rule {number}: be careful")
        for turn in range(turns):
            self.store.add_message("user", f"question {turn}")
            call = {"id": f"begin-{turn}", "function": {"name": TOOLS[0], "arguments": "{}"}}
            self.store.add_message("assistant", None, tool_calls=[call])
            self.store.add_message("tool", "output " * 50, TOOLS[0])
            self.store.add_message("assistant", f"answer {turn}")

    @rule(role=st.sampled_from(["user", "assistant", "system"]), text=WORDS)
    def say(self, role: str, text: str) -> None:
        with self.unless_calls_wait():
            self.store.add_message(role, text)

    @rule(text=WORDS)
    def show(self, text: str) -> None:
        with self.unless_calls_wait():
            self.store.add_message("user", [{"type": "text", "text": text}, PIXEL])

    @rule(count=st.integers(1, 3), answered=st.integers(0, 3), data=st.data())
    def call_tools(self, count: int, answered: int, data: st.DataObject) -> None:
        self.calls += 1
        ids = [f"call-{self.calls}-{number}" for number in range(count)]
        function = {"name": data.draw(st.sampled_from(TOOLS)), "arguments": "{}"}
        calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
        with self.unless_calls_wait():
            self.store.add_message("assistant", None, tool_calls=calls)
        for call_id in data.draw(st.permutations(list(self.waiting())))[:answered]:
            self.store.add_message("tool", data.draw(WORDS) + " output" * 50, tool_call_id=call_id)

    @precondition(lambda self: self.waiting())
    @rule()
    def answer_the_rest(self) -> None:
        self.store.answer_open_calls("interrupted")

    @rule(text=WORDS)
    def answer_nobody(self, text: str) -> None:
        with pytest.raises(InvalidInput):
            self.store.add_message("tool", text, tool_call_id="never-called")

    # ---- the view ----------------------------------------------------------------------------------------------

    @rule(data=st.data(), text=WORDS, several=st.booleans())
    def fold(self, data: st.DataObject, text: str, several: bool) -> None:
        runs = foldable_runs(self.store.view())
        if not runs:
            return
        chosen = runs if several else [data.draw(st.sampled_from(runs))]
        plans = [self.plan(data, run, f"{text} summary {number}") for number, run in enumerate(chosen)]
        before = shown(self.store)
        made = self.tried(lambda: self.store.folding.compress(plans))
        if made is not None and data.draw(st.booleans()):
            self.take_back(made, before, appended=data.draw(st.booleans()))

    @rule(data=st.data(), text=WORDS)
    def preview(self, data: st.DataObject, text: str) -> None:
        seqs = [entry.start for entry in self.store.view().entries if entry.start == entry.end]
        if seqs:
            seq = data.draw(st.sampled_from(seqs))
            plan = PlannedFold(seq, seq, f"{text} (shortened)", form="preview")
            self.tried(lambda: self.store.folding.compress([plan]))

    @rule(start=st.integers(-1, 30), length=st.integers(-1, 12), text=WORDS)
    def fold_anything(self, start: int, length: int, text: str) -> None:
        """Mostly illegal: then nothing changes."""
        self.tried(lambda: self.store.folding.compress([PlannedFold(start, start + length, text)]))

    @rule(
        strategy=st.sampled_from([None, *STRATEGIES]),
        preset=st.sampled_from(["default", "coding-agent", "companion", "phases"]),
        model=st.sampled_from(MODELS),
        window=st.sampled_from([300, 1_000, 128_000]),
        keep=st.integers(0, 4),
        appended=st.booleans(),
    )
    def compress(
        self, strategy: str | None, preset: str, model: object, window: int, keep: int, appended: bool
    ) -> None:
        """By any strategy and with any summarizer, also one that fails; undoing it is exact."""
        compressor = self.compressor(preset, model, window, keep)
        before = shown(self.store)
        tokens = self.store.get_current_token_count()
        with suppress(BudgetExceeded):
            result = compressor.compress(strategy=strategy, target=0.2)
            assert result.changed == (result.compression is not None)
            assert self.store.get_current_token_count() == result.compressed_tokens
            if result.changed:
                assert result.compressed_tokens < tokens
                made = self.store.compressions()[-1]
                self.take_back(made, before, appended=appended)
                return
        assert shown(self.store) == before

    @rule(preset=st.sampled_from(["default", "coding-agent", "companion", "phases"]), model=st.sampled_from(MODELS))
    def let_the_ladder_decide(self, preset: str, model: object) -> None:
        compressor = self.compressor(preset, model, 400, 3)
        before = shown(self.store)
        changed = False
        with suppress(BudgetExceeded):
            changed = compressor.compress_if_needed()
            assert not compressor.compress_if_needed() or self.store.get_current_token_count() > 0, "no endless loop"
        if not changed:
            assert shown(self.store) == before or len(self.store.compressions()) > 0

    def compressor(self, preset: str, model: object, window: int, keep: int) -> ContextCompressor:
        config = {
            "compression": {"preset": preset, "keep_recent": keep, "min_to_compress": 2, "summary_retries": 0},
            "llm": {"openai": {"context_length": window, "reserve_output": 20}},
        }
        client = None if model is None else AnsweringModel(model)
        return ContextCompressor(message_store=self.store, config=config, llm_client=client)

    @rule(number=NEWEST_OR_ANY)
    def undo(self, number: int | None) -> None:
        self.tried(lambda: self.store.folding.undo(number))

    @rule(number=NEWEST_OR_ANY)
    def redo(self, number: int | None) -> None:
        self.tried(lambda: self.store.folding.redo(number))

    @precondition(lambda self: bool(foldable_runs(self.store.view())))
    @rule(text=WORDS)
    def fold_the_longest(self, text: str) -> None:
        start, end = max(foldable_runs(self.store.view()), key=lambda run: run[1] - run[0])
        self.tried(lambda: self.store.folding.compress([PlannedFold(start, end, text)]))

    @precondition(lambda self: self.store.view().folds)
    @rule(data=st.data())
    def unfold(self, data: st.DataObject) -> None:
        fold = data.draw(st.sampled_from(self.store.view().folds))
        self.tried(lambda: self.store.folding.unfold(fold.id))

    @precondition(lambda self: self.store.view().folds)
    @rule(data=st.data(), text=WORDS)
    def edit(self, data: st.DataObject, text: str) -> None:
        fold = data.draw(st.sampled_from(self.store.view().folds))
        self.tried(lambda: self.store.folding.edit(fold.id, text))

    @precondition(lambda self: self.store.count_messages())
    @rule(data=st.data(), whole=st.booleans())
    def pin(self, data: st.DataObject, whole: bool) -> None:
        seq = data.draw(st.integers(1, self.store.count_messages()))
        said = self.store.get_message(seq).message.text
        # Blank lines and halves of characters do not reach a request as they are.
        lines = [line for line in said.splitlines() if line.strip() and clean(line) == line]
        line = "" if whole or not lines else data.draw(st.sampled_from(lines))
        self.tried(lambda: self.store.folding.pin(seq, line))

    @precondition(lambda self: self.store.view().pins)
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        pin = data.draw(st.sampled_from(self.store.view().pins))
        self.store.folding.unpin(pin.seq, pin.line)

    # ---- pause, resume, crash ----------------------------------------------------------------------------------

    @rule()
    def pause_and_resume(self) -> None:
        before = shown(self.store)
        self.store.close()
        self.store = self.opened()
        assert shown(self.store) == before

    @rule(left=st.sampled_from(["nothing", "torn line", "line too many", "lines missing", "no view"]))
    def crash(self, left: str) -> None:
        before = shown(self.store)
        del self.store
        gc.collect()  # the dead writer's place must not count as taken
        self.leave(left)
        self.store = self.opened()
        assert shown(self.store) == before
        with self.unless_calls_wait():
            self.store.add_message("user", "after the crash")

    def leave(self, what: str) -> None:
        log, view = self.folder / "messages.jsonl", self.folder / "current.jsonl"
        if what == "torn line" and log.exists():
            with log.open("ab") as file:
                file.write(b'{"seq":%d,"role":"us' % (len(self.log) + 1))
        elif view.exists() and what == "line too many":
            with view.open("ab") as file:
                file.write(b'{"role":"user","content":"never stored"}\n')
        elif view.exists() and what == "lines missing":
            view.write_bytes(b"".join(view.read_bytes().splitlines(keepends=True)[:-2]))
        elif what == "no view":
            view.unlink(missing_ok=True)

    # ---- what holds --------------------------------------------------------------------------------------------

    @invariant()
    def everything_promised(self) -> None:
        check_task(self.store)

    @invariant()
    def the_log_only_grows(self) -> None:
        log = list(self.store.task_store.records.read("messages"))
        assert log[: len(self.log)] == self.log
        self.log = log

    # ---- helpers -----------------------------------------------------------------------------------------------

    def waiting(self) -> dict[str, str]:
        return self.store.task_store.tail.open_calls

    @contextmanager
    def unless_calls_wait(self) -> Iterator[None]:
        """The message inside is taken, or refused because calls wait for their results."""
        if not self.waiting():
            yield
            return
        count = self.store.count_messages()
        with pytest.raises(InvalidInput):
            yield
        assert self.store.count_messages() == count

    def plan(self, data: st.DataObject, run: tuple[int, int], text: str) -> PlannedFold:
        """A fold of a run or of its beginning, with the lines that are pinned in it."""
        view = self.store.view()
        ends = [entry.end for entry in view.entries if run[0] <= entry.end <= run[1]]
        end = data.draw(st.sampled_from([run[1], *ends]))
        pinned = [pin.line for pin in view.pins if run[0] <= pin.seq <= end]
        return PlannedFold(run[0], end, "\n".join([text, *pinned]))

    def tried(self, act: Any) -> Compression | None:
        """What came of a change; a refused one has changed nothing."""
        before, changes = shown(self.store), len(self.store.compressions())
        made: Compression | None = None
        with suppress(IllegalFold, NothingToUndo):
            made = act()
        if made is None:
            assert shown(self.store) == before
        assert len(self.store.compressions()) == changes + (made is not None)
        return made

    def take_back(self, made: Compression, before: list[dict[str, Any]], *, appended: bool) -> None:
        """Undo is exact: the view as it was, plus what came since; and redo brings the fold back."""
        since: list[dict[str, Any]] = []
        if appended and not self.waiting():
            self.store.add_message("user", "meanwhile")
            since = shown(self.store)[-1:]
        folded = shown(self.store)
        self.store.folding.undo(made.id)
        assert shown(self.store) == [*before, *since]
        self.store.folding.redo()
        assert shown(self.store) == folded


class FilesMachine(TaskMachine):
    backend = FilesBackend()


class SqliteMachine(TaskMachine):
    backend = SqliteBackend()


class PostgresMachine(TaskMachine):
    backend = PostgresBackend()


#: Each is a life of thirty steps; how many follows from the profile.
LIVES = settings().max_examples * 2 // 5
_BOUNDED = settings(
    max_examples=LIVES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestFilesMachine = FilesMachine.TestCase
TestFilesMachine.settings = _BOUNDED
TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = _BOUNDED
TestPostgresMachine = pytest.mark.usefixtures("tasks_database")(PostgresMachine.TestCase)
TestPostgresMachine.settings = settings(_BOUNDED, max_examples=LIVES // 2)  # each step is many round trips
