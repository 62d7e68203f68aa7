"""The compressor folds what may be folded, keeps what must be kept, and survives every model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.compression.compressor import CompressionResult, ContextCompressor
from orihon.compression.documents.sections import CompressionLevel
from orihon.errors import BudgetExceeded, DamagedStore, InvalidInput, StaleWriter
from orihon.store import SummaryStore
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey
from tests.helpers import refused

Answer = str | Exception


class ScriptedModel:
    """Answers what it was told to, and remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []
        self.questions: list[str] = []

    def send_system_prompt(self, prompt: str) -> None:
        self.prompts.append(prompt)

    def send_user_message(self, message: str) -> None:
        self.questions.append(message)

    def get_response(self) -> tuple[str, list[Any]]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    config = {
        "context_storage": {"durability": "os"},
        "compression": {"keep_recent": 4, "min_to_compress": 5},
    }
    message_store = MessageStore(tmp_path / "task", config, context_length=2000)
    yield message_store
    message_store.close()


def talk(store: MessageStore, turns: int, *, first: int = 0, size: int = 160) -> None:
    for turn in range(first, first + turns):
        store.add_message("user", f"wish {turn} " + "u" * size)
        store.add_message("assistant", f"step {turn} " + "a" * size)


def call(store: MessageStore, call_id: str, *tools: str) -> None:
    """An assistant message with one call for each tool, and the results."""
    calls = [
        {"id": f"{call_id}_{tool}", "type": "function", "function": {"name": tool, "arguments": "{}"}} for tool in tools
    ]
    store.add_message("assistant", "let me look", tool_calls=calls)
    for tool in tools:
        store.add_message("tool", f"{tool}: " + "r" * 200, tool)


def contents(store: MessageStore) -> list[str]:
    return [str(message["content"]) for message in store.get_messages_for_llm()]


def all_represented_once(store: MessageStore) -> bool:
    seqs = [seq for entry in store.view().entries for seq in range(entry.start, entry.end + 1)]
    return seqs == list(range(1, store.count_messages() + 1))


# ---- when ------------------------------------------------------------------------------------------------------


def test_a_share_of_the_window_decides(store: MessageStore) -> None:
    compressor = ContextCompressor(message_store=store)
    store.add_message("user", "x" * 4 * 1400)
    assert not compressor.should_compress(), "1,400 of 2,000 is the threshold itself"
    store.add_message("user", "x" * 4)
    assert compressor.should_compress()
    store.context_length = 3000
    assert not compressor.should_compress(), "another model with a larger window"


def test_a_token_threshold_wins_over_the_share(store: MessageStore) -> None:
    store.add_message("user", "x" * 4 * 101)
    assert ContextCompressor(message_store=store, config={"compression": {"token_threshold": 100}}).should_compress()
    assert not ContextCompressor(
        message_store=store, config={"compression": {"token_threshold": 101}}
    ).should_compress()


def test_the_configuration_may_bring_its_own_window(store: MessageStore) -> None:
    store.add_message("user", "x" * 4 * 100)
    config = {"llm": {"openai": {"context_length": 120, "reserve_output": 10}}}
    compressor = ContextCompressor(message_store=store, config=config)
    assert compressor.context_length == 120
    assert compressor.should_compress()


def test_usage_that_the_provider_reports_counts(tmp_path: Path) -> None:
    config = {"llm": {"openai": {"context_length": 1000}}, "context_storage": {"durability": "os"}}
    with TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1"), config) as ctx:
        ctx.message_store.add_message("user", "x" * 4 * 400)
        assert not ctx.compressor.should_compress()
        ctx.report_usage({"prompt_tokens": 800})
        assert ctx.compressor.should_compress()


def test_the_budget_is_a_threshold_too(tmp_path: Path) -> None:
    config = {
        "llm": {"openai": {"context_length": 1000, "reserve_output": 600}},
        "compression": {"threshold": 0.9, "token_threshold": 900},
        "context_storage": {"durability": "os"},
    }
    with TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1"), config) as ctx:
        store = ctx.message_store
        store.add_message("user", "x" * 4 * 400)
        assert ctx.usage == 1.0
        assert not ctx.compressor.should_compress()
        store.add_message("user", "x" * 4)
        assert ctx.usage > 1.0
        assert ctx.compressor.should_compress(), "0.9 of the window leaves no room for the answer"


