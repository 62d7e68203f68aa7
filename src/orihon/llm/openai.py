"""OpenAI's chat completions, and the many servers that speak alike, LM Studio among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from orihon.drivers.http import Response, shown_url
from orihon.errors import CutOff, NotJSON
from orihon.llm.answers import AnswerBuilder, decoded, excerpt, mapping, mappings
from orihon.llm.base import LLMClient, RequestOptions
from orihon.llm.request_file import ViewLines, body, messages_of, separated
from orihon.llm.transport import endpoint, events, refusal_in_stream
from orihon.system import jsonio
from orihon.values.message.provider_shapes import one_system_prompt, opened_by_user

_DONE = b"[DONE]"
_OWN_HOST = "api.openai.com"
_REASONING_FIELDS = ("reasoning_content", "reasoning")
# Models that choose by themselves how to sample.
_FIXED_TEMPERATURE = ("o1", "o3", "o4", "gpt-5")


class OpenAIClient(LLMClient):
    """Chat completions of OpenAI, vLLM, llama.cpp and others."""

    provider = "openai"
    key_hosts: ClassVar[tuple[str, ...]] = (_OWN_HOST,)

    def _endpoint(self, base_url: str) -> str:
        return endpoint(base_url, "/v1", "/chat/completions")

    def _body(self, view: ViewLines, options: RequestOptions) -> Iterator[bytes]:
        return body(self._fields(options), [*_tools(options), ("messages", self._messages(view))])

    def _messages(self, view: ViewLines) -> Iterator[bytes]:
        return view.joined()

    def _fields(self, options: RequestOptions) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": options.model, "stream": options.stream}
        if options.stream:
            fields["stream_options"] = {"include_usage": True}
        if options.max_tokens is not None:
            is_own = urlsplit(self._url).hostname == _OWN_HOST
            fields["max_completion_tokens" if is_own else "max_tokens"] = options.max_tokens
        if options.temperature is not None and not options.model.startswith(_FIXED_TEMPERATURE):
            fields["temperature"] = options.temperature
        return fields

    def _read(self, response: Response, builder: AnswerBuilder) -> None:
        if response.content_type == "text/event-stream":
            self._read_stream(response, builder)
        elif response.content_type.endswith("json") or not response.content_type:
            self._read_choices(piece_of(response, response.read(), self._url), "message", builder)
        else:
            raise not_an_answer(response, self._url)

    def _read_stream(self, response: Response, builder: AnswerBuilder) -> None:
        for data in events(response.lines()):
            if data.strip() == _DONE:
                return
            self._read_choices(piece_of(response, data, self._url), "delta", builder)
        if not builder.finish:
            raise CutOff("unfinished", url=shown_url(self._url))

    def _read_choices(self, value: Mapping[str, Any], key: str, builder: AnswerBuilder) -> None:
        if value.get("error"):
            raise refusal_in_stream(value["error"], self._url, self._api_key)
        builder.add_usage(value.get("usage"))
        choices = value.get("choices")
        if not isinstance(choices, list):
            raise NotJSON("shape", expected="choices", excerpt=excerpt(jsonio.encode(value)))
        for choice in mappings(choices)[:1]:
            builder.finish = str(choice.get("finish_reason") or builder.finish)
            _read_message(mapping(choice.get(key)), builder)


def piece_of(response: Response, data: bytes, url: str) -> dict[str, Any]:
    """A JSON object of an answer; ``CutOff`` when the connection ended in the middle of it."""
    try:
        return decoded(data)
    except NotJSON as error:
        if response.may_be_cut and data.lstrip().startswith(b"{") and not data.rstrip().endswith(b"}"):
            raise CutOff("unfinished", url=shown_url(url)) from error
        raise


def not_an_answer(response: Response, url: str) -> NotJSON:
    """The error for an answer of a wrong type: a login page, a proxy's notice."""
    start = excerpt(response.read(1 << 12))
    kind = response.content_type or "-"
    return NotJSON("content_type", url=shown_url(url), content_type=kind, excerpt=start or "-")


def _tools(options: RequestOptions) -> list[tuple[str, Iterator[bytes]]]:
    # Before the messages: what stays the same from call to call stands first.
    tools = separated(jsonio.encode(tool.as_openai()) for tool in options.tools)
    return [("tools", tools)] if options.tools else []


def _read_message(message: Mapping[str, Any], builder: AnswerBuilder) -> None:
    """A message, or a piece of one."""
    builder.text(message.get("content") or message.get("refusal"))
    for name in _REASONING_FIELDS:
        builder.reasoning(name, message.get(name))
    for position, call in enumerate(mappings(message.get("tool_calls"))):
        function = mapping(call.get("function"))
        builder.call(
            _key(call, position), call_id=call.get("id"), name=function.get("name"), arguments=function.get("arguments")
        )
    if old := mapping(message.get("function_call")):
        builder.call("old", name=old.get("name"), arguments=old.get("arguments"))


def _key(call: Mapping[str, Any], position: int) -> object:
    """Which call a piece belongs to: streams number them."""
    index = call.get("index")
    return index if isinstance(index, int) else position


class LMStudioClient(OpenAIClient):
    """Models in LM Studio, whose templates take one system message, only at the beginning, and then a user's."""

    provider = "lmstudio"
    key_hosts = ()

    def _messages(self, view: ViewLines) -> Iterator[bytes]:
        return separated(map(jsonio.encode, opened_by_user(one_system_prompt(messages_of(view)))))
