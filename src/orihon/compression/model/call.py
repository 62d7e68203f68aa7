"""One question to a model's client, and what came of it: a reply, or a typed failure.

Takes either kind of client: one with ``create_chat_completion`` (a string or an OpenAI-shaped dict comes back), or an
``LLMClientProtocol``, which gets all its steps again when a question is repeated. Promises: no call takes longer than
its time limit, whatever the client does, because it runs in a daemon thread, which does not keep the interpreter from
ending; only KeyboardInterrupt and SystemExit come out of a call. When the time is over, a client of ours ends its
request and makes no other, and of any client no further step is called. One that hangs all the same is not called
again by anybody before it is back, so it leaves one thread behind at most.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from orihon.drivers.http import CallsTogether
from orihon.errors import InvalidInput

logger = logging.getLogger("orihon.compression")

_TEMPERATURE = 0.0
_LONGEST_DETAIL = 300

# What servers say when a request does not fit the window: llama.cpp, OpenAI and vLLM, Anthropic, Bedrock, Gemini,
# Ollama, LM Studio.
_OVERFLOW = (
    *("exceed_context_size_error", "exceeds the available context size"),
    *("context_length_exceeded", "maximum context length", "maximum model length", "reduce the length of"),
    *("prompt is too long", "prompt too long", "exceed context limit", "context window"),
    *("input is too long", "too many input tokens", "too many tokens"),
    *("input token count", "exceeds the maximum number of tokens"),
    *("input length exceeds", "exceeds the context length", "context length exceeded"),
    *("greater than the context length", "context size has been exceeded"),
)


class SummaryFailure(StrEnum):
    """Why there is no summary."""

    RAISED = "raised"
    TIMED_OUT = "timed_out"
    BUSY = "busy"  # the client still hangs in an earlier call
    EMPTY = "empty"
    NOT_TEXT = "not_text"
    ERROR_TEXT = "error_text"
    REFUSED = "refused"
    UNRELATED = "unrelated"
    INVENTED = "invented"  # most of it, or all, stands nowhere in the source
    TOO_LONG = "too_long"
    LONGER_THAN_INPUT = "longer_than_input"
    OVERFLOW = "overflow"  # the server says that the request does not fit its window
    NO_ROOM = "no_room"  # the window holds no record beside prompt and answer
    NOTHING = "nothing"  # there are no messages


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure, and what is known about it."""

    reason: SummaryFailure
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """What a client answered."""

    text: str
    is_cut_off: bool = False  # the server stopped it at its token limit


OnAnswer = Callable[[object], None]


class LLMClientProtocol(Protocol):
    """A client that takes a request in steps."""

    def send_system_prompt(self, prompt: str) -> None: ...

    def send_user_message(self, message: str) -> None: ...

    def get_response(self) -> tuple[str, list[Any]]: ...


class ChatClient(Protocol):
    """A client that takes a whole request at once."""

    def create_chat_completion(
        self, messages: list[dict[str, str]], *, max_tokens: int, temperature: float
    ) -> str | dict[str, Any]: ...


Outcome = TypeVar("Outcome")

#: Threads that were left behind, by the client that hangs in them (and that they keep alive).
_LEFT_BEHIND: dict[int, threading.Thread] = {}


def within(seconds: float, client: object, work: Callable[[], Outcome], *, is_patient: bool = True) -> Outcome | Failed:
    """What comes of ``work``, which calls the client; ``Failed`` when it raises, takes too long or cannot be begun."""
    if (hanging := _LEFT_BEHIND.get(id(client))) is not None and hanging.is_alive():
        return Failed(SummaryFailure.BUSY, "the client has not come back from an earlier call")
    if seconds <= 0:
        return Failed(SummaryFailure.TIMED_OUT, "there was no time left for a call")
    outcomes: list[Outcome | BaseException] = []
    calls = CallsTogether(is_patient=is_patient)

    def run() -> None:
        calls.begin()
        try:
            outcomes.append(work())
        except BaseException as error:  # noqa: BLE001 - any client may be plugged in, and none must stop the task
            outcomes.append(error)

    # In a copy of the context, so that what the client logs is known to belong to this task.
    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="orihon-summary", daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:
        if thread.is_alive():
            _LEFT_BEHIND[id(client)] = thread
            calls.end()
        else:
            _LEFT_BEHIND.pop(id(client), None)
    if not outcomes:
        return Failed(SummaryFailure.TIMED_OUT, f"no answer within {seconds:.3g} s")
    if isinstance(outcome := outcomes[0], KeyboardInterrupt | SystemExit):
        raise outcome
    if isinstance(outcome, BaseException):
        logger.debug("the model's client raised", exc_info=outcome)
        return _failed(outcome)
    return outcome


