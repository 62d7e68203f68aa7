"""``ApprovalHandler``: what follows from a person's answer, in the view of the task.

An approval is pinned, the exploration of its phase is archived and folded, and what the next phase needs is handed on.
A rejection, or a request for changes, opens again what it is about. Everything here may be done twice: whoever finds
that a crash has come in between does all of it again, and nothing is folded, archived or opened more than once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orihon.compression.compressor import ContextCompressor
from orihon.compression.contract import CompressionResult, CompressionScope
from orihon.compression.documents.markdown import parse
from orihon.compression.documents.sections import CompressionLevel
from orihon.compression.pages import NothingToFold
from orihon.compression.planner import Draft
from orihon.errors import InvalidInput, NothingToUndo
from orihon.store import TaskMessages
from orihon.store.checkpoints import Approval, Checkpoint, CheckpointLog, Phase
from orihon.tasks.approvals.phase_archives import MOST_KNOWN, archive_phase, decisions_of, normal
from orihon.texts import text
from orihon.values.records import Fold, Pin

_WORD = re.compile(r"[A-Za-z0-9_]{3,}|[ァ-ヴー]{2,}|[一-鿿々]{2,}")
_USUAL = frozenset(
    (
        "the",
        "and",
        "for",
        "with",
        "that",
        "this",
        "from",
        "please",
        "again",
        "more",
        "show",
        "also",
        "into",
        "not",
        "but",
    )
)
_SHORTEST_TITLE = 2


class ApprovalHandler:
    """Follows the answers of one task. Without messages it works on ``Checkpoint.exploration_context`` alone."""

    def __init__(self, messages: TaskMessages | None = None, compressor: ContextCompressor | None = None) -> None:
        self._messages = messages
        self.compressor = compressor or ContextCompressor(message_store=messages)

    def on_approval(self, checkpoint: Checkpoint, approval: Approval) -> str:
        """Record it, fold the exploration of its phase, log that; returns what the next phase needs."""
        if self._messages is None:
            return self.compressor.compress(checkpoint.exploration_context, CompressionLevel.STANDARD).text
        asked = self._recorded(checkpoint, approval)
        if asked.compression:
            self.compress_phase(asked.compression, self._phase(asked), asked.seq, asked.name)
            return ""
        assert asked.answer is not None
        self._pin(asked.answer)
        phase = self._phase(asked)
        # A cheap question first: most presets and settings want nothing done.
        if self.compressor.settings.compression.auto_compress_on_approval:
            self._fold_again(asked)
            self._confirm_or_compress("approval", phase, asked.seq, asked.name)
        return decisions_of(self._messages.task_store, phase, asked.seq)

    def on_rejection(self, checkpoint: Checkpoint, approval: Approval) -> tuple[int, ...]:
        """Record a rejection or a request for changes, and open what it is about; returns the folds that opened."""
        if self._messages is None:
            return ()
        asked = self._recorded(checkpoint, approval)
        if asked.compression or asked.answer is None:
            return ()
        opened: list[int] = []
        for fold in () if self._was_opened(asked.answer) else self._about(asked.answer):
            try:
                self._messages.folding.unfold(fold.id, made_by=asked.answer.maker)
                opened.append(fold.id)
            except NothingToUndo:  # it was inside one that is open now
                continue
        return tuple(opened)

    def check_sections(self, approval: Approval) -> None:
        """``InvalidInput`` when an answer names a section that there is not."""
        if self._messages is None or not approval.sections:
            return
        known = self.section_titles()
        titles = list(map(normal, known))
        for name in approval.sections:
            wanted = normal(name)
            if not wanted or not any(wanted in title for title in titles):
                raise InvalidInput("no_section", section=name, known=", ".join(known[:MOST_KNOWN]) or "-")

    def on_answer(self, checkpoint: Checkpoint, approval: Approval) -> None:
        """Whichever of the two it is."""
        if approval.approved:
            self.on_approval(checkpoint, approval)
        else:
            self.on_rejection(checkpoint, approval)

    def end_phase(self, phase: Phase) -> CompressionResult | Checkpoint | None:
        """A phase is over: archive it and fold it as the ladder says, or ask whether to."""
        assert phase.end_seq is not None
        return self._confirm_or_compress("phase_end", phase, phase.end_seq, "")

    def end_iteration(self) -> CompressionResult | Checkpoint | None:
        """The same for everything up to now."""
        assert self._messages is not None
        whole = Phase("", 0, 1)
        return self._confirm_or_compress("iteration_end", whole, self._messages.count_messages(), "")

    # ---- folding -------------------------------------------------------------------------------------------------

    def compress_phase(self, trigger: str, phase: Phase, last_seq: int, checkpoint: str) -> CompressionResult | None:
        """Archive the phase and fold it, by the rung of the trigger."""
        assert self._messages is not None
        store = self._messages.task_store
        if trigger == "usage":
            return self.compressor.compress_now()
        if trigger == "iteration_end":
            return self.compressor.compress_on(trigger)
        if phase.start_seq > last_seq:
            return None
        # Without the model: it is asked once, for the fold itself.
        if isinstance(self._preview(trigger, phase, last_seq, model=False), NothingToFold):
            return None
        wanted = self.compressor.settings.compression.archive_format
        archived = archive_phase(store, phase, last_seq, wanted)
        return self.compressor.compress_on(trigger, CompressionScope((phase.start_seq, last_seq), checkpoint, archived))

    def _fold_again(self, asked: Checkpoint) -> None:
        """Earlier phases of which a rejection in this one had opened something: the person says that it is done."""
        assert self._messages is not None
        if self.compressor.settings.compression.confirm_before_compress:
            return  # one question is enough: the ladder sees to them when the view gets full
        ledger = CheckpointLog(self._messages.task_store).read()
        makers = {answer.maker for answer in ledger.settled(asked.stage)}
        opened = [one for one in self._messages.compressions() if one.kind == "unfold" and one.made_by in makers]
        folds = self._messages.task_store.folds([number for one in opened for number in one.removed])
        for phase in ledger.phases:
            end = phase.end_seq
            if end is not None and any(fold.start_seq <= end and phase.start_seq <= fold.end_seq for fold in folds):
                self.compress_phase("approval", phase, end, asked.name)

    def _preview(self, trigger: str, phase: Phase, last_seq: int, *, model: bool = True) -> Draft | NothingToFold:
        whole = trigger in ("usage", "iteration_end")
        scope = CompressionScope(None if whole else (phase.start_seq, last_seq))
        return self.compressor.preview_on(trigger, scope, model=model)

    def _confirm_or_compress(
        self, trigger: str, phase: Phase, last_seq: int, checkpoint: str
    ) -> CompressionResult | Checkpoint | None:
        if not self.compressor.settings.compression.confirm_before_compress:
            return self.compress_phase(trigger, phase, last_seq, checkpoint)
        return self.ask(trigger, phase, last_seq)

    def ask(self, trigger: str, phase: Phase, last_seq: int) -> Checkpoint | None:
        """Make the compression a checkpoint that shows its preview; ``None`` when there is nothing to fold."""
        assert self._messages is not None
        if phase.start_seq > last_seq:
            return None
        planned = self._preview(trigger, phase, last_seq)
        if isinstance(planned, NothingToFold):
            return None
        name = f"compression:{phase.name or trigger}"
        question = text("approvals.compression", before=planned.before_tokens, after=planned.after_tokens)
        log = CheckpointLog(self._messages.task_store)
        return log.ask(Checkpoint(0, name, question, "\n\n".join(_shown(planned)), compression=trigger))

    def _phase(self, asked: Checkpoint) -> Phase:
        """The phase that was asked about; without phases, everything so far."""
        assert self._messages is not None
        ledger = CheckpointLog(self._messages.task_store).read()
        if asked.compression == "phase_end":
            ended = [phase for phase in ledger.phases if phase.end_seq is not None]
            return ended[-1] if ended else Phase("", 1, 1)
        return asked.phase or Phase("", len(ledger.phases) + 1, 1)

    # ---- recording -----------------------------------------------------------------------------------------------

    def _recorded(self, checkpoint: Checkpoint, approval: Approval) -> Checkpoint:
        assert self._messages is not None
        log = CheckpointLog(self._messages.task_store)
        asked = log.read().checkpoint(checkpoint.id)
        if asked.answer is not None:
            return asked
        self.check_sections(approval)
        return log.answer(asked.id, approval)

    def _pin(self, answer: Approval) -> None:
        """What a person has approved stays word for word."""
        assert self._messages is not None
        _, pins = self._messages.task_store.state()
        if answer.seq is not None and Pin(answer.seq) not in pins:
            self._messages.folding.pin(answer.seq, made_by=answer.maker)

    # ---- opening again -------------------------------------------------------------------------------------------

    def _was_opened(self, answer: Approval) -> bool:
        """Has something been opened because of this answer already?"""
        assert self._messages is not None
        records = self._messages.compressions()
        return any((one.kind, one.made_by) == ("unfold", answer.maker) for one in records)

    def _about(self, answer: Approval) -> list[Fold]:
        """The visible folds that an answer is about: by the names of their sections, else by its words."""
        assert self._messages is not None
        folds = self._folds()
        wanted = [normal(name) for name in answer.sections]
        by_name = [fold for fold in folds if self._is_named(fold, wanted, normal(answer.comment))]
        if by_name or wanted:
            return by_name
        words = _words(answer.comment)
        scores = {fold.id: len(words & self._hidden_words(fold)) for fold in folds}
        best = max(scores.values(), default=0)
        return [fold for fold in folds if best and scores[fold.id] == best]

    def _is_named(self, fold: Fold, wanted: list[str], said: str) -> bool:
        if wanted:
            return any(name in title for title in self._titles(fold) for name in wanted)
        return any(title in said for title in self._titles(fold) if len(title) >= _SHORTEST_TITLE)

    def _folds(self) -> list[Fold]:
        assert self._messages is not None
        return [fold for fold in self._messages.view().folds if fold.reason != "rewind"]

    def _titles(self, fold: Fold) -> Iterator[str]:
        return (normal(title) for said in self._originals(fold) for title in _titles_in(said))

    def section_titles(self) -> list[str]:
        """The sections that an answer may name."""
        return [] if self._messages is None else list(dict.fromkeys(self._all_titles()))

    def _all_titles(self) -> Iterator[str]:
        """What can be opened first, then what is open already: to name that does no harm."""
        assert self._messages is not None
        for fold in self._folds():
            yield from (title for said in self._originals(fold) for title in _titles_in(said))
        _, shown = self._messages.task_store.pages()
        yield from (title for message in shown for title in _titles_in(message.text))

    def _hidden_words(self, fold: Fold) -> set[str]:
        return {word for said in self._originals(fold) for word in _words(said)} - _words(fold.text)

    def _originals(self, fold: Fold) -> Iterator[str]:
        assert self._messages is not None
        for stored in self._messages.get_messages(fold.start_seq, fold.end_seq):
            yield stored.message.text


def _titles_in(said: str) -> Iterator[str]:
    return (section.title for section in parse(said).walk() if section.title)


def _words(said: str) -> set[str]:
    return {word for word in _WORD.findall(normal(said)) if word not in _USUAL}


def _shown(planned: Draft) -> Iterator[str]:
    for fold in planned.plan.folds:
        yield text("approvals.fold", first=fold.start_seq, last=fold.end_seq)
        yield fold.text
