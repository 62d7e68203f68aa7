"""A transcript made to fit: system prompt, pins and newest turns word for word, the rest folded into notes.

Pure: messages in, messages out, no store. Promises: never more tokens than the budget; tool calls stay with all their
results or are folded with them; every message is either there, shortened in its own envelope (only the newest turn,
when it is too large to stay) or inside exactly one fold. How far the newest turns reach back is decided by worth: an
older turn stays as long as its tokens are worth as much there as in the notes. Refuses with ``BudgetExceeded`` when
the protected text leaves no room. ``squeeze_by`` plans a preset's rung on a view in memory first; what still does not
fit is squeezed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orihon.compression.documents.sections import PRESERVED_PATTERNS
from orihon.compression.ladder import Ladder, ladder_of
from orihon.compression.notes.extractor import Extractor, FoldedRun
from orihon.compression.notes.layout import is_notes, title_of
from orihon.compression.notes.reader import call_text
from orihon.compression.notes.selection import Selection
from orihon.compression.pages import MOST_LOST, Aim, NothingToFold, Pages, fold_report
from orihon.compression.planner import Job, draft
from orihon.compression.strategies.toolbox import Strategies
from orihon.errors import BudgetExceeded, InvalidInput
from orihon.settings import Settings
from orihon.settings.rungs import STRATEGIES
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, FoldReport
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, MESSAGE_OVERHEAD, TokenCounter, tokenizer
from orihon.values.view import SYSTEM_ROLES, Entry, View

_NEWEST = 4  # messages that stay word for word when they take at most half of the room
_NEWEST_SHARE = 0.5
_LARGE_NEWEST_SHARE = 0.35  # of the room, for the newest turns when four messages are too much
_USER_SHARE = 0.3  # of the room, for the last of what users said
_CONTINUITY = 1.25  # a turn that stands whole is worth more than its lines one by one
_LEAST_NOTES = 24  # tokens: a title and nothing else
_LONGEST_TOKEN = 16  # characters


@dataclass(frozen=True, slots=True)
class Squeezed:
    """The messages that fit, and what became of the others (positions in the transcript, from 0)."""

    messages: tuple[Mapping[str, Any], ...]
    budget: int
    before_tokens: int
    after_tokens: int
    kept: tuple[int, ...]
    shortened: tuple[int, ...] = ()
    folded: tuple[FoldedRun, ...] = ()


def squeeze(
    messages: Sequence[Mapping[str, Any]],
    budget: int,
    *,
    pinned: Collection[int] = (),
    tokenizer_name: str = DEFAULT_TOKENIZER,
) -> Squeezed:
    """The transcript in at most ``budget`` tokens; ``pinned`` are positions that stay word for word."""
    return _Squeeze(messages, budget, frozenset(pinned), tokenizer(tokenizer_name)).result()


def message_tokens(message: Message, count: TokenCounter) -> int:
    """What a message costs: its text and its calls as a model reads them, and what the chat format adds."""
    calls = (f"{call.name} {_plain(call.arguments)}" for call in message.tool_calls)
    return count("\n".join([_content(message), *calls])) + MESSAGE_OVERHEAD


class _Squeeze:
    """One transcript on its way into its budget."""

    def __init__(
        self, messages: Sequence[Mapping[str, Any]], budget: int, pinned: frozenset[int], count: TokenCounter
    ) -> None:
        self.originals = messages
        self.messages = [Message.from_chat(message).as_chat()[0] for message in messages]
        self.budget = budget
        self.count = count
        self.sizes = [message_tokens(message, count) for message in self.messages]
        self.head = next((at for at, one in enumerate(self.messages) if not _is_prompt(one)), len(messages))
        self.turns = list(_turns(self.messages, self.head))
        self.pinned = {place for turn in self.turns if pinned & {*turn} for place in turn}
        self.protected = {*range(self.head), *self.pinned}
        self.least_notes = _LEAST_NOTES

    def result(self) -> Squeezed:
        before = sum(self.sizes)
        if before <= self.budget:
            everything = tuple(range(len(self.sizes)))
            return Squeezed(tuple(self.originals), self.budget, before, before, everything)
        extractor = Extractor(self.messages, self.count, sizes=self.sizes)
        title = title_of(len(self.messages), len(self.messages), extractor.history.language)
        self.least_notes = max(self.least_notes, self.count(SUMMARY_PREFIX + title))
        room = self._room()
        kept = self.protected | self._newest(room)
        shortened = {} if self._reaches_end(kept) else self._shorten_newest(extractor, room)
        if not any(self.messages[place].role == "user" for place in (*kept, *shortened)):
            kept, shortened = self._with_user(extractor, kept, shortened, room)
        selection = self._select(extractor, kept | {*shortened})
        if self._reaches_end(kept):
            further = self._reach_back(extractor, selection, kept, room)
            if further != kept:
                kept, selection = further, self._select(extractor, further)
        return self._folded(extractor, selection, kept, shortened)

    def _room(self) -> int:
        """Tokens beside the protected text; the last place where a budget can be refused."""
        system = sum(self.sizes[: self.head])
        pinned = sum(self.sizes[place] for place in self.pinned)
        room = self.budget - system - pinned
        least = self.least_notes + MESSAGE_OVERHEAD
        if room < 0:
            seqs = ", ".join(str(place + 1) for place in sorted(self.pinned)) or "-"
            raise BudgetExceeded("protected", budget=self.budget, system=system, pinned=pinned, seqs=seqs)
        if room < least:
            needed = system + pinned + least
            raise BudgetExceeded("no_room", budget=self.budget, system=system, pinned=pinned, needed=needed)
        return room

    def _newest(self, room: int) -> set[int]:
        """The newest turns that stay in any case."""
        last = len(self.messages)
        wanted = max(self.head, last - _NEWEST)
        if sum(self.sizes[wanted:]) <= room * _NEWEST_SHARE:
            turns = [turn for turn in self.turns if turn.stop > wanted]
            if all(map(self._may_stay, turns)) and self._cost(turns) <= room - self.least_notes - MESSAGE_OVERHEAD:
                return {place for turn in turns for place in turn}
        newest: set[int] = set()
        for turn in reversed(self.turns):
            cost = sum(self.sizes[place] for place in {*newest, *turn} - self.pinned)
            if not self._may_stay(turn) or cost > room * _LARGE_NEWEST_SHARE:
                break
            newest |= {*turn}
        return newest

    def _reach_back(self, extractor: Extractor, selection: Selection, kept: set[int], room: int) -> set[int]:
        """More of the newest turns, as long as they are worth their tokens.

        A turn that stays adds what the notes do not have of it and gives back the tokens of its lines in the notes;
        that must be worth as much for each token as the poorest line of the notes.
        """
        selection.take(self.budget - sum(self.sizes[place] for place in kept) - self.least_notes)
        in_notes = selection.tokens_by_place()
        used = sum(self.sizes[place] for place in kept - self.protected)
        for turn in reversed(self.turns):
            if kept >= {*turn}:
                continue
            cost = self._cost([turn])
            used += cost
            gain = selection.worth_of({feature for place in turn for feature in extractor.features_at(place)})
            price = selection.least_density * (cost - sum(in_notes.get(place, 0) for place in turn))
            if not self._may_stay(turn) or used > room * _NEWEST_SHARE or gain * _CONTINUITY < price:
                break
            kept = kept | {*turn}
        return kept

    def _with_user(
        self, extractor: Extractor, kept: set[int], shortened: dict[int, Mapping[str, Any]], room: int
    ) -> tuple[set[int], dict[int, Mapping[str, Any]]]:
        """The same with what a user said last: servers refuse a conversation in which no user speaks."""
        place = next((at for at in range(len(self.messages) - 1, -1, -1) if self.messages[at].role == "user"), None)
        used = sum(self.sizes[at] for at in kept - self.protected) + sum(map(self._size, shortened.values()))
        notes = 2 * (self.least_notes + MESSAGE_OVERHEAD)  # before it and behind it
        allowed = min(int(room * _USER_SHARE), room - used - notes)
        if place is None or allowed <= MESSAGE_OVERHEAD:
            return kept, shortened
        if self.sizes[place] <= allowed:
            return kept | {place}, shortened
        short = self._shorten(extractor, range(place, place + 1), [place], allowed)
        return kept, shortened | (short or self._beginning(place, allowed))

    def _shorten_newest(self, extractor: Extractor, room: int) -> dict[int, Mapping[str, Any]]:
        """The newest turn in its own envelope, its long texts cut down to the lines that matter most."""
        turn = self.turns[-1]
        allowed = int(room * _LARGE_NEWEST_SHARE)
        long = [place for place in turn if self.sizes[place] > allowed // (2 * len(turn))]
        return self._shorten(extractor, turn, long, allowed) if self._may_stay(turn) and long else {}

    def _shorten(
        self, extractor: Extractor, turn: range, long: Sequence[int], allowed: int
    ) -> dict[int, Mapping[str, Any]]:
        """A turn in so many tokens, its long texts cut down; nothing when that cannot be."""
        envelopes = {place: {**self.originals[place], "content": ""} for place in long}
        fixed = sum(self.sizes[place] for place in turn if place not in envelopes)
        fixed += sum(self._size(message) for message in envelopes.values())
        if fixed > allowed // 2:
            return {}
        selection = extractor.selection({*long}, self.protected)
        selection.take(allowed - fixed)
        while selection.chosen:
            short = {
                place: {**self.originals[place], "content": self._lines(extractor, selection, place)} for place in long
            }
            if sum(map(self._size, short.values())) + fixed <= allowed:
                return {place: short.get(place, self.originals[place]) for place in turn}
            selection.give_back()
        return {}

    def _beginning(self, place: int, allowed: int) -> dict[int, Mapping[str, Any]]:
        """The first words of a message of which no whole line fits."""
        said = self.messages[place].text
        end = min(len(said), allowed * _LONGEST_TOKEN)
        while end:
            short = {**self.originals[place], "content": f"{said[:end]}…"}
            if (size := self._size(short)) <= allowed:
                return {place: short}
            end = min(end - 1, end * allowed // size)
        return {}

    def _folded(
        self, extractor: Extractor, selection: Selection, kept: set[int], shortened: Mapping[int, Mapping[str, Any]]
    ) -> Squeezed:
        stays = {place: self.originals[place] for place in kept} | dict(shortened)
        runs = list(_runs(len(self.messages), stays))
        used = sum(self.sizes[place] for place in kept) + sum(map(self._size, shortened.values()))
        texts = extractor.fold_texts(runs, selection, self.budget - used, MESSAGE_OVERHEAD)
        folds = {
            run.start: {"role": "system", "content": SUMMARY_PREFIX + fold}
            for run, fold in zip(runs, texts, strict=True)
        }
        stays |= folds
        result = tuple(stays[place] for place in sorted(stays))
        after = used + sum(map(self._size, folds.values()))
        if after > self.budget:
            pinned = sum(self.sizes[place] for place in self.pinned)
            seqs = ", ".join(str(place + 1) for place in sorted(self.pinned)) or "-"
            system = sum(self.sizes[: self.head])
            raise BudgetExceeded("protected", budget=self.budget, system=system, pinned=pinned, seqs=seqs)
        return Squeezed(
            result, self.budget, sum(self.sizes), after, tuple(sorted(kept)), tuple(sorted(shortened)), tuple(runs)
        )

    def _select(self, extractor: Extractor, stays: set[int]) -> Selection:
        return extractor.selection({*range(len(self.messages))} - stays, stays)

    def _lines(self, extractor: Extractor, selection: Selection, place: int) -> str:
        here = extractor.pool.between(place, place + 1)
        lines = [extractor.pool.texts[index] for index in sorted(selection.chosen) if index in here]
        return "\n".join([text("notes.shortened", seq=place + 1), *lines])

    def _may_stay(self, turn: range) -> bool:
        """Whether a turn is one that the providers take: every call answered, no answer without its call."""
        calls = self.messages[turn.start].calls
        answers = [self.messages[place].answers for place in turn[1:]]
        return self.messages[turn.start].role != "tool" and sorted(calls) == sorted(filter(None, answers))

    def _reaches_end(self, kept: set[int]) -> bool:
        return len(self.messages) - 1 in kept

    def _cost(self, turns: Sequence[range]) -> int:
        return sum(self.sizes[place] for turn in turns for place in turn if place not in self.pinned)

    def _size(self, message: Mapping[str, Any]) -> int:
        return message_tokens(Message.from_chat(message).as_chat()[0], self.count)


def _is_prompt(message: Message) -> bool:
    """Part of the system prompt; notes of an earlier squeezing stand behind it and may be folded again."""
    return message.role in SYSTEM_ROLES and not is_notes(message.role, message.text)


def _turns(messages: Sequence[Message], start: int) -> Iterator[range]:
    """Each message by itself, an assistant's calls together with their results."""
    while start < len(messages):
        end = start + 1
        calls = messages[start].calls
        while end < len(messages) and messages[end].answers in calls:
            end += 1
        yield range(start, end)
        start = end


