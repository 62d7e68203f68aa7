"""Every change of a view, recorded: compress, undo, redo, unfold, edit, pin, rewind.

Asks ``view.py`` what a change gives, appends the new texts and then one compression record (the moment from which
the change counts), and has the derived view made anew. Nothing is ever edited or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from orihon.errors import IllegalFold, NoSuchMessage, NothingToUndo, OrihonError
from orihon.store.steps import check_step, compression_at
from orihon.store.tail import Tail
from orihon.store.task_store import OK, TaskStore
from orihon.system.clock import utc_now
from orihon.texts import text
from orihon.values import view as algebra
from orihon.values.message.extra import expect
from orihon.values.records import REWIND, SUMMARY_PREFIX, Compression, CompressionKind, Fold, ModelCall, Pin
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.tokens.tokens import estimate
from orihon.values.view import Change, PlannedFold, View


class Folding:
    """The compressions of one task."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def records(self) -> list[Compression]:
        """Every change so far, oldest first."""
        return [Compression.from_record(record) for record in self._store.read("compressions")]

    def compress(
        self,
        plans: Sequence[PlannedFold],
        *,
        trigger: str = "manual",
        strategy: str = "manual",
        level: str = "",
        made_by: str = "",
        calls: Sequence[ModelCall] = (),
        created_at: str = "",
        seen: View | None = None,
    ) -> Compression:
        """Fold runs of the log; all of them or, when a rule forbids one, none. ``calls`` have written their texts.

        ``created_at`` is when somebody else has made them; without it, it is now. ``seen`` is the view that the plans
        were made for: it is read again only where it is not the current one any more.
        """
        for plan in plans:
            expect(plan.start_seq, int, "start_seq")
            expect(plan.end_seq, int, "end_seq")
            expect(plan.text, str, "text")

        def recorded(tail: Tail) -> Compression:
            is_current = seen is not None and (seen.compression, seen.last_seq) == (tail.compressions, tail.seq)
            view = seen if seen is not None and is_current else self._store.view()
            if not plans:
                raise IllegalFold("nothing", entries=len(view.entries), keep=len(view.entries))
            planned = [
                (plan, self._numbered(plan, number, made_by, created_at))
                for number, plan in enumerate(map(self._masked, plans), start=self._store.count("summaries") + 1)
            ]
            change = algebra.compress(view, planned)
            self._keep_texts(change)
            draft = Compression(id=0, kind="compress", trigger=trigger, strategy=strategy, level=level, made_by=made_by)
            draft = replace(draft, calls=tuple(calls), created_at=created_at)
            return self._record(draft, view, change, tail)

        return self._changed("compress", recorded)

    def unfold(self, fold_id: int, *, made_by: str = "") -> Compression:
        """Open one fold: what it replaced stands in the view again."""

        def recorded(tail: Tail) -> Compression:
            view = self._store.view()
            fold = self._visible(view, fold_id)
            change = algebra.unfold(fold, self._by_id(fold.replaces))
            algebra.check_still_legal(view, change)
            return self._record(Compression(id=0, kind="unfold", made_by=made_by), view, change, tail)

        return self._changed("unfold", recorded)

    def edit(self, fold_id: int, text: str, *, made_by: str = "") -> Compression:
        """Give a fold another text."""

        def recorded(tail: Tail) -> Compression:
            view = self._store.view()
            fold = self._visible(view, fold_id)
            plan = PlannedFold(fold.start_seq, fold.end_seq, text, fold.form, fold.reason, trust=fold.trust)
            plan = self._masked(plan)
            algebra.site(view, plan)
            new = self._numbered(plan, self._store.count("summaries") + 1, made_by)
            change = algebra.edit(fold, new)
            self._keep_texts(change)
            return self._record(Compression(id=0, kind="edit", made_by=made_by), view, change, tail)

        return self._changed("edit", recorded)

    def rewind(self, seq: int, notice: str = "", *, made_by: str = "") -> Compression:
        """Go back to a step: the view is what it was when ``seq`` was the last message, and a notice after it.

        What came later stays in the log, behind the notice; ``undo`` brings it back.
        """
        expect(seq, int, "seq")
        expect(notice, str, "notice")

        def recorded(tail: Tail) -> Compression:
            view = self._store.view()
            check_step(self._store, seq)
            if seq == view.last_seq:
                raise NothingToUndo("at_end", seq=seq)
            then, _ = self._store.state(compression_at(self._store, seq))
            algebra.check_still_legal(view, Change(then))
            later = [fold for fold in view.folds if fold.start_seq > seq]
            opened = self._store.view_with((*then, *later), view.pins)
            said = notice or text("folds.rewind", seq=seq, first=seq + 1, last=view.last_seq)
            plan = self._masked(PlannedFold(seq + 1, view.last_seq, said, reason=REWIND))
            numbered = self._numbered(plan, self._store.count("summaries") + 1, made_by)
            (fold,) = algebra.compress(opened, [(plan, numbered)]).added
            self._keep_texts(Change((fold,)))
            draft = Compression(id=0, kind="compress", strategy=REWIND, made_by=made_by)
            change = algebra.rewind(view.folds, then, fold)
            return self._record(draft, view, change, tail, after=algebra.folded(opened, [fold]))

        return self._changed("rewind", recorded)

    def fold_away(self, first: int, last: int, notice: str, *, made_by: str = "") -> None:
        """Take a run out of the view, a notice in its place; a fold that reaches across its edge is opened before."""
        for fold in self._store.state()[0]:
            if fold.start_seq < first <= fold.end_seq or fold.start_seq <= last < fold.end_seq:
                self.unfold(fold.id, made_by=made_by)
                self.fold_away(first, last, notice, made_by=made_by)  # others may have been inside of it
                return
        self.compress([PlannedFold(first, last, notice, reason=REWIND)], strategy=REWIND, made_by=made_by)

    def undo(self, compression_id: int | None = None, *, made_by: str = "") -> Compression:
        """Take back the last change, or a given one."""
        return self._step("undo", compression_id, made_by)

    def redo(self, compression_id: int | None = None, *, made_by: str = "") -> Compression:
        """Make the last undone change again, or a given one."""
        return self._step("redo", compression_id, made_by)

    def pin(self, seq: int, line: str = "", *, made_by: str = "") -> Compression:
        """Protect a message, or one line of it. A fold that hides it is opened first."""
        expect(seq, int, "seq")
        line = self._store.redactor.mask(expect(line, str, "line"))  # as it stands in the log

        def recorded(tail: Tail) -> Compression:
            view = self._store.view()
            if not 1 <= seq <= view.last_seq:
                raise NoSuchMessage("seq", seq=seq, last=view.last_seq)
            if line and line not in self._store.message(seq).message.text:
                raise NoSuchMessage("line", seq=seq)
            fold = algebra.covering(view.folds, seq)
            is_shown = fold is not None and line != "" and line in fold.text
            change = Change() if is_shown else algebra.reveal(view, seq, self._descendants(view, seq))
            pins = tuple(sorted({*view.pins, Pin(seq, line)}))
            return self._record(Compression(id=0, kind="pin", pins=pins, made_by=made_by), view, change, tail)

        return self._changed("pin", recorded)

    def unpin(self, seq: int, line: str = "", *, made_by: str = "") -> Compression:
        """Take the protection away."""
        line = self._store.redactor.mask(expect(line, str, "line"))

        def recorded(tail: Tail) -> Compression:
            view = self._store.view()
            if Pin(seq, line) not in view.pins:
                raise NothingToUndo("not_pinned", seq=seq)
            pins = tuple(pin for pin in view.pins if pin != Pin(seq, line))
            return self._record(Compression(id=0, kind="pin", pins=pins, made_by=made_by), view, Change(), tail)

        return self._changed("unpin", recorded)

    def _changed(self, action: str, recorded: Callable[[Tail], Compression]) -> Compression:
        """Make a change, and say how it ended."""
        try:
            made = self._store.change(recorded)
        except OrihonError as error:
            self._store.notify(action, f"{type(error).__name__}.{error.reason}")
            raise
        figures = {"before_tokens": made.before_tokens, "after_tokens": made.after_tokens, "folds": len(made.folds)}
        self._store.notify(action, OK, compression=made.id, trigger=made.trigger, strategy=made.strategy, **figures)
        return made

    # ---- steps -------------------------------------------------------------------------------------------------

    def _step(self, kind: CompressionKind, compression_id: int | None, made_by: str) -> Compression:

        def recorded(tail: Tail) -> Compression:
            records = self.records()
            done, undone = algebra.history(records)
            candidates = done if kind == "undo" else undone
            if not candidates:
                raise NothingToUndo(f"no_{kind}")
            if compression_id is not None and compression_id not in candidates:
                possible = ", ".join(map(str, candidates))
                raise NothingToUndo(f"not_{kind}able", compression=compression_id, possible=possible)
            view = self._store.view()
            numbers = candidates[::-1] if compression_id is None else [compression_id]
            number, change = self._first_step(kind, [records[number - 1] for number in numbers], view)
            return self._record(Compression(id=0, kind=kind, parent=number, made_by=made_by), view, change, tail)

        return self._changed(kind, recorded)

    def _first_step(self, kind: CompressionKind, records: Sequence[Compression], view: View) -> tuple[int, Change]:
        """The first of these changes that there is something left to do about (a pin may have done it already)."""
        step = algebra.undo if kind == "undo" else algebra.redo
        problem: NothingToUndo | IllegalFold = NothingToUndo(f"no_{kind}")
        for record in records:
            try:
                change = step(record, view.folds, self._by_id((*record.folds, *record.removed)))
                algebra.check_still_legal(view, change)
                algebra.apply(view.folds, change, view.last_seq)
            except NothingToUndo as nothing:
                problem = nothing
                if nothing.reason != "already":
                    break
            except IllegalFold as illegal:
                if illegal.reason == "overlap":
                    raise NothingToUndo(
                        "changed_since",
                        compression=record.id,
                        folds=", ".join(map(str, record.folds or record.removed)),
                    ) from illegal
                problem = illegal  # what is pinned now stays open; an older change may be free of it
            else:
                return record.id, change
        raise problem

    def _record(
        self, draft: Compression, before: View, change: Change, tail: Tail, *, after: View | None = None
    ) -> Compression:
        visible = algebra.apply(before.folds, change, before.last_seq)
        pins = draft.pins if draft.kind == "pin" else before.pins
        is_derivable = not change.removed or draft.kind == "compress"  # what is put back has to be read
        kept = self._store.records.kept_view
        lines: Iterable[bytes] = self._store.view_lines(visible)  # read only where somebody keeps them
        if after is None and is_derivable:
            after = algebra.folded(before, change.added)
        elif after is None and kept is not None:
            after, lines = self._store.view_with_lines(visible, pins)
        elif after is None:
            after = self._store.view_with(visible, pins)
        record = replace(
            draft,
            folds=tuple(fold.id for fold in change.added),
            removed=tuple(fold.id for fold in change.removed),
            visible=tuple(fold.id for fold in visible),
            pins=pins,
            before_tokens=before.tokens,
            after_tokens=after.tokens,
            after_entries=len(after.entries),
            created_at=draft.created_at or utc_now(),
        )
        # What is derived comes first: when it cannot be written, nothing has changed.
        self._store.save_index()
        with nullcontext() if kept is None else kept.sync_view(lines):
            record = replace(record, id=self._store.add_inside("compressions", record.as_dict()))
        tail.compressions = record.id
        tail.view_tokens, tail.view_entries = after.tokens, len(after.entries)
        return record

    # ---- folds -------------------------------------------------------------------------------------------------

    def _masked(self, plan: PlannedFold) -> PlannedFold:
        return replace(plan, text=self._store.redactor.mask(plan.text))

    def _numbered(self, plan: PlannedFold, number: int, made_by: str, created_at: str = "") -> Fold:
        if plan.form == "preview" and plan.start_seq == plan.end_seq <= self._store.count("messages"):
            message = self._store.message(plan.start_seq).message
            tokens = estimate_message(replace(message, content=plan.text, parts=None))
        else:
            tokens = estimate(SUMMARY_PREFIX + plan.text)
        return Fold(
            id=number,
            start_seq=plan.start_seq,
            end_seq=plan.end_seq,
            text=plan.text,
            tokens=tokens,
            original_tokens=0,
            form=plan.form,
            made_by=made_by,
            reason=plan.reason,
            created_at=created_at or utc_now(),
            report=plan.report,
            trust=plan.trust,
        )

    def _keep_texts(self, change: Change) -> None:
        if change.added:
            self._store.add_inside("summaries", *(fold.as_dict() for fold in change.added))

    def _visible(self, view: View, fold_id: int) -> Fold:
        for fold in view.folds:
            if fold.id == fold_id:
                return fold
        known = ", ".join(str(fold.id) for fold in view.folds) or "-"
        raise NothingToUndo("no_fold", fold=fold_id, visible=known)

    def _by_id(self, numbers: Sequence[int]) -> Mapping[int, Fold]:
        return {fold.id: fold for fold in self._store.folds(numbers)}

    def _descendants(self, view: View, seq: int) -> Mapping[int, Fold]:
        """The folds nested inside the one that holds ``seq``, all the way down."""
        found: dict[int, Fold] = {}
        outer = algebra.covering(view.folds, seq)
        numbers: tuple[int, ...] = () if outer is None else outer.replaces
        while numbers:
            children = self._by_id(numbers)
            found.update(children)
            numbers = tuple(number for fold in children.values() for number in fold.replaces)
        return found
