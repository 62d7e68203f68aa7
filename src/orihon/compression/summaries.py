"""The summaries of a task beside its folds: who writes them, the final one, the file of a request for one.

One summarizer for each client and window: it remembers a call that still hangs, so that the next compression does not
ask once more. What its answers have used is written down for a client that does not do so itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orihon.compression.model.call import ChatClient, LLMClientProtocol
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.compression.notes.extractor import summarize
from orihon.compression.pages import Pages
from orihon.compression.telemetry import counting_answers
from orihon.compression.trust import Sources, quoted
from orihon.errors import DamagedStore
from orihon.settings import Settings
from orihon.store.kept_files import keep_with_digest
from orihon.store.model_calls import keep_calls
from orihon.store.tail import Tail
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.files import replace_file, wrapping
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.records import FINAL_SUMMARY, ModelCall
from orihon.values.tokens.tokens import tokenizer

if TYPE_CHECKING:
    from orihon.compression.contract import FoldedTask


class OwnPrompt:
    """An attribute of a class: our words in the language of the day, until somebody sets others."""

    def __get__(self, instance: object, owner: type) -> str:
        return text("prompts.summarizer")


def own_prompt(instance: object, name: str) -> str | None:
    """The words that the class of an object has in the place of ours."""
    found = next(vars(one)[name] for one in type(instance).__mro__ if name in vars(one))
    return found if isinstance(found, str) else None


# Of the window that a request may have which was only estimated: code has up to a third more tokens than that.
_SURE = 0.75


class Summarizers:
    """Summarizers by the settings of one task."""

    def __init__(self, settings: Settings, task_ctx: FoldedTask | None, prompt: str | None = None) -> None:
        """``prompt`` stands in for the settings' one."""
        self._settings = settings
        self._task_ctx = task_ctx
        self._prompt = prompt or settings.compression.summary_prompt
        self._last: tuple[object, LLMSummarizer | None] | None = None

    def of(self, client: LLMClientProtocol | ChatClient | None, window: int) -> LLMSummarizer | None:
        """The one that writes folds; none without a client."""
        key = client, window
        if self._last is None or self._last[0] != key:
            self._last = key, self.with_prompt(self._prompt, client, window)
        return self._last[1]

    def with_prompt(
        self,
        prompt: str | None,
        client: LLMClientProtocol | ChatClient | None,
        window: int,
        *,
        is_last: bool = False,
    ) -> LLMSummarizer | None:
        """A new one that is asked in other words; the last one of a task asks once, and waits for a short time only."""
        wanted, named = self._settings.compression, self._settings.llm.active.tokenizer
        if client is None:
            return None
        whole = wanted.summary_window or window
        return LLMSummarizer(
            client,
            window=whole if named else int(whole * _SURE),
            prompt=prompt,
            retries=wanted.summary_retries,
            timeout=min(wanted.summary_timeout, wanted.final_summary_timeout if is_last else math.inf),
            # As the view is planned: a vocabulary of tens of megabytes only for who has asked for exact counts.
            count=tokenizer(named or "estimate"),
            on_answer=counting_answers(self._task_ctx, client),
            is_patient=not is_last,
        )


FINAL_SUMMARY_TOKENS = 2000


def final_summary(pages: Pages, model: LLMSummarizer | None, window: int) -> str:
    """What was wanted, done, found and left open, for the next task on the same key."""
    head = pages.view.head
    most = min(FINAL_SUMMARY_TOKENS, window // 4)
    said, seqs = pages.messages[head:], [entry.start for entry in pages.view.entries[head:]]
    written = model.summarize(said, most, seqs=seqs) if model is not None else None
    drawn = written or summarize(said, most, count=pages.count, seqs=seqs)
    return quoted(drawn, Sources(said, ()))  # the next task reads it as the word of this one


def keep_final_summary(store: TaskStore, summary: str, calls: tuple[ModelCall, ...]) -> None:
    """Write ``final_summary.txt``, and the calls that no compression has a record of."""
    written = summary.encode("utf-8", "replace")

    def keep(_: Tail) -> None:
        keep_with_digest(store.records, FINAL_SUMMARY, written)
        keep_calls(store, calls)

    store.change(keep)  # a writer that was replaced has nothing to say any more


_MESSAGES = "{messages}"


def write_request_file(prompt_file: Path, context_file: Path, output_file: Path) -> None:
    """Prompt and context (as ``[ROLE]: content``) into one file; the context stands where ``{messages}`` does."""
    with wrapping(prompt_file):
        prompt = prompt_file.read_text(encoding="utf-8")
    pieces = _filled(prompt, _conversation(context_file))
    replace_file(output_file, (piece.encode("utf-8", "replace") for piece in pieces), durable=False)


def _filled(prompt: str, messages: Iterable[str]) -> Iterator[str]:
    """The prompt with the messages in their place, piece by piece."""
    before, found, after = prompt.partition(_MESSAGES)
    yield before if found else before.rstrip() + "\n\n"
    yield from messages
    yield after


def _conversation(context_file: Path) -> Iterator[str]:
    with wrapping(context_file), context_file.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                message = Message.from_chat(jsonio.decode(line))
            except ValueError as error:
                raise DamagedStore("record", stream="current", where=context_file, start=line[:40]) from error
            calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
            yield f"[{message.role.upper()}]: {' '.join(filter(None, (message.text, *calls)))}\n"
