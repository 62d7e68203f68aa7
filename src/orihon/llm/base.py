"""``LLMClient``: one conversation with a model, whatever the provider.

Owns the way of a call: the view goes out as a file, the answer comes back, is put together and stored. Promises that
an answer is stored whole or not at all, whatever ends the call; that failures which may pass are tried again, a
bounded number of times; that a request which does not fit leads to one compression and one further attempt; and that
another thread can end a call. A provider says in a subclass where requests go, how they look and how answers are read.
"""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from orihon.compression.compressor import ContextCompressor
from orihon.drivers.http import CallsTogether, Response, Timeouts
from orihon.drivers.tracing import tracing_of
from orihon.errors import EmptyAnswer, InvalidSettings, LLMError, Overflow, Refused, TimedOut, Unreachable
from orihon.guard.masking.redaction import Redactor
from orihon.llm import configured
from orihon.llm.answers import AnswerBuilder, ModelAnswer, OnText
from orihon.llm.configured import client_settings
from orihon.llm.history import History, MemoryHistory, StoredHistory
from orihon.llm.request_file import ViewLines, instructed_lines, list_lines, view_with_user
from orihon.llm.telemetry import call_telemetry, model_call
from orihon.llm.tools import ToolDefinition, read_text_calls, read_tools, text_call_instructions, text_result_message
from orihon.llm.transport import CancellableCall, Transport, refusal, without_user
from orihon.settings import Settings
from orihon.system import jsonio
from orihon.system.files import wrapping
from orihon.tasks.message_store import MessageStore
from orihon.values.message.message import Message
from orihon.values.records import Usage
from orihon.values.tokens.tokens import estimate

if TYPE_CHECKING:
    from orihon.llm.response_cache import ResponseCache
    from orihon.llm.retry import RateLimit, RetryPolicy
    from orihon.tasks.context import TaskContextManager

logger = logging.getLogger("orihon.llm")

