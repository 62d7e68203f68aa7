"""The fold algebra: which entries a view has, where a history may be cut, and what undo, redo and unfold give.

Pure values and functions. The log never changes; the view is decided by two things only, the length of the log and
the set of *visible* folds, which are disjoint runs of it. Every change (``Change``) swaps some visible folds for
others; opening a fold brings back exactly the folds that it replaced. Stores persist what is decided here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orihon.errors import BudgetExceeded, IllegalFold, NothingToUndo
from orihon.system.json_shapes import AsJson
from orihon.values.records import Compression, Fold, FoldForm, FoldReport, Pin, Trust

SYSTEM_ROLES = ("system", "developer")

#: Kinds of changes that can be undone; what undid or redid one of them is none itself.
UNDOABLE = ("compress", "unfold", "edit")

SeqRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the view: a message of the log, or a fold that stands for a run of it."""

    start: int
    end: int
    role: str
    tokens: int
    fold: Fold | None = None
    calls: tuple[str, ...] = ()  # tool calls this entry opens
    answers: str | None = None  # the tool call this entry is the result of

    @property
    def is_summary(self) -> bool:
        """Whether it is a fold that stands for a run, and not a message, whole or shortened."""
        return self.fold is not None and self.fold.form == "summary"


@dataclass(frozen=True)  # no slots: what is derived once is kept beside the fields
class View:
    """The current context: every ``seq`` of the log exactly once, as itself or inside one fold."""

    entries: tuple[Entry, ...] = ()
    pins: tuple[Pin, ...] = ()
    #: The compression that has made it, where it was read from a task.
    compression: int | None = field(default=None, compare=False)

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @property
    def last_seq(self) -> int:
        return self.entries[-1].end if self.entries else 0

    @property
    def folds(self) -> tuple[Fold, ...]:
        return tuple(entry.fold for entry in self.entries if entry.fold is not None)

    @cached_property
    def batches(self) -> tuple[tuple[int, int], ...]:
        """Entries [start, end) of each assistant message with calls and the results that follow it."""
        return tuple(tool_batches(self))

    def batches_at(self, first: int, last: int) -> tuple[tuple[int, int], ...]:
        """The batches that have entries among [first, last)."""
        start = bisect_right(self.batches, first, key=lambda batch: batch[1])
        end = bisect_left(self.batches, last, key=lambda batch: batch[0])
        return self.batches[start:end]

    @cached_property
    def head(self) -> int:
        """How many entries the system prompt has: the leading run of system and developer messages."""
        for index, entry in enumerate(self.entries):
            if entry.fold is not None or entry.role not in SYSTEM_ROLES:
                return index
        return len(self.entries)

    @cached_property
    def last_user(self) -> int | None:
        """The newest entry that is a user's message, whole or shortened; ``None`` where nobody speaks."""
        return next((at for at in range(len(self.entries) - 1, -1, -1) if self.entries[at].role == "user"), None)

    def index_of(self, seq: int) -> int:
        """The entry that stands for ``seq``."""
        return bisect_right(self.entries, seq, key=lambda entry: entry.start) - 1