def _runs(total: int, stays: Collection[int]) -> Iterator[FoldedRun]:
    start = 0
    for place in [*sorted(stays), total]:
        if start < place:
            yield FoldedRun(start, place)
        start = place + 1


def _content(message: Message) -> str:
    if message.parts is None:
        return message.content or ""
    return "\n".join(str(part.data.get("text", "")) for part in message.parts)


def _plain(arguments: str) -> str:
    return arguments.replace("\\n", "\n").replace('\\"', '"')


def squeeze_by(
    messages: Sequence[Mapping[str, Any]], budget: int, settings: Settings, strategy: str | None
) -> Squeezed:
    """The transcript in at most ``budget`` tokens, by the settings' preset or by one strategy."""
    if strategy is not None and strategy not in STRATEGIES:
        raise InvalidInput("strategy", name=strategy, known=", ".join(STRATEGIES))
    pages = transcript_pages(messages)
    if pages.tokens <= budget:
        return squeeze(messages, budget)
    ladder = ladder_of(settings)
    toolbox = Strategies(settings, ladder, preserved_patterns=PRESERVED_PATTERNS).named
    planned = draft(pages, _job(ladder, pages.tokens, budget, settings, strategy), toolbox)
    if isinstance(planned, NothingToFold):
        return squeeze(messages, budget)
    view = pages.after(planned.plan.folds)
    shown = [_shown(entry, messages) for entry in view.entries]
    rest = squeeze(shown, budget)
    return _in_places_of_the_transcript(view, rest, pages.tokens)


