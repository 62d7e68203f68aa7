"""The score of a message, and a plain history kept within its tokens."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.classic.memory.memory_manager import AgentState, MemoryConfig, MemoryManager, PruneAction, PruneStats
from orihon.compression.importance import ScoringConfig, content_score, importance, weigh
from orihon.compression.plain_history import PlainHistory, PlainMessage, tool_units
from orihon.errors import BudgetExceeded, InvalidSettings
from orihon.texts import set_language
from tests.helpers import logged, refused


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    set_language("en")
    yield
    set_language(None)


class ScriptedModel:
    """Answers every question by calling ``answer``, and remembers the questions."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer
        self.questions: list[str] = []
        self.limits: list[tuple[int, float]] = []

    async def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> Any:
        self.questions.append(messages[0]["content"])
        self.limits.append((max_tokens, temperature))
        return self.answer()


def says(answer: Any) -> ScriptedModel:
    return ScriptedModel(lambda: answer)


def raises(error: Exception) -> ScriptedModel:
    def fail() -> None:
        raise error

    return ScriptedModel(fail)


def message(role: str, content: str, characters: int = 0, **fields: Any) -> PlainMessage:
    return {"role": role, "content": content.ljust(characters, "."), **fields}


def chatter(count: int, characters: int = 100) -> PlainHistory:
    return [message("assistant", f"chatter {number}", characters) for number in range(count)]


def exchange(call_id: str, result: str, characters: int = 0) -> PlainHistory:
    call = {"id": call_id, "type": "function", "function": {"name": "run", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        message("tool", result, characters, tool_call_id=call_id),
    ]


def prune(manager: MemoryManager, history: PlainHistory) -> tuple[PlainHistory, PruneStats]:
    return asyncio.run(manager.prune_history(history))


def contents(history: PlainHistory) -> list[Any]:
    return [entry["content"] for entry in history]


# --- 003 §9 ---


def test_token_estimation() -> None:
    manager = MemoryManager()
    assert manager._estimate_tokens([]) == 0
    assert manager._estimate_tokens([{"role": "user", "content": "Hello world"}]) == 5
    assert manager._estimate_tokens([message("user", "こんにちは世界"), message("user", "x")]) == 4
    assert manager._estimate_tokens([{"role": "assistant", "content": None}, {"role": "user"}]) == 0


def test_importance_scoring() -> None:
    total = 10
    user = importance(message("user", "Please rename the module to ledger"), 5, total)
    error = importance(message("assistant", "The build failed with an error in ledger"), 5, total)
    ordinary = importance(message("assistant", "I am looking at the files now"), 5, total)
    assert user > error > ordinary
    assert importance(message("user", "x"), 9, total) > importance(message("user", "x"), 0, total)


def test_message_selection() -> None:
    manager = MemoryManager(max_tokens=1000)
    history = [message("user", "the plan: approval needed [TASK 1]", 200), *chatter(20, 200)]
    scored = sorted(manager._score_messages(history), key=lambda item: item[0], reverse=True)

    selected = manager._select_within_budget(scored, 600)

    assert manager._estimate_tokens([kept for _, kept in selected]) < 600
    assert selected[0] == (0, history[0])
    assert selected[-1] == (20, history[20])
    assert len(selected) == 5


def test_full_pruning_cycle() -> None:
    history = [
        message("system", "You are a careful engineer."),
        message("user", "Constraint: the approval task must never touch table ledger", 100),
        *chatter(150),
        message("user", "Now finish it", 100),
    ]
    model = says({"summary": "chatter 1 to chatter 3"})
    manager = MemoryManager(llm_client=model, max_tokens=8000)
    assert manager.should_prune(history)

    pruned, stats = prune(manager, history)

    assert stats["pruned"]
    assert not stats["emergency_mode"]
    assert stats["original_count"] == 153
    assert stats["original_tokens"] == manager._estimate_tokens(history)
    assert stats["final_count"] == len(pruned)
    assert stats["final_tokens"] == manager._estimate_tokens(pruned) <= 8000 * 0.75
    assert stats["removed_count"] == stats["original_count"] - stats["final_count"]
    assert stats["removed_tokens"] == stats["original_tokens"] - stats["final_tokens"] > 0
    assert manager.prune_count == 1
    assert pruned[:2] == history[:2]
    assert pruned[-1] == history[-1]
    assert len(model.questions) == 1
    assert model.limits == [(150, 0.3)]
    assert pruned[2]["role"] == "assistant"
    assert "chatter 1 to chatter 3" in pruned[2]["content"]
    assert not manager.should_prune(pruned)


# --- Scores (§4, §6.1) ---


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("nothing of interest to see here", 0.0),
        ("an ERROR occurred in the parser", 0.3),
        ("several ERRORS, one warning, a plan", 0.3),
        ("[Tool: shell] exit code was zero", 0.25),
        ("[tool: shell] exit code was zero", 0.0),
        ("[SYSTEM: restarted] and continued", 0.2),
        ("[User said] and [TASK 3] and so on", 0.5),
        ("waiting for approval of the change", 0.6),
        ("DUCK_CALL sent to the other side ok", 0.6),
        ("[Tool: x] [TASK 1] approval, failed!", 1.0),
        ("error", 0.21),
        ("", 0.0),
        ("エラーが発生しました。対応が必要です、すぐに", 0.0),
        ("日本語の中の error も見つけることができます", 0.3),
    ],
)
def test_content_score(content: str, expected: float) -> None:
    assert content_score(content) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("role", "expected"), [("user", 0.3), ("assistant", 0.15), ("system", 0.09), ("tool", 0.15), ("", 0.15)]
)
def test_role_score(role: str, expected: float) -> None:
    assert importance({"role": role, "content": "nothing"}, 0, 10) == pytest.approx(expected)