@pytest.mark.parametrize("limit", [{"threshold": 0.5}, {"token_threshold": 500}])
def test_everybody_gives_one_answer_about_being_full(tmp_path: Path, limit: dict[str, Any]) -> None:
    config = {
        "llm": {"openai": {"context_length": 1000}},
        "compression": limit,
        "context_storage": {"durability": "os"},
    }
    with TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1"), config) as ctx:
        ctx.message_store.add_message("user", "x" * 4 * 300)
        ctx.report_usage({"prompt_tokens": 600})
        assert ctx.usage == pytest.approx(600 / 750)
        assert ctx.compressor.should_compress()
        assert ctx.message_store._should_compress()
        ctx.change_model("gpt-4", 2000)
        assert not ctx.compressor.should_compress()
        assert not ctx.message_store._should_compress()


@pytest.mark.parametrize("protect", ["system", "pin"])
def test_protected_text_that_does_not_fit_is_named(store: MessageStore, protect: str) -> None:
    store.add_message("system" if protect == "system" else "user", "x" * 4 * 1600)
    if protect == "pin":
        store.folding.pin(1)
    talk(store, 10)
    compressor = ContextCompressor(message_store=store)
    for compress in (compressor.compress_if_needed, compressor.compress):
        with refused(BudgetExceeded, "protected") as caught:
            compress()
        assert caught.value.fields["system" if protect == "system" else "pinned"] == 1600
    assert store.view().folds == ()
    store.context_length = 4000
    assert compressor.compress().changed


def test_without_a_task_there_is_no_view_to_compress() -> None:
    with refused(InvalidInput, "no_message_store"):
        ContextCompressor().compress()


def test_a_document_needs_no_task(tmp_path: Path) -> None:
    document = "## Decisions\nUse Unity.\n\n## Exploration\n" + "We looked at this and that. " * 50 + "\n"
    result = ContextCompressor().compress(document, CompressionLevel.AGGRESSIVE, tmp_path / "archive.md")
    assert result.changed
    assert result.preserved_items == ("Decisions",)
    assert "Use Unity." in result.text
    assert result.archived_path == tmp_path / "archive.md"
    assert result.archived_path.read_text(encoding="utf-8") == document


# ---- folding ---------------------------------------------------------------------------------------------------


def test_everything_older_than_the_recent_entries_becomes_one_summary(store: MessageStore) -> None:
    store.add_message("system", "You are careful.")
    talk(store, 10)
    newest = contents(store)[-4:]
    before = store.get_current_token_count()
    result = ContextCompressor(message_store=store).compress()
    assert isinstance(result, CompressionResult)
    assert result.changed
    assert (result.original_tokens, result.compressed_tokens) == (before, store.get_current_token_count())
    assert result.compression_ratio == result.compressed_tokens / before < 0.7
    assert result.archived_path is None
    head, summary, *rest = contents(store)
    assert head == "You are careful."
    assert summary == "[Previous conversation summary]\n" + result.text
    assert "wish 0" in summary
    assert rest == newest
    (fold,) = store.view().folds
    assert (fold.start_seq, fold.end_seq, result.folds) == (2, 17, (fold.id,))
    (record,) = store.compressions()
    assert (record.id, record.strategy, record.trigger) == (result.compression, "summarize", "manual")
    assert all_represented_once(store)


def test_too_few_messages_are_left_alone(store: MessageStore) -> None:
    talk(store, 4)
    result = ContextCompressor(message_store=store).compress()
    assert not result.changed
    assert (result.compression, result.folds, result.text, result.compression_ratio) == (None, (), "", 1.0)
    assert result.original_tokens == result.compressed_tokens == store.get_current_token_count()
    assert store.compressions() == []
    assert ContextCompressor(message_store=store, min_messages_to_summarize=4).compress().changed


