"""A squeezed transcript fits, keeps its system prompt and newest turns, and splits no tool pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.squeeze import Squeezed, message_tokens, squeeze
from orihon.errors import BudgetExceeded
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import tokenizer

COUNT = tokenizer("o200k_base")
Chat = dict[str, Any]


def size(messages: Sequence[Any]) -> int:
    return sum(message_tokens(Message.from_chat(message), COUNT) for message in messages)


def turn(number: int, output: str, results: int = 1) -> list[Chat]:
    ids = [f"call_{number}_{at}" for at in range(results)]
    function = {"name": "run_shell", "arguments": f'{{"command": "show part_{number}"}}'}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    answers = [{"role": "tool", "tool_call_id": one, "name": "run_shell", "content": output} for one in ids]
    return [{"role": "assistant", "content": "", "tool_calls": calls}, *answers]


def coding(turns: int, lines: int = 30) -> list[Chat]:
    messages: list[Chat] = [
        {"role": "system", "content": "You are a careful agent."},
        {"role": "user", "content": "Repair parse_order in orders/reader.py. Do not touch orders/writer.py."},
    ]
    for number in range(turns):
        output = "\n".join(
            f"row {line} of part_{number} sets option_{line} to {number * line}" for line in range(lines)
        )
        messages += turn(number, output)
    return messages


def check(messages: Sequence[Chat], result: Squeezed) -> None:
    """Everything that is promised of any result."""
    assert size(result.messages) == result.after_tokens <= result.budget
    assert pairs_are_whole(result.messages)
    covered = [*result.kept, *result.shortened, *(at for run in result.folded for at in range(run.start, run.end))]
    assert sorted(covered) == list(range(len(messages)))
    assert all(messages[place] in result.messages for place in result.kept)


def pairs_are_whole(messages: Sequence[Any]) -> bool:
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.discard(message["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return not waiting


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.6])
def test_system_prompt_and_newest_turns_stay_word_for_word(share: float) -> None:
    messages = coding(60)
    result = squeeze(messages, int(size(messages) * share))
    check(messages, result)
    assert result.messages[0] == messages[0]
    if size(messages[-4:]) <= (result.budget - size(messages[:1])) / 2:
        assert list(result.messages[-4:]) == messages[-4:]
    assert result.after_tokens > 0.9 * result.budget


def test_the_rest_is_one_system_message_of_notes() -> None:
    messages = coding(60)
    result = squeeze(messages, 3000)
    folds = [message for message in result.messages if str(message["content"]).startswith(SUMMARY_PREFIX)]
    assert len(folds) == 1 == len(result.folded)
    assert folds[0]["role"] == "system"
    asked = [message for message in result.messages if message["role"] == "user"]
    assert "Do not touch orders/writer.py." in str(asked[0]["content"])


def test_what_fits_is_not_touched() -> None:
    messages = coding(3)
    assert list(squeeze(messages, size(messages)).messages) == messages
    assert squeeze([], 1).messages == ()


def test_pinned_messages_stay_in_place_with_their_pair() -> None:
    messages = coding(60)
    result = squeeze(messages, 4000, pinned={1, 41})
    check(messages, result)
    assert {1, 40, 41} <= {*result.kept}
    order = [messages.index(dict(message)) for message in result.messages if dict(message) in messages]
    assert order == sorted(order)


def test_a_protected_text_that_does_not_fit_is_named() -> None:
    messages = [{"role": "system", "content": "rule " * 500}, *coding(30)[1:]]
    with pytest.raises(BudgetExceeded) as caught:
        squeeze(messages, 400)
    assert caught.value.fields["system"] == size(messages[:1])
    with pytest.raises(BudgetExceeded, match="2"):
        squeeze([messages[1], {"role": "user", "content": "pin " * 900}, *messages[2:]], 500, pinned={1})


@pytest.mark.parametrize(
    "huge",
    [
        [{"role": "user", "content": "\n".join(f"line_{n} speaks of item_{n % 7}" for n in range(4000))}],
        turn(999, "\n".join(f"line_{n} speaks of item_{n % 7}" for n in range(4000)), results=2),
        [{"role": "user", "content": "long " * 30_000}],
        [{"role": "assistant", "content": "x" * 60_000}],
    ],
)
def test_one_message_larger_than_everything(huge: list[Chat]) -> None:
    messages = [*coding(5), *huge]
    result = squeeze(messages, 600)
    check(messages, result)


def test_a_newest_turn_that_is_too_large_keeps_its_envelope() -> None:
    output = "\n".join(f"line_{n} speaks of item_{n % 7}" for n in range(4000))
    messages = [*coding(5), *turn(999, output)]
    result = squeeze(messages, 800)
    assert result.shortened == (12, 13)
    *_, called, answered = result.messages
    assert called == messages[-2]
    assert answered["tool_call_id"] == messages[-1]["tool_call_id"]
    assert all(line in output for line in answered["content"].split("\n")[1:])


def test_only_tool_calls_and_no_system_prompt() -> None:
    messages = [message for number in range(200) for message in turn(number, f"value_{number} found", results=3)]
    check(messages, squeeze(messages, 900))


def test_answers_without_calls_and_calls_without_answers_are_folded() -> None:
    lonely = {"role": "tool", "tool_call_id": "nobody", "content": "lost"}
    messages = [*coding(20), lonely, *turn(500, "x")[:1], {"role": "user", "content": "go on"}]
    result = squeeze(messages, 900)
    check(messages, result)
    assert result.messages[-1] == messages[-1]


@pytest.mark.parametrize(
    "said", ["今日は{0}番の駅で友達と会いました。とても楽しかったです。", "今天我在第{0}号车站见了朋友。非常开心。"]
)
def test_long_chats_in_japanese_and_chinese(said: str) -> None:
    messages = [
        {"role": "user" if number % 2 else "assistant", "content": said.format(number)} for number in range(1200)
    ]
    for share in (0.02, 0.3):
        result = squeeze(messages, int(size(messages) * share))
        check(messages, result)
        assert list(result.messages[-4:]) == messages[-4:]


def test_squeezing_again_merges_the_notes() -> None:
    messages = coding(60)
    once = [dict(message) for message in squeeze(messages, 3000).messages]
    twice = squeeze([*once, *coding(20)[2:]], 2500).messages
    texts = [str(message["content"]) for message in twice]
    folds = [text for text in texts if text.startswith(SUMMARY_PREFIX)]
    assert any("Do not touch orders/writer.py." in text for text in texts)
    assert all(text.count("Notes on messages") == 1 for text in folds)


def test_the_same_input_gives_the_same_output() -> None:
    assert squeeze(coding(40), 1500) == squeeze(coding(40), 1500)


PIECES = st.one_of(
    st.builds(lambda text: [{"role": "user", "content": text}], st.text(max_size=200)),
    st.builds(lambda text: [{"role": "assistant", "content": text}], st.text(max_size=200)),
    st.builds(lambda text: [{"role": "system", "content": text}], st.text(max_size=60)),
    st.builds(turn, st.integers(0, 10**6), st.text(max_size=400), st.integers(1, 3)),
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=25), st.integers(1, 1500))
def test_any_transcript(pieces: list[list[Chat]], budget: int) -> None:
    messages = [message for piece in pieces for message in piece]
    try:
        result = squeeze(messages, budget)
    except BudgetExceeded:
        head = [message for message in messages[:1] if message["role"] == "system"]
        assert head or budget < 100
    else:
        assert size(result.messages) <= budget
        assert pairs_are_whole(result.messages)


def test_a_squeezed_transcript_can_be_squeezed_again() -> None:
    first = squeeze(coding(40), 3000)
    again = squeeze(first.messages, 1200)
    check(list(first.messages), again)  # type: ignore[arg-type]
    assert [message["role"] for message in again.messages[:3]] == ["system", "user", "system"]
    assert str(again.messages[2]["content"]).startswith(SUMMARY_PREFIX)
    assert "orders/writer.py" in str(again.messages[1]["content"]), "the user's wish is not lost"


@pytest.mark.parametrize(
    "said", ["Repair the reader of orders. ", "repair", "注文を読み取る部分を修理してください。", "注文"]
)
@pytest.mark.parametrize("times", [1, 60, 400])
def test_a_user_speaks_in_every_squeeze_and_no_budget_with_room_is_refused(said: str, times: int) -> None:
    messages: list[Chat] = [{"role": "user", "content": said * times}]
    for number in range(8):
        messages += turn(number, f"option_{number} is set. " * 60)
    for budget in range(60, 600, 20):
        result = squeeze(messages, budget)
        check(messages, result)
        assert budget < 160 or any(message["role"] == "user" for message in result.messages)
