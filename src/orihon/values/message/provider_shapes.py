"""Messages of a view in the shapes of providers that do not take OpenAI's: Ollama, Anthropic, LM Studio.

One message in memory at a time. Where the provider takes only one system prompt, later system messages go as a user's,
and so does a summary that follows the prompt directly: it is made of what tools and users said, and must not gain the
prompt's weight. Arguments that are no JSON object are handed on under ``INVALID``.

A request without any user's message is refused by many: templates find "no user query". Wherever a view has none, a
short neutral one is sent and never stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orihon.system import jsonio
from orihon.texts import text
from orihon.values.records import SUMMARY_PREFIX

SYSTEM_ROLES = ("system", "developer")
#: Where arguments go that the model wrote as something else than a JSON object.
INVALID = "invalid_arguments"
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*)?;base64,(.*)", re.DOTALL)
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9_-]")

ProviderMessage = dict[str, Any]


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call as an object."""
    text = call["function"].get("arguments") or "{}"
    try:
        value = jsonio.decode(text)
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {INVALID: value}


def is_prompt(message: ProviderMessage) -> bool:
    """Whether a message at the beginning belongs to the system prompt."""
    content = message["content"]
    is_summary = isinstance(content, str) and content.startswith(SUMMARY_PREFIX)
    return message["role"] in SYSTEM_ROLES and not is_summary


def has_user(messages: Iterable[ProviderMessage]) -> bool:
    """Whether somebody speaks in them; read no further than the first who does."""
    return any(message["role"] == "user" for message in messages)


def with_user(view: Sequence[ProviderMessage]) -> list[ProviderMessage]:
    """The view as a request: where nobody speaks, with a user's message."""
    return list(view if has_user(view) else opened_by_user(view))


def opened_by_user(messages: Iterable[ProviderMessage]) -> Iterator[ProviderMessage]:
    """The messages; where the first after the system's is not a user's, with a neutral one before it."""
    is_empty, is_open = True, False
    for message in messages:
        is_empty = False
        if not is_open and message["role"] not in SYSTEM_ROLES:
            is_open = True
            if message["role"] != "user":
                yield _neutral()
        yield message
    if not is_open and not is_empty:
        yield _neutral()


def _neutral() -> ProviderMessage:
    return {"role": "user", "content": text("requests.go_on")}


def one_system_prompt(messages: Iterable[ProviderMessage]) -> Iterator[ProviderMessage]:
    """The leading system messages as one, later ones as a user's."""
    prompt: list[str] = []
    is_head = True
    for message in messages:
        if is_head and is_prompt(message):
            prompt.append(text_of(message["content"]))
            continue
        if is_head and prompt:
            yield {"role": "system", "content": "\n\n".join(prompt)}
        is_head = False
        yield {**message, "role": "user"} if message["role"] in SYSTEM_ROLES else message
    if is_head and prompt:
        yield {"role": "system", "content": "\n\n".join(prompt)}


def ollama(message: ProviderMessage) -> ProviderMessage:
    """A message as ``/api/chat`` takes it."""
    role = "system" if message["role"] in SYSTEM_ROLES else message["role"]
    shaped: ProviderMessage = {"role": role, "content": text_of(message["content"])}
    if images := [found[2] for found in map(_data_url, _parts(message["content"])) if found]:
        shaped["images"] = images
    if thinking := message.get("thinking"):
        shaped["thinking"] = thinking
    if calls := message.get("tool_calls"):
        shaped["tool_calls"] = [
            {"function": {"name": call["function"]["name"], "arguments": arguments_of(call)}} for call in calls
        ]
    if role == "tool" and message.get("name"):
        shaped["tool_name"] = message["name"]
    return shaped


def anthropic_system(messages: Iterable[ProviderMessage]) -> tuple[list[ProviderMessage], Iterator[ProviderMessage]]:
    """The blocks of the system prompt, and the messages after it."""
    rest = iter(messages)
    blocks: list[ProviderMessage] = []
    for message in rest:
        if not is_prompt(message):
            return _cached(blocks), _again(message, rest)
        blocks.append({"type": "text", "text": text_of(message["content"])})
    return _cached(blocks), iter(())


def anthropic_messages(messages: Iterable[ProviderMessage]) -> Iterator[bytes]:
    """The inside of ``messages``: neighbours of one role joined, a user first, the last block marked for the cache."""
    role = ""
    held: ProviderMessage | None = None
    for message in opened_by_user(one_system_prompt(messages)):
        speaker = "assistant" if message["role"] == "assistant" else "user"
        for block in _anthropic_blocks(message):
            if held is not None:
                yield jsonio.encode(held) + (b"," if speaker == role else b"")
            if speaker != role:
                yield (b"]}," if role else b"") + b'{"role":"%s","content":[' % speaker.encode()
            role, held = speaker, block
    if held is not None:
        (last,) = _cached([held])
        yield jsonio.encode(last) + b"]}"


def text_of(content: Any) -> str:
    """What a content says in words."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in _parts(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def _anthropic_blocks(message: ProviderMessage) -> Iterator[ProviderMessage]:
    if message["role"] == "tool":
        content = list(_anthropic_content(message["content"]))
        yield {"type": "tool_result", "tool_use_id": _anthropic_id(message["tool_call_id"]), "content": content}
        return
    yield from _anthropic_content(message["content"])
    for call in message.get("tool_calls") or ():
        name, call_id = call["function"]["name"], _anthropic_id(call["id"])
        yield {"type": "tool_use", "id": call_id, "name": name, "input": arguments_of(call)}


def _anthropic_content(content: Any) -> Iterator[ProviderMessage]:
    if isinstance(content, str) and content.strip():
        yield {"type": "text", "text": content}
    for part in _parts(content):
        if part.get("type") == "image_url":
            yield {"type": "image", "source": _anthropic_source(part)}
        elif isinstance(text := part.get("text"), str) and text.strip():
            yield {"type": "text", "text": text}
        else:
            yield {"type": "text", "text": f"[{part.get('type', 'part')}]"}


def _anthropic_source(part: Mapping[str, Any]) -> ProviderMessage:
    if found := _data_url(part):
        return {"type": "base64", "media_type": found[1] or "image/png", "data": found[2]}
    return {"type": "url", "url": _url(part)}


def _anthropic_id(call_id: str) -> str:
    return _NOT_IN_AN_ID.sub("_", call_id)


def _parts(content: Any) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def _data_url(part: Mapping[str, Any]) -> re.Match[str] | None:
    return _DATA_URL.fullmatch(_url(part)) if part.get("type") == "image_url" else None


def _url(part: Mapping[str, Any]) -> str:
    image = part.get("image_url")
    return str(image.get("url", "") if isinstance(image, Mapping) else image or "")


def _cached(blocks: list[ProviderMessage]) -> list[ProviderMessage]:
    """The blocks, the last of them marked as the end of what may be cached."""
    return [*blocks[:-1], *({**block, "cache_control": {"type": "ephemeral"}} for block in blocks[-1:])]


def _again(first: ProviderMessage, rest: Iterator[ProviderMessage]) -> Iterator[ProviderMessage]:
    yield first
    yield from rest