def test_recency_runs_from_nought_to_one() -> None:
    scores = [weigh(0.0, "user", index, 5) - 0.3 for index in range(5)]
    assert scores == pytest.approx([0.0, 0.075, 0.15, 0.225, 0.3])
    assert weigh(0.0, "user", 0, 1) == pytest.approx(0.3)


def test_scoring_can_be_configured() -> None:
    config = ScoringConfig(recency_weight=0, role_weight=0, content_weight=1, important_keywords=["移行", "Ledger"])
    assert importance(message("user", "データベースの移行を来週の月曜日に行います"), 0, 2, config) == 0.3
    assert importance(message("user", "the LEDGER is the truth in this task"), 0, 2, config) == 0.3
    assert importance(message("user", "an error that nobody wanted to see"), 0, 2, config) == 0.0


def test_the_other_spelling_of_the_length_threshold() -> None:
    config = ScoringConfig(min_content_length_penalty_threshold=3)
    assert config.min_content_length == 3
    assert content_score("error", config) == pytest.approx(0.3)


def test_content_parts_are_scored_by_their_text() -> None:
    parts = [{"type": "text", "text": "the deployment failed again"}, {"type": "image_url", "image_url": {}}]
    assert importance({"role": "user", "content": parts}, 0, 2) == pytest.approx(0.3 + 0.3 * 0.4)
    nested = [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "failed" * 4}]}]
    assert importance({"role": "user", "content": nested}, 0, 2) == pytest.approx(0.3 + 0.3 * 0.4)
    assert importance({"role": "user", "content": ["failed " * 4, 7, None]}, 0, 2) == pytest.approx(0.42)


@given(st.sampled_from(["user", "assistant", "system", "tool"]), st.text(), st.integers(1, 50))
def test_scores_are_between_nought_and_one(role: str, content: str, total: int) -> None:
    assert all(0 <= importance({"role": role, "content": content}, at, total) <= 1 for at in range(total))


# --- The table (§2.2) ---


