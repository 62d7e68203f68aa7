"""A task at work, message by message: what the model gets to see at every point, with every preset."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from orihon import Base, Task
from orihon.compression.contract import CompressionScope
from orihon.compression.pages import NOTICE
from orihon.settings.rungs import EVENTS, STRATEGIES
from orihon.values.view import View
from tests.integration.test_known_traps import refused_by_providers
from tests.ladders import PRESETS

WINDOW = 16_000
WORDS = (
    *("archive", "buffer", "cursor", "driver", "export", "filter", "gateway", "header", "index", "journal", "kernel"),
    *("ledger", "mirror", "network", "option", "parser", "queue", "record", "socket", "table", "update", "valve"),
)

#: What the request is about, sentence by sentence; each must be found in the view as long as the task lasts.
ASKED = (
    "The nightly export writes every valve of the northern plant twice when daylight saving time ends.",
    "Please find out why the second run of 02:30 does not see the lock of the first.",
    "Do not change the format of ledger_v7, the auditors read it with a program of their own.",
    "The fix must work on the staging host kiruna-04, where Python 3.11 is the newest that there is.",
    "Add a test that fails before your change, in tests/export/test_autumn.py.",
    "Do you see whether the mirror in Luleå has the same problem?",
)


def prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words))


def request(chance: random.Random, words: int = 30) -> str:
    """A long issue text, as users paste them: the sentences that matter stand between others."""
    parts = [f"{sentence}\n\n    {prose(chance, words)}\n    {prose(chance, words)}\n" for sentence in ASKED]
    return "\n".join(["<issue>", *parts, "</issue>"])


def output(chance: random.Random, lines: int) -> str:
    """What an installer prints."""
    names = (f"lib{chance.choice(WORDS)}-{chance.randint(1, 99)}" for _ in range(lines))
    return "\n".join(
        f"Get:{at} http://deb.example.org/main {name} amd64 [{at * 37} B]" for at, name in enumerate(names)
    )


def conversation(seed: int = 1, *, words: int = 30, speaks: Sequence[int] = ()) -> Iterator[dict[str, Any]]:
    """A request, then many calls with bulky results, now and then several at once; the user says little more."""
    chance = random.Random(seed)
    yield {"role": "system", "content": "You are a careful agent. " + prose(chance, 80)}
    yield {"role": "user", "content": request(chance, words)}
    sizes = (5, 300, 8, 420, *(chance.choice((3, 10, 25, 60, 150, 260)) for _ in range(30)))
    for turn, lines in enumerate(sizes):
        ids = [f"call_{turn}_{at}" for at in range(3 if turn % 9 == 5 else 1)]
        function = {"name": "execute_bash", "arguments": f'{{"command": "apt-get install part-{turn}"}}'}
        calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
        yield {"role": "assistant", "content": f"Now I install part {turn}.", "tool_calls": calls}
        for call_id in ids:
            yield {"role": "tool", "tool_call_id": call_id, "content": output(chance, lines)}
        if turn in speaks:
            yield {"role": "user", "content": "Please go on."}


def task_in(folder: Path, preset: str = "default", window: int = WINDOW, **compression: Any) -> Task:
    config = {
        "context_storage": {"durability": "os"},
        "llm": {"openai": {"context_length": window}},
        "compression": {"preset": preset, **compression},
    }
    return Base(folder, config).task("me/plant#7")


def seen(messages: Sequence[dict[str, Any]]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def view_of(task: Task) -> View:
    view = task.view()
    assert isinstance(view, View)
    return view


def check(task: Task) -> str:
    """The view fits, somebody speaks in it, tool pairs are whole; its text."""
    messages = task.messages()
    view = view_of(task)
    assert task.usage <= 1
    assert any(entry.role == "user" for entry in view.entries), "of the view itself, not put there for the request"
    assert refused_by_providers(messages) == []
    return seen(messages)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("told", [{}, {"words": 180}, {"speaks": (9, 20, 33)}], ids=["once", "at length", "go on"])
def test_the_request_stands_in_the_view_after_every_message(tmp_path: Path, preset: str, told: dict[str, Any]) -> None:
    task = task_in(tmp_path, preset)
    for number, message in enumerate(conversation(**told), start=1):
        task.append(message)
        if number > 1 and not task.open_calls():
            text = check(task)
            assert [sentence for sentence in ASKED if sentence not in text] == [], f"after message {number}"
    assert len(task.compressions()) > 2
    task.stop()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_result_that_is_larger_than_the_window_gives_way_before_the_request(tmp_path: Path, preset: str) -> None:
    task = task_in(tmp_path, preset)
    chance = random.Random(2)
    for message in list(conversation(2))[:10]:
        task.append(message)
    ids = ("big_1", "big_2")
    function = {"name": "execute_bash", "arguments": "{}"}
    task.append(
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": one, "type": "function", "function": function} for one in ids],
        }
    )
    for call_id in ids:
        task.add("tool", output(chance, 900), tool_call_id=call_id)
    text = check(task)
    assert [sentence for sentence in ASKED if sentence not in text] == []
    assert text.count("Get:") > 100, "and of the newest output stays what there is room for"
    task.stop()


def test_what_the_agent_has_not_read_yet_stays_whole_while_it_fits(tmp_path: Path) -> None:
    """An output that is cut before the model has seen it once is asked for again and again."""
    task = task_in(tmp_path)
    for message in list(conversation())[:10]:
        task.append(message)
    unread = output(random.Random(3), 230)
    call = {"id": "new", "type": "function", "function": {"name": "execute_bash", "arguments": "{}"}}
    task.append({"role": "assistant", "content": None, "tool_calls": [call]})
    task.add("tool", unread, tool_call_id="new")
    assert task.usage > 1
    assert unread in check(task)
    task.stop()


@pytest.mark.parametrize("how", [*STRATEGIES, None, *EVENTS, "span"])
@pytest.mark.parametrize("preset", PRESETS)
def test_no_compression_takes_the_last_word_of_the_user(tmp_path: Path, preset: str, how: str | None) -> None:
    task = task_in(tmp_path, preset, window=60_000, keep_recent=0, min_to_compress=1)
    for message in list(conversation())[:40]:
        task.append(message)
    compressor = task.context.compressor
    if how == "span":
        for event in EVENTS:
            compressor.compress_on(event, CompressionScope(span=(2, 30)))
    elif how in EVENTS:
        compressor.compress_on(str(how))
    else:
        for _ in range(3):
            compressor.compress(strategy=how, target=0.01)
    text = check(task)
    assert [sentence for sentence in ASKED if sentence not in text] == []
    task.stop()


def test_a_person_may_fold_it_by_hand(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    for message in list(conversation())[:4]:
        task.append(message)
    task.context.message_store.create_summary(2, 4, "The user wants the export repaired.")
    assert [message["role"] for message in task.messages()] == ["system", "system", "user"]
    task.stop()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_request_that_is_too_long_keeps_its_place(tmp_path: Path, preset: str) -> None:
    """It is shortened in its own envelope, and leaves room for the work."""
    task = task_in(tmp_path, preset)
    task.add("system", "You are careful.")
    task.add("user", "\n".join(f"row {row} sets option_{row} to {row * 3}" for row in range(1500)))
    for message in list(conversation())[2:20]:
        task.append(message)
        if not task.open_calls():
            text = check(task)
            assert "option_" in text
    newest = task.log()[-1].message.text.splitlines()
    assert sum(line in text for line in newest) > 0.5 * len(newest)
    task.stop()


# ---- what somebody has set -------------------------------------------------------------------------------------------


def newest_messages(task: Task) -> int:
    """How many messages stand at the end of the view, whole or shortened, none folded away."""
    view = view_of(task)
    folded = [at for at, entry in enumerate(view.entries) if entry.fold is not None and entry.fold.form == "summary"]
    return len(view.entries) - folded[-1] - 1


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("size", [600, 1000, 2500])
def test_what_is_set_to_be_kept_is_kept(tmp_path: Path, preset: str, size: int) -> None:
    """Ten messages of 1,000 tokens can be sent in a window of 16,000, ten of 2,500 cannot as they are."""
    task = task_in(tmp_path, preset, keep_recent=10)
    for number in range(30):
        task.add(
            "user" if number % 2 == 0 else "assistant",
            f"{number}: " + f"{WORDS[number % 22]} of {number} " * (size // 3),
        )
        check(task)
        view = view_of(task)
        if any(fold.form == "summary" for fold in view.folds):
            assert newest_messages(task) >= 10
        if size <= 1000:
            assert all(entry.fold is None for entry in view.entries[-min(10, number + 1) :])
    assert task.compressions()
    task.stop()


def test_the_number_that_nobody_has_set_gives_way(tmp_path: Path) -> None:
    task = task_in(tmp_path)
    for number in range(12):
        task.add("user" if number % 2 == 0 else "assistant", f"{number}: " + f"{WORDS[number]} of {number} " * 333)
        check(task)
    assert newest_messages(task) < 10
    task.stop()


# ---- a long chat -----------------------------------------------------------------------------------------------------

PEOPLE = ("Hana", "Ilmari", "Björk", "Tomás", "Aiko", "Ngozi", "Lev", "Saoirse", "Mateus", "Wren", "Yusuf", "Petra")
PLACES = ("Tromsø", "Otaru", "Évora", "Bergen", "Kanazawa", "Oulu", "Ghent", "Split", "Nara", "Cork", "Turku", "Faro")
FACTS = tuple(
    f"By the way, my friend {who} has moved to {where}, the new number is 0{at}7-{4100 + at * 13}."
    for at, (who, where) in enumerate(zip(PEOPLE, PLACES, strict=True))
)
SMALL_TALK = (
    *("That sounds lovely, tell me more about it.", "I went for a walk and the weather was fine.", "Ha, yes, I know."),
    *(
        "What did you have for dinner?",
        "We had soup, and bread from the shop at the corner.",
        "I like it when it rains.",
    ),
    *("The film was a little long, but the music was good.", "Did you sleep well?", "Not really, the neighbours sang."),
)


def chat(messages: int) -> Iterator[tuple[str, str]]:
    """Two who talk for weeks; now and then the user says something that one should know later."""
    chance = random.Random(4)
    for number in range(messages):
        said = " ".join(chance.choice(SMALL_TALK) for _ in range(chance.randint(1, 3)))
        fact, is_due = divmod(number, messages // len(FACTS) // 2 * 2)
        if is_due == 0 and fact < len(FACTS):
            said = f"{FACTS[fact]} {said}"
        yield ("user" if number % 2 == 0 else "assistant"), said


def test_a_companion_has_notes_of_what_was_said(tmp_path: Path) -> None:
    task = task_in(tmp_path, "companion", window=4000)
    task.add("system", "You are good company.")
    for role, said in chat(600):
        task.add(role, said)
        check(task)
        view = view_of(task)
        missing = sum(fold.message_count for fold in view.folds if fold.reason == NOTICE)
        assert missing <= 0.1 * sum(fold.message_count for fold in view.folds), "a gap of five has notes"
        assert len(view.folds) <= 6, "and there are few gaps"
    assert sum(fold.message_count for fold in view_of(task).folds) > 400
    assert sum(fact in check(task) for fact in FACTS) > len(FACTS) / 2
    task.stop()


def test_a_companion_has_notes_beyond_the_budget_too(tmp_path: Path) -> None:
    """Extractive notes cost no call of a model."""
    task = task_in(tmp_path, "companion", window=6000)
    for role, said in chat(120):
        task.add(role, said)
    task.add("user", "Look what I found: " + prose(random.Random(5), 2000))
    assert task.usage > 1
    text = check(task)
    view = view_of(task)
    assert [fold.reason for fold in view.folds if fold.message_count >= 5 and fold.reason == NOTICE] == []
    assert any(fact in text for fact in FACTS)
    task.stop()


def test_a_companion_without_summaries_says_how_many_are_missing(tmp_path: Path) -> None:
    task = Base(
        tmp_path,
        {
            "llm": {"openai": {"context_length": 4000}},
            "compression": {"preset": "companion"},
            "memory": {"enable_summarization": False},
        },
    ).task("chat")
    for role, said in chat(200):
        task.add(role, said)
        check(task)
    view = view_of(task)
    assert {fold.reason for fold in view.folds} == {NOTICE}
    task.stop()
