"""The ladder at work on real stores: presets, events, previews, undo, notices, figures."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.compression.pages import NothingToFold, WhyNot
from orihon.compression.planner import Draft
from orihon.errors import BudgetExceeded, IllegalFold, InvalidInput
from orihon.notifications import webhook
from orihon.settings.rungs import EVENTS
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.verify.verify import verify
from orihon.values.records import FoldReport
from orihon.values.task import TaskKey
from tests.configurations import load
from tests.helpers import refused
from tests.ladders import PRESETS
from tests.receivers import PATIENCE, receiving
from tests.stored.make import UUIDS
from tests.unit.llm_models import Model
from tests.unit.test_compressor import all_represented_once
from tests.unit.test_squeeze import pairs_are_whole

PROMPT = "You are a careful agent. 決して推測しないこと。"
WINDOW = 6000
NOUNS = ("valve", "exporter", "report", "cache", "parser", "index", "queue", "ledger", "socket", "cursor", "schema")
KEY = TaskKey("cli", "", "", "task", "1")


class Stores:
    """Makes stores in a folder, and closes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[MessageStore] = []

    def config(self, window: int = WINDOW, **compression: object) -> dict[str, Any]:
        return {
            "context_storage": {"durability": "os"},
            "llm": {"openai": {"context_length": window, "reserve_output": 500}},
            "compression": {"keep_recent": 4, "min_to_compress": 5, **compression},
        }

    def open(self, window: int = WINDOW, **compression: object) -> MessageStore:
        store = MessageStore(self.folder / "task", self.config(window, **compression))
        self.opened.append(store)
        return store

    def bytes_of_all(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    made = Stores(tmp_path / "stores")
    yield made
    for store in made.opened:
        store.close()


def turn(store: MessageStore, number: int, lines: int = 20) -> None:
    """A user's wish, a call, its result, and what the agent makes of it."""
    function = {"name": "run_tests", "arguments": f'{{"n": {number}}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    rows = [f"tests/test_part_{number}.py::case_{line} sets option_{number}_{line}" for line in range(lines)]
    store.add_message("user", f"Next, module_{number} must be repaired. Do not touch legacy_{number}.py.")
    store.add_message("assistant", None, tool_calls=[call])
    store.add_message("tool", "\n".join([*rows, f"ValueError: part {number} is broken"]), tool_call_id=f"c{number}")
    thoughts = "Looking at this from one side and from the other takes time, and nothing comes of it. " * 6
    store.add_message("assistant", f"## Research\n\n{thoughts}\n\n## Decisions\n\nmodule_{number} gets a guard.\n")


def work(store: MessageStore, turns: int, first: int = 0) -> None:
    if not store.count_messages():
        store.add_message("system", PROMPT)
    for number in range(first, first + turns):
        turn(store, number)


def fill(store: MessageStore, tokens: int) -> None:
    """Turns until the view has more than so many tokens."""
    number = store.count_messages()
    while store.get_current_token_count() <= tokens:
        work(store, 1, number)
        number += 4


def batched(things: Iterator[str]) -> Iterator[tuple[str, str]]:
    return zip(things, things, strict=True)


def request_bytes(store: MessageStore) -> bytes:
    return store.get_current_context_file().read_bytes()


def spans(store: MessageStore) -> list[tuple[int, int]]:
    return [(fold.start_seq, fold.end_seq) for fold in store.view().folds]


# ---- presets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_a_long_task_stays_within_its_budget(stores: Stores, preset: str) -> None:
    store = stores.open(preset=preset)
    compressor = ContextCompressor(message_store=store)
    usual = {"default": {"offload", "offload+summarize", "summarize"}, "coding-agent": {"summarize"}}
    usual |= {"companion": {"prune"}, "phases": {"sections", "sections+offload", "sections+summarize"}}
    usual["phases"] |= {"sections+offload+summarize"}
    folded = 0
    for number in range(40):
        work(store, 1, number)
        newest = store.get_messages_for_llm()[-1]
        was_full = compressor.should_compress()
        changed = compressor.compress_if_needed()
        folded += changed
        assert was_full or not changed
        request = store.get_messages_for_llm()
        assert store.get_current_token_count() <= compressor.gauge.room
        assert request[0] == {"role": "system", "content": PROMPT}
        assert request[-1] == newest
        assert pairs_are_whole(request)
        assert all_represented_once(store)
    assert folded >= 2
    records = store.compressions()
    assert {record.trigger for record in records} == {"usage"}
    assert {record.strategy for record in records} <= usual[preset]
    assert all(record.after_tokens < record.before_tokens for record in records)


def test_the_first_design_keeps_a_third_of_what_it_folds(stores: Stores) -> None:
    """「元の30-40%程度の長さを目標」: 30–40 % of the original length is the target."""
    store = stores.open(window=40_000, preset="coding-agent")
    rng = random.Random(7)
    for number in range(100):
        things = (f"{rng.choice(NOUNS)}_{rng.randrange(400)} of src/{rng.choice(NOUNS)}.py" for _ in range(16))
        said = "\n".join(f"The {one} changes {other} {rng.randrange(999)} times." for one, other in batched(things))
        store.add_message("assistant" if number % 5 else "user", said)
    result = ContextCompressor(message_store=store).compress()
    (fold,) = store.view().folds
    assert result.strategy == "summarize"
    assert 0.30 <= fold.tokens / fold.original_tokens <= 0.40


def test_phases_keep_what_stands_under_the_well_known_headings(stores: Stores) -> None:
    store = stores.open(preset="phases")
    compressor = ContextCompressor(message_store=store)
    for number in range(40):
        work(store, 1, number)
        compressor.compress_if_needed()
    shown = "\n".join(str(message["content"]) for message in store.get_messages_for_llm())
    assert [number for number in range(40) if f"module_{number} gets a guard." not in shown] == []
    assert shown.count("nothing comes of it.") < 40 * 6


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("event", EVENTS)
def test_events(stores: Stores, preset: str, event: str) -> None:
    store = stores.open(preset=preset)
    work(store, 5)
    compressor = ContextCompressor(message_store=store)
    assert not compressor.compress_if_needed()
    result = compressor.compress_on(event)
    if preset in ("coding-agent", "companion"):
        assert result.nothing == NothingToFold("", WhyNot.NO_RUNG)
        assert store.compressions() == []
        return
    assert result.changed
    (record,) = store.compressions()
    assert (record.trigger, record.id) == (event, result.compression)
    assert record.strategy.split("+")[0] == ("offload" if preset == "default" else "sections")
    assert record.level == ("standard" if preset == "phases" else "")


def test_an_event_that_nobody_knows_is_refused(stores: Stores) -> None:
    store = stores.open()
    with refused(InvalidInput, "event"):
        ContextCompressor(message_store=store).compress_on("lunch")


def test_a_number_of_messages_is_a_rung(stores: Stores) -> None:
    store = stores.open(ladder=[{"messages": 20, "strategies": ["summarize"], "target": 0.5}])
    compressor = ContextCompressor(message_store=store)
    work(store, 4)
    for _ in range(3):
        store.add_message("user", "go on")
        assert not compressor.compress_if_needed()
    assert len(store.view().entries) == 20
    store.add_message("user", "go on")
    before = store.get_current_token_count()
    assert compressor.compress_if_needed()
    assert spans(store) == [(2, 17)]
    assert store.get_current_token_count() <= 0.5 * before


@pytest.mark.parametrize("budget", ["correction", "window"])
def test_the_goal_is_by_the_providers_measure(tmp_path: Path, budget: str) -> None:
    stores = Stores(tmp_path)
    with TaskContextManager(tmp_path, KEY, stores.config(preset="companion")) as ctx:
        fill(ctx.message_store, 2500)
        if budget == "correction":
            ctx.report_usage({"prompt_tokens": 2 * ctx.message_store.get_current_token_count()})
        else:
            ctx.change_model("gpt-4", 3600)
        assert ctx.compressor.should_compress()
        assert ctx.compress_if_needed()
        assert ctx.usage <= 0.7, "memory.target_usage"


# ---- preview, edit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [None, "summarize", "prune", "offload", "sections"])
def test_a_preview_changes_nothing_and_is_what_happens_then(stores: Stores, strategy: str | None) -> None:
    store = stores.open()
    fill(store, 3000)
    compressor = ContextCompressor(message_store=store)
    before, shown = stores.bytes_of_all(), store.get_messages_for_llm()
    planned = compressor.preview(strategy=strategy, target=0.2)
    assert isinstance(planned, Draft)
    assert stores.bytes_of_all() == before
    assert store.get_messages_for_llm() == shown
    result = compressor.apply(planned)
    folds = store.view().folds
    assert [(fold.start_seq, fold.end_seq, fold.text, fold.form, fold.reason, fold.report) for fold in folds] == [
        (fold.start_seq, fold.end_seq, fold.text, fold.form, fold.reason, fold.report) for fold in planned.plan.folds
    ]
    assert result.compressed_tokens == planned.after_tokens == store.get_current_token_count()
    assert (result.original_tokens, result.goal) == (planned.before_tokens, planned.goal)
    assert (result.strategy, result.over_goal) == (planned.plan.strategy, max(0, planned.after_tokens - planned.goal))
    store.folding.undo()
    assert store.get_messages_for_llm() == shown
    assert compressor.preview(strategy=strategy, target=0.2) == planned


def test_a_preview_of_nothing_says_why(stores: Stores) -> None:
    store = stores.open()
    work(store, 1)
    before = stores.bytes_of_all()
    planned = ContextCompressor(message_store=store).preview()
    told = "compression.keep_recent: 4 is set by hand, and holds"
    assert planned == NothingToFold("summarize", WhyNot.NOTHING_OLD, (told,))
    assert stores.bytes_of_all() == before


def test_a_text_can_be_changed_before_and_after(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3000)
    plain = request_bytes(store)
    compressor = ContextCompressor(message_store=store)
    planned = compressor.preview(strategy="summarize")
    assert isinstance(planned, Draft)
    compressor.apply(planned.with_text(planned.plan.folds[0].start_seq, "弁は閉じてある。 In my own words."))
    (fold,) = store.view().folds
    assert (fold.text, fold.report) == ("弁は閉じてある。 In my own words.", None)
    once = request_bytes(store)
    store.folding.edit(fold.id, "Better words.", made_by="me")
    (edited,) = store.view().folds
    assert (edited.text, edited.start_seq, edited.end_seq) == ("Better words.", fold.start_seq, fold.end_seq)
    assert [record.kind for record in store.compressions()] == ["compress", "edit"]
    store.folding.undo()
    assert request_bytes(store) == once
    store.folding.undo()
    assert request_bytes(store) == plain


def test_a_preview_that_is_out_of_date_is_refused_and_nothing_changes(stores: Stores) -> None:
    store = stores.open()
    fill(store, 3000)
    compressor = ContextCompressor(message_store=store)
    planned = compressor.preview(strategy="summarize")
    assert isinstance(planned, Draft)
    store.folding.pin(5)
    before = stores.bytes_of_all()
    with refused(IllegalFold, "pinned"):
        compressor.apply(planned)
    assert stores.bytes_of_all() == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"strategy": "magic"}, "strategy"), ({"target": 0}, "target"), ({"target": 1.5}, "target")],
)
def test_wishes_that_cannot_be(stores: Stores, options: dict[str, Any], reason: str) -> None:
    store = stores.open()
    work(store, 5)
    for act in (ContextCompressor(message_store=store).compress, ContextCompressor(message_store=store).preview):
        with refused(InvalidInput, reason):
            act(**options)
    assert store.compressions() == []