class Caller:
    """Asks one client, one question at a time."""

    def __init__(
        self, client: ChatClient | LLMClientProtocol, on_answer: OnAnswer | None = None, *, is_patient: bool = True
    ) -> None:
        """``on_answer`` gets whatever the client hands over, good or bad: it has been paid for."""
        self._client = client
        self._is_patient = is_patient
        self._send = _sender(client)
        self._on_answer = on_answer

    def ask(self, system: str, user: str, max_tokens: int, seconds: float) -> SummaryReply | Failed:
        """The client's reply to one request, within so many seconds."""

        def reply() -> SummaryReply | Failed:
            answer = self._send(system, user, max_tokens)
            if self._on_answer is not None:
                self._on_answer(answer)
            return read_reply(answer)

        return within(seconds, self._client, reply, is_patient=self._is_patient)


def read_reply(answer: object) -> SummaryReply | Failed:
    """The text in whatever a client handed over."""
    if isinstance(answer, tuple) and answer:
        answer = answer[0]
    if isinstance(answer, Mapping):
        return _read_response(answer)
    if answer is None:
        return Failed(SummaryFailure.EMPTY)
    if not isinstance(answer, str):
        return Failed(SummaryFailure.NOT_TEXT, type(answer).__name__)
    return SummaryReply(str.__str__(answer))  # a class of its own may do anything in its methods


def says_overflow(said: str) -> bool:
    """Whether an error says that the request was too long."""
    lowered = said.lower()
    return any(words in lowered for words in _OVERFLOW)


def error_text(said: str) -> Failed:
    """The failure that an error's text stands for."""
    reason = SummaryFailure.OVERFLOW if says_overflow(said) else SummaryFailure.ERROR_TEXT
    return Failed(reason, said[:_LONGEST_DETAIL])


def _sender(client: ChatClient | LLMClientProtocol) -> Callable[[str, str, int], object]:
    whole = getattr(client, "create_chat_completion", None)
    if callable(whole):

        def send_whole(system: str, user: str, max_tokens: int) -> object:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
            return whole(messages, max_tokens=max_tokens, temperature=_TEMPERATURE)

        return send_whole
    steps = ("send_system_prompt", "send_user_message", "get_response")
    send_system_prompt, send_user_message, get_response = (getattr(client, step, None) for step in steps)
    if not (callable(send_system_prompt) and callable(send_user_message) and callable(get_response)):
        raise InvalidInput("summary_client", actual=type(client).__name__)

    def send_in_steps(system: str, user: str, _: int) -> object:
        calls = CallsTogether.here()
        for say, words in ((send_system_prompt, system), (send_user_message, user)):
            say(words)
            if calls is not None and calls.is_over:
                raise TimeoutError
        return get_response()

    return send_in_steps


def _read_response(response: Mapping[Any, Any]) -> SummaryReply | Failed:
    """A response in OpenAI's shape, or an error that came in its place."""
    if response.get("error"):
        return error_text(str(response["error"]))
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return Failed(SummaryFailure.NOT_TEXT, str(response)[:_LONGEST_DETAIL])
    content = message.get("content")
    if content is None:
        refusal = message.get("refusal")
        return (
            Failed(SummaryFailure.REFUSED, refusal[:_LONGEST_DETAIL])
            if isinstance(refusal, str)
            else Failed(SummaryFailure.EMPTY)
        )
    if isinstance(content, list):
        content = "".join(_part_texts(content))
    if not isinstance(content, str):
        return Failed(SummaryFailure.NOT_TEXT, type(content).__name__)
    return SummaryReply(content, choice.get("finish_reason") == "length")


def _part_texts(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]


def _failed(error: BaseException) -> Failed:
    said = _readable(lambda: str(error))
    detail = f"{type(error).__name__}: {said}"[:_LONGEST_DETAIL]
    # Where the common HTTP clients keep what the server said.
    body = _readable(lambda: getattr(error, "body", ""))
    response = _readable(lambda: getattr(getattr(error, "response", None), "text", ""))
    if says_overflow("\n".join((said, body, response))):
        return Failed(SummaryFailure.OVERFLOW, detail)
    if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
        return Failed(SummaryFailure.TIMED_OUT, detail)
    return Failed(SummaryFailure.RAISED, detail)


def _readable(read: Callable[[], object]) -> str:
    """A client's error may be as broken as the client."""
    with suppress(Exception):
        return str(read())
    return ""