def test_the_next_fold_takes_the_earlier_one_in_and_can_be_undone(store: MessageStore) -> None:
    talk(store, 10)
    compressor = ContextCompressor(message_store=store)
    assert compressor.compress().changed
    assert not compressor.compress().changed, "a summary alone is not summarised again"
    talk(store, 10, first=10)
    once = contents(store)
    assert compressor.compress().changed
    (fold,) = store.view().folds
    assert (fold.start_seq, fold.end_seq) == (1, 36)
    assert fold.text.startswith("Notes on messages 1 to 36,")
    assert fold.text.count("## What the user said") == 1
    assert "1 user: wish 0 " in fold.text, "a line keeps its number and speaker"
    store.folding.undo()
    assert contents(store) == once
    assert all_represented_once(store)


def test_tool_batches_stay_whole(store: MessageStore) -> None:
    talk(store, 4)
    call(store, "a", "read", "write", "search", "list", "run")
    assert ContextCompressor(message_store=store).compress().changed
    # The four newest entries begin inside the batch, so all six of it stay; 7 is what the user said last.
    assert [(fold.start_seq, fold.end_seq) for fold in store.view().folds] == [(1, 6), (8, 8)]
    assert len(store.view().entries) == 9


def test_open_calls_stay(store: MessageStore) -> None:
    talk(store, 4)
    store.add_message(
        "assistant", None, tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    )
    compressor = ContextCompressor(message_store=store, config={"compression": {"keep_recent": 0}})
    assert compressor.compress().changed
    assert store.view().entries[-1].calls == ("c",)


def test_pinned_messages_divide_the_fold_and_pinned_lines_are_carried_on(store: MessageStore) -> None:
    store.add_message("system", "You are careful.")
    talk(store, 4)
    store.add_message("user", "Rule: no network.\n" + "x" * 400 + "\nAlso mind 'the 弁'.")
    talk(store, 6, first=4)
    store.folding.pin(4)
    store.folding.pin(10, "Rule: no network.")
    store.folding.pin(10, "Also mind 'the 弁'.")
    pinned = store.get_message(4).message.text
    compressor = ContextCompressor(message_store=store)
    for turn in (10, 20):
        result = compressor.compress()
        assert result.changed
        assert pinned in contents(store)
        assert result.preserved_items == ("Also mind 'the 弁'.", "Rule: no network.")
        late = store.view().folds[-1].text
        assert late.count("Rule: no network.") == 1, "quoted in the notes, or else appended"
        assert late.count("Also mind 'the 弁'.") == 1
        assert contents(store)[0] == "You are careful."
        assert all_represented_once(store)
        talk(store, 6, first=turn)
    assert [(fold.start_seq, fold.end_seq) for fold in store.view().folds] == [(2, 3), (5, 30)]


def test_a_run_that_would_not_shrink_is_left_alone(store: MessageStore) -> None:
    for _ in range(20):
        store.add_message("user", "ok")
    compressor = ContextCompressor(message_store=store, config={"compression": {"token_threshold": 1}})
    store.add_message("user", "x" * 40)
    assert compressor.should_compress()
    assert not compressor.compress().changed
    assert store.compressions() == []


# ---- models ----------------------------------------------------------------------------------------------------


def test_the_model_writes_the_summary_of_what_it_was_shown(store: MessageStore) -> None:
    talk(store, 10)
    model = ScriptedModel("- wish 0 to wish 7 were granted\n")
    result = ContextCompressor(message_store=store, llm_client=model).compress()
    assert result.text.startswith("- wish 0 to wish 7 were granted")
    (fold,) = store.view().folds
    assert fold.reason == "model"
    (question,) = model.questions
    assert "wish 0" in question
    assert "step 7" in question
    assert "step 8" not in question, "the recent ones are not summarised"
    assert "record" in model.prompts[0]


@pytest.mark.parametrize(
    "answer",
    [ConnectionError("down"), "", " \n", "wish 0 " * 5_000, "Error: 503", "the tank was mended"],
    ids=["fails", "empty", "blank", "endless", "an error", "about something else"],
)
def test_a_useless_answer_costs_only_its_text(store: MessageStore, answer: Answer) -> None:
    talk(store, 10)
    plain = ContextCompressor(message_store=store).compress().text
    store.folding.undo()
    config = {"compression": {"keep_recent": 4, "summary_retries": 0}}
    result = ContextCompressor(message_store=store, llm_client=ScriptedModel(answer), config=config).compress()
    assert result.changed
    assert result.text == plain
    assert store.view().folds[0].reason == "extractive"