@pytest.mark.parametrize(
    ("tokens", "action", "prunes"),
    [
        (0, PruneAction.NOTHING, False),
        (600, PruneAction.NOTHING, False),
        (601, PruneAction.WARN, False),
        (800, PruneAction.WARN, False),
        (801, PruneAction.PRUNE, True),
        (900, PruneAction.PRUNE, True),
        (901, PruneAction.PRUNE_AND_SUMMARIZE, True),
        (1000, PruneAction.PRUNE_AND_SUMMARIZE, True),
        (1001, PruneAction.EMERGENCY, True),
    ],
)
def test_the_table_decides_when(
    tokens: int, action: PruneAction, prunes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    manager = MemoryManager(max_tokens=1000)
    history = [message("user", "x", tokens * 2)]
    assert manager.memory_config.action(tokens) is action
    assert manager.check_if_pruning_needed(history) is prunes
    warned = any(record.levelno == logging.WARNING for record in logged(caplog, "orihon.memory_manager"))
    assert warned is (action is PruneAction.WARN)


def test_below_the_threshold_the_same_list_comes_back() -> None:
    history = chatter(3)
    manager = MemoryManager()
    pruned, stats = prune(manager, history)
    assert pruned is history
    assert stats == {"pruned": False, "original_count": 3, "original_tokens": 150}
    assert manager.prune_count == 0


def test_four_messages_go_without_a_model() -> None:
    model = says({"summary": "chatter"})
    manager = MemoryManager(model, max_tokens=1000)
    pruned, stats = prune(manager, [*chatter(16), message("user", "go on", 100)])
    assert stats["pruned"]
    assert not stats["emergency_mode"]
    assert model.questions == []
    assert pruned[0] == {"role": "assistant", "content": "[Messages omitted here: 4]"}


def test_five_messages_get_a_summary_from_80_percent_on() -> None:
    model = says({"summary": "chatter"})
    history = [*chatter(24, 70), message("user", "go on", 20)]
    manager = MemoryManager(model, max_tokens=1000)
    assert manager.memory_config.action(manager._estimate_tokens(history)) is PruneAction.PRUNE
    pruned, _ = prune(manager, history)
    assert contents(pruned)[0] == "[Summary of 5 earlier messages: chatter]"
    assert len(model.questions) == 1


def test_over_100_percent_is_an_emergency_without_a_model(caplog: pytest.LogCaptureFixture) -> None:
    model = says({"summary": "unused"})
    manager = MemoryManager(model, max_tokens=1000)
    history = chatter(40)
    pruned, stats = prune(manager, history)
    assert stats["emergency_mode"]
    assert stats["final_tokens"] < 700
    assert model.questions == []
    assert pruned == [{"role": "assistant", "content": "[Messages omitted here: 27]"}, *history[-13:]]
    assert "emergency" in caplog.text


def test_small_gaps_get_a_notice_and_large_ones_a_summary() -> None:
    important = message("user", "[TASK 1] approval, the plan failed", 100)
    history = [*chatter(8), important, *chatter(3), important, *chatter(7)]
    manager = MemoryManager(says({"summary": "chatter"}), max_tokens=1050)
    pruned, _ = prune(manager, history)
    assert contents(pruned)[0] == "[Summary of 6 earlier messages: chatter]"
    small = MemoryManager(says({"summary": "s"}), 1050, memory_config=MemoryConfig(min_gap_for_summary=7))
    assert contents(prune(small, history)[0])[0] == "[Messages omitted here: 6]"
    off = MemoryManager(says({"summary": "s"}), 1050, memory_config=MemoryConfig(enable_summarization=False))
    assert contents(prune(off, history)[0])[0] == "[Messages omitted here: 6]"


# --- Settings (§10.1, §14) ---


def test_default_settings() -> None:
    assert MemoryConfig() == BALANCED
    assert BALANCED.enable_summarization
    assert BALANCED.min_gap_for_summary == 5
    assert MemoryManager().max_tokens == 8000
    assert MemoryManager(max_tokens=500, memory_config=MemoryConfig(max_tokens=9)).max_tokens == 500


BALANCED = MemoryConfig(max_tokens=8000, pruning_threshold=0.8, target_usage=0.7)
CONSERVATIVE = MemoryConfig(max_tokens=6000, pruning_threshold=0.6, target_usage=0.5)
AGGRESSIVE = MemoryConfig(max_tokens=12000, pruning_threshold=0.9, target_usage=0.8)


@pytest.mark.parametrize(
    ("config", "threshold", "target"),
    [
        pytest.param(BALANCED, 6400, 5600, id="balanced"),
        pytest.param(CONSERVATIVE, 3600, 3000, id="conservative"),
        pytest.param(AGGRESSIVE, 10800, 9600, id="aggressive"),
    ],
)
def test_the_three_configurations_of_the_appendix(config: MemoryConfig, threshold: int, target: int) -> None:
    manager = MemoryManager(memory_config=config)
    history = chatter(threshold // 50)
    assert not manager.should_prune(history)
    history.append(message("user", "one more", 100))
    assert manager.should_prune(history)
    pruned, stats = prune(manager, history)
    assert target - 50 < stats["final_tokens"] < target + 50
    assert pruned[-1] == history[-1]


def test_limits_given_as_the_config_are_taken_for_what_they_are() -> None:
    manager = MemoryManager(config=MemoryConfig(max_tokens=1000, target_usage=0.5))
    assert (manager.max_tokens, manager.memory_config.target_usage, manager.config) == (1000, 0.5, ScoringConfig())
    assert prune(manager, chatter(40))[1]["pruned"]


@pytest.mark.parametrize(
    "given",
    [
        {"config": {"recency_weight": 0.3}},
        {"config": 8000},
        {"config": MemoryConfig(), "memory_config": MemoryConfig()},
        {"memory_config": ScoringConfig()},
        {"memory_config": {"max_tokens": 8000}},
    ],
)
def test_a_configuration_of_another_class_is_refused_at_once(given: dict[str, Any]) -> None:
    with refused(InvalidSettings, "memory_class") as caught:
        MemoryManager(**given)
    assert "ScoringConfig" in str(caught.value)
    assert "MemoryConfig" in str(caught.value)


def test_a_time_limit_must_leave_time() -> None:
    with refused(InvalidSettings, "memory_timeout"):
        MemoryConfig(summary_timeout=0)


@pytest.mark.parametrize(
    "fields",
    [{"max_tokens": 0}, {"target_usage": 0.9}, {"target_usage": 0}, {"pruning_threshold": 1.1}],
)
def test_settings_that_cannot_work_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match="target_usage"):
        MemoryConfig(**fields)


# --- What must never happen ---


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(raises(RuntimeError("no quota")), id="raises"),
        pytest.param(says(None), id="nothing"),
        pytest.param(says({}), id="no-summary"),
        pytest.param(says({"summary": "  "}), id="blank"),
        pytest.param(says({"summary": ["a"]}), id="not-text"),
        pytest.param(says('{"other": 1}'), id="other-json"),
        pytest.param(says({"summary": "chatter, far too long " * 500}), id="longer-than-the-gap"),
        pytest.param(says({"summary": "I'm sorry, I can't summarise this chatter."}), id="a-refusal"),
        pytest.param(says("申し訳ありませんが、chatter の要約はできません。"), id="a-refusal-in-japanese"),
        pytest.param(says("Error: 503 Service Unavailable (chatter)"), id="an-error"),
        pytest.param(says({"error": {"message": "chatter: overloaded"}}), id="an-error-as-a-mapping"),
        pytest.param(says('{"error": "chatter is overloaded"}'), id="an-error-as-json"),
        pytest.param(says("<html><body>502 chatter</body></html>"), id="html"),
        pytest.param(says('{"summary": "chatter about fi'), id="cut-json"),
        pytest.param(says('```json\n{"summary": "chatter about fi'), id="cut-json-in-a-fence"),
        pytest.param(says('Here is the summary: {"summary": "chatter ab'), id="cut-json-after-words"),
        pytest.param(says({"summary": "Bake the apple pie until it is golden."}), id="about-something-else"),
        pytest.param(says({"summary": "chatter of /etc/passwd in Zurich"}), id="made-up"),
        pytest.param(says(7), id="a-number"),
        pytest.param(None, id="no-model"),
    ],
)
def test_a_summarizer_that_gives_nothing_useful_is_replaced_by_a_notice(model: ScriptedModel | None) -> None:
    pruned, stats = prune(MemoryManager(model, max_tokens=1000), chatter(19))
    assert pruned[0] == {"role": "assistant", "content": "[Earlier messages removed: 6]"}
    assert stats["final_tokens"] <= 750


