"""What people do to a task's view from a command line or a page: change it, look at a compression first, make that one.

Owns what lies between a person and ``changing_task``: a change and its outcome, and a ``Preview`` that is applied as it
was shown. No lease is held while somebody reads a preview: when what it folds has been changed meanwhile, it is
refused. Messages that came meanwhile do no harm, for a preview folds what is older.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orihon.compression.compressor import ContextCompressor
from orihon.compression.documents.sections import CompressionLevel
from orihon.compression.pages import NothingToFold
from orihon.compression.planner import Draft
from orihon.errors import IllegalFold, InvalidInput, TaskBusy
from orihon.store import TaskMessages
from orihon.store.folding import Folding
from orihon.store.side_stores import PlanningHistoryStore
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.door import ask_owner
from orihon.tasks.editing import changing_task, check_changeable
from orihon.tasks.notes import NOTE, say_notes
from orihon.tasks.reader import read_anew
from orihon.tasks.view_reader import reading_view
from orihon.values.records import SUMMARY_PREFIX, Compression
from orihon.values.tokens.tokens import estimate
from orihon.values.view import PlannedFold, View

LONGEST_NOTE = 20_000
#: What an owner is asked for besides ``ACTS``: a note.
REMEMBER = "remember"
LEVELS = {level.name.lower(): level for level in CompressionLevel}
#: What a person does to a view by hand, by the name of the command and of the endpoint; with the values that it takes.
ACTS: Mapping[str, Callable[..., Compression]] = {
    "undo": Folding.undo,  # a compression, or none for the last one
    "redo": Folding.redo,
    "unfold": Folding.unfold,  # a fold
    "edit": Folding.edit,  # a fold, its new text
    "pin": Folding.pin,  # a message, a line of it or ""
    "unpin": Folding.unpin,
    "rewind": Folding.rewind,  # the last message that stays, a notice
}


@dataclass(frozen=True, slots=True)
class ChangedView(AsJson):
    """A change that was made, and how the view stands after it."""

    json_fields = "compression=record usage entries"

    record: Compression
    usage: float  # 0.7 is 70 % of the budget
    entries: int


@dataclass(frozen=True, slots=True)
class Preview:
    """A compression that could be made (``draft``), or why there is nothing to fold."""

    uuid: str
    draft: Draft | None
    nothing: NothingToFold | None
    level: str
    sizes: tuple[tuple[int, int], ...] = ()  # of each fold: the tokens that it replaces, and its own
    replaces: tuple[tuple[int, ...], ...] = ()  # of each fold: the folds that stood in its run when it was planned

    def with_texts(self, texts: Mapping[int, str]) -> Preview:
        """The same with other texts for the folds that begin at these numbers."""
        planned = self.draft
        for start_seq, text in texts.items():
            if planned is None:
                raise InvalidInput("no_planned_fold", start=start_seq, known="-")
            planned = planned.with_text(start_seq, text)
        return replace(self, draft=planned)


def change_view(base: OpenBase, uuid: str, act: str, *values: int | str | None, made_by: str) -> ChangedView:
    """Make one change: one of ``ACTS`` with its values."""
    try:
        with changing_task(base, uuid) as task:
            return make_change(task.messages, act, *values, made_by=made_by)
    except TaskBusy:
        told = _by_owner(base, uuid, act, values, made_by)
        if told is None:
            raise
        return ChangedView(Compression.from_record(told["compression"]), float(told["usage"]), int(told["entries"]))


def make_change(messages: TaskMessages, act: str, *values: int | str | None, made_by: str) -> ChangedView:
    """The same by who owns the task."""
    return _outcome(ACTS[act](messages.folding, *values, made_by=made_by), messages)


def _by_owner(
    base: OpenBase, uuid: str, act: str, values: Sequence[int | str | None], made_by: str
) -> dict[str, Any] | None:
    row = base.row(uuid)
    asked = {"act": act, "values": list(values), "made_by": made_by}
    return None if row is None else ask_owner(base.path, row, asked)


def remember(base: OpenBase, uuid: str, note: str, *, made_by: str) -> int:
    """Keep a note in sight of the model; returns its number among the plans.

    It is a plan at once, and a pinned message as soon as no call waits for its result: the next request has it, and no
    fold takes it away. The task's overview and handoff tell it, search finds it, the next task inherits it.
    """
    said = note.strip()
    if not said or len(said) > LONGEST_NOTE:
        raise InvalidInput("note", most=LONGEST_NOTE)
    try:
        with changing_task(base, uuid) as task:
            number = keep_note(task.messages, said, made_by=made_by)
            say_notes(task.messages)
            return number
    except TaskBusy:
        told = _by_owner(base, uuid, REMEMBER, [said], made_by)
        if told is None:
            raise
        return int(told["note"])


def keep_note(messages: TaskMessages, note: str, *, made_by: str) -> int:
    """The plan of a note, by who owns the task."""
    kept = PlanningHistoryStore(messages.context_dir, task_store=messages.task_store)
    return kept.add_plan(NOTE, {"note": note, "by": made_by})


@read_anew
def preview_compression(
    base: OpenBase,
    uuid: str,
    *,
    strategy: str | None = None,
    level: str | None = None,
    target: float | None = None,
) -> Preview:
    """What a compression would do now, by the ladder or as the options say. Nothing changes."""
    wanted = None if level is None else level_named(level)
    with reading_view(base, uuid) as reading:
        messages = reading.message_store()
        planned = ContextCompressor(message_store=messages).preview(strategy=strategy, level=wanted, target=target)
        if isinstance(planned, NothingToFold):
            return Preview(uuid, None, planned, "")
        view = messages.view()
        sizes = tuple((_tokens_of(view, fold), _own_tokens(fold)) for fold in planned.plan.folds)
    named = level or "" if "sections" in planned.plan.strategy else ""
    return Preview(uuid, planned, None, named, sizes, _replaced(view, planned))


def apply_preview(base: OpenBase, preview: Preview, *, made_by: str) -> ChangedView:
    """Make the compression that was looked at; ``IllegalFold`` where what it folds has been changed since."""
    if preview.draft is None:
        raise IllegalFold("nothing_planned")
    with changing_task(base, preview.uuid) as task:
        if _replaced(task.messages.view(), preview.draft) != preview.replaces:
            raise IllegalFold("preview_old")
        compressor = ContextCompressor(message_store=task.messages, outbox=task.outbox, counts=task.counts)
        result = compressor.apply(preview.draft, level=preview.level, made_by=made_by)
        compressor.close()
        record = next(one for one in task.messages.compressions() if one.id == result.compression)
        return _outcome(record, task.messages)


@read_anew
def fold_text(base: OpenBase, uuid: str, fold: int) -> str:
    """The text of a fold that stands in the view, for somebody who wants to write another one."""
    check_changeable(base, uuid)
    with reading_view(base, uuid) as view:
        return view.fold(fold, visible=True).text


def level_named(name: str) -> CompressionLevel:
    """The level by that name."""
    if name not in LEVELS:
        raise InvalidInput("level", name=name, known=", ".join(LEVELS))
    return LEVELS[name]


def _outcome(record: Compression, messages: TaskMessages) -> ChangedView:
    usage = messages.gauge.usage(record.after_tokens)
    return ChangedView(record, usage, messages.task_store.tail.view_entries)


def _replaced(view: View, planned: Draft) -> tuple[tuple[int, ...], ...]:
    """For each planned fold, the folds that stand where it would."""
    folds, runs = view.folds, [(fold.start_seq, fold.end_seq) for fold in planned.plan.folds]
    return tuple(
        tuple(fold.id for fold in folds if start <= fold.end_seq and fold.start_seq <= end) for start, end in runs
    )


def _tokens_of(view: View, fold: PlannedFold) -> int:
    return sum(entry.tokens for entry in view.entries if fold.start_seq <= entry.start and entry.end <= fold.end_seq)


def _own_tokens(fold: PlannedFold) -> int:
    return estimate(fold.text if fold.form == "preview" else SUMMARY_PREFIX + fold.text)
