"""The final summary of a task: written by its model when there is one, else as an outline of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Protocol

from orihon.compression.outline import outline
from orihon.message import Message
from orihon.texts import text

logger = logging.getLogger("orihon.compression")

FINAL_SUMMARY_TOKENS = 2000


class LLMClientProtocol(Protocol):
    """What a summary needs of a model client."""

    def send_system_prompt(self, prompt: str) -> None: ...

    def send_user_message(self, message: str) -> None: ...

    def get_response(self) -> tuple[str, list[Any]]: ...


def final_summary(messages: Iterable[Message], llm_client: LLMClientProtocol | None) -> str:
    """What was wanted, done, found and left open, for the next task on the same key."""
    notes = outline(messages, FINAL_SUMMARY_TOKENS)
    written = ask(llm_client, text("prompts.final_summary"), notes) if llm_client is not None else None
    return written or notes


def ask(llm_client: LLMClientProtocol, prompt: str, notes: str) -> str | None:
    """The model's summary of the notes; ``None`` when it fails, answers nothing, or answers at greater length."""
    try:
        llm_client.send_system_prompt(prompt)
        llm_client.send_user_message(notes)
        answer, _ = llm_client.get_response()
    except Exception:  # any client may be plugged in; a summary that fails must not stop the task
        logger.exception("the summary could not be written by the model")
        return None
    written = _text_in(answer)
    if not written or len(written) > 2 * len(notes):
        logger.warning("the model's summary was empty or longer than its input; the outline is kept")
        return None
    return written


def _text_in(answer: object) -> str:
    """A client may hand over anything, whatever its types promise."""
    return answer.strip() if isinstance(answer, str) else ""