@pytest.mark.parametrize(
    "answer",
    [
        {"summary": " chatter "},
        '{"summary": "chatter"}',
        '```json\n{"summary": "chatter"}\n```',
        'Here it is: {"summary": "chatter"}',
        "chatter",
        {"choices": [{"message": {"content": '{"summary": "chatter"}'}}]},
    ],
)
def test_forms_of_a_summary(answer: object) -> None:
    pruned, _ = prune(MemoryManager(says(answer), max_tokens=1000), chatter(19))
    assert pruned[0]["content"] == "[Summary of 6 earlier messages: chatter]"


def test_a_summary_that_finds_no_room_becomes_a_notice() -> None:
    pruned, stats = prune(MemoryManager(says({"summary": "chatter " * 30}), max_tokens=1000), chatter(19))
    assert pruned[0]["content"] == "[Messages omitted here: 6]"
    assert stats["final_tokens"] <= 750


def test_a_client_may_be_synchronous() -> None:
    class Plain:
        def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> dict[str, str]:
            return {"summary": "chatter at once"}

    pruned, _ = prune(MemoryManager(Plain(), max_tokens=1000), chatter(19))
    assert "chatter at once" in pruned[0]["content"]


def test_the_question_to_the_model_is_bounded() -> None:
    model = says({"summary": "s"})
    history = [message("assistant", "ok") for _ in range(900)] + [message("user", "go", 100)]
    prune(MemoryManager(model, max_tokens=1000), history)
    assert len(model.questions) == 1
    assert len(model.questions[0]) < 1000 + 300