Definitions = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What a request says beside its messages."""

    model: str
    context_length: int
    stream: bool = False
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None


class LLMClient(ABC):
    """A conversation with a model: what is said goes into the task's log, what comes back too."""

    provider: ClassVar[str]
    #: Hosts that answer nobody without a key.
    key_hosts: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        config: Mapping[str, Any] | Settings | None = None,
        functions: Definitions | None = None,
        tools: Definitions | None = None,
        context_dir: Path | str | None = None,
        *,
        message_store: MessageStore | None = None,
        task_ctx: TaskContextManager | None = None,
        http: Transport | None = None,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        stream: bool | None = None,
        cache: ResponseCache | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        """The history lies in ``task_ctx``, ``message_store`` or ``context_dir``; without any of them, or with
        ``context_storage.enabled: false``, in memory. How calls are made, the settings say (``llm.*``), unless told."""
        inherited = task_ctx.settings if task_ctx else message_store.settings if message_store else None
        self.settings, folder = client_settings(inherited if config is None else config, self.provider)
        self.task_ctx = task_ctx
        self.message_store = self._store(folder if context_dir is None else context_dir, message_store)
        self.tools = read_tools(functions, tools)
        self.stream = self.settings.llm.stream if stream is None else stream
        self.last_answer: ModelAnswer | None = None
        #: Whether the last call came to nothing because the model is gone, or busy: the end of a task does not ask it.
        self.is_silent = False
        self._section = self.settings.llm.active
        self._url, self._basic = without_user(self._endpoint(self._section.base_url))
        self._api_key = self._checked_key()
        self._own_transport = http is None
        patience = timeouts or configured.timeouts(self.settings)
        self._transport = http or Transport(patience, allow_metadata=self.settings.llm.allow_metadata)
        self._retry = retry or configured.retry_policy(self.settings)
        self._cache = cache or configured.kept_answers(self.settings, task_ctx)
        self._rate_limit = rate_limit or configured.rate_limit(self.settings, task_ctx)
        #: Folds the conversation; ``None`` where it is in memory.
        self.compressor = self._make_compressor()
        self._history = self._make_history()
        self._tool_tokens = sum(estimate(jsonio.encode(tool.as_openai()).decode()) for tool in self.tools)
        if self.message_store is not None:
            self.message_store.tool_tokens = self._tool_tokens
        self._turn = threading.Lock()
        self._running: set[CancellableCall] = set()
        self._running_lock = threading.Lock()

    # ---- the conversation ----------------------------------------------------------------------------------------

    def send_system_prompt(self, prompt: str) -> None:
        """Add a system message."""
        self._history.add("system", prompt)

    def send_user_message(self, message: str) -> None:
        """Add what the user says."""
        self._history.add("user", message)

    def send_function_result(
        self, name: str, result: object, *, tool_call_id: str | None = None, is_recorded: bool = False
    ) -> None:
        """Add a tool's result, for the call of that id or the oldest open call of that tool.

        A result that is no text is written as JSON. With a task the call is recorded among its tool calls, unless
        whoever has made it ``is_recorded`` there already; a result with an ``output`` and a ``status`` by its fields
        (``duration_ms``, ``arguments``, ``error_message``).
        """
        written = result if isinstance(result, str) else jsonio.encode(result).decode()
        if self.calls_in_words:
            self._history.add("user", text_result_message(name, written))
        else:
            told = result if isinstance(result, Mapping) and result.keys() >= {"output", "status"} else {}
            self._history.add_result(name, written, tool_call_id, is_recorded=is_recorded, told=told)

    def get_response(self, *, on_text: OnText | None = None) -> tuple[str, list[dict[str, str]]]:
        """Ask the model; its text, and its tool calls as ``{"id", "name", "arguments"}`` (arguments as a text).

        ``on_text`` gets each piece of the text as it comes. The answer is stored when it is complete.
        """
        with self._turn, self._calling() as call:
            try:
                answer, tokens = self._ask(call, on_text)
            except Overflow:
                logger.warning("%s: the request does not fit the window; compressing", self.provider)
                if not self._history.relieve():
                    raise
                answer, tokens = self._ask(call, on_text)
            call.check()
            stored = self._settled(answer)
            made = model_call(self.model, answer)
            self._history.add_answer(replace(stored, calls=()) if self.calls_in_words else stored, made)
            self.last_answer = stored
            self._history.report(answer.usage, tokens, made)
        return stored.text, [dict(each) for each in stored.calls]

    def create_chat_completion(
        self, messages: Iterable[Mapping[str, Any]], *, max_tokens: int | None = None, temperature: float | None = None
    ) -> dict[str, Any]:
        """One request outside the conversation, without tools; the answer in OpenAI's shape."""
        view = list_lines([Message.from_chat(message).request() for message in messages])
        options = replace(self._options(), stream=False, tools=(), temperature=temperature)
        options = replace(options, max_tokens=max_tokens or options.max_tokens)
        body = b"".join(self._body(view_with_user(view), options))
        with self._calling() as call:
            answer = self._attempts(body, call, None)
        used = Usage.of(answer.usage)
        if self.task_ctx is not None:
            self.task_ctx.update_statistics(llm_calls=1, tokens=used.total)
            estimated = Usage(estimate(body.decode("utf-8", "replace")), 0, estimate(answer.text))
            made = model_call(options.model, answer)
            made = replace(made, usage=made.usage or estimated)
            self.task_ctx.calls.summarised(made, epoch=self.task_ctx.lease.epoch)
        message = {"role": "assistant", "content": answer.text, **answer.fields}
        return {
            "object": "chat.completion",
            "model": options.model,
            "choices": [{"index": 0, "message": message, "finish_reason": answer.finish or "stop"}],
            "usage": {"prompt_tokens": used.input, "completion_tokens": used.output},
        }

    def get_summary(self, request_file: Path | str) -> str:
        """The model's answer to the text of a file, outside the conversation: see ``create_summary_request_file``."""
        path = Path(request_file)
        with wrapping(path):
            asked = path.read_text(encoding="utf-8")
        answer = self.create_chat_completion([{"role": "user", "content": asked}])
        return str(answer["choices"][0]["message"]["content"])

    def cancel(self) -> None:
        """From another thread: whatever call is running ends with ``Cancelled``; nothing of it is stored."""
        with self._running_lock:
            running = list(self._running)
        for call in running:
            call.cancel()

    def close(self) -> None:
        """Let go of the connections."""
        if self._own_transport:
            self._transport.close()

    # ---- figures -------------------------------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """The model in use: the task's, if it has changed."""
        return self.task_ctx.model if self.task_ctx is not None else self._section.model

    @property
    def context_length(self) -> int:
        """Its window."""
        return self._section.context_length if self.message_store is None else self.message_store.context_length

    @property
    def max_token(self) -> int:
        """The most tokens of an answer; where the settings do not say, the window."""
        return self._section.max_token or self.context_length

    @property
    def use_file_storage(self) -> bool:
        """Is the conversation kept, or is it in memory?"""
        return self.message_store is not None

    @property
    def calls_in_words(self) -> bool:
        """Whether the model is asked to write its calls into its text."""
        return bool(self.tools) and not self.settings.llm.function_calling

    @property
    def last_usage(self) -> Usage:
        """Tokens of the last answer."""
        return Usage.of(self.last_answer.usage) if self.last_answer is not None else Usage()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as a list, where it is one: in memory mode."""
        return self._history.messages if isinstance(self._history, MemoryHistory) else []

    # ---- what a provider says ------------------------------------------------------------------------------------

    @abstractmethod
    def _endpoint(self, base_url: str) -> str:
        """Where requests go."""

    def _headers(self, api_key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    @abstractmethod
    def _body(self, view: ViewLines, options: RequestOptions) -> Iterator[bytes]:
        """The request, piece by piece."""

    @abstractmethod
    def _read(self, response: Response, builder: AnswerBuilder) -> None:
        """What comes back, put together in ``builder``."""

    # ---- one call ------------------------------------------------------------------------------------------------

    def _ask(self, call: CancellableCall, on_text: OnText | None) -> tuple[ModelAnswer, int]:
        """The answer to the conversation as it is, and our count of what was sent."""
        options = self._options()
        view = self._history.prepare()
        if self.calls_in_words:
            view = instructed_lines(view, text_call_instructions(self.tools))
        tokens = self._history.tokens + self._tool_tokens
        with self._history.body(self._body(view_with_user(view), options)) as body:
            answer = self._attempts(body, call, on_text)
        if self.calls_in_words:
            answer = read_text_calls(answer, [tool.name for tool in self.tools])
        return answer, tokens

    def _attempts(self, body: Path | bytes, call: CancellableCall, on_text: OnText | None) -> ModelAnswer:
        key = self._cache.key(self._url, body) if self._cache is not None else ""
        if self._cache is not None and (kept := self._cache.get(key)) is not None:
            if on_text is not None and kept.text:
                on_text(kept.text)
            return kept
        with call_telemetry(self.task_ctx, tracing_of(self.settings), self.provider, self.model, self._url) as observed:
            answer = self._tried(body, call, on_text)
            observed.answer = answer
        if self._cache is not None:
            self._cache.put(key, answer, self._redactor())
        return answer

    def _tried(self, body: Path | bytes, call: CancellableCall, on_text: OnText | None) -> ModelAnswer:
        """The answer, after as many attempts as the retry policy allows."""
        for attempt in count(1):
            builder = AnswerBuilder(on_text)
            try:
                answer = self._attempt(body, call, builder)
                self.is_silent = False
                return answer
            except LLMError as error:
                self.is_silent = _is_gone(error)
                delay = None if builder.has_begun else self._delay(attempt, error)
                if delay is None:
                    raise
                logger.warning("%s: attempt %d: %s Again in %.1f s.", self.provider, attempt, error.cause, delay)
            call.pause(delay)
        raise AssertionError  # attempts are counted without end

    def _delay(self, attempt: int, error: LLMError) -> float | None:
        """Seconds before the next attempt; ``None``: there is none, or whoever has asked for a summary makes it."""
        together = CallsTogether.here()
        if together is not None and not (together.is_patient and error.fields.get("retry_after")):
            return None
        return self._retry.delay(attempt, error)

    def _attempt(self, body: Path | bytes, call: CancellableCall, builder: AnswerBuilder) -> ModelAnswer:
        if self._rate_limit is not None:
            call.pause(self._rate_limit.take(self.provider))
        headers = {"Authorization": self._basic} if self._basic else {}
        headers |= self._headers(self._api_key)
        with self._transport.post_file(self._url, headers, self._sent(body), call) as response:
            if not 200 <= response.status < 300:
                raise refusal(response, self._url, self._api_key)
            self._read(response, builder)
        answer = builder.built()
        if answer.is_empty or (builder.has_calls and not answer.calls):  # a call without a name is none
            raise EmptyAnswer("nothing", model=self.model, finish=answer.finish or "-")
        return answer

    def _sent(self, body: Path | bytes) -> Path | bytes:
        """The body as it goes out: with a vault, with the values that only placeholders stand for on the disk."""
        vault = self._redactor().vault if self.settings.masking.vault else None
        if vault is None:
            return body
        raw = body if isinstance(body, bytes) else body.read_bytes()
        return vault.restored_json(raw.decode()).encode()

    @contextmanager
    def _calling(self) -> Iterator[CancellableCall]:
        call = CancellableCall()
        with self._running_lock:
            self._running.add(call)
        try:
            yield call
        finally:
            with self._running_lock:
                self._running.discard(call)

    def _settled(self, answer: ModelAnswer) -> ModelAnswer:
        """The answer with an id for each call that no call of this task has had: local servers repeat theirs."""
        calls: list[dict[str, str]] = []
        seen: set[str] = set()
        for call in answer.calls:
            call_id = call["id"]
            if not call_id or call_id in seen or self._history.is_used(call_id):
                call_id = f"call_{uuid.uuid4().hex[:24]}"
            seen.add(call_id)
            calls.append({**call, "id": call_id})
        return replace(answer, calls=tuple(calls))

    def _options(self) -> RequestOptions:
        tools = () if self.calls_in_words else self.tools
        return RequestOptions(self.model, self.context_length, self.stream, tools, self._section.max_token)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _store(self, context_dir: Path | str | None, message_store: MessageStore | None) -> MessageStore | None:
        if not self.settings.context_storage.enabled:
            return None
        if message_store is not None or self.task_ctx is None:
            return message_store or (MessageStore(context_dir, self.settings) if context_dir is not None else None)
        return self.task_ctx.message_store

    def _make_compressor(self) -> ContextCompressor | None:
        if self.message_store is None:
            return None
        if self.task_ctx is not None:
            return self.task_ctx.compressor
        return ContextCompressor(message_store=self.message_store, llm_client=self)

    def _make_history(self) -> History:
        if self.message_store is None or self.compressor is None:
            limit = self._section.context_length - self.settings.reserve_output
            return MemoryHistory(limit, self.task_ctx)
        return StoredHistory(self.message_store, self.compressor, self.task_ctx)

    def _redactor(self) -> Redactor:
        if self.message_store is not None:
            return self.message_store.task_store.redactor
        wanted = self.settings.masking
        kinds = {"email": wanted.email, "ssn": wanted.ssn, "vault": wanted.vault, "enabled": wanted.enabled}
        return Redactor(b"", patterns=wanted.patterns, allow=wanted.allow, **kinds)

    def _checked_key(self) -> str | None:
        """The key as it is sent. Files of keys end with a line feed; a key that no header can hold is not quoted."""
        api_key = (self._section.api_key or "").strip()
        where = {"key": f"llm.{self.provider}.api_key", "variable": f"{self.provider.upper()}_API_KEY"}
        if not api_key and any(host in self._url for host in self.key_hosts):
            raise InvalidSettings("no_api_key", **where)
        if not (api_key.isascii() and api_key.isprintable()):
            raise InvalidSettings("odd_api_key", **where)
        return api_key or None


def _is_gone(error: LLMError) -> bool:
    """Whether nobody is there who could answer the next request."""
    is_broken = isinstance(error, Refused) and error.fields["status"] >= 500
    return is_broken or isinstance(error, TimedOut | Unreachable)