@dataclass(frozen=True, slots=True)
class PlannedFold(AsJson):
    """A fold that somebody wants: the run and the text, before it has a number."""

    json_fields = "start_seq end_seq form reason text report"

    start_seq: int
    end_seq: int
    text: str
    form: FoldForm = "summary"
    reason: str = ""
    report: FoldReport | None = None
    trust: Trust | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Visible folds before and after one act."""

    added: tuple[Fold, ...] = ()
    removed: tuple[Fold, ...] = ()


# ---- layout ----------------------------------------------------------------------------------------------------


def layout(last_seq: int, folds: Sequence[Fold]) -> Iterator[SeqRange | Fold]:
    """The view in order: runs of messages (first, last) and the folds between them."""
    next_seq = 1
    for fold in folds:
        if next_seq < fold.start_seq:
            yield next_seq, fold.start_seq - 1
        yield fold
        next_seq = fold.end_seq + 1
    if next_seq <= last_seq:
        yield next_seq, last_seq


def seq_range(item: SeqRange | Fold) -> SeqRange:
    """The run of the log that an item of a layout stands for."""
    return (item.start_seq, item.end_seq) if isinstance(item, Fold) else item


def within(items: Iterable[SeqRange | Fold], first: int, last: int) -> Iterator[SeqRange | Fold]:
    """What of a layout stands for the run from ``first`` to ``last``; a fold that reaches into it comes whole."""
    for item in items:
        start, end = seq_range(item)
        if start <= last and end >= first:
            yield item if isinstance(item, Fold) else (max(start, first), min(end, last))


def ordered(folds: Sequence[Fold], last_seq: int) -> tuple[Fold, ...]:
    """The folds by position; refuses overlaps and runs outside the log."""
    result = tuple(sorted(folds, key=lambda fold: fold.start_seq))
    end = 0
    for fold in result:
        if not (end < fold.start_seq <= fold.end_seq <= last_seq):
            raise IllegalFold("overlap", start=fold.start_seq, end=fold.end_seq, last=last_seq)
        end = fold.end_seq
    return result


def apply(visible: Sequence[Fold], change: Change, last_seq: int) -> tuple[Fold, ...]:
    """The visible folds after a change."""
    gone = {fold.id for fold in change.removed}
    kept = [fold for fold in visible if fold.id not in gone]
    return ordered([*kept, *change.added], last_seq)


# ---- where a history may be cut ------------------------------------------------------------------------------
# A rule looks at the entries [first, last) that a fold would replace and names the seq that forbids it, or None.

FoldRule = Callable[[View, int, int], int | None]


def keeps_system_head(view: View, first: int, last: int) -> int | None:
    """The system prompt is never folded."""
    return view.entries[first].start if first < view.head else None


def keeps_pinned_messages(view: View, first: int, last: int) -> int | None:
    """A pinned message stays itself."""
    low, high = view.entries[first].start, view.entries[last - 1].end
    return next((pin.seq for pin in view.pins if not pin.line and low <= pin.seq <= high), None)


def keeps_tool_batches_whole(view: View, first: int, last: int) -> int | None:
    """An assistant message with tool calls and all its results are folded together or not at all."""
    for start, end in view.batches_at(first, last):
        if not (first <= start and end <= last):
            return view.entries[start].start
    return None


def keeps_open_calls(view: View, first: int, last: int) -> int | None:
    """Calls that still wait for a result stay, or the result would have nothing to answer."""
    for start, end in view.batches_at(first, last):
        if not _is_answered(view, start, end):
            return view.entries[start].start
    return None


CUT_RULES: Mapping[str, FoldRule] = {
    "system_head": keeps_system_head,
    "pinned": keeps_pinned_messages,
    "tool_batch": keeps_tool_batches_whole,
    "open_calls": keeps_open_calls,
}

# A preview keeps the envelope of its message, so a tool pair stays a pair.
PREVIEW_RULES: Mapping[str, FoldRule] = {"system_head": keeps_system_head, "pinned": keeps_pinned_messages}


def tool_batches(view: View) -> Iterator[tuple[int, int]]:
    """Entries [start, end) of each assistant message with calls and the results that follow it."""
    entries = view.entries
    index = 0
    while index < len(entries):
        calls = entries[index].calls
        end = index + 1
        if calls:
            while end < len(entries) and entries[end].answers in calls:
                end += 1
            yield index, end
        index = end


def _is_answered(view: View, start: int, end: int) -> bool:
    return len({entry.answers for entry in view.entries[start + 1 : end]}) == len(view.entries[start].calls)


def site(view: View, planned: PlannedFold) -> tuple[int, int]:
    """The entries [first, last) that a planned fold replaces; ``IllegalFold`` when a rule forbids it."""
    start, end = planned.start_seq, planned.end_seq
    if not 1 <= start <= end <= view.last_seq:
        raise IllegalFold("outside", start=start, end=end, last=view.last_seq)
    if not planned.text.strip():
        raise IllegalFold("no_text", start=start, end=end)
    first, last = view.index_of(start), view.index_of(end) + 1
    for edge in (view.entries[first], view.entries[last - 1]):
        if edge.start < start or edge.end > end:
            raise IllegalFold("splits_fold", start=start, end=end, fold=edge.fold.id if edge.fold else "?")
    if planned.form == "preview" and start != end:
        raise IllegalFold("preview_of_many", start=start, end=end)
    for name, rule in (PREVIEW_RULES if planned.form == "preview" else CUT_RULES).items():
        offending = rule(view, first, last)
        if offending is not None:
            raise IllegalFold(name, start=start, end=end, seq=offending)
    for pin in view.pins:
        if pin.line and start <= pin.seq <= end and pin.line not in planned.text:
            raise IllegalFold("drops_line", start=start, end=end, seq=pin.seq)
    return first, last


def foldable_runs(view: View, up_to: int | None = None, hands_off: Sequence[SeqRange] = ()) -> list[SeqRange]:
    """The longest runs of the log that the rules allow to fold, oldest first, not beyond entry ``up_to``.

    ``hands_off`` are spans of the log that somebody wants left alone.
    """
    limit = len(view.entries) if up_to is None else max(0, min(up_to, len(view.entries)))
    closed = bytearray(len(view.entries))
    closed[: view.head] = b"\1" * view.head
    for first, last in hands_off:
        at, end = view.index_of(first), view.index_of(last) + 1
        closed[at:end] = b"\1" * (end - at)
    for pin in view.pins:
        if not pin.line:
            closed[view.index_of(pin.seq)] = 1
    for start, end in view.batches:
        if any(closed[start:end]) or end > limit or not _is_answered(view, start, end):
            closed[start:end] = b"\1" * (end - start)
    runs: list[SeqRange] = []
    index = 0
    while index < limit:
        end = index
        while end < limit and not closed[end]:
            end += 1
        if end > index:
            runs.append((view.entries[index].start, view.entries[end - 1].end))
        index = end + 1
    return runs


def check_protected(view: View, budget_tokens: int) -> int:
    """Tokens of what no compression may touch; ``BudgetExceeded`` when they alone do not fit."""
    head = sum(entry.tokens for entry in view.entries[: view.head])
    pinned_at = {view.index_of(pin.seq) for pin in view.pins if not pin.line} - set(range(view.head))
    pinned = sum(view.entries[index].tokens for index in pinned_at)
    if head + pinned > budget_tokens:
        raise BudgetExceeded(
            "protected",
            system=head,
            pinned=pinned,
            seqs=", ".join(str(view.entries[index].start) for index in sorted(pinned_at)) or "-",
            budget=budget_tokens,
        )
    return head + pinned


# ---- changes ---------------------------------------------------------------------------------------------------


def compress(view: View, planned: Sequence[tuple[PlannedFold, Fold]]) -> Change:
    """The change that puts new folds in place. Each plan comes with the numbered fold made of it."""
    added: list[Fold] = []
    removed: list[Fold] = []
    for plan, fold in planned:
        first, last = site(view, plan)
        swallowed = [entry.fold for entry in view.entries[first:last] if entry.fold is not None]
        tokens = sum(entry.tokens for entry in view.entries[first:last])
        trust = fold.trust or _lowest_trust(view.entries[first:last])
        added.append(replace(fold, replaces=tuple(old.id for old in swallowed), original_tokens=tokens, trust=trust))
        removed.extend(swallowed)
    ordered(added, view.last_seq)
    return Change(tuple(added), tuple(removed))


def _lowest_trust(entries: Sequence[Entry]) -> Trust:
    """How far a text is trusted that somebody else has written for these entries: no further than what it is about."""
    folds = (entry.fold for entry in entries if entry.fold is not None)
    has_tools = any(entry.fold is None and entry.role == "tool" for entry in entries)
    return "tool" if has_tools or any(fold.trust in (None, "tool") for fold in folds) else "assistant"


def folded(view: View, folds: Sequence[Fold]) -> View:
    """The view with these folds in place of what they cover; nothing has to be read for it."""
    entries: list[Entry] = []
    next_index = 0
    for fold in ordered(folds, view.last_seq):
        first, last = view.index_of(fold.start_seq), view.index_of(fold.end_seq) + 1
        entries += view.entries[next_index:first]
        if fold.form == "preview":
            entries.append(replace(view.entries[first], fold=fold, tokens=fold.tokens))
        else:
            entries.append(Entry(fold.start_seq, fold.end_seq, "system", fold.tokens, fold))
        next_index = last
    return View((*entries, *view.entries[next_index:]), view.pins)


def unfold(fold: Fold, folds_by_id: Mapping[int, Fold]) -> Change:
    """Opens one fold: what it replaced comes back."""
    return Change(added=tuple(folds_by_id[number] for number in fold.replaces), removed=(fold,))


def edit(fold: Fold, new: Fold) -> Change:
    """Another text for the same run."""
    return Change(added=(replace(new, replaces=fold.replaces, original_tokens=fold.original_tokens),), removed=(fold,))


def reveal(view: View, seq: int, folds_by_id: Mapping[int, Fold]) -> Change:
    """Opens folds, the outermost first, until ``seq`` stands as itself."""
    outer = view.entries[view.index_of(seq)].fold
    if outer is None:
        return Change()
    added: tuple[Fold, ...] = ()
    inner: Fold | None = outer
    while inner is not None:
        children = tuple(folds_by_id[number] for number in inner.replaces)
        added = (*(fold for fold in added if fold is not inner), *children)
        inner = next((fold for fold in children if fold.start_seq <= seq <= fold.end_seq), None)
    return Change(added=added, removed=(outer,))


def rewind(visible: Sequence[Fold], then: Sequence[Fold], notice: Fold) -> Change:
    """The folds of an earlier step come back, and a notice stands for all that came after it."""
    standing, kept = {fold.id for fold in visible}, {fold.id for fold in then}
    put_back = (fold for fold in then if fold.id not in standing)
    return Change((*put_back, notice), tuple(fold for fold in visible if fold.id not in kept))


def undo(record: Compression, visible: Sequence[Fold], folds_by_id: Mapping[int, Fold]) -> Change:
    """The change that takes a recorded one back."""
    return _swap(record.id, put_back=record.removed, take_away=record.folds, visible=visible, folds=folds_by_id)


def redo(record: Compression, visible: Sequence[Fold], folds_by_id: Mapping[int, Fold]) -> Change:
    """The change that makes an undone one again."""
    return _swap(record.id, put_back=record.folds, take_away=record.removed, visible=visible, folds=folds_by_id)


def _swap(
    act: int,
    *,
    put_back: Sequence[int],
    take_away: Sequence[int],
    visible: Sequence[Fold],
    folds: Mapping[int, Fold],
) -> Change:
    standing = {fold.id for fold in visible}
    buried = [number for number in take_away if number not in standing and _is_covered(folds[number], visible)]
    if buried:
        raise NothingToUndo("changed_since", compression=act, folds=", ".join(map(str, buried)))
    # A fold that is neither standing nor covered was opened since (a pin does that): its part is undone already.
    removed = tuple(folds[number] for number in take_away if number in standing)
    added = tuple(folds[number] for number in put_back if number not in standing)
    if not removed and not added:
        raise NothingToUndo("already", compression=act)
    return Change(added, removed)


def _is_covered(fold: Fold, visible: Sequence[Fold]) -> bool:
    return any(
        other.start_seq <= fold.start_seq and fold.end_seq <= other.end_seq and other.id not in fold.replaces
        for other in visible
    )


def check_still_legal(view: View, change: Change) -> None:
    """Folds that come back must not cover a message that was pinned in the meantime."""
    for fold in change.added:
        for pin in view.pins:
            if fold.start_seq <= pin.seq <= fold.end_seq and (not pin.line or pin.line not in fold.text):
                raise IllegalFold("pinned", start=fold.start_seq, end=fold.end_seq, seq=pin.seq)


def history(records: Sequence[Compression]) -> tuple[list[int], list[int]]:
    """Which compressions can be undone and which redone, the next one last."""
    done: list[int] = []
    undone: list[int] = []
    for record in records:
        if record.kind == "undo" and record.parent in done:
            done.remove(record.parent)
            undone.append(record.parent)
        elif record.kind == "redo" and record.parent in undone:
            undone.remove(record.parent)
            done.append(record.parent)
        elif record.kind in UNDOABLE:
            done.append(record.id)
            undone.clear()
    return done, undone


def covering(folds: Sequence[Fold], seq: int) -> Fold | None:
    """The visible fold that holds ``seq``, if any."""
    index = bisect_left(folds, seq, key=lambda fold: fold.end_seq)
    return folds[index] if index < len(folds) and folds[index].start_seq <= seq else None
