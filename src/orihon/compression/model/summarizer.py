"""The summarizer that asks a model: one call for a run of messages, and hard limits on what comes back.

Promises: a text in at most ``max_tokens`` that is shorter than its input and has to do with it, or ``None``. It never
raises (KeyboardInterrupt and SystemExit apart) and never takes longer than its time limit for each call, whatever the
client does. Only what may pass is tried again: a client that raised, an empty answer; and a request that the server
found too long, with half the record. Why there was no text is in ``last_failure`` and, once, in the log. An instance
serves one caller at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from orihon.compression.model.answer import judge
from orihon.compression.model.call import Caller, ChatClient, Failed, LLMClientProtocol, OnAnswer, SummaryFailure
from orihon.compression.model.request import RequestWriter, SummaryRequest
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, Counter, tokenizer

__all__ = ["ChatClient", "LLMClientProtocol", "LLMSummarizer", "SummaryFailure"]

logger = logging.getLogger("orihon.compression")

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
        count: Counter | None = None,
        on_answer: OnAnswer | None = None,
    ) -> None:
        """``window`` is the model's own, in tokens by ``count``; ``prompt`` replaces the built-in one, with
        ``{messages}`` where the record shall stand; ``timeout`` is for each call, in seconds; ``on_answer`` gets what
        the client hands over."""
        self._caller = Caller(client, timeout, on_answer)
        self._window = window
        self._prompt = prompt
        self._retries = retries
        self._retry_delay = retry_delay
        self._count = count or tokenizer(DEFAULT_TOKENIZER)
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
        for attempt in range(self._retries + 1):
            request = writer.fitted(room)
            if request is None:
                break
            outcome = self._answer(request, writer, max_tokens, allowed)
            if isinstance(outcome, str):
                return outcome
            failed = outcome
            if failed.reason is SummaryFailure.OVERFLOW:
                room = min(room, request.tokens) // 2
            elif failed.reason not in _MAY_PASS:
                break
            elif attempt < self._retries:
                time.sleep(self._retry_delay * 2**attempt)
        return failed

    def _answer(self, request: SummaryRequest, writer: RequestWriter, max_tokens: int, allowed: int) -> str | Failed:
        reply = self._caller.ask(request.system, request.user, allowed)
        if isinstance(reply, Failed):
            return reply
        return judge(
            reply,
            source=writer.source,
            instructions=writer.instructions,
            input_tokens=request.tokens,
            max_tokens=max_tokens,
            count=self._count,
        )