def test_leading_system_messages_stay() -> None:
    head = [message("system", "rules", 200), message("developer", "more rules", 200)]
    history = [*head, *chatter(30), message("system", "a late note", 100), *chatter(9)]
    pruned, _ = prune(MemoryManager(max_tokens=1000), history)
    assert pruned[:2] == head
    assert message("system", "a late note", 100) not in pruned


def test_a_system_prompt_that_is_too_large_is_an_error() -> None:
    with pytest.raises(BudgetExceeded, match="1500") as caught:
        prune(MemoryManager(max_tokens=1000), [message("system", "rules", 3000), *chatter(2)])
    assert caught.value.fields == {"tokens": 1500, "limit": 1000}


def test_a_history_of_system_messages_only_stays() -> None:
    history = [message("system", "rules", 1900)]
    pruned, stats = prune(MemoryManager(max_tokens=1000), history)
    assert pruned == history
    assert stats["removed_count"] == 0


def test_the_newest_message_stays_even_beyond_the_target() -> None:
    newest = message("assistant", "a long report", 1900)
    pruned, stats = prune(MemoryManager(max_tokens=1000), [*chatter(20), newest])
    assert pruned == [{"role": "assistant", "content": "[Messages omitted here: 20]"}, newest]
    assert stats["final_tokens"] <= 1000


def test_a_newest_message_that_cannot_fit_goes(caplog: pytest.LogCaptureFixture) -> None:
    history = [*chatter(20), message("user", "a dump", 5000)]
    pruned, stats = prune(MemoryManager(max_tokens=1000), history)
    assert [entry for entry in pruned if entry in history] == history[7:20]
    assert missing_by_notices(pruned) == 8
    assert stats["final_tokens"] <= 750
    assert "newest" in caplog.text


