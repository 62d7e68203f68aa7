"""Folds and compressions: every change of the view is made again from the first record on.

Texts are not kept: a fold is remembered by its run and its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from orihon.errors import IllegalFold, InvalidInput, NothingToUndo, StateError
from orihon.store.reader import Record
from orihon.store.record_codec import unpack_record
from orihon.store.steps import compression_at
from orihon.store.task_store import TaskStore
from orihon.tasks.verify.findings import Finding, Report
from orihon.tasks.verify.log import LogFacts
from orihon.tasks.verify.streams import made_of, records_of
from orihon.values import view as algebra
from orihon.values.records import REWIND, SUMMARY_PREFIX, Compression, Fold, Pin
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.tokens.tokens import estimate
from orihon.values.view import Change, Entry, View

_Value = TypeVar("_Value")


def read_folds(store: TaskStore, report: Report) -> dict[int, Fold]:
    """Every fold there ever was, without its text. Summaries that were added by hand fold nothing."""
    folds: dict[int, Fold] = {}
    for number, record in records_of(store.records, "summaries", report):
        where = f"summaries {number}"
        if record is None:
            continue
        whole = made_of(partial(unpack_record, record, store.records.get_blob), where, report)
        if whole is None or whole.get("start_seq") is None or "made_by" not in whole:
            continue
        fold = made_of(partial(_fold, whole), where, report)
        tokens = None if fold is None else made_of(partial(_tokens, fold, store), where, report)
        if fold is None or tokens is None:
            continue
        if tokens != fold.tokens and "redacted" not in whole:  # what was taken out is still counted
            report(Finding("folds", "tokens", where, fields={"stored": fold.tokens, "derived": tokens}))
        folds[number] = replace(fold, text="")
    return folds


def _fold(record: Record) -> Fold:
    fold = Fold.from_record(record)
    numbers = (fold.start_seq, fold.end_seq, fold.tokens, fold.original_tokens, *fold.replaces)
    return _checked(fold, numbers)


def _tokens(fold: Fold, store: TaskStore) -> int:
    if fold.form == "summary":
        return estimate(SUMMARY_PREFIX + fold.text)
    message = store.message(fold.start_seq).message
    return estimate_message(replace(message, content=fold.text, parts=None))


def boundaries(folds: Mapping[int, Fold]) -> set[int]:
    """The messages where a fold begins (the one before) or ends."""
    return {number for fold in folds.values() for number in (fold.start_seq - 1, fold.end_seq)}


@dataclass(slots=True)
class FoldFacts:
    """What the compressions add up to, made again from the first one on."""

    whole: bool = True  # every record could be read and explained
    visible: tuple[Fold, ...] = ()
    pins: tuple[Pin, ...] = ()
    records: list[Compression] = field(default_factory=list)  # without the state, which undo and redo do not need


def check_compressions(store: TaskStore, folds: Mapping[int, Fold], log: LogFacts, report: Report) -> FoldFacts:
    """Make every recorded change again and compare."""
    replay = _Replay(store, folds, log)
    for number, record in records_of(store.records, "compressions", report):
        where = f"compressions {number}"
        act = None if record is None else made_of(partial(_compression, record, store), where, report)
        if act is None:
            replay.facts.whole = False  # what stood there before the next one is not known any more
            break
        for finding in replay.check(act):
            report(replace(finding, where=where))
        if not replay.take(act):
            break
    return replay.facts


def saved(fold: Fold, log: LogFacts) -> int:
    """How many tokens of the log a fold takes out of the view."""
    return log.marks[fold.end_seq].tokens - log.marks[fold.start_seq - 1].tokens - fold.tokens


class _Replay:
    """The compressions one after the other."""

    def __init__(self, store: TaskStore, folds: Mapping[int, Fold], log: LogFacts) -> None:
        self.facts = FoldFacts()
        self._store = store
        self._folds = folds
        self._log = log

    def take(self, act: Compression) -> bool:
        """Go on from what the record says, right or wrong: one error is reported once. ``False``: impossible."""
        facts = self.facts
        visible = tuple(self._folds[number] for number in act.visible if number in self._folds)
        inside = all(1 <= fold.start_seq <= fold.end_seq <= self._log.count for fold in visible)
        facts.whole = inside and len(visible) == len(act.visible) and not _overlap(visible)
        if facts.whole:
            facts.visible, facts.pins = visible, act.pins
            facts.records.append(replace(act, visible=(), pins=()))
        return facts.whole

    def check(self, act: Compression) -> Iterator[Finding]:
        """What is wrong with the next record."""
        unknown = sorted({*act.folds, *act.removed, *act.visible} - self._folds.keys())
        if unknown:
            yield Finding("folds", "unknown", "", fields={"folds": _listed(unknown)})
            return
        try:
            change = self._change(act)
            visible = algebra.apply(self.facts.visible, change, self._log.count)
        except InvalidInput as error:
            yield Finding("folds", "illegal", "", fields={"kind": act.kind, "why": error.cause})
            return
        except StateError as error:
            yield Finding("folds", "parent", "", fields={"kind": act.kind, "why": error.cause})
            return
        derived = _ids(visible)
        if (set(act.folds), set(act.removed)) != (set(_ids(change.added)), set(_ids(change.removed))):
            yield Finding("folds", "change", "", fields={"kind": act.kind})
        elif act.visible != derived:
            yield Finding("folds", "visible", "", fields={"stored": _listed(act.visible), "derived": _listed(derived)})
        else:
            yield from self._check_pins(act, visible)
            for fold in change.added:
                yield from self._check_place(fold)
            yield from self._check_tokens(act, change)

    # ---- what an act of each kind makes of what stood before -------------------------------------------------------

    def _change(self, act: Compression) -> Change:
        added = tuple(self._folds[number] for number in act.folds)
        removed = tuple(self._folds[number] for number in act.removed)
        if act.strategy == REWIND and added:
            return self._rewound(act, added)
        if act.kind == "compress":
            return Change(added, tuple(self._folds[number] for fold in added for number in self._swallowed(fold)))
        if act.kind == "pin":
            return self._revealed(act)
        if act.kind in ("undo", "redo"):
            return self._stepped(act)
        if len(removed) != 1 or removed[0] not in self.facts.visible:
            raise NothingToUndo("no_fold", fold=_listed(act.removed), visible=_listed(_ids(self.facts.visible)))
        old = removed[0]
        if act.kind == "unfold":
            return algebra.unfold(old, self._folds)
        return Change(tuple(fold for fold in added[:1] if _is_edit(fold, old)), removed)

    def _swallowed(self, fold: Fold) -> tuple[int, ...]:
        inside = _ids(
            old for old in self.facts.visible if fold.start_seq <= old.start_seq and old.end_seq <= fold.end_seq
        )
        if inside != fold.replaces:
            raise IllegalFold("splits_fold", start=fold.start_seq, end=fold.end_seq, fold=_listed(fold.replaces))
        return inside

    def _rewound(self, act: Compression, added: tuple[Fold, ...]) -> Change:
        """The folds of the step before the notice come back; the notice hides all that the log had after it."""
        notice = max(added, key=lambda fold: fold.id)
        self._swallowed(notice)
        step = compression_at(self._store, notice.start_seq - 1, act.id - 1)
        then = [self._folds[fold.id] for fold in self._store.state(step)[0] if fold.id in self._folds]
        return algebra.rewind(self.facts.visible, then, notice)

    def _stepped(self, act: Compression) -> Change:
        done, undone = algebra.history(self.facts.records)
        possible = done if act.kind == "undo" else undone
        if act.parent not in possible:
            raise NothingToUndo(f"not_{act.kind}able", compression=act.parent, possible=_listed(possible))
        step = algebra.undo if act.kind == "undo" else algebra.redo
        return step(self.facts.records[act.parent - 1], self.facts.visible, self._folds)

    def _revealed(self, act: Compression) -> Change:
        """Pinning opens what hides the message or line; unpinning changes no folds."""
        change = Change()
        for pin in set(act.pins) - set(self.facts.pins):
            if self._hiding(pin, self.facts.visible) is not None:
                entries = (Entry(fold.start_seq, fold.end_seq, "", 0, fold) for fold in self.facts.visible)
                change = algebra.reveal(View(tuple(entries)), pin.seq, self._folds)
        return change

    def _hiding(self, pin: Pin, visible: tuple[Fold, ...]) -> Fold | None:
        """The fold behind which a pinned message or line is out of sight."""
        fold = algebra.covering(visible, pin.seq)
        if fold is None or (pin.line and pin.line in self._store.folds([fold.id])[0].text):
            return None
        return fold

    # ---- what must hold of every fold ------------------------------------------------------------------------------

    def _check_pins(self, act: Compression, visible: tuple[Fold, ...]) -> Iterator[Finding]:
        changed = set(act.pins) ^ set(self.facts.pins)
        if len(changed) > (1 if act.kind == "pin" else 0):
            yield Finding("folds", "pins", "", fields={"seqs": _listed(sorted(pin.seq for pin in changed))})
        for pin in act.pins:
            fold = self._hiding(pin, visible)
            if fold is not None:
                yield Finding("folds", "hides_pin", "", fields={"fold": fold.id, "seq": pin.seq})

    def _check_place(self, fold: Fold) -> Iterator[Finding]:
        run = {"fold": fold.id, "start": fold.start_seq, "end": fold.end_seq}
        if fold.start_seq <= self._log.head:
            yield Finding("folds", "head", "", fields=run)
        edges = (self._log.marks.get(fold.start_seq - 1), self._log.marks.get(fold.end_seq))
        if fold.form == "summary" and any(edge is not None and edge.open_calls for edge in edges):
            yield Finding("folds", "pair", "", fields=run)

    def _check_tokens(self, act: Compression, change: Change) -> Iterator[Finding]:
        if not self._log.whole:
            return
        freed = sum(saved(fold, self._log) for fold in change.added)
        freed -= sum(saved(fold, self._log) for fold in change.removed)
        if act.before_tokens - act.after_tokens != freed:
            fields = {"stored": act.before_tokens - act.after_tokens, "derived": freed}
            yield Finding("folds", "freed", "", fields=fields)
        for fold in change.added if act.kind == "compress" else ():
            freed = saved(fold, self._log) - sum(saved(self._folds[number], self._log) for number in fold.replaces)
            if fold.original_tokens - fold.tokens != freed:
                fields = {"stored": fold.original_tokens - fold.tokens, "derived": freed}
                yield Finding("folds", "freed", "", fields=fields)


def _overlap(folds: Iterable[Fold]) -> bool:
    placed = sorted(folds, key=lambda fold: fold.start_seq)
    return any(after.start_seq <= before.end_seq for before, after in pairwise(placed))


def _is_edit(new: Fold, old: Fold) -> bool:
    """Another text for the same run, opening to the same folds."""
    same = (new.start_seq, new.end_seq, new.replaces) == (old.start_seq, old.end_seq, old.replaces)
    return same and new.id > old.id


def _compression(record: Record, store: TaskStore) -> Compression:
    act = Compression.from_record(unpack_record(record, store.records.get_blob))
    seqs = tuple(pin.seq for pin in act.pins)
    return _checked(act, (act.before_tokens, act.after_tokens, *act.folds, *act.removed, *act.visible, *seqs))


def _checked(value: _Value, numbers: tuple[object, ...]) -> _Value:
    if not all(type(number) is int for number in numbers):
        raise TypeError(f"numbers: {numbers}")
    return value


def _ids(folds: Iterable[Fold]) -> tuple[int, ...]:
    return tuple(fold.id for fold in folds)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "-"
