"""The prover of the tests: what must be true of a task at any moment, derived again from the records alone.

Shares as little as possible with the code under test: the view is laid out here by brute force, the request is
judged by the rules of the providers, and the counters are added up from the messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orihon import MessageStore
from orihon.store import StoredMessage
from orihon.store.record_codec import matches_digest
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.message.provider_shapes import with_user
from orihon.values.message.wire import clean
from orihon.values.records import SUMMARY_PREFIX, Fold
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.tokens.tokens import estimate

ChatMessage = Mapping[str, Any]


def check_task(store: MessageStore) -> None:
    """Everything that SPEC §2 promises about a task as it lies there."""
    log = list(store.get_messages())
    _check_log(store, log)
    _check_every_seq_once(store, len(log))
    rendered = shown(store)
    assert rendered == expected_view(store, log)
    if store.gauge.usage(store.get_current_token_count()) <= 1:  # a larger one is folded for whoever asks
        assert store.get_messages_for_llm() == with_user(rendered)
    assert view_file_lines(store) == rendered
    check_acceptable(rendered)
    _check_counters(store, log)
    _check_head_and_pins(store, log)


def shown(store: MessageStore) -> list[dict[str, Any]]:
    """The view as it lies there, without what is put into a request in which nobody speaks."""
    return list(store.task_store.view_messages())


def expected_view(store: MessageStore, log: Sequence[StoredMessage]) -> list[ChatMessage]:
    """The view laid out by brute force: walk the log and put each fold where it begins."""
    folds = {seq: fold for fold in _visible(store) for seq in range(fold.start_seq, fold.end_seq + 1)}
    view: list[ChatMessage] = []
    for stored in log:
        fold = folds.get(stored.seq)
        if fold is None:
            view.append(_as_sent(stored.message))
        elif fold.form == "preview":
            view.append(_as_sent(_shortened(stored.message, fold)))
        elif fold.start_seq == stored.seq:
            view.append({"role": "system", "content": SUMMARY_PREFIX + clean(fold.text)})
    return view


def view_file_lines(store: MessageStore) -> list[ChatMessage]:
    """The lines of the file that a request would be made of; a sealed task has none, and says what it would hold."""
    if store.task_store.records.is_sealed:
        return [jsonio.decode(line) for line in store.task_store.view_lines()]
    with store.get_current_context_file().open("rb") as file:
        return [jsonio.decode(line) for line in file]


def check_acceptable(request: Sequence[ChatMessage]) -> None:
    """A request that the providers accept: calls and results together, nothing empty, clean UTF-8."""
    waiting: set[str] = set()
    seen: set[str] = set()
    for message in request:
        json.dumps(message, ensure_ascii=False).encode()
        assert message["role"] in ("system", "developer", "user", "assistant", "tool")
        _check_content(message)
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, "a result without its call"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, f"calls {waiting} are not answered before the next {message['role']} message"
        for call in message.get("tool_calls", ()):
            assert call["id"] not in seen
            seen.add(call["id"])
            waiting.add(call["id"])


def _check_content(message: ChatMessage) -> None:
    content = message["content"]
    if content is None:
        assert message["role"] == "assistant"
        assert message["tool_calls"]
    elif isinstance(content, str):
        assert content.strip()
    else:
        assert content
        assert all(part.get("type") != "text" or part["text"].strip() for part in content)


def _check_log(store: MessageStore, log: Sequence[StoredMessage]) -> None:
    assert [stored.seq for stored in log] == list(range(1, len(log) + 1))
    assert store.count_messages() == len(log)
    for stored in log:
        assert matches_digest(stored.message.body(), stored.digest)


def _check_every_seq_once(store: MessageStore, last: int) -> None:
    covered = [seq for entry in store.view().entries for seq in range(entry.start, entry.end + 1)]
    assert covered == list(range(1, last + 1))


def _check_counters(store: MessageStore, log: Sequence[StoredMessage]) -> None:
    folds = {seq: fold for fold in _visible(store) for seq in range(fold.start_seq, fold.end_seq + 1)}
    tokens, entries = 0, 0
    for stored in log:
        assert stored.tokens == estimate_message(stored.message)
        fold = folds.get(stored.seq)
        if fold is None:
            tokens += stored.tokens
        elif fold.form == "preview":
            tokens += estimate_message(_shortened(stored.message, fold))
        elif fold.start_seq == stored.seq:
            tokens += estimate(SUMMARY_PREFIX + fold.text)
        else:
            continue
        entries += 1
    tail = store.task_store.tail
    assert (tail.seq, tail.log_tokens) == (len(log), sum(stored.tokens for stored in log))
    assert (tail.view_tokens, tail.view_entries) == (tokens, entries)
    assert store.get_current_token_count() == store.view().tokens == tokens


def _check_head_and_pins(store: MessageStore, log: Sequence[StoredMessage]) -> None:
    view = store.view()
    request = shown(store)
    for position, stored in enumerate(log):
        if stored.message.role not in ("system", "developer"):
            break
        assert request[position] == _as_sent(stored.message), "the system prompt stays as it is"
    for pin in view.pins:
        entry = request[view.index_of(pin.seq)]
        if pin.line:
            assert pin.line in Message.from_chat(entry).text, "a pinned line stays word for word"
        else:
            assert entry == _as_sent(log[pin.seq - 1].message), "a pinned message stays as it is"


def _visible(store: MessageStore) -> tuple[Fold, ...]:
    return store.view().folds


def _shortened(message: Message, fold: Fold) -> Message:
    return replace(message, content=fold.text, parts=None)


def _as_sent(message: Message) -> ChatMessage:
    line: ChatMessage = jsonio.decode(jsonio.encode(message.request()))
    return line