# ---- what was opened again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["undo", "unfold"])
def test_what_was_opened_again_is_left_alone_while_others_are_folded(stores: Stores, how: str) -> None:
    store = stores.open(preset="coding-agent")
    compressor = ContextCompressor(message_store=store)
    fill(store, 4200)
    assert compressor.compress_if_needed()
    ((first, last),) = spans(store)
    store.folding.undo() if how == "undo" else store.folding.unfold(store.view().folds[0].id)
    assert compressor.should_compress()
    assert not compressor.compress_if_needed(), "nothing but that run is old enough"
    work(store, 2, 900)
    assert store.get_current_token_count() < compressor.gauge.room
    assert compressor.compress_on("phase_end").nothing is not None
    assert compressor.compress_if_needed()
    assert spans(store)[0][0] == last + 1, "another run was folded"
    fill(store, compressor.gauge.room)
    assert compressor.compress_if_needed()
    assert spans(store)[0][0] == first, "the view could not be sent any more"
    assert store.get_current_token_count() <= compressor.gauge.room


def test_what_was_opened_again_is_folded_a_rung_higher(stores: Stores) -> None:
    rungs = [{"usage": 0.4, "strategies": ["summarize"]}, {"usage": 0.7, "strategies": ["summarize"]}]
    store = stores.open(ladder=rungs, target=0.2)
    compressor = ContextCompressor(message_store=store)
    fill(store, 2400)
    assert compressor.compress_if_needed()
    run = spans(store)
    store.folding.undo()
    assert not compressor.compress_if_needed()
    fill(store, 4200)
    assert compressor.compress_if_needed()
    assert spans(store)[0][0] == run[0][0]