def test_many_small_gaps_do_not_fill_the_history_with_notices() -> None:
    pairs = [(message("user", f"plan {n}"), message("assistant", f"ok, {n}", 12)) for n in range(100)]
    history = [entry for pair in pairs for entry in pair]
    manager = MemoryManager(max_tokens=1150)
    pruned, stats = prune(manager, history)
    assert stats["final_tokens"] < stats["original_tokens"]
    assert not manager.should_prune(pruned)


# --- Tool pairs ---


def test_a_call_and_its_result_stay_or_go_together() -> None:
    kept = exchange("a", "[Tool: run] approval failed with an error", 100)
    gone = exchange("b", "listing", 100)
    history = [*kept, *gone, *chatter(30), message("user", "next")]
    pruned, _ = prune(MemoryManager(max_tokens=1000), history)
    assert pruned[:2] == kept
    assert not any(entry in pruned for entry in gone)


def test_an_open_call_at_the_end_stays() -> None:
    history = [*chatter(40), exchange("a", "later")[0]]
    pruned, _ = prune(MemoryManager(max_tokens=1000), history)
    assert pruned[-1] == history[-1]


def test_arguments_of_calls_and_images_cost_tokens() -> None:
    call = exchange("a", "ok")[0]
    call["tool_calls"][0]["function"]["arguments"] = "x" * 2000
    manager = MemoryManager()
    assert manager._estimate_tokens([call]) > 1000
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:..."}}]}
    assert manager._estimate_tokens([picture]) > 1000
    use = {"type": "tool_use", "id": "a", "name": "run", "input": {"text": "x" * 2000}}
    assert manager._estimate_tokens([{"role": "assistant", "content": [use]}]) > 1000


def unit_sizes(history: PlainHistory) -> list[int]:
    return [len(unit) for unit in tool_units(history)]


def test_units_of_openai_histories() -> None:
    user = message("user", "hello")
    assert unit_sizes([]) == []
    assert unit_sizes([user, *exchange("a", "r"), user]) == [1, 2, 1]
    two_calls = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    results = [message("tool", "r", tool_call_id="b"), message("tool", "r", tool_call_id="a")]
    assert unit_sizes([two_calls, *results, user]) == [3, 1]
    assert unit_sizes([two_calls, results[0], message("system", "note"), results[1], user]) == [4, 1]


def test_units_when_ids_are_missing_or_used_again() -> None:
    user, result = message("user", "hello"), message("tool", "r")
    old_call = {"role": "assistant", "function_call": {"name": "run", "arguments": "{}"}}
    assert unit_sizes([old_call, message("function", "r", name="run"), user]) == [2, 1]
    assert unit_sizes([exchange("a", "r")[0], result, result, user, result]) == [3, 1, 1]
    assert unit_sizes([*exchange("a", "r"), user, *exchange("a", "r")]) == [2, 1, 2]
    assert unit_sizes([{"role": "assistant", "tool_calls": "odd"}, user, {"role": "tool"}]) == [1, 1, 1]


