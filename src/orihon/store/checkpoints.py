"""Phases of a task, and checkpoints: points where a person is asked before the work goes on.

Owns the values (``Phase``, ``Checkpoint``, ``Approval``) and the stream ``checkpoints`` of a task, in which every
phase, question, answer and reminder is one record. Records are appended and never edited. Promises that a checkpoint
has one answer: whoever comes second is told who was first. The answer and the user message that tells the model are
written together; where a crash has come between them, ``settle`` makes up for it. Who may write, and what becomes of
the task, is the business of ``approvals`` and of the task's manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from orihon.errors import InvalidInput, NotWaiting, ToolCallError
from orihon.store.reader import TaskReader
from orihon.store.tail import Tail
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.system.json_shapes import AsJson
from orihon.texts import text
from orihon.values.message.message import Message

Decision = Literal["approve", "reject", "revise"]
DECISIONS: tuple[Decision, ...] = ("approve", "reject", "revise")
#: Who answers when a time limit has run out.
CLOCK = "orihon"


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the work, from its first message to the beginning of the next phase."""

    name: str
    number: int  # counted over the whole task
    start_seq: int
    end_seq: int | None = None  # None: still under way
    iteration: int = 1


@dataclass(frozen=True, slots=True)
class Approval(AsJson):
    """A person's answer, whichever it is."""

    json_fields = "decision by at comment seq sections"

    decision: Decision
    by: str
    comment: str = ""  # the reason, or the instructions
    at: str = ""
    seq: int | None = None  # the user message that tells it
    sections: tuple[str, ...] = ()  # that the person wants to see again

    @property
    def approved(self) -> bool:
        return self.decision == "approve"

    @property
    def reason(self) -> str:
        return "" if self.decision == "revise" else self.comment

    @property
    def instructions(self) -> str:
        return self.comment if self.decision == "revise" else ""

    @property
    def maker(self) -> str:
        """Who changes the view because of this answer, as the records of changes say it."""
        return f"approval:{self.by}:{self.at}"


@dataclass(frozen=True, slots=True)
class Checkpoint(AsJson):
    """A question to a person, with its answer once there is one."""

    json_name = "checkpoint"
    json_fields = "id name question context phase=phase.name created_at expires_at reminders answer"

    id: int
    name: str
    question: str
    context: str = ""
    phase: Phase | None = None
    seq: int = 0  # the last message when it was asked
    iteration: int = 1
    created_at: str = ""
    expires_at: str | None = None
    on_timeout: Decision = "reject"
    remind_every: float | None = None  # seconds
    call: str = ""  # the tool call that asked
    compression: str = ""  # the trigger of the compression that waits for the answer
    view_tokens: int = 0  # when it was asked
    reminded_at: tuple[str, ...] = ()
    answer: Approval | None = None
    exploration_context: str = ""  # the text that is folded on approval, for checkpoints that belong to no task

    @property
    def is_open(self) -> bool:
        return self.answer is None

    @property
    def reminders(self) -> int:
        return len(self.reminded_at)

    @property
    def stage(self) -> tuple[int, int]:
        """Iteration and phase; 0 where no phase is under way."""
        return self.iteration, 0 if self.phase is None else self.phase.number

    def is_expired(self, now: str) -> bool:
        return self.is_open and self.expires_at is not None and now >= self.expires_at

    def is_reminder_due(self, now: str) -> bool:
        if not self.is_open or self.remind_every is None:
            return False
        last = max((self.created_at, *self.reminded_at))
        return now >= _later(last, self.remind_every)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that the stream says, as of now."""

    phases: tuple[Phase, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    iteration: int = 1

    @property
    def phase(self) -> Phase | None:
        """The phase that is under way."""
        return self.phases[-1] if self.phases and self.phases[-1].end_seq is None else None

    @property
    def open(self) -> tuple[Checkpoint, ...]:
        return tuple(one for one in self.checkpoints if one.is_open)

    def checkpoint(self, number: int) -> Checkpoint:
        for one in self.checkpoints:
            if one.id == number:
                return one
        known = ", ".join(str(one.id) for one in self.checkpoints) or "-"
        raise NotWaiting("unknown", checkpoint=number, known=known)

    def settled(self, stage: tuple[int, int] | None = None) -> tuple[Approval, ...]:
        """Rejections and requests for changes after which somebody has approved in the same phase; of one, or all."""
        answered = [(one, one.answer) for one in self.checkpoints if one.answer is not None and not one.compression]
        last = {one.stage: answer.at for one, answer in sorted(answered, key=_when) if answer.approved}
        return tuple(
            answer
            for one, answer in answered
            if not answer.approved and answer.at < last.get(one.stage, "") and stage in (None, one.stage)
        )

    def latest(self, name: str) -> Checkpoint | None:
        """The last checkpoint of this name in this iteration."""
        fitting = (one for one in reversed(self.checkpoints) if one.name == name and not one.compression)
        return next((one for one in fitting if one.iteration == self.iteration), None)


def _when(answered: tuple[Checkpoint, Approval]) -> str:
    return answered[1].at


def read_ledger(store: TaskReader) -> Ledger:
    """What a task's stream says."""
    phases: list[Phase] = []
    checkpoints: dict[int, Checkpoint] = {}
    iteration = 1
    for record in store.read("checkpoints"):
        kind = record["kind"]
        if kind == "phase":
            iteration = record.get("iteration", iteration)
            if phases and phases[-1].end_seq is None:
                phases[-1] = replace(phases[-1], end_seq=record["seq"] - 1)
            if record["name"]:
                phases.append(Phase(record["name"], len(phases) + 1, record["seq"], None, iteration))
        elif kind == "checkpoint":
            phase = phases[-1] if phases and phases[-1].end_seq is None else None
            checkpoints[record["id"]] = _checkpoint(record, phase, iteration)
        elif kind == "answer" and record["checkpoint"] in checkpoints:
            asked = checkpoints[record["checkpoint"]]
            checkpoints[asked.id] = asked if asked.answer else replace(asked, answer=_approval(record))
        elif kind == "reminder" and record["checkpoint"] in checkpoints:
            asked = checkpoints[record["checkpoint"]]
            checkpoints[asked.id] = replace(asked, reminded_at=(*asked.reminded_at, record["created_at"]))
    return Ledger(tuple(phases), tuple(checkpoints.values()), iteration)


