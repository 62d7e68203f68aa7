"""What the calls of models use: written down as they are made, and read again from a task's log.

The log is the truth: an answer's record has the call that it came from, a compression's record the calls that wrote its
texts, and a file of the task (``calls.json``) those of its final summary. The catalogue's rows, by day and model, are
derived from there. Both ways of filling them stand here, so that they come to the same: ``UsageBook`` while a task
runs, ``usage_rows`` afterwards (the doctor, importers). Where a provider has reported no tokens, our estimates of
request and answer count. What folding saved is, for each call, the difference between the log and the view that was
sent, by the same estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orihon.catalogue import Catalogue, UsageRow
from orihon.catalogue.usage import Purpose
from orihon.store.model_calls import MADE_AT, kept_calls
from orihon.store.reader import TaskReader
from orihon.system.clock import utc_now
from orihon.system.counters import MODEL_CALLS, MODEL_TOKENS, SAVED_TOKENS, Counts
from orihon.tasks.usage_sums import UsageSums
from orihon.values.records import ModelCall, Usage

_DAY = len("2026-01-01")


class UsageBook:
    """The calls of one running task."""

    def __init__(self, catalogue: Catalogue, uuid: str, counts: Counts) -> None:
        self._catalogue = catalogue
        self._uuid = uuid
        self._counts = counts
        self._summaries: list[ModelCall] = []

    def answered(self, call: ModelCall, *, sent: int, said: int, saved: int, epoch: int) -> None:
        """A call of the conversation; ``sent`` and ``said``: our estimates of the view and of the answer."""
        self._add(call, call.usage or Usage(sent, 0, said), "answer", saved, epoch)

    def summarised(self, call: ModelCall, *, epoch: int) -> None:
        """A call beside the conversation; the next compression's record keeps it."""
        self._summaries.append(call)
        self._add(call, call.usage or Usage(), "summary", 0, epoch)

    def take_summaries(self) -> tuple[ModelCall, ...]:
        """The calls beside the conversation since the last time."""
        taken, self._summaries = tuple(self._summaries), []
        return taken

    def _add(self, call: ModelCall, used: Usage, purpose: Purpose, saved: int, epoch: int) -> None:
        self._catalogue.usage.add(
            self._uuid,
            call.model,
            utc_now()[:_DAY],
            input=used.input,
            cached=used.cached,
            output=used.output,
            saved=saved,
            cost=call.cost,
            purpose=purpose,
            epoch=epoch,
        )
        self._counts.add(MODEL_CALLS, model=call.model, purpose=purpose)
        for kind in ("input", "cached", "output"):
            self._counts.add(MODEL_TOKENS, getattr(used, kind), model=call.model, kind=kind)
        self._counts.add(SAVED_TOKENS, saved)


def record_usage_of_log(catalogue: Catalogue, store: TaskReader, uuid: str, *, after: int = 0) -> list[UsageRow]:
    """Write down in the catalogue what a task's log says that its calls have used; returns the rows.

    For whoever brings in a whole log, or more of one (importers call it when the messages of a thread are stored), and
    for the doctor. It replaces the task's rows, so it may be called again. ``after``: messages up to this one are
    copies, and their calls another task's.
    """
    rows = usage_rows(store, uuid, after=after)
    catalogue.usage.replace(uuid, rows)
    return rows


def usage_rows(store: TaskReader, uuid: str, *, after: int = 0) -> list[UsageRow]:
    """What the records of a task say, by day, model and purpose. Holds sums and never messages."""
    sums = UsageSums(uuid)
    changes = list(_changes(store))
    for change in changes:
        if change.place is None or change.place > after:
            for call in change.calls:
                sums.summarised(call, change.made_at)
    for kept in kept_calls(store):
        sums.summarised(ModelCall.from_record(kept), kept[MADE_AT])
    waiting = iter(changes)
    change_ahead = next(waiting, None)
    for record in store.read("messages"):
        while change_ahead is not None and change_ahead.is_before(record["seq"], record["timestamp"]):
            sums.view_changed(change_ahead.view_tokens)
            change_ahead = next(waiting, None)
        made = record.get("call") if record["seq"] > after else None
        sums.said(record["timestamp"], int(record["tokens"]), None if made is None else ModelCall.from_record(made))
    return sums.rows()


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the view, and how long the log was then (not known of old records: the clock has to tell)."""

    place: int | None
    made_at: str
    view_tokens: int
    calls: tuple[ModelCall, ...]

    def is_before(self, seq: int, timestamp: str) -> bool:
        """Was the view changed before this message came?"""
        return self.made_at <= timestamp if self.place is None else self.place < seq


def _changes(store: TaskReader) -> Iterator[_Change]:
    hidden = {record["id"]: record["end_seq"] - record["start_seq"] for record in store.read("summaries")}
    for record in store.read("compressions"):
        entries = record.get("after_entries")
        place = None if entries is None else entries + sum(hidden.get(fold, 0) for fold in record["visible"])
        calls = tuple(ModelCall.from_record(call) for call in record.get("calls", ()))
        yield _Change(place, str(record.get("created_at", "")), int(record.get("after_tokens", 0)), calls)