def test_units_of_anthropic_histories() -> None:
    use = {"role": "assistant", "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "a"}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]}
    assert unit_sizes([message("user", "hello"), use, result, message("assistant", "done")]) == [1, 2, 1]


SIZES = st.integers(0, 300)
TURNS = st.one_of(
    st.builds(lambda size: [message("user", "u", size)], SIZES),
    st.builds(lambda size: [message("assistant", "error" * 3, size)], SIZES),
    st.builds(lambda number, size: exchange(f"call_{number}", "[Tool: run]", size), st.integers(0, 3), SIZES),
)


@settings(deadline=None)
@given(st.lists(TURNS, max_size=40), st.integers(0, 2), st.integers(200, 2000), st.booleans())
def test_pruning_keeps_its_promises(
    turns: list[PlainHistory], head_size: int, max_tokens: int, with_model: bool
) -> None:
    head = [message("system", "rules", 50)] * head_size
    history = [*head, *(entry for turn in turns for entry in turn)]
    before = list(history)
    manager = MemoryManager(says({"summary": "brief"}) if with_model else None, max_tokens=max_tokens)

    pruned, stats = prune(manager, history)

    assert history == before
    assert pruned[: len(head)] == head
    assert manager._estimate_tokens(pruned) <= max_tokens
    assert manager._estimate_tokens(pruned) <= stats["original_tokens"]
    assert all(len(unit) == 2 for unit in tool_units(pruned) if "tool_calls" in pruned[unit.start])
    calls = sum("tool_calls" in entry for entry in pruned)
    assert calls == sum(entry["role"] == "tool" for entry in pruned)
    kept = [entry for entry in pruned if any(entry is original for original in history)]
    positions = iter(history)
    assert all(any(entry is original for original in positions) for entry in kept)


# --- Numbers in notices ---


def missing_by_notices(history: PlainHistory) -> int:
    numbers = (
        re.fullmatch(
            r"\[(?:Messages omitted here: |Earlier messages removed: |Summary of )(\d+)\b.*\]",
            str(entry["content"]),
            re.S,
        )
        for entry in history
        if entry["role"] == "assistant"
    )
    return sum(int(found[1]) for found in numbers if found)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(5, 300), max_size=30), min_size=1, max_size=8),
    st.integers(400, 3000),
    st.sampled_from(["chatter", "no json {", "chatter " * 40, None]),
    st.booleans(),
)
def test_the_numbers_in_notices_add_up_to_what_is_missing(
    rounds: list[list[int]], max_tokens: int, answer: str | None, with_tools: bool
) -> None:
    manager = MemoryManager(None if answer is None else says({"summary": answer}), max_tokens=max_tokens)
    history: PlainHistory = [message("system", "rules")]
    written = 1
    for sizes in rounds:
        for size in sizes:
            written += 1
            new = [message("user" if written % 3 else "assistant", f"chatter m{written};", size)]
            if with_tools and written % 4 == 0:
                new = exchange(f"call_{written}", f"m{written};", size)
                new[0]["content"] = f"call m{written}"
                written += 1
            history += new
        history, _ = prune(manager, history)
        present = sum(
            re.search(r"m\d+[;.]?|rules", str(entry["content"])) is not None and "[" not in str(entry["content"])
            for entry in history
        )
        assert present + missing_by_notices(history) == written


def test_a_long_session_knows_how_much_is_gone() -> None:
    state = AgentState()
    manager = MemoryManager(says({"summary": "chatter"}), max_tokens=1000)

    async def talk() -> None:
        for number in range(600):
            await state.add_message_with_pruning("assistant", f"chatter {number};".ljust(100, "."), manager)

    asyncio.run(talk())
    present = sum("chatter" in entry["content"] and ";" in entry["content"] for entry in state.conversation_history)
    assert present + missing_by_notices(state.conversation_history) == 600


def test_notices_of_another_language_are_counted_too() -> None:
    set_language("ja")
    history, _ = prune(MemoryManager(max_tokens=1000), chatter(40))
    assert contents(history)[0] == "[27件のメッセージが省略されました]"
    set_language("en")
    history, _ = prune(MemoryManager(max_tokens=1000), [*history, *chatter(30)])
    assert contents(history)[0] == f"[Messages omitted here: {70 - len(history) + 1}]"


# --- Time ---


@pytest.mark.parametrize("is_async", [True, False])
def test_a_client_that_hangs_is_left_and_not_asked_again_until_it_is_back(is_async: bool) -> None:
    release, asked = threading.Event(), []

    class Plain:
        def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> Any:
            asked.append(messages)
            release.wait(120)
            return {"summary": "chatter"}

    class Stubborn:
        async def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> Any:
            asked.append(messages)
            while not release.is_set():
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
            return {"summary": "chatter"}

    client: Any = Stubborn() if is_async else Plain()
    manager = MemoryManager(client, 1000, memory_config=MemoryConfig(summary_timeout=0.1))

    async def twice() -> list[PlainHistory]:
        results = [(await manager.prune_history(chatter(19)))[0] for _ in range(2)]
        release.set()
        return results

    for pruned in asyncio.run(twice()):
        assert contents(pruned)[0] == "[Earlier messages removed: 6]"
    assert len(asked) == 1


