"""What providers refuse in a history, wire by wire: each function gives the flaws of a body in the provider's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from orihon.system import jsonio
from tests.upstream.messages import SIGNATURE
from tests.upstream.records import Request
from tests.upstream.responses import ENCRYPTED

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MARKS = 4
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
}


def flaws(request: Request, known_responses: Mapping[str, set[str]]) -> list[str]:
    """All that is wrong. ``known_responses``: the ids given out, each with the calls in it that await an answer."""
    body = request.body
    if not isinstance(body, Mapping) or not isinstance(body.get("model"), str):
        return ["you must provide a model parameter"]
    if request.wire == "responses":
        return [*_tool_flaws(body), *_responses(body, known_responses)]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: at least one message is required"]
    if not all(isinstance(message, Mapping) for message in messages):
        return ["messages: each has to be an object"]
    if request.wire == "chat":
        return [*_tool_flaws(body), *_chat(body)]
    # Who says so by a header may have what is said by the system in between.
    is_between = "mid-conversation" in request.header("anthropic-beta")
    return [*_tool_flaws(body), *_anthropic(body, ("user", "assistant", *(("system",) if is_between else ())))]


def _tool_flaws(body: Mapping[str, Any]) -> Iterator[str]:
    seen = set()
    for tool in body.get("tools") or ():
        name = (tool.get("function") or tool).get("name")
        if name is None:
            continue
        if not _NAME.fullmatch(name):
            yield f"tools: '{name}' is no name"
        if name in seen:
            yield f"tools: Tool names must be unique: {name}"
        seen.add(name)


# ---- Chat Completions ----------------------------------------------------------------------------------------------


def _chat(body: Mapping[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    for at, message in enumerate(body["messages"]):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"messages[{at}]: 'tool' must be a response to a preceding message with 'tool_calls'"
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            yield f"messages[{at}]: tool_call_ids did not have response messages: {', '.join(waiting)}"
            waiting = []
        if role == "assistant":
            calls = message.get("tool_calls") or []
            waiting = [call["id"] for call in calls]
            yield from (f"messages[{at}]: {flaw}" for flaw in _chat_calls(message, calls))
        elif role not in ("system", "developer", "user", "tool"):
            yield f"messages[{at}]: Invalid value for role: {role!r}"
        elif not _has_text(message.get("content")):
            yield f"messages[{at}]: Invalid type for content: a string or parts"
    if waiting:
        yield f"tool_call_ids did not have response messages: {', '.join(waiting)}"


def _chat_calls(message: Mapping[str, Any], calls: list[Any]) -> Iterator[str]:
    if "tool_calls" in message and message["tool_calls"] == []:
        yield "[] is too short - 'tool_calls'"
    if not calls and not _has_text(message.get("content")):
        yield "assistant: content or tool_calls must be provided"
    for call in calls:
        if not isinstance(call["function"].get("arguments"), str):
            yield "tool_calls: arguments have to be a string"
    if len({call["id"] for call in calls}) != len(calls):
        yield "tool_calls: ids have to be unique"


def _has_text(content: Any) -> bool:
    return isinstance(content, str) or (isinstance(content, list) and bool(content))


# ---- Messages ------------------------------------------------------------------------------------------------------


def _anthropic(body: Mapping[str, Any], roles: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    if (marks := jsonio.encode(body).count(b'"cache_control":{')) > _MARKS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    messages = body["messages"]
    if messages[0].get("role") != "user":
        yield "messages: first message must use the user role"
    waiting: list[str] = []
    seen: set[str] = set()
    for at, (role, blocks) in enumerate(_joined(messages)):
        if role not in roles:
            yield f"messages.{at}: role {role!r}: Input should be 'user' or 'assistant'"
        yield from (f"messages.{at}: {flaw}" for flaw in _blocks(role, blocks))
        yield from (f"messages.{at}: {flaw}" for flaw in _results(waiting, blocks))
        waiting = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        if len(seen | set(waiting)) != len(seen) + len(waiting):
            yield f"messages.{at}: `tool_use` ids must be unique"
        seen |= set(waiting)
    if waiting:
        yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(waiting)}"


def _joined(messages: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Messages with the same role one after the other are one turn."""
    role: Any = None
    blocks: list[Any] = []
    for message in messages:
        content = message.get("content")
        found = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
        if blocks and message.get("role") == role:
            blocks += found
            continue
        if blocks or role is not None:
            yield role, blocks
        role, blocks = message.get("role"), found
    yield role, blocks


def _blocks(role: Any, blocks: list[Any]) -> Iterator[str]:
    if not blocks:
        yield "all messages must have non-empty content"
    for block in blocks:
        match block.get("type"):
            case "text" if not block.get("text"):
                yield "text content blocks must be non-empty"
            case "tool_use" if role != "assistant" or not isinstance(block.get("input"), Mapping):
                yield "tool_use: only from the assistant, with an object as input"
            case "tool_result" if role != "user":
                yield "`tool_result` blocks can only be in `user` messages"
            case "thinking" if block.get("signature") != SIGNATURE:
                yield "Invalid `signature` in `thinking` block"


def _results(waiting: list[str], blocks: list[Any]) -> Iterator[str]:
    """The answers to the calls of the turn before come first, each once."""
    answered = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
    for call in waiting:
        if call not in answered:
            yield f"`tool_use` ids were found without `tool_result` blocks immediately after: {call}"
    for call in answered:
        if call not in waiting:
            yield f"unexpected `tool_use_id` found in `tool_result` blocks: {call}"
    if len(answered) != len(set(answered)):
        yield "each tool_use must have a single result"
    kinds = [block.get("type") for block in blocks]
    if waiting and set(kinds[: len(answered)]) - {"tool_result"}:
        yield "`tool_result` blocks have to come first"


# ---- Responses -----------------------------------------------------------------------------------------------------


def _responses(body: Mapping[str, Any], known: Mapping[str, set[str]]) -> Iterator[str]:
    items = body.get("input")
    before = body.get("previous_response_id")
    if before is not None and before not in known:
        yield f"Previous response with id '{before}' not found."
    if items is None and before is None:
        yield "Missing required parameter: 'input'."
    if not isinstance(items, list):
        return
    waiting: dict[str, str] = dict.fromkeys(known.get(before or "", ()), "")
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        yield from (f"input[{at}]: {flaw}" for flaw in _item(kind, item))
        if kind in _CALLS:
            waiting[item["call_id"]] = _CALLS[kind]
        elif kind in _CALLS.values() and waiting.pop(item.get("call_id"), None) not in (kind, ""):
            yield f"input[{at}]: No tool call found for {kind} with call_id {item.get('call_id')}."
        if kind == "reasoning" and at + 1 == len(items):
            yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
    for call in waiting:
        yield f"No tool output found for function call {call}."


def _item(kind: str, item: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "message" if item.get("role") not in ("user", "assistant", "system", "developer"):
            yield f"Invalid value: {item.get('role')!r}"
        case "message" if not _has_text(item.get("content")):
            yield "content: expected a string or parts"
        case "message":
            wanted = "output_text" if item.get("role") == "assistant" else "input_text"
            parts = item["content"] if isinstance(item["content"], list) else []
            for part in parts:
                if part.get("type") in ("output_text", "input_text", "text") and part["type"] != wanted:
                    yield f"Invalid value: '{part['type']}'. Supported values are: '{wanted}'"
        case "function_call" if not isinstance(item.get("arguments"), str):
            yield "arguments: expected a string"
        case "reasoning" if item.get("encrypted_content") not in (None, ENCRYPTED):
            yield "The encrypted content could not be verified."
