"""One thread of another agent on its way into one task.

Promises that a second import adds only what is new, and that one which was killed anywhere is completed by the next:
the task's own streams say which steps were taken, so nothing is written twice. The task is completed from the
beginning, so no worker ever takes it; while it is written, this process holds its lease. Refuses a thread whose past is
not what was imported before.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orihon.errors import IllegalFold, InvalidInput
from orihon.importers.ownership import (
    NAME,
    NOT_FOLDED,
    TRIGGER,
    Break,
    ImportTarget,
    Known,
    OwnedTask,
    Past,
    ThreadUsage,
    counted,
    is_described,
    known_of,
)
from orihon.importers.registry import PlanItem, Problem, Thread, ToolItem, TranscriptItem
from orihon.importers.report import ImportedTask
from orihon.importers.tool_pairs import FoldStep, LogStep, Mended, SaidStep, ToolPairing
from orihon.store.contract import Stream
from orihon.store.folding import Folding
from orihon.store.record_codec import Said
from orihon.system.clock import as_utc, utc_now
from orihon.tasks.usage_sums import UsageSums
from orihon.texts import text
from orihon.values.tokens.tokens import estimate
from orihon.values.view import PlannedFold, foldable_runs

#: So many bytes, or messages, are written at once.
_BATCH_BYTES = 2 << 20
_BATCH_MESSAGES = 1000
#: A file that somebody wrote to within this time may still be growing: its open calls are left open.
LIVE_SECONDS = 3600.0
#: What stays of a record that cannot be kept.
_LEFT_OUT: dict[str, dict[str, Any]] = {
    "tools": {"arguments": {}, "result": None, "error": None},
    "planning": {"plan_content": None},
}


@dataclass(frozen=True, slots=True)
class ThreadSource:
    """Where a thread is read from."""

    format: str
    path: Path
    modified: float  # when the file was changed last, in seconds since 1970
    size: int = 0  # in bytes

    @property
    def is_live(self) -> bool:
        return time.time() - self.modified < LIVE_SECONDS

    @property
    def moment(self) -> str:
        return datetime.fromtimestamp(self.modified, UTC).isoformat(timespec="microseconds")


class TaskWriter:
    """A thread while it is read."""

    def __init__(self, place: ImportTarget, source: ThreadSource, thread: Thread, uuid: str) -> None:
        self.thread = thread
        self.uuid = uuid
        self.problems: list[Problem] = []
        self.is_growing = False  # at its end calls are open whose results may still come
        self._place = place
        self._source = source
        self._known = known_of(place.base, uuid)
        self._expected = self._known.counts
        self._past = Past(place.base, uuid, self._known, place.redactor)
        self._talk = ToolPairing()
        self._breaks = list(self._known.breaks)
        self._items = 0
        self._last: TranscriptItem | None = None
        self._seen: Counter[str] = Counter()  # steps by kind
        self._new: Counter[str] = Counter()
        self._figures = ThreadUsage()
        # Of a task that is new the rows are known when it is written; otherwise the log has to be read again.
        self._used = UsageSums(uuid) if self._known.messages == 0 else None
        self._said: list[Said] = []
        self._size = 0
        self._tools: list[dict[str, Any]] = []
        self._plans: list[dict[str, Any]] = []
        self._task: OwnedTask | None = None
        self._moment = _time(thread.created_at) or ""
        self._began = self._moment

    @property
    def has_changed(self) -> bool:
        """Is the past of the thread another one than was imported?"""
        return self._past.has_changed

    @property
    def mended(self) -> Mended:
        """What was done to make the thread legal."""
        return self._talk.mended

    def meet(self, thread: Thread) -> None:
        """The thread is known better now."""
        self.thread = replace(thread, created_at=thread.created_at or self.thread.created_at)

    def take(self, item: TranscriptItem, line: int) -> None:
        """The next item of the thread."""
        if self._known.is_away or self.has_changed:
            return
        self._steps(self._talk.take(item), line)
        self._last = item
        self._items += 1
        while self._breaks and self._breaks[0].items <= self._items:
            self._steps(self._talk.end(close=self._breaks.pop(0).closed), line)

    def finish(self) -> ImportedTask | None:
        """There is no more: everything is stored now. Gives the task if it is new, or has grown."""
        if self._known.is_away:
            self.problems.append(Problem("away", fields={"uuid": self.uuid}))
            return None
        breaks = self._known.breaks
        self.is_growing = self._source.is_live and self._talk.awaits_results
        if not self._talk.is_settled and not self.has_changed and not self._is_at_work():
            ending = Break(self._items, not self._source.is_live)
            breaks = (*breaks, ending)
            self._steps(self._talk.end(close=ending.closed), 0)
        self._past.settle(self._seen["messages"])
        has_news = any(self._new.values())
        if self.has_changed or not (has_news or self._lacks_statistics()):
            return None
        if not self._place.dry_run:
            self._store(Known(breaks=breaks, position=self._seen["messages"], chain=self._past.chain))
        return self._result() if has_news else None

    def _is_at_work(self) -> bool:
        """Do calls run just now, by the times in the thread itself? Their answer is taken when it is whole.

        Cut here, it would be two answers, and what was said meanwhile would stand for missing results. The time of the
        file alone does not tell: a copy is as young as that.
        """
        told = None if self._last is None else _time(self._last.timestamp)
        oldest = datetime.fromtimestamp(time.time() - LIVE_SECONDS, UTC).isoformat(timespec="microseconds")
        return self.is_growing and told is not None and told >= oldest

    def _lacks_statistics(self) -> bool:
        """Was an import killed between the last message and the figures, or has the thread a title only now?"""
        row, count = self._known.row, self._seen["messages"]
        return row is not None and count == self._known.messages and not is_described(row, self.thread, count)

    def rest(self) -> None:
        """Others are being read: store what there is, and let go of the task for a while."""
        if self.is_active:
            self._flush()
        if self._task is not None:
            self._expected = counted(self._task.store, self._task.row).counts
        self.close()

    @property
    def is_active(self) -> bool:
        """Does it hold anything that is worth letting go of?"""
        return bool(self._task or self._said or self._tools or self._plans)

    def close(self) -> None:
        """Let go of the task."""
        if self._task is not None:
            self._task.close()
            self._task = None

    # ---- steps -------------------------------------------------------------------------------------------------

    def _steps(self, steps: Sequence[LogStep | Problem], line: int) -> None:
        for step in steps:
            if isinstance(step, SaidStep):
                self._take_message(step)
            elif isinstance(step, ToolItem):
                if self._is_new("tools", self._known.tools):
                    self._tools.append(self._tool_record(step))
            elif isinstance(step, PlanItem):
                if self._is_new("plans", self._known.plans):
                    moment = self._time(step.timestamp)
                    plan = {"plan_type": step.plan_type, "plan_content": step.content, "created_at": moment}
                    self._plans.append(plan)
            elif isinstance(step, FoldStep):
                self._take_fold(step, line)
            else:
                self.problems.append(replace(step, line=line))

    def _take_message(self, step: SaidStep) -> None:
        is_new = self._is_new("messages", self._known.messages)
        encoded = self._past.see(step, self._seen["messages"])
        moment = self._time(step.timestamp)
        if step.call is not None:
            self._figures.add(step.call)
        if not is_new or self.has_changed:
            return
        self._said.append(Said(step.message, moment, step.call, encoded))
        self._size += len(encoded)
        if self._size >= _BATCH_BYTES or len(self._said) >= _BATCH_MESSAGES:
            self._flush()

    def _take_fold(self, step: FoldStep, line: int) -> None:
        if not self._is_new("folds", self._known.folds) or self.has_changed:
            return
        if self._place.dry_run:
            return
        self._flush()
        task = self._owned()
        view = task.store.view()
        end = self._seen["messages"] - step.kept
        older = end - step.covers if step.covers is not None else 0
        hands_off = [(1, older)] if older >= 1 else []
        runs = foldable_runs(view, view.index_of(end) + 1, hands_off) if end >= 1 else []
        try:
            if not runs:
                raise IllegalFold("nothing", entries=len(view.entries), keep=step.kept)
            plan = PlannedFold(*runs[-1], step.text, reason=TRIGGER, trust="tool")  # nobody here has made it
            Folding(task.store).compress(
                [plan],
                trigger=TRIGGER,
                strategy=TRIGGER,
                made_by=self._source.format,
                created_at=self._time(step.timestamp),
            )
            if self._used is not None:
                self._used.view_changed(task.store.tail.view_tokens)
        except IllegalFold as error:
            task.store.add("summaries", _unfolded(step, self._source.format, self._time(step.timestamp)))
            self.problems.append(Problem("not_folded", line, {"detail": error.cause}))

    def _is_new(self, kind: str, known: int) -> bool:
        self._seen[kind] += 1
        is_new = self._seen[kind] > known
        self._new[kind] += is_new
        return is_new

    def _tool_record(self, item: ToolItem) -> dict[str, Any]:
        record = {
            "tool_name": item.tool_name,
            "arguments": {} if item.arguments is None else item.arguments,
            "result": item.result,
            "status": item.status or ("success" if item.error is None else "error"),
            "error": item.error,
            "duration_ms": item.duration_ms,
            "timestamp": self._time(item.timestamp),
        }
        return record if item.call_id is None else {**record, "call_id": item.call_id}

    def _time(self, given: str | None) -> str:
        """When it was: as it says, or not before what came before it."""
        self._moment = _time(given) or self._moment or self._source.moment
        self._began = self._began or self._moment
        return self._moment

    # ---- storing -----------------------------------------------------------------------------------------------

    def _owned(self) -> OwnedTask:
        if self._task is None:
            path, form = self._source.path, self._source.format
            self._task = self._place.own(self.uuid, self.thread, path, form, self._times())
            self._task.refuse_other(self._expected)
        return self._task

    def _times(self) -> tuple[str, str]:
        """From when to when, so far. A clock that went wrong puts no task into the future: it would never be old."""
        now, changed = utc_now(), self._source.moment
        began = min(self._began or changed, now)
        return began, max(began, min(self._moment or changed, now))

    def _flush(self) -> None:
        said, tools, plans = self._said, self._tools, self._plans
        self._said, self._tools, self._plans, self._size = [], [], [], 0
        if self._place.dry_run:
            return
        store = self._owned().store
        if said:
            try:
                store.append(said, stored=self._count)
            except InvalidInput:  # one of them: the others shall not suffer for it
                self._one_by_one(said)
        self._add("tools", tools)
        self._add("planning", plans)

    def _one_by_one(self, said: list[Said]) -> None:
        store = self._owned().store
        for one in said:
            try:
                store.append([one], stored=self._count)
            except InvalidInput as error:
                self.problems.append(Problem("message", fields={"detail": error.cause}))
                # Its number stays taken, or the next import would count wrongly.
                notice = text("importing.left_out", lang="en", detail=error.cause)
                left = replace(one.message, content=notice, parts=None, extra={})
                store.append([replace(one, message=left, encoded=None)], stored=self._count)

    def _count(self, said: Said, tokens: int) -> None:
        if self._used is not None and said.timestamp is not None:
            self._used.said(said.timestamp, tokens, said.call)

    def _add(self, stream: Stream, records: list[dict[str, Any]]) -> None:
        store = self._owned().store
        try:
            store.add_many(stream, records)
        except InvalidInput:
            for record in records:
                try:
                    store.add(stream, record)
                except InvalidInput as error:
                    self.problems.append(Problem("record", fields={"stream": stream, "detail": error.cause}))
                    store.add(stream, {**record, **_LEFT_OUT[stream]})

    def _store(self, known: Known) -> None:
        with ExitStack() as at_end:
            at_end.callback(self.close)
            # Before the last steps: they may depend on the end that is remembered here.
            self._owned().store.records.keep_file(NAME, known.document())
            self._flush()
            self._owned().finish(self.thread, self._figures, self._times()[1], self._used)

    def _result(self) -> ImportedTask:
        parent = self.thread.parent
        return ImportedTask(
            uuid=self.uuid,
            format=self._source.format,
            path=str(self._source.path),
            title=self.thread.title,
            is_new=self._known.row is None,
            parent=None if parent is None else self._place.uuid_of(self._source.format, parent),
            messages=self._new["messages"],
            folds=self._new["folds"],
            tool_calls=self._new["tools"],
            plans=self._new["plans"],
        )


def _time(given: str | None) -> str | None:
    if not given:
        return None
    try:
        return as_utc(given)
    except (ValueError, OverflowError, TypeError):
        return None


def _unfolded(step: FoldStep, made_by: str, moment: str) -> dict[str, Any]:
    size = estimate(step.text)
    return {
        "start_seq": None,
        "end_seq": None,
        "summary": step.text,
        "original_tokens": size,
        "summary_tokens": size,
        "ratio": 1.0,
        "compressed_message_count": 0,
        "tokens_saved": 0,
        "created_at": moment,
        "reason": NOT_FOLDED,
        "by": made_by,
        "made_by": made_by,
        "trust": "tool",
    }
