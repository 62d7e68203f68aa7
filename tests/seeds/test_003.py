"""Document 003, the memory manager: scores, the table of stages, pruning, agents that use it, settings, as written.

The class of §6.1 is run beside ours: where SPEC §9 or a promise of ours decides otherwise, the test quotes it.
§10.3, ``LongTermMemory``, is not among these.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import logging
import re
import sys
import tracemalloc
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

import orihon
from orihon import AgentState, LLMClient, MemoryConfig, MemoryManager, ScoringConfig
from orihon.classic.memory.memory_manager import PruneAction
from orihon.compression.importance import content_score, importance, weigh
from orihon.texts import set_language
from tests.seeds import copies

block = partial(copies.block, "003")
History = list[dict[str, Any]]

CONTENTS = [
    *("", "ok", "short error", "an error that is long enough to be read", "it all was a SUCCESS, completed and done"),
    *("[Tool: grep] found 3 lines", "[SYSTEM: started] again and again", "[User] says no", "[TASK 7] plan the work"),
    *("duck_call for approval, please", "APPROVAL denied: [Tool: rm] failed with a warning", "通常の会話です。" * 8),
]


@pytest.fixture(autouse=True)
def japanese() -> Iterator[None]:
    """The document's language: its notices and prompts are compared word for word."""
    set_language("ja")
    yield
    set_language(None)


@pytest.fixture(autouse=True)
def companion(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that the document's programs import: the public names here, under the names of its project."""
    found: dict[str, Any] = {"LLMClient": LLMClient, "MemoryManager": MemoryManager}
    homes = {"companion": (), "companion.base": (), "companion.modules": ()}
    for name in (*homes, "companion.base.llm_client", "companion.modules.memory"):
        module = ModuleType(name)
        vars(module).update(found)
        monkeypatch.setitem(sys.modules, name, module)


class Model:
    """Answers every question the same way, and remembers how it was asked."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = {"summary": "会話の続き"} if answer is None else answer
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    async def chat(self, messages: History, **options: Any) -> Any:
        self.asked.append((messages, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def defined(name: str, **names: Any) -> dict[str, Any]:
    """What a program of the document defines; its annotations are read at once, as pydantic does."""
    names |= {"__name__": "companion.program", "List": list, "Dict": dict}
    exec(compile(block(name), name, "exec", dont_inherit=True), names)
    return names


def written() -> dict[str, Any]:
    """The manager of §6.1, and its settings."""
    return defined("6.1-manager.python")


def talk(count: int, characters: int = 100, role: str = "assistant") -> History:
    return [{"role": role, "content": f"会話の続き {number}".ljust(characters, "。")} for number in range(count)]


def rows(name: str) -> list[list[str]]:
    """A table of the document, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block(name).splitlines()[2:]]


# ---- §2, §3: stages and parts ----------------------------------------------------------------------------------------


