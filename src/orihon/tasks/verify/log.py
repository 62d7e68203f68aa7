"""The log, message by message: digests, token estimates, epochs, tool pairs.

One pass, one message in memory. What the other checks need to know of the log comes out as ``LogFacts``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from orihon.store.call_ids import CallIds
from orihon.store.contract import RecordStore
from orihon.store.reader import Record
from orihon.store.record_codec import matches_digest, restored_body
from orihon.tasks.verify.findings import Finding, Report
from orihon.tasks.verify.streams import made_of, records_of
from orihon.values.message.message import Message
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.view import SYSTEM_ROLES


@dataclass(frozen=True, slots=True)
class Mark:
    """The log up to and including some message."""

    tokens: int  # of all of it
    open_calls: bool  # do tool calls wait for a result there?


@dataclass(slots=True)
class LogFacts:
    """What was learnt on the way through the log."""

    count: int = 0
    whole: bool = True  # every record could be read: only then can anything be derived from it
    tokens: int = 0
    head: int = 0  # how many messages the system prompt has
    epoch: int = 0
    open_calls: list[str] = field(default_factory=list)
    calls: CallIds = field(default_factory=CallIds)
    marks: dict[int, Mark] = field(default_factory=lambda: {0: Mark(0, False)})


def check_log(records: RecordStore, boundaries: Collection[int], report: Report) -> LogFacts:
    """Look at every message; ``boundaries`` are the numbers that marks are wanted for."""
    facts = LogFacts()
    pairs = _ToolPairs(facts.calls, report)
    for number, record in records_of(records, "messages", report):
        message = None if record is None else _check_message(record, records, facts, report)
        facts.count = number
        if message is None:
            facts.whole = False
            pairs.lose_track()
            continue
        if facts.head == number - 1 and message.role in SYSTEM_ROLES:
            facts.head = number
        pairs.take(number, message)
        if number in boundaries:
            facts.marks[number] = Mark(facts.tokens, bool(pairs.waiting))
    facts.open_calls = list(pairs.waiting or ())
    pairs.check_reused(records)
    return facts


def _check_message(record: Record, records: RecordStore, facts: LogFacts, report: Report) -> Message | None:
    where = f"messages {record['seq']}"
    body = made_of(partial(restored_body, record, records.get_blob), where, report)
    message = None if body is None else made_of(partial(Message.from_body, body), where, report)
    known = made_of(partial(_known, record), where, report)
    if body is None or message is None or known is None:
        return None
    tokens, epoch, digest = known
    if digest.count(":") != 2 or not matches_digest(body, digest):
        report(Finding("log", "digest", where))
    estimate = estimate_message(message)
    if tokens != estimate and "redacted" not in record:  # what was taken out is still counted
        report(Finding("log", "tokens", where, fields={"stored": tokens, "derived": estimate}))
    if epoch < facts.epoch:
        report(Finding("log", "epoch", where, fields={"epoch": epoch, "before": facts.epoch}))
    facts.epoch = max(facts.epoch, epoch)
    facts.tokens += tokens
    return message


def _known(record: Mapping[str, Any]) -> tuple[int, int, str]:
    """What the log itself knows about a message."""
    tokens, epoch, digest, timestamp = (record[name] for name in ("tokens", "epoch", "digest", "timestamp"))
    if type(tokens) is not int or type(epoch) is not int or type(digest) is not str or type(timestamp) is not str:
        raise TypeError("tokens, epoch, digest, timestamp")
    return tokens, epoch, digest


class _ToolPairs:
    """Follows the tool calls through the log: every result after its call, every call answered before going on."""

    def __init__(self, seen: CallIds, report: Report) -> None:
        self.waiting: dict[str, None] | None = {}  # None: not known, after a record that could not be read
        self._seen = seen
        self._doubtful: set[str] = set()
        self._report = report

    def lose_track(self) -> None:
        self.waiting = None

    def take(self, number: int, message: Message) -> None:
        where = f"messages {number}"
        if message.role == "tool":
            call = message.answers or ""
            if self.waiting is not None and call not in self.waiting:
                self._report(Finding("log", "orphan", where, fields={"call": call}))
            elif self.waiting is not None:
                del self.waiting[call]
            return
        if self.waiting:
            self._report(Finding("log", "unanswered", where, fields={"calls": ", ".join(self.waiting)}))
        self.waiting = dict.fromkeys(message.calls)
        for call in message.calls:
            if self._seen.perhaps_has(call):
                self._doubtful.add(call)
            self._seen.add(call)

    def check_reused(self, records: RecordStore) -> None:
        """The filter only doubts: look once more through the log for the ids that it is not sure about."""
        if not self._doubtful:
            return
        first: dict[str, int] = {}
        for number, record in records_of(records, "messages", _silence):
            for call in _call_ids(record):
                if call in self._doubtful and first.setdefault(call, number) != number:
                    fields = {"call": call, "first": first[call]}
                    self._report(Finding("log", "reused", f"messages {number}", fields=fields))


def _call_ids(record: Record | None) -> Iterator[str]:
    calls = None if record is None else record.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(call.get("id"), str):
            yield call["id"]


def _silence(_: Finding) -> None:
    """For a second look at what has been reported before."""