def test_an_earlier_summary_of_the_model_is_shown_to_it_again(store: MessageStore) -> None:
    talk(store, 10)
    model = ScriptedModel("- wish 3 comes before step 4", "- wish 3 and wish 9, merged")
    compressor = ContextCompressor(message_store=store, llm_client=model)
    assert compressor.compress_context()
    talk(store, 5, first=10)
    assert compressor.compress_context()
    assert "- wish 3 comes before step 4" in model.questions[1]
    assert "step 2 " not in model.questions[1], "it is not shown again what the earlier summary stands for"
    assert store.view().folds[0].text.startswith("- wish 3 and wish 9, merged")


def test_several_runs_cost_one_call(store: MessageStore) -> None:
    talk(store, 12)
    store.folding.pin(5)
    model = ScriptedModel("wish 3 to wish 9, in short")
    result = ContextCompressor(message_store=store, llm_client=model).compress()
    assert len(result.folds) == 2
    assert [fold.reason for fold in store.view().folds] == ["extractive", "model"]


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [("要約して:\n{messages}\n以上", "要約して:\n[1 USER]: wish 0"), ("要約して", "要約して\n\n[1 USER]: wish 0")],
)
def test_the_prompt_of_the_settings_is_filled(store: MessageStore, prompt: str, asked: str) -> None:
    talk(store, 10)
    model = ScriptedModel("wish 0, in short")
    config = {"compression": {"summary_prompt": prompt}}
    ContextCompressor(message_store=store, llm_client=model, config=config).compress()
    assert model.questions[0].startswith(asked)
    assert model.questions[0].endswith("以上") == prompt.endswith("以上")


# ---- by itself -------------------------------------------------------------------------------------------------


def test_it_folds_only_when_needed(store: MessageStore) -> None:
    compressor = ContextCompressor(message_store=store)
    folded = 0
    for turn in range(60):
        talk(store, 1, first=turn)
        full = compressor.should_compress()
        assert compressor.compress_if_needed() == full
        folded += full
        assert store.get_current_token_count() <= 0.7 * 2000
    assert folded > 2
    assert {record.trigger for record in store.compressions()} == {"usage"}


def test_what_was_tried_in_vain_waits_until_the_view_has_grown(
    store: MessageStore, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"compression": {"preset": "coding-agent", "token_threshold": 1000, "keep_recent": 100}}
    compressor = ContextCompressor(message_store=store, config=config)
    tried = []
    for number in range(1, 15):
        store.add_message("user", "x" * 4 * 101)
        with caplog.at_level("INFO", "orihon.compression"):
            assert not compressor.compress_if_needed()
        tried += [number] * bool([one for one in caplog.records if "nothing to fold" in one.message])
        caplog.clear()
    assert tried == [10, 11, 13], "when it has grown by a tenth"


def test_what_was_undone_stays_open_until_the_window_is_full(store: MessageStore) -> None:
    compressor = ContextCompressor(message_store=store)
    talk(store, 18)
    assert compressor.compress_if_needed()
    store.folding.undo()
    assert compressor.should_compress()
    assert not compressor.compress_if_needed()
    talk(store, 8, first=18)
    assert store.get_current_token_count() > 2000
    assert compressor.compress_if_needed()


def test_a_pin_after_an_undo_does_not_fold_the_run_again(store: MessageStore) -> None:
    compressor = ContextCompressor(message_store=store)
    talk(store, 18)
    assert compressor.compress_if_needed()
    store.folding.undo()
    store.folding.pin(3)
    store.folding.unpin(3)
    assert compressor.should_compress()
    assert not compressor.compress_if_needed()
    store.folding.redo()
    talk(store, 18, first=18)
    assert compressor.compress_if_needed()


def test_a_task_counts_its_compressions(tmp_path: Path) -> None:
    config = {"llm": {"openai": {"context_length": 2000}}, "context_storage": {"durability": "os"}}
    ctx = TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1"), config)
    assert not ctx.compress_if_needed()
    talk(ctx.message_store, 20)
    ctx.set_llm_client(ScriptedModel("wish 0, in short"))
    assert ctx.compress_if_needed()
    assert ctx.message_store.view().folds[0].text.startswith("wish 0, in short")
    row = ctx.catalogue.tasks.get(ctx.uuid)
    assert row.compression_count == 1
    assert (row.total_messages, row.view_tokens) == (40, ctx.message_store.get_current_token_count())
    ctx.close()