def loss(messages: Sequence[Mapping[str, Any]], squeezed: Squeezed) -> FoldReport:
    """Which facts of the transcript stand nowhere in the result."""
    extractor = transcript_pages(messages).extractor
    shown = "\n".join(_said(Message.from_chat(message).as_chat()[0]) for message in squeezed.messages)
    return fold_report(extractor.report(FoldedRun(0, len(messages)), shown, most=MOST_LOST))


def _said(message: Message) -> str:
    return "\n".join([message.text, *(call_text(call.name, call.arguments) for call in message.tool_calls)])


def transcript_pages(messages: Sequence[Mapping[str, Any]]) -> Pages:
    """A transcript as a view that nothing was folded in yet."""
    count = tokenizer(DEFAULT_TOKENIZER)
    read = [Message.from_chat(message).as_chat()[0] for message in messages]
    entries = tuple(
        Entry(seq, seq, message.role, message_tokens(message, count), calls=message.calls, answers=message.answers)
        for seq, message in enumerate(read, start=1)
    )
    return Pages(View(entries), read, size=lambda message: message_tokens(message, count), count=count)


def _job(ladder: Ladder, tokens: int, budget: int, settings: Settings, strategy: str | None) -> Job:
    compression = settings.compression
    rung = ladder.strongest()
    if strategy is not None:
        rung = replace(rung, strategies=(strategy,))
    patterns = compression.pin_patterns or (PRESERVED_PATTERNS if ladder.keeps_headings else ())
    return Job(
        rung,
        Aim(budget, compression.keep_recent, compression.min_to_compress, is_strict=True),
        limit=tokens,  # whatever does not fit is folded afterwards: the newest turns need not give way here
        pin_patterns=tuple(patterns),
        pin_roles=compression.pin_roles,
        bends=ladder.bends,
    )


