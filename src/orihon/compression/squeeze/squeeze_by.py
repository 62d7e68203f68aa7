"""A transcript squeezed the way a preset or a single strategy would: for comparing them, and for who wants just that.

Pure, like ``squeeze``: the transcript becomes a view in memory, the rung is planned on it, and what still does not
fit is folded by ``squeeze`` itself. So the result always fits, and everything that is promised there holds here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orihon.compression.documents.sections import PRESERVED_PATTERNS
from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.notes.reader import call_text
from orihon.compression.pages import MOST_LOST, Aim, NothingToFold, Pages, fold_report
from orihon.compression.planner import Job, draft
from orihon.compression.squeeze.squeeze import Squeezed, message_tokens, squeeze
from orihon.compression.strategies.named import Strategies
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.settings.rungs import STRATEGIES
from orihon.values.ladder import Ladder, ladder_of
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, FoldReport
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, tokenizer
from orihon.values.view import Entry, View


def squeeze_by(
    messages: Sequence[Mapping[str, Any]],
    budget: int,
    settings: Settings,
    *,
    strategy: str | None = None,
    tokenizer_name: str = DEFAULT_TOKENIZER,
) -> Squeezed:
    """The transcript in at most ``budget`` tokens, by the settings' preset or by one strategy."""
    if strategy is not None and strategy not in STRATEGIES:
        raise InvalidInput("strategy", name=strategy, known=", ".join(STRATEGIES))
    pages = transcript_pages(messages, tokenizer_name)
    if pages.tokens <= budget:
        return squeeze(messages, budget, tokenizer_name=tokenizer_name)
    ladder = ladder_of(settings)
    toolbox = Strategies(settings, ladder, preserved_patterns=PRESERVED_PATTERNS).named
    planned = draft(pages, _job(ladder, pages.tokens, budget, settings, strategy), toolbox)
    if isinstance(planned, NothingToFold):
        return squeeze(messages, budget, tokenizer_name=tokenizer_name)
    view = pages.after(planned.plan.folds)
    shown = [_shown(entry, messages) for entry in view.entries]
    rest = squeeze(shown, budget, tokenizer_name=tokenizer_name)
    return _in_places_of_the_transcript(view, rest, pages.tokens)


def loss(
    messages: Sequence[Mapping[str, Any]], squeezed: Squeezed, tokenizer_name: str = DEFAULT_TOKENIZER
) -> FoldReport:
    """Which facts of the transcript stand nowhere in the result."""
    extractor = transcript_pages(messages, tokenizer_name).extractor
    shown = "\n".join(_said(Message.from_chat(message).as_chat()[0]) for message in squeezed.messages)
    return fold_report(extractor.report(FoldedRun(0, len(messages)), shown, most=MOST_LOST))


def _said(message: Message) -> str:
    return "\n".join([message.text, *(call_text(call.name, call.arguments) for call in message.tool_calls)])


def transcript_pages(messages: Sequence[Mapping[str, Any]], tokenizer_name: str = DEFAULT_TOKENIZER) -> Pages:
    """A transcript as a view that nothing was folded in yet."""
    count = tokenizer(tokenizer_name)
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