# ---- texts -----------------------------------------------------------------------------------------------------


GRANTED = "wish 0, wish 1 and wish 2 came with step 0, step 1 and step 2 ✓"


@pytest.mark.parametrize(("answer", "wanted"), [("", "wish 0"), (GRANTED, GRANTED)])
def test_the_final_summary_is_written_and_masked(store: MessageStore, answer: str, wanted: str) -> None:
    model = ScriptedModel(answer + "\nsk-proj-12345678901234567890" if answer else "")
    store.add_message("user", "the key is sk-proj-12345678901234567890")
    talk(store, 3)
    characters = ContextCompressor(message_store=store, llm_client=model).create_final_summary()
    written = (store.context_dir / "final_summary.txt").read_text(encoding="utf-8")
    assert wanted in written
    assert len(written) == characters
    assert "sk-proj" not in written


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_replaced_owner_writes_no_final_summary(tmp_path: Path, backend: str) -> None:
    config = {"context_storage": {"backend": backend}}
    first = TaskContextManager(tmp_path, TaskKey("cli", "", "", "task", "1"), config)
    first.message_store.add_message("user", "what the first one knows")
    second = TaskContextManager.resume(tmp_path, first.uuid, config, take_over=True)
    second.message_store.add_message("user", "what the second one knows")
    second.compressor.create_final_summary()
    summary = second.context_dir / "final_summary.txt"
    written = summary.read_bytes()
    second.message_store.add_message("user", "and more")
    with refused(StaleWriter, "taken_over"):
        first.compressor.create_final_summary()
    assert summary.read_bytes() == written
    first.close()
    second.close()


def test_the_request_file_joins_prompt_and_context(store: MessageStore, tmp_path: Path) -> None:
    store.add_message("user", "弁を見て")
    call(store, "a", "read")
    prompt, output = tmp_path / "summary_prompt.txt", tmp_path / "summary_request.txt"
    compressor = ContextCompressor(
        message_store=store, summary_store=SummaryStore(store.context_dir, task_store=store.task_store)
    )
    prompt.write_text("要約してください。\n", encoding="utf-8")
    compressor.create_summary_request_file(prompt, store.get_current_context_file(), output)
    lines = output.read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["要約してください。", "", "[USER]: 弁を見て"]
    assert lines[3] == "[ASSISTANT]: let me look read({})"
    assert lines[4].startswith("[TOOL]: read: rrr")
    assert len(lines) == 5
    assert output.stat().st_mode & 0o777 == 0o600

    prompt.write_text("Before {messages}After {x}", encoding="utf-8")
    compressor.create_summary_request_file(str(prompt), str(store.get_current_context_file()), str(output))
    joined = output.read_text(encoding="utf-8")
    assert joined.startswith("Before [USER]: 弁を見て\n")
    assert joined.endswith("\nAfter {x}")


@pytest.mark.parametrize("line", ["{broken", "[]", json.dumps({"role": "wizard", "content": ""})])
def test_a_broken_context_makes_no_request_file(store: MessageStore, tmp_path: Path, line: str) -> None:
    prompt, context, output = (tmp_path / name for name in ("prompt", "context", "output"))
    prompt.write_text("p", encoding="utf-8")
    context.write_text('{"role":"user","content":"x"}\n\n' + line + "\n", encoding="utf-8")
    with refused(DamagedStore, "record"):
        ContextCompressor(message_store=store).create_summary_request_file(prompt, context, output)
    assert not output.exists()


def test_tool_definitions_take_their_part_of_the_window(store: MessageStore) -> None:
    store.add_message("user", "x" * 4 * 1300)
    compressor = ContextCompressor(message_store=store)
    assert not compressor.should_compress(), "1,300 of a budget of 1,500"
    store.tool_tokens = 300
    assert store.gauge.budget.tokens == compressor.gauge.budget.tokens == 1200
    assert compressor.should_compress()