def _shown(entry: Entry, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if entry.fold is None:
        return messages[entry.start - 1]
    if entry.fold.form == "preview":
        return {**messages[entry.start - 1], "content": entry.fold.text}
    return {"role": "system", "content": SUMMARY_PREFIX + entry.fold.text}


def _in_places_of_the_transcript(view: View, rest: Squeezed, before_tokens: int) -> Squeezed:
    """The result with places of the transcript instead of places of the planned view."""
    folds = {place: fold for place in rest.kept if (fold := view.entries[place].fold) is not None}
    summaries = [place for place, fold in folds.items() if fold.form == "summary"]
    previews = [place for place, fold in folds.items() if fold.form == "preview"]
    runs = [(view.entries[run.start].start - 1, view.entries[run.end - 1].end) for run in rest.folded]
    runs += [(view.entries[place].start - 1, view.entries[place].end) for place in summaries]
    seq = {place: view.entries[place].start - 1 for place in (*rest.kept, *rest.shortened)}
    return replace(
        rest,
        before_tokens=before_tokens,
        kept=tuple(seq[place] for place in rest.kept if place not in folds),
        shortened=tuple(sorted(seq[place] for place in (*rest.shortened, *previews))),
        folded=tuple(FoldedRun(start, end) for start, end in sorted(runs)),
    )
