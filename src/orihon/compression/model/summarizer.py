"""The summarizer that asks a model: one call for a run of messages, and hard limits on what comes back.

Promises: a text in at most ``max_tokens`` that is shorter than its input and has to do with it, or ``None``. It never
raises (KeyboardInterrupt and SystemExit apart), and all its calls together never take longer than its time limit,
whatever the client does; no call begins after it. Only what may pass is tried again: a client that raised, an empty
answer; and a request that the server found too long, with half the record. Why there was no text is in
``last_failure`` and, once, in the log. An instance serves one caller at a time.

A request has the prompt, the earlier notes and the record of the run: ``[12 USER]: …`` for each message, tool calls by
name and arguments. A record that does not fit is not cut: its newest messages stay word for word, and of the rest the
lines that matter most are taken.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from orihon.compression.model.answer import judge
from orihon.compression.model.call import Caller, ChatClient, Failed, LLMClientProtocol, OnAnswer, SummaryFailure
from orihon.compression.model.grounding import Ground
from orihon.compression.notes.extractor import summarize
from orihon.compression.notes.layout import HEADINGS
from orihon.texts import LANGUAGES, text
from orihon.values.message.message import Message
from orihon.values.message.wire import clean
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import MESSAGE_OVERHEAD, TokenCounter, estimate

logger = logging.getLogger("orihon.compression")

_PLACE = "{messages}"
_JOINS = 16  # tokens by which the sum of the parts may differ from the whole
_LEAST_RECORD = 64
_NEWEST_SHARE = 0.5
_EARLIER_SHARE = 0.5
_MARK = 10  # characters by which a line is known as one of ours


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """What is sent to the model."""

    system: str
    user: str
    tokens: int  # of earlier notes and record: the summarizer's input


class RequestWriter:
    """Writes requests for one run of messages, as large as there is room."""

    def __init__(
        self,
        messages: Sequence[Message],
        seqs: Sequence[int],
        earlier: str,
        max_tokens: int,
        own_prompt: str | None,
        count: TokenCounter,
    ) -> None:
        self._messages = messages
        self._seqs = seqs
        self._earlier = clean(earlier.removeprefix(SUMMARY_PREFIX).strip())
        self._count = count
        self._entries = list(_entries(messages, seqs))
        self._sizes = [count(entry) + 1 for entry in self._entries]
        self._is_own = own_prompt is not None
        self._system, self._before, self._after = _frame(own_prompt, max_tokens)

    @property
    def frame_tokens(self) -> int:
        """What a request costs beside its record."""
        frame = (self._system, self._before, self._after, self._block("") if self._earlier else "")
        return sum(map(self._count, frame)) + 2 * MESSAGE_OVERHEAD + _JOINS

    @property
    def instructions(self) -> str:
        """Everything in a request that is ours."""
        return "\n".join((self._system, self._before, self._after, self._block("")))

    @cached_property
    def ground(self) -> Ground:
        """Everything that a summary may rest on, without our labels."""
        return Ground(self._messages, self._seqs, self._earlier)

    def fitted(self, room: int) -> SummaryRequest | None:
        """A request whose record and earlier notes take at most ``room`` tokens; ``None`` when that is too little."""
        if room < _LEAST_RECORD:
            return None
        earlier = self._fitted_earlier(room)
        if earlier is None:
            return None
        used = self._count(earlier)
        record = self._fitted_record(room - used)
        if record is None:
            return None
        block = self._block(earlier) if earlier else ""
        parts = (block, self._before, record, self._after)
        if self._is_own:  # the place of the messages is the place of everything
            parts = (self._before, block, record, self._after)
        return SummaryRequest(self._system, "".join(parts), used + self._count(record))

    def _fitted_earlier(self, room: int) -> str | None:
        allowed = max(int(room * _EARLIER_SHARE), room - sum(self._sizes))
        if self._count(self._earlier) <= allowed:
            return self._earlier
        notes = summarize([Message("system", SUMMARY_PREFIX + self._earlier)], allowed, count=self._count)
        _, _, lines = notes.partition("\n")  # the title names a message that is none
        return lines or None

    def _fitted_record(self, room: int) -> str | None:
        if sum(self._sizes) <= room:
            return "\n".join(self._entries)
        start, used = self._newest(int(room * _NEWEST_SHARE))
        notes = summarize(
            self._messages[:start],
            room - used - 1,
            count=self._count,
            seqs=self._seqs[:start],
            after=self._messages[start:],
        )
        return clean("\n".join((notes, *self._entries[start:]))) if notes else None

    def _newest(self, room: int) -> tuple[int, int]:
        """Where the newest messages begin that stay word for word, and what they cost; results stay with their call."""
        start, used = len(self._sizes), 0
        while start > 0 and used + self._sizes[start - 1] <= room:
            start -= 1
            used += self._sizes[start]
        while start < len(self._sizes) and self._messages[start].role == "tool":
            used -= self._sizes[start]
            start += 1
        return start, used

    def _block(self, earlier: str) -> str:
        return text("prompts.earlier_notes", earlier=earlier) + "\n\n"


def _frame(own_prompt: str | None, max_tokens: int) -> tuple[str, str, str]:
    """The system prompt, and what stands before and after the record."""
    if own_prompt is None:
        headings = "\n".join(f"## {text(f'notes.{heading}')}" for heading in (*HEADINGS, "look_up"))
        system = text("prompts.notes", headings=headings, max_tokens=max_tokens)
        return system, text("prompts.record_start") + "\n", "\n" + text("prompts.record_end")
    before, found, after = own_prompt.partition(_PLACE)
    return text("prompts.summarizer"), before if found else before.rstrip() + "\n\n", after


def _entries(messages: Sequence[Message], seqs: Sequence[int]) -> Iterator[str]:
    tools: dict[str, str] = {}
    for message, seq in zip(messages, seqs, strict=True):
        tools.update((call.id, call.name) for call in message.tool_calls)
        label = f"[{seq} {_speaker(message, tools)}]: "
        calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
        said = _unlabelled(message.text) if message.role == "tool" else message.text
        lines = [line for line in (said, *calls) if line] or [""]
        yield clean("\n".join(label + line for line in lines))


def _unlabelled(said: str) -> str:
    """What a tool printed, in which no line passes for the next message of the record, or for its end."""
    return _like_ours().sub("> ", said)


@cache
def _like_ours() -> re.Pattern[str]:
    keys = ("prompts.record_start", "prompts.record_end", "prompts.earlier_notes")
    marks = {text(key, lang=lang, earlier="").strip()[:_MARK] for key in keys for lang in LANGUAGES}
    return re.compile(rf"^(?=[^\S\n]*(?:\[\d+ [A-Z]|{'|'.join(map(re.escape, sorted(marks)))}))", re.M)


def _speaker(message: Message, tools: Mapping[str, str]) -> str:
    role = message.role.upper()
    if message.role != "tool":
        return role
    tool = message.tool_name or message.name or tools.get(message.tool_call_id or "", "")
    return f"{role} {tool}".rstrip()


_MAY_PASS = (SummaryFailure.RAISED, SummaryFailure.EMPTY)


class LLMSummarizer:
    """Writes the text of a fold with a model."""

    def __init__(
        self,
        client: ChatClient | LLMClientProtocol,
        *,
        window: int,
        prompt: str | None = None,
        retries: int = 2,
        retry_delay: float = 0.5,
        timeout: float = 120.0,
        count: TokenCounter = estimate,
        on_answer: OnAnswer | None = None,
        is_patient: bool = True,
    ) -> None:
        """``window`` is the model's own, in tokens by ``count``; ``prompt`` replaces the built-in one, with
        ``{messages}`` where the record shall stand; ``timeout`` is for a whole summary, in seconds; ``on_answer`` gets
        what the client hands over. Who is not patient asks a client that fails no second time."""
        self._caller = Caller(client, on_answer, is_patient=is_patient)
        self._may_pass = _MAY_PASS if is_patient else ()
        self._timeout = timeout
        self._window = window
        self._prompt = prompt
        self._retries = retries
        self._retry_delay = retry_delay
        self._count = count
        self.last_failure: str | None = None

    def summarize(
        self, messages: Sequence[Message], max_tokens: int, *, seqs: Sequence[int] | None = None, earlier: str = ""
    ) -> str | None:
        """A summary of the run in at most ``max_tokens``, or ``None``.

        ``seqs`` numbers the messages (from 1 without it); ``earlier`` is the text of an earlier fold, which the summary
        takes over.
        """
        numbers = seqs if seqs is not None else range(1, len(messages) + 1)
        written = self._written(messages, max_tokens, numbers, earlier)
        if isinstance(written, str):
            self.last_failure = None
            return written
        self.last_failure = written.reason
        logger.warning("no summary by the model (%s): %s", written.reason, written.detail or "no detail")
        return None

    def _written(self, messages: Sequence[Message], max_tokens: int, seqs: Sequence[int], earlier: str) -> str | Failed:
        if not messages:
            return Failed(SummaryFailure.NOTHING)
        allowed = max_tokens - self._count(SUMMARY_PREFIX)
        writer = RequestWriter(messages, seqs, earlier, allowed, self._prompt, self._count)
        room = self._window - max_tokens - writer.frame_tokens if allowed > 0 else 0
        failed = Failed(SummaryFailure.NO_ROOM, f"a window of {self._window} tokens for an answer of {max_tokens}")
        ends_at = time.monotonic() + self._timeout
        for attempt in range(self._retries + 1):
            request = writer.fitted(room)
            if request is None:
                break
            outcome = self._answer(request, writer, max_tokens, allowed, ends_at)
            if isinstance(outcome, str):
                return outcome
            failed = outcome
            pause = 0.0
            if failed.reason is SummaryFailure.OVERFLOW:
                room = min(room, request.tokens) // 2
            elif failed.reason in self._may_pass:
                pause = self._retry_delay * 2**attempt
            else:
                break
            if attempt == self._retries or time.monotonic() + pause >= ends_at:
                break
            time.sleep(pause)
        return failed

    def _answer(
        self, request: SummaryRequest, writer: RequestWriter, max_tokens: int, allowed: int, ends_at: float
    ) -> str | Failed:
        reply = self._caller.ask(request.system, request.user, allowed, ends_at - time.monotonic())
        if isinstance(reply, Failed):
            return reply
        return judge(
            reply,
            ground=writer.ground,
            instructions=writer.instructions,
            input_tokens=request.tokens,
            max_tokens=max_tokens,
            count=self._count,
        )