def test_the_table_decides_what_is_done_at_which_usage(caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §9: "the table decides when"; §11.1's summary for gaps of five and more from 80 % on is in test_gaps."""
    caplog.set_level(logging.INFO, "orihon.memory_manager")
    manager = MemoryManager(Model(), max_tokens=1000)
    actions = {
        "何もしない": PruneAction.NOTHING,
        "警告ログのみ": PruneAction.WARN,
        "低重要度メッセージの削除開始": PruneAction.PRUNE,
        "積極的な削除 + 要約生成": PruneAction.PRUNE_AND_SUMMARIZE,
        "緊急削除（要約なし）": PruneAction.EMERGENCY,
    }
    assert [action for _, action in rows("2.2-stages.md")] == list(actions)
    for usage, action in rows("2.2-stages.md"):
        low, _, high = usage.rstrip("%+").partition("-")
        for tokens in (10 * int(low) + 1, 10 * int(high) if high else 5000):
            caplog.clear()
            assert manager.memory_config.action(tokens) is actions[action], (usage, tokens)
            is_due = manager.should_prune([{"role": "user", "content": "x" * (2 * tokens)}])
            assert is_due == actions[action].prunes
            levels = [record.levelname for record in caplog.records]
            assert levels == {"何もしない": [], "警告ログのみ": ["WARNING"]}.get(action, ["INFO"])


def test_the_parts_have_what_the_diagram_shows() -> None:
    """DuckAgent is the program of whoever uses them: §6.3."""
    shown = [re.sub(r"[│┌┐└┘─┬▼]", "", line).strip() for line in block("3.1-components.txt").splitlines()]
    owner, seen = "", 0
    for line in filter(None, shown):
        if line.startswith("- "):
            seen += 1
            name = line[2:].removesuffix("()")
            kind = getattr(orihon, owner)
            assert hasattr(kind, name), (owner, name)
            assert callable(getattr(kind, name)) == line.endswith("()")
        elif line.isidentifier():
            owner = line
            assert hasattr(orihon, owner)
    assert (seen, owner) == (7, "LLMClient")


def test_a_message_takes_the_way_of_the_flow() -> None:
    flow = block("3.2-flow.txt")
    for owner, method in re.findall(r"(AgentState|MemoryManager)\.(\w+)\(", flow):
        assert callable(getattr(getattr(orihon, owner), method))
    state, manager = AgentState(), MemoryManager(Model(), max_tokens=1000)
    state.conversation_history = talk(17)
    assert not (before := manager.check_if_pruning_needed(state.conversation_history[:16]))
    assert before == manager.should_prune(state.conversation_history[:16])
    asyncio.run(state.add_message_with_pruning("user", "次は？", memory_manager=manager))
    assert manager.prune_count == 1
    assert not manager.check_if_pruning_needed(state.conversation_history)
    assert state.conversation_history[-1] == {"role": "user", "content": "次は？"}


@pytest.mark.parametrize("is_in_a_loop", [False, True])
def test_add_message_prunes_with_the_manager_that_it_or_its_state_was_given(is_in_a_loop: bool) -> None:
    """§3.3: 「`memory_manager` が渡されていれば、追加後に整理チェック」, 「`AgentState` に渡す」."""
    manager = MemoryManager(Model(), max_tokens=1000)
    given, held, bare = AgentState(), AgentState(memory_manager=manager), AgentState()

    def add() -> None:
        for message in talk(19, 100):
            given.add_message("assistant", message["content"], memory_manager=manager)
            held.add_message("assistant", message["content"])
            bare.add_message("assistant", message["content"])

    async def added() -> None:
        add()

    asyncio.run(added()) if is_in_a_loop else add()
    assert given.conversation_history == held.conversation_history
    assert len(given.conversation_history) < len(bare.conversation_history) == 19
    assert all(set(message) == {"role", "content"} for message in given.conversation_history)
    assert not manager.should_prune(given.conversation_history)


# ---- §4: scores ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_score_is_the_sum_of_the_formulas(role: str, content: str) -> None:
    """SPEC §9: "the code (with its keywords) the score": §6.1's, so §4.4's content is compared where both say the same.

    Recency: 「最新のメッセージ: 1.0」, as §6.1 has it; §4.2's division never reaches it.
    """
    steps = [block("4.3-role.python"), block("4.4-content.python")]
    names = copies.run(steps, {"role": role, "content": content})
    bare = ScoringConfig(recency_weight=0, content_weight=0, role_weight=1)
    assert weigh(0, role, 5, 11, bare) == names["role_score"]
    manager, ours = written()["MemoryManager"](None), MemoryManager()
    for index, total in [(0, 1), (0, 11), (5, 11), (10, 11)]:
        message = {"role": role, "content": content}
        names |= {"recency_score": weigh(0, role, index, total, ScoringConfig(1, 0, 0))}
        names["content_score"] = content_score(content)
        total_score = copies.run([block("4.1-total.python")], names)["total_score"]
        assert ours._calculate_importance(message, index, total) == min(total_score, 1.0)
        assert importance(message, index, total) == manager._calculate_importance(message, index, total)


def test_the_newest_message_counts_one_and_the_oldest_nought() -> None:
    only_recency = ScoringConfig(recency_weight=1, role_weight=0, content_weight=0)
    for total in (2, 11, 200):
        scores = [weigh(0, "user", index, total, only_recency) for index in range(total)]
        assert (scores[0], scores[-1]) == (0.0, 1.0)
        steps = [after - before for before, after in itertools.pairwise(scores)]
        assert max(steps) - min(steps) < 1e-9
        for index, score in enumerate(scores):
            given = {"message_index": index, "total_message_count": total - 1}
            assert copies.run([block("4.2-recency.python")], given)["recency_score"] == score


@pytest.mark.parametrize("content", CONTENTS)
def test_contents_are_ranked_as_the_document_says(content: str) -> None:
    """§4.4 gives success less than an error, and has fewer words; SPEC §9: "the code (with its keywords) the score"."""
    score = copies.run([block("4.4-content.python")], {"content": content})["content_score"]
    if any(word in content.lower() for word in ("error", "failed", "duck_call", "approval", "[tool:", "[user")):
        assert content_score(content) > 0 < score
    assert content_score(content) <= 1.0 >= score


def test_the_parameters_of_the_scores_are_those_of_the_document() -> None:
    """§4.5 and §6.1 differ in one word and one name: both names are read, the words are §6.1's (SPEC §9)."""
    early = defined("4.5-scoring.python")["ScoringConfig"]
    late = written()["ScoringConfig"]
    assert ScoringConfig().model_dump() == late().model_dump()
    for name, value in vars(early).items():
        if not name.startswith("_") and name != "important_keywords":
            assert getattr(ScoringConfig(), name) == value
            assert getattr(ScoringConfig(**{name: value / 2}), name) == value / 2
    assert set(early.important_keywords) <= set(ScoringConfig().important_keywords)


# ---- §5, §6.1: pruning -----------------------------------------------------------------------------------------------


def histories() -> Iterator[History]:
    roles = ("user", "assistant", "system", "assistant")
    for count, characters in [(0, 0), (3, 10), (40, 30), (170, 100), (159, 100), (160, 100), (161, 100), (200, 40)]:
        yield [
            {
                "role": roles[number % 4] if number else "user",
                "content": f"{CONTENTS[number % 12]} {number}"[:characters],
            }
            for number in range(count)
        ]


def test_when_and_how_much_is_as_in_the_programs() -> None:
    """§5.1, §6.1: when pruning is due, what a history costs, how it is scored."""
    trigger = defined("5.1-trigger.python")["should_prune"]
    for history in histories():
        for limit in (100, 1000, 8000):
            theirs, ours = written()["MemoryManager"](None, limit), MemoryManager(None, limit)
            assert ours.max_tokens == theirs.max_tokens == limit
            assert ours._estimate_tokens(history) == theirs._estimate_tokens(history)
            assert ours.should_prune(history) == theirs.should_prune(history) == trigger(theirs, history)
            assert ours._score_messages(history) == theirs._score_messages(history)


def test_what_is_pruned_is_what_the_program_prunes() -> None:
    """The same messages, notices, summaries and figures, word for word.

    Two promises of ours change a choice, and this history gives no cause for them: leading system messages and the
    newest message stay, and what is gone at the end is counted, too.
    """
    history = [
        *talk(12),
        {"role": "user", "content": "[TASK 1] approval: plan".ljust(100, "!")},
        *talk(3),
        *talk(4, role="user"),
    ]
    theirs, ours = written()["MemoryManager"](Model(), 1000), MemoryManager(Model(), 1000)
    wanted, figures = asyncio.run(theirs.prune_history(list(history)))
    pruned, stats = asyncio.run(ours.prune_history(list(history)))
    assert pruned == wanted
    assert stats == figures
    assert (stats["pruned"], stats["emergency_mode"], ours.prune_count) == (True, False, theirs.prune_count)
    assert ours.llm.asked == theirs.llm.asked  # type: ignore[union-attr]
    assert len(theirs.llm.asked) == 1


def test_the_algorithm_goes_its_six_steps() -> None:
    """§5.2, step by step; the numbers of the text are those that hold."""
    text = block("5.2-algorithm.txt")
    assert re.findall(r"^(\d)\.", text, re.M) == list("123456")
    share = float(re.search(r"max_tokens \* ([\d.]+)", text)[1])  # type: ignore[index]
    manager = MemoryManager(Model(), 1000)
    assert manager.memory_config.target_tokens == 1000 * share
    history = [*talk(16), *talk(2, role="user")]
    scores = manager._score_messages(history)
    assert [(index, message) for _, index, message in scores] == list(enumerate(history))
    ranked = sorted(scores, reverse=True, key=lambda one: one[0])
    selected = manager._select_within_budget(ranked, 1000 * share)
    assert [index for index, _ in selected] == sorted(index for index, _ in selected)
    assert manager._estimate_tokens([message for _, message in selected]) < 1000 * share
    least = min(score for score, index, _ in scores if index in dict(selected))
    assert all(score <= least for score, index, _ in scores if index not in dict(selected))
    pruned, _ = asyncio.run(manager.prune_history(history))
    assert [message for message in pruned if message in history] == [message for _, message in selected]
    assert pruned[0]["content"].startswith("[過去5件の会話の要約: ")


def test_gaps_of_five_are_summarized_and_smaller_ones_noted() -> None:
    """§5.3. SPEC §9: "gaps of five and more get a summary whenever something is pruned below 100 %"; a smaller gap

    has the notice of §6.1, so that the numbers add up.
    """
    ((many, summary), (few, removed)) = rows("5.3-gaps.md")
    assert (summary, removed) == ("要約生成", "単純削除")
    for condition, least in ((many, 5), (few, 4)):
        count = 5 if ">=" in condition else 4
        assert count == least
        model = Model()
        manager = MemoryManager(model, 50 * (count + 13) + 20)
        history = [*talk(count + 2), *talk(11, role="user")]
        gap = [*history[:count]]
        entry = asyncio.run(manager._insert_summaries(history, list(enumerate(history))[count:]))[0]
        is_summarized = condition == many
        assert len(model.asked) == is_summarized
        said = (
            f"[過去{len(gap)}件の会話の要約: 会話の続き]"
            if is_summarized
            else f"[{len(gap)}件のメッセージが省略されました]"
        )
        assert entry == {"role": "assistant", "content": said}


@pytest.mark.parametrize("method", [
    *("__init__", "should_prune", "prune_history", "_score_messages", "_calculate_importance"),
    *("_select_within_budget", "_insert_summaries", "_summarize_gap", "_estimate_tokens"),
])  # fmt: skip
def test_every_method_takes_the_arguments_of_the_document(method: str) -> None:
    theirs = inspect.signature(getattr(written()["MemoryManager"], method))
    ours = getattr(MemoryManager, method)
    inspect.signature(ours).bind(*theirs.parameters)
    inspect.signature(ours).bind(**dict.fromkeys(theirs.parameters))
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(getattr(written()["MemoryManager"], method))


def test_no_method_of_the_document_is_left_out() -> None:
    tree = ast.parse(block("6.1-manager.python"))
    (manager,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "MemoryManager")
    names = [node.name for node in manager.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert len(names) == 9
    assert all(callable(getattr(MemoryManager, name)) for name in names)


def test_the_attributes_are_plain() -> None:
    """§6.1's constructor: what it sets can be read, and set again."""
    client, scoring = Model(), ScoringConfig(recency_weight=0.5)
    theirs = written()["MemoryManager"](llm_client=client, max_tokens=500, config=scoring)
    ours = MemoryManager(llm_client=client, max_tokens=500, config=scoring)
    for name, value in vars(theirs).items():
        assert getattr(ours, name) is value or getattr(ours, name) == value
        setattr(ours, name, value)
    ours.max_tokens = 900
    assert (ours.max_tokens, ours.memory_config.max_tokens) == (900, 900)
    assert not ours.should_prune([{"role": "user", "content": "x" * 1400}])
    assert ours.should_prune([{"role": "user", "content": "x" * 1500}])


# ---- §6.2, §6.3: agents ----------------------------------------------------------------------------------------------


def test_a_state_of_the_document_prunes_with_the_manager(caplog: pytest.LogCaptureFixture) -> None:
    """§6.2's class is run as it is, on a state that is there already, with our manager; and ours does the same."""
    caplog.set_level(logging.INFO)
    names: dict[str, Any] = {"BaseModel": AgentState, "logger": logging.getLogger("companion.state")}
    theirs = copies.run([block("6.2-state.python")], names)["AgentState"]()
    ours, manager = AgentState(), MemoryManager(Model(), max_tokens=1000)
    for state in (theirs, ours):
        for message in talk(19):
            asyncio.run(state.add_message_with_pruning("assistant", message["content"], memory_manager=manager))
        asyncio.run(state.add_message_with_pruning("user", "次は？"))
    assert theirs.conversation_history == ours.conversation_history
    assert len(ours.conversation_history) < 20
    assert "Memory pruned: removed 3 messages" in caplog.text
    method = type(theirs).add_message_with_pruning
    arguments = list(inspect.signature(method).parameters)
    inspect.signature(AgentState.add_message_with_pruning).bind(**dict.fromkeys(arguments))


def test_an_agent_of_the_document_talks_as_long_as_it_likes() -> None:
    """§6.3, with what stands for 「get user input」."""
    names: dict[str, Any] = {"LLMClient": LLMClient, "default_client": Model()}
    source = block("6.3-agent.python").replace(
        "# ... existing initialization ...", "self.state, self.llm = begin(llm_client)"
    )
    source = source.replace("# ... get user input ...", "user_input = heard.pop()")
    source = source.replace("while True:", "while heard:")
    heard = [message["content"] for message in talk(400)]
    names |= {"heard": heard, "begin": lambda client: (AgentState(), client)}
    agent = copies.run([source], names)["DuckAgent"]()
    asyncio.run(agent.run())
    manager = agent.memory_manager
    assert (manager.max_tokens, manager.llm) == (8000, names["default_client"])
    assert manager.prune_count > 1
    assert manager._estimate_tokens(agent.state.conversation_history) <= 8000


# ---- §7, §8: costs and failures --------------------------------------------------------------------------------------


def test_what_a_model_is_asked_is_bounded() -> None:
    """§7.2: 「連続5件以上のギャップのみ要約」, 「max_tokens=150で制限」, 「緊急モードでは要約スキップ」."""
    model = Model()
    manager = MemoryManager(model, 1000)
    asyncio.run(manager.prune_history([*talk(15), *talk(3, role="user")]))
    assert [options for _, options in model.asked] == [{"max_tokens": 150, "temperature": 0.3}]
    asyncio.run(manager.prune_history(talk(40)))
    assert len(model.asked) == 1


def test_a_thousand_messages_take_a_few_megabytes() -> None:
    """§7.3, §11.2: 「1000メッセージでも数MB程度」."""
    history, manager = talk(1000), MemoryManager(max_tokens=40_000)
    tracemalloc.start()
    try:
        pruned, _ = asyncio.run(manager.prune_history(history))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(pruned) < 1000
    assert peak < 5 << 20


def test_a_summary_that_fails_is_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    """§8.1 and §6.1 word the notice differently; SPEC §9: "the code"."""
    messages = talk(6)
    theirs, ours = (made(Model(OSError("no model"))) for made in (written()["MemoryManager"], MemoryManager))
    wanted = asyncio.run(theirs._summarize_gap(messages))
    assert asyncio.run(ours._summarize_gap(messages)) == wanted
    assert wanted["content"] == "[過去6件のメッセージが削除されました]"
    assert "no summary of 6 messages" in caplog.text

    # §8.1 as it is, around our method: it never has to come to its own rescue.
    names = {"logger": logging.getLogger("companion"), "messages": messages, "self": ours}
    body = "async def fallback():\n" + "".join(f"    {line}\n" for line in block("8.1-failure.python").splitlines())
    run = copies.run([body + "    return summary\n"], names)["fallback"]
    assert asyncio.run(run()) == wanted


def test_beyond_the_limit_pruning_is_an_emergency(caplog: pytest.LogCaptureFixture) -> None:
    """§8.2: a warning, no summary; a notice says how much is gone."""
    model = Model()
    manager = MemoryManager(model, 1000)
    history = talk(40)
    names = {"self": manager, "current_tokens": manager._estimate_tokens(history), "logger": logging.getLogger("x")}
    wanted = copies.run([block("8.2-emergency.python")], names)["emergency_mode"]
    caplog.clear()
    pruned, stats = asyncio.run(manager.prune_history(history))
    assert stats["emergency_mode"] is wanted is True
    assert [record.levelname for record in caplog.records if "emergency" in record.message] == ["WARNING"]
    assert model.asked == []
    assert stats["final_tokens"] <= 800
    assert pruned[0]["content"] == "[27件のメッセージが省略されました]"


# ---- §9, §11: the document's tests and its marks of success ----------------------------------------------------------


def test_the_documents_own_tests_hold() -> None:
    """§9.1: each of its cases, with what its comments ask for."""
    source = block("9.1-unit.python")
    names = re.findall(r"def (\w+)", source)
    assert names == ["test_token_estimation", "test_importance_scoring", "test_message_selection"]
    given = ast.literal_eval(re.search(r"messages = (.*)", source)[1])  # type: ignore[index]
    manager = MemoryManager(max_tokens=1000)
    assert manager._estimate_tokens(given) == int(len("Hello world") * 0.5)

    def score(role: str, content: str) -> float:
        return manager._calculate_importance({"role": role, "content": content}, 5, 11)

    user, error = score("user", "move the table, please"), score("assistant", "the move failed: error 5")
    assert user > error > score("assistant", "let me look at that first")

    important = {"role": "user", "content": "[TASK 1] approval, the plan failed".ljust(100)}
    history = [*talk(8), important, *talk(16)]
    ranked = sorted(manager._score_messages(history), reverse=True, key=lambda one: one[0])
    selected = manager._select_within_budget(ranked, 700)
    assert manager._estimate_tokens([message for _, message in selected]) <= 700
    assert (8, important) in selected


def test_a_full_cycle() -> None:
    """§9.2's four steps, and §11.1."""
    steps = re.findall(r"# (\d)\. ", block("9.2-cycle.python"))
    assert steps == list("1234")
    kept = [
        {"role": "user", "content": "この表は消さないでください。".ljust(100)},
        {"role": "assistant", "content": "[Tool: test] success: all passed".ljust(100)},
        {"role": "assistant", "content": "[Tool: build] error: exit code 2".ljust(100)},
    ]
    history = [*talk(40), *kept, *talk(100), *talk(3, role="user")]
    for limit in (8000, 7000):  # below 100 %, and beyond
        manager = MemoryManager(Model(), limit)
        pruned, stats = asyncio.run(manager.prune_history(history))
        assert manager._estimate_tokens(pruned) == stats["final_tokens"] <= limit
        assert all(message in pruned for message in kept)
        assert stats["emergency_mode"] == (limit == 7000)
        gone = len(history) - sum(message in history for message in pruned)
        assert sum(int(n) for one in pruned for n in re.findall(r"^\[(?:過去)?(\d+)件", one["content"])) == gone > 0


def test_a_long_session_does_not_grow() -> None:
    """§9.3, §11.2: 「長時間セッションでも性能劣化なし」: 3,000 messages make no longer history than 300."""
    manager, state = MemoryManager(max_tokens=8000), AgentState()
    longest = [0, 0]
    for number, message in enumerate(talk(3000)):
        content = f"error {number} in a chain" if number % 50 < 10 else message["content"]
        state.add_message("assistant", content, memory_manager=manager)
        late = number >= 300
        longest[late] = max(longest[late], len(state.conversation_history))
    assert manager.prune_count > 10
    assert longest[1] < 2 * longest[0]
    assert manager._estimate_tokens(state.conversation_history) <= 8000


# ---- §10.1, §14: settings --------------------------------------------------------------------------------------------


def test_the_settings_are_those_of_the_document() -> None:
    """§10.1: the same fields with the same values; three more of ours come after them."""
    names = defined("10.1-config.python", BaseModel=BaseModel)
    wanted = names["MemoryConfig"]()
    ours = MemoryConfig()
    assert wanted.model_dump().items() <= ours.model_dump().items()
    assert list(ours.model_dump())[: len(wanted.model_dump())] == list(wanted.model_dump())
    for name, value in wanted.model_dump().items():
        assert getattr(ours, name) == value


def test_the_other_ways_to_choose_can_be_set() -> None:
    """§10.2: sliding window, sessions, topics are selections of the strategy ``prune`` of a task."""
    for selection in ("window", "session", "topic"):
        settings = orihon.load_settings({"compression": {"prune_selection": selection}})
        assert settings.compression.prune_selection == selection


def test_the_three_settings_of_the_appendix_work() -> None:
    """§14, as it is, with our class."""
    names = copies.run([block("14-configs.python")], {"MemoryConfig": MemoryConfig})
    for name, limit, target in [
        ("config", 6400, 5600),
        ("conservative_config", 3600, 3000),
        ("aggressive_config", 10800, 9600),
    ]:
        manager = MemoryManager(config=names[name])
        assert not manager.should_prune(talk(limit // 50))
        _, stats = asyncio.run(manager.prune_history(talk(limit // 50 + 1)))
        assert target - 50 < stats["final_tokens"] < target + 50


@pytest.mark.parametrize("name", ["ScoringConfig", "MemoryConfig"])
def test_settings_are_used_like_the_models_of_the_document(name: str) -> None:
    """§6.1 and §10.1 are models of pydantic: dumped, copied, validated, set."""
    later = defined("10.1-config.python", BaseModel=BaseModel)
    theirs, ours = {**written(), **later}[name], getattr(orihon, name)
    field, value = {"ScoringConfig": ("role_weight", 0.25), "MemoryConfig": ("max_tokens", 500)}[name]
    for kind in (theirs, ours):
        config = kind.model_validate({field: value})
        assert config == kind(**{field: value}) == kind().model_copy(update={field: value})
        assert config.model_dump()[field] == value
        assert kind.model_validate_json(config.model_dump_json()) == config
        assert config != kind()
        setattr(config, field, getattr(kind(), field))
        assert config == kind()
        config.model_dump().clear()
        assert config == kind()


def test_a_scoring_that_is_changed_scores_otherwise() -> None:
    manager = MemoryManager(config=ScoringConfig())
    message = {"role": "assistant", "content": "the ledger is not to be touched"}
    before = manager._calculate_importance(message, 1, 3)
    manager.config.important_keywords.append("Ledger")
    assert manager._calculate_importance(message, 1, 3) == pytest.approx(before + 0.3 * 0.4)
    assert "Ledger" not in ScoringConfig().important_keywords


def test_settings_that_were_changed_into_nonsense_are_refused_when_they_count() -> None:
    manager = MemoryManager(memory_config=MemoryConfig())
    manager.memory_config.target_usage = 0.95
    with pytest.raises(orihon.OrihonError, match=r"0\.95"):
        manager.should_prune(talk(1))
    manager.memory_config.pruning_threshold = 0.99
    assert not manager.should_prune(talk(1))


def test_a_state_is_dumped_like_a_model() -> None:
    """§6.2: ``AgentState(BaseModel)``."""
    state = AgentState(memory_manager=MemoryManager())
    state.add_message("user", "始めましょう")
    assert state.model_dump() == {"conversation_history": [{"role": "user", "content": "始めましょう"}]}
    assert AgentState.model_validate_json(state.model_dump_json()) == state