class CheckpointLog:
    """Writes the stream of one task."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def read(self) -> Ledger:
        return read_ledger(self._store)

    def begin_phase(self, name: str) -> tuple[Phase, Phase | None]:
        """The phase, and the one that ended with it; one that this iteration has had is not begun again."""

        def recorded(tail: Tail) -> tuple[Phase, Phase | None]:
            ledger = self.read()
            known = (one for one in ledger.phases if (one.name, one.iteration) == (name, ledger.iteration))
            if (phase := next(known, None)) is not None:
                return phase, None
            self._add({"kind": "phase", "name": name, "seq": tail.seq + 1, "iteration": ledger.iteration})
            former = ledger.phase
            ended = None if former is None else replace(former, end_seq=tail.seq)
            return Phase(name, len(ledger.phases) + 1, tail.seq + 1, None, ledger.iteration), ended

        return self._store.change(recorded)

    def end_iteration(self) -> Phase | None:
        """The next iteration begins, without a phase so far; returns the phase that ended."""

        def recorded(tail: Tail) -> Phase | None:
            ledger = self.read()
            self._add({"kind": "phase", "name": "", "seq": tail.seq + 1, "iteration": ledger.iteration + 1})
            return None if ledger.phase is None else replace(ledger.phase, end_seq=tail.seq)

        return self._store.change(recorded)

    def ask(self, wanted: Checkpoint, timeout: float | None = None) -> Checkpoint:
        """Open a checkpoint; one that is open with the same call, compression or name is that checkpoint."""
        for what, value in (("timeout", timeout), ("remind_every", wanted.remind_every)):
            if value is not None and value <= 0:
                raise InvalidInput("not_positive", name=what, value=value)
        if wanted.on_timeout not in DECISIONS:
            raise InvalidInput("decision", value=wanted.on_timeout, known=", ".join(DECISIONS))

        def recorded(tail: Tail) -> int:
            for one in self.read().checkpoints:
                if _is_same(one, wanted):
                    return one.id
            if tail.open_calls and not wanted.call:
                raise ToolCallError("calls_open", calls=", ".join(tail.open_calls), role="user")
            now = utc_now()
            record = {
                "kind": "checkpoint",
                "name": wanted.name,
                "question": wanted.question,
                "context": wanted.context,
                "seq": tail.seq,
                "expires_at": None if timeout is None else _later(now, timeout),
                "on_timeout": wanted.on_timeout,
                "remind_every": wanted.remind_every,
                "call": wanted.call,
                "compression": wanted.compression,
                "view_tokens": tail.view_tokens,
            }
            return self._add(record, now)

        number = self._store.change(recorded)
        return self.read().checkpoint(number)

    def answer(self, number: int, approval: Approval) -> Checkpoint:
        """Record an answer and tell it to the model; ``NotWaiting`` when somebody else has answered."""

        def recorded(tail: Tail) -> None:
            asked = self.read().checkpoint(number)
            refuse_answered(asked)
            # A person is asked about a compression; the model has nothing to do with it.
            seq = None if asked.compression else tail.seq + 1
            answer = replace(approval, seq=seq, at=approval.at or utc_now())
            shown = {"question": asked.question, "context": asked.context}
            # The answer first: it is what counts. A message without its answer would be told twice.
            self._add({"kind": "answer", "checkpoint": asked.id, **answer.as_dict(), "shown": shown})
            if seq is not None:
                self._store.append_inside(message_of(asked, answer), tail)

        self._store.change(recorded)
        return self.read().checkpoint(number)

    def remind(self, number: int, now: str) -> bool:
        """Write down that people are reminded; ``False`` when they were, just before."""

        def recorded(tail: Tail) -> bool:
            is_due = self.read().checkpoint(number).is_reminder_due(now)
            if is_due:
                self._add({"kind": "reminder", "checkpoint": number})
            return is_due

        return self._store.change(recorded)

    def settle(self) -> None:
        """Tell the model what was answered, where a crash has come between the answer and its message."""

        def told(tail: Tail) -> None:
            for asked in self.read().checkpoints:
                if asked.answer is not None and asked.answer.seq is not None and asked.answer.seq > tail.seq:
                    self._store.append_inside(message_of(asked, asked.answer), tail)

        if any((one.answer.seq or 0) > self._store.count("messages") for one in self.read().checkpoints if one.answer):
            self._store.change(told)

    def _add(self, record: Mapping[str, Any], now: str | None = None) -> int:
        fields = {**record, "created_at": now or utc_now()}
        return self._store.add_inside("checkpoints", fields)


def refuse_answered(asked: Checkpoint) -> None:
    """``NotWaiting`` that says who was first, and when."""
    if asked.answer is not None:
        answer = asked.answer
        said = text(f"approvals.decision.{answer.decision}")
        decision, by, at = answer.decision, answer.by, answer.at
        raise NotWaiting("answered", name=asked.name, said=said, decision=decision, by=by, at=at)


def message_of(asked: Checkpoint, answer: Approval) -> Message:
    """What the model is told. The heading of an approval is one that compressions keep."""
    said = [text(f"approvals.message.{answer.decision}", name=asked.name, by=answer.by, at=answer.at)]
    if not asked.call:  # a model knows what it has asked, and must not put words into a person's mouth
        said.append("\n".join(f"> {line}".rstrip() for line in asked.question.splitlines()))
    return Message("user", "\n\n".join([*said, answer.comment]).rstrip())


def _is_same(one: Checkpoint, wanted: Checkpoint) -> bool:
    if wanted.call:
        return one.call == wanted.call
    if not one.is_open or one.call:
        return False
    return (one.compression, one.name) == (wanted.compression, wanted.name)


def _checkpoint(record: Mapping[str, Any], phase: Phase | None, iteration: int) -> Checkpoint:
    return Checkpoint(
        id=record["id"],
        name=record["name"],
        question=record["question"],
        context=record.get("context", ""),
        phase=phase,
        seq=record["seq"],
        iteration=iteration,
        created_at=record["created_at"],
        expires_at=record.get("expires_at"),
        on_timeout=record.get("on_timeout", "reject"),
        remind_every=record.get("remind_every"),
        call=record.get("call", ""),
        compression=record.get("compression", ""),
        view_tokens=record.get("view_tokens", 0),
    )


def _approval(record: Mapping[str, Any]) -> Approval:
    return Approval(
        decision=record["decision"],
        by=record["by"],
        comment=record.get("comment", ""),
        at=record["at"],
        seq=record.get("seq"),
        sections=tuple(record.get("sections", ())),
    )


def _later(moment: str, seconds: float) -> str:
    then = datetime.fromisoformat(moment) + timedelta(seconds=seconds)
    return then.astimezone(UTC).isoformat(timespec="microseconds")