def test_the_time_limit_is_for_all_gaps_of_a_pruning() -> None:
    class Slow:
        asked = 0

        async def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> Any:
            self.asked += 1
            await asyncio.sleep(3600)

    important = message("user", "[TASK 1] approval, the plan failed", 100)
    history = [*chatter(8), important, *chatter(8), important, *chatter(8), message("user", "go on")]
    slow = Slow()
    pruned, _ = prune(MemoryManager(slow, 1350, memory_config=MemoryConfig(summary_timeout=0.1)), history)
    assert slow.asked == 1
    assert missing_by_notices(pruned) == len(history) - sum(entry in history for entry in pruned)


def test_a_pruning_that_is_cancelled_ends_its_call() -> None:
    ended = []

    class Slow:
        async def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> Any:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(True)

    async def cancelled() -> None:
        pruning = asyncio.ensure_future(MemoryManager(Slow(), 1000).prune_history(chatter(19)))
        await asyncio.sleep(0.05)
        pruning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pruning
        await asyncio.sleep(0)

    asyncio.run(cancelled())
    assert ended


# --- Languages ---


def test_notices_in_japanese() -> None:
    set_language("ja")
    model = says({"summary": "ファイルを調べた"})
    history = chatter(19)
    assert contents(prune(MemoryManager(model, max_tokens=1000), history)[0])[0] == (
        "[過去6件の会話の要約: ファイルを調べた]"
    )
    assert model.questions[0].startswith("以下の会話の重要なポイントのみを簡潔に要約してください。")
    assert '{\n    "summary": "要約テキスト（2-3文、100文字以内）"\n}' in model.questions[0]
    assert "assistant: chatter 0" in model.questions[0]
    failed = prune(MemoryManager(raises(OSError()), max_tokens=1000), history)[0]
    assert contents(failed)[0] == "[過去6件のメッセージが削除されました]"
    small = prune(MemoryManager(max_tokens=1000), chatter(17))[0]
    assert contents(small)[0] == "[4件のメッセージが省略されました]"


def test_the_question_in_english() -> None:
    model = says({"summary": "braces in {these}"})
    history = [message("assistant", "braces {like} {these}", 220), *chatter(17)]
    pruned, _ = prune(MemoryManager(model, max_tokens=1000), history)
    assert "braces in {these}" in pruned[0]["content"]
    assert model.questions[0].startswith("Summarize only the important points")
    assert "assistant: braces {like} {these}" in model.questions[0]
    assert "." * 200 not in model.questions[0]


# --- AgentState (§6.2) ---


def test_agent_state_prunes_when_a_manager_is_given() -> None:
    state = AgentState()
    manager = MemoryManager(max_tokens=1000)

    async def talk() -> None:
        for number in range(60):
            await state.add_message_with_pruning("assistant", f"step {number}".ljust(100, "."), manager)
        await state.add_message_with_pruning("user", "what now?", memory_manager=manager)

    asyncio.run(talk())
    assert manager.prune_count > 1
    assert manager._estimate_tokens(state.conversation_history) <= 800
    assert state.conversation_history[-1] == {"role": "user", "content": "what now?"}


def test_agent_state_without_a_manager_keeps_everything() -> None:
    state = AgentState()
    state.add_message("assistant", None, tool_calls=[{"id": "a"}])
    asyncio.run(state.add_message_with_pruning("tool", "x" * 100_000, tool_call_id="a"))
    assert len(state.conversation_history) == 2
    assert state.conversation_history[0] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a"}],
    }
    assert state.conversation_history[1]["tool_call_id"] == "a"