def test_an_event_leaves_alone_what_was_opened_again(stores: Stores) -> None:
    store = stores.open(preset="default")
    compressor = ContextCompressor(message_store=store)
    work(store, 6)
    assert compressor.compress_on("approval").changed
    store.folding.undo()
    before = request_bytes(store)
    assert compressor.compress_on("approval").nothing is not None
    assert request_bytes(store) == before
    assert compressor.compress().changed, "who asks by hand gets it"


# ---- in vain ---------------------------------------------------------------------------------------------------------


def test_what_saves_too_little_is_not_recorded_nor_tried_again_at_once(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    store = stores.open(preset="coding-agent")
    store.add_message("system", "x" * 4 * 3900)
    for _ in range(8):
        store.add_message("user", "word " * 50)
    compressor = ContextCompressor(message_store=store)
    assert compressor.should_compress()
    tried = 0
    for _ in range(6):
        with caplog.at_level("INFO", "orihon.compression"):
            assert not compressor.compress_if_needed()
        tried += "nothing to fold" in caplog.text
        caplog.clear()
        assert store.compressions() == []
    assert compressor.compress_on("phase_end").nothing is not None
    assert compressor.compress(strategy="offload").nothing is not None
    assert tried == 1
    for _ in range(12):
        store.add_message("user", "word " * 50)
    assert compressor.compress_if_needed(), "the view has grown"


def test_a_little_counts_when_the_view_cannot_be_sent(stores: Stores) -> None:
    store = stores.open(preset="coding-agent")
    compressor = ContextCompressor(message_store=store)
    store.add_message("system", "x" * 4 * (compressor.gauge.room - 350))
    for _ in range(12):
        store.add_message("user", "some words " * 12)
    assert store.get_current_token_count() > compressor.gauge.room
    assert compressor.compress_if_needed()
    (record,) = store.compressions()
    assert record.before_tokens - record.after_tokens < 0.1 * record.before_tokens
    assert store.get_current_token_count() <= compressor.gauge.room


# ---- beyond the window -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("answer", ["no model", "fails", "hangs on to nothing", "talks too much"])
def test_a_view_that_is_too_large_already_fits_after_one_compression(stores: Stores, preset: str, answer: str) -> None:
    answers = {"fails": ConnectionError("down"), "hangs on to nothing": "", "talks too much": "module_1 " * 9_000}
    model: Any = None if answer == "no model" else Model(answers[answer])
    store = stores.open(preset=preset, summary_retries=0)
    fill(store, 3 * WINDOW)
    compressor = ContextCompressor(message_store=store, llm_client=model)
    assert compressor.compress_if_needed()
    assert store.get_current_token_count() <= compressor.gauge.room
    assert pairs_are_whole(store.get_messages_for_llm())
    assert len(store.compressions()) == 1
    assert not compressor.should_compress() or store.get_current_token_count() < compressor.gauge.room


@pytest.mark.parametrize("preset", PRESETS)
def test_one_giant_newest_message(stores: Stores, preset: str) -> None:
    store = stores.open(preset=preset)
    work(store, 2)
    store.add_message("user", "\n".join(f"row {row} sets option_{row}" for row in range(2000)))
    compressor = ContextCompressor(message_store=store)
    assert compressor.compress_if_needed()
    assert store.get_current_token_count() <= compressor.gauge.room
    newest = store.get_messages_for_llm()[-1]
    assert newest["role"] == "user"
    assert "option_" in newest["content"]
    assert store.view().folds[-1].form == "preview"
    store.folding.undo()
    restored = store.get_current_context_file().read_text(encoding="utf-8").splitlines()[-1]
    assert "row 1999 sets option_1999" in restored
    assert "row 1999 sets option_1999" not in store.get_messages_for_llm()[-1]["content"], "beyond 100 %: folded again"


def test_protected_text_that_is_too_large_changes_nothing(stores: Stores) -> None:
    store = stores.open(pin_roles=["user"])
    for number in range(4):
        store.add_message("user", f"rule {number}: " + "x" * 4 * 1500)
    before = stores.bytes_of_all()
    with refused(BudgetExceeded, "protected") as caught:
        ContextCompressor(message_store=store).compress_if_needed()
    assert caught.value.fields["seqs"] == "1, 2, 3, 4"
    assert stores.bytes_of_all() == before


# ---- records ---------------------------------------------------------------------------------------------------------


def test_reports_are_stored_and_come_back(stores: Stores) -> None:
    store = stores.open()
    fill(store, 4500)
    ContextCompressor(message_store=store).compress(target=0.1)
    folds = store.view().folds
    reports = [fold.report for fold in folds]
    assert all(isinstance(report, FoldReport) for report in reports)
    assert sum(report.found for report in reports if report) > 0
    records = list(store.task_store.read("summaries"))
    assert [record["report"] for record in records] == [report.as_dict() for report in reports if report]
    store.close()
    again = stores.open()
    assert [fold.report for fold in again.view().folds] == reports


@pytest.mark.parametrize("name", sorted(UUIDS))
def test_folds_that_were_stored_without_a_report_are_read(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(Path(__file__).parent.parent / "stored" / "v1" / name, folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
        if path.suffix == ".sample":
            path.rename(path.with_suffix(""))
    store = MessageStore(folder / "completed" / UUIDS[name], backend=name)
    folds = store.view().folds
    assert folds
    assert {fold.report for fold in folds} == {None}
    assert isinstance(ContextCompressor(message_store=store).preview(), Draft | NothingToFold)
    store.close()
    assert verify(OpenBase(folder, load({})), UUIDS[name]) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_between_folds_the_request_only_grows(stores: Stores, preset: str) -> None:
    store = stores.open(preset=preset)
    compressor = ContextCompressor(message_store=store)
    before, folds = b"", 0
    for number in range(30):
        work(store, 1, number)
        grown = request_bytes(store)
        assert grown.startswith(before)
        folds += compressor.compress_if_needed()
        before = request_bytes(store)
        first = store.view().folds[0].start_seq if store.view().folds else 1
        assert first == 1 or before.splitlines()[: first - 1] == grown.splitlines()[: first - 1]
    assert folds


# ---- notices and figures ---------------------------------------------------------------------------------------------


def test_whoever_subscribes_is_told(tmp_path: Path) -> None:
    config = Stores(tmp_path).config(preset="coding-agent", threshold=0.95)
    with TaskContextManager(tmp_path, KEY, config) as ctx:
        told: list[Any] = []
        ctx.compressor.notifier.subscribe(told.append)
        store, room = ctx.message_store, ctx.compressor.gauge.room
        fill(store, int(0.7 * room))
        assert not ctx.compress_if_needed()
        assert told == []
        fill(store, int(0.8 * room))
        assert not ctx.compress_if_needed()
        assert not ctx.compress_if_needed()
        assert [notice.kind for notice in told] == ["recommended"]
        fill(store, room)
        usage = ctx.usage
        assert ctx.compress_if_needed()
        done = told[-1]
        assert (done.kind, done.type, done.task) == ("compressed", "success", ctx.uuid)
        assert (done.usage_before, done.usage_after) == (usage, ctx.usage)
        assert done.actions.undo == f"orihon undo {ctx.uuid} --compression 1"
        assert done.actions.view_archive == f"orihon view {ctx.uuid} --fold 1"
        assert done.details.after_tokens == store.get_current_token_count()
        assert [notice.kind for notice in told] == ["recommended", "compressed"]


def test_a_view_that_is_still_full_is_told(tmp_path: Path) -> None:
    config = Stores(tmp_path).config()
    with TaskContextManager(tmp_path, KEY, config) as ctx:
        told: list[Any] = []
        ctx.compressor.notifier.subscribe(told.append)
        ctx.message_store.add_message("system", "x" * 4 * (ctx.compressor.gauge.room - 350))
        for _ in range(12):
            ctx.message_store.add_message("user", "some words " * 12)
        assert ctx.compress_if_needed()
        assert ctx.usage > 0.9
        assert [notice.kind for notice in told] == ["recommended", "compressed", "still_full"]
        assert told[-1].type == "warning"


def test_a_webhook_of_the_settings_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(webhook, "TIMEOUT", 2 * PATIENCE)
    with receiving() as server:
        config = Stores(tmp_path).config() | {"notifications": {"webhook": server.url}}
        with TaskContextManager(tmp_path, KEY, config) as ctx:
            fill(ctx.message_store, 5000)
            assert ctx.compress_if_needed()
        for _ in range(2):
            server.wait_for_arrival()
    assert [body["kind"] for body in server.bodies] == ["recommended", "compressed"]
    assert {body["task"] for body in server.bodies} == {ctx.uuid}
    assert server.bodies[1]["actions"]["undo"] == f"orihon undo {ctx.uuid} --compression 1"
    assert "module_" not in str(server.bodies), "no text of the task leaves the machine"


def counted(ctx: TaskContextManager) -> int:
    return ctx.catalogue.tasks.get(ctx.uuid).compression_count


def test_each_compression_is_counted_once(tmp_path: Path) -> None:
    config = Stores(tmp_path).config()
    with TaskContextManager(tmp_path, KEY, config) as ctx:
        store = ctx.message_store
        fill(store, 5000)
        assert ctx.compress_if_needed()
        assert counted(ctx) == 1
        work(store, 4, 500)
        assert ctx.compressor.compress().changed
        assert counted(ctx) == 2
        assert not ctx.compressor.compress().changed
        work(store, 4, 600)
        planned = ctx.compressor.preview()
        assert isinstance(planned, Draft)
        assert counted(ctx) == 2
        ctx.compressor.apply(planned)
        assert counted(ctx) == 3
        work(store, 4, 700)
        assert ctx.compressor.compress_on("phase_end").changed
        assert counted(ctx) == 4
        row = ctx.catalogue.tasks.get(ctx.uuid)
        assert row.view_tokens == store.get_current_token_count()
    assert row.compression_count == sum(record.kind == "compress" for record in store.compressions()) == 4
