"""How each provider words a scripted reply, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orihon.system import jsonio

#: How the path of a request ends, and the dialect that it is in.
DIALECTS = {"/chat/completions": "openai", "/api/chat": "ollama", "/messages": "anthropic"}
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says.

    A call is a name, its arguments (a mapping, or a text that is sent as it is) and, if it matters, its id.
    ``usage`` has ``input``, ``output`` and, if some of the input came from the cache, ``cached``; unset it follows
    from the sizes, and an empty one is not reported.
    """

    text: str = ""
    calls: Sequence[tuple[str, Any] | tuple[str, Any, str]] = ()
    usage: Mapping[str, int] | None = None
    reasoning: str = ""
    finish: str = ""
    piece: int = 8  # characters of one piece of the stream
    pause: float = 0.0  # seconds after each piece

    def pieces(self, text: str) -> Iterator[str]:
        """A text in the pieces it is streamed in."""
        return (text[at : at + self.piece] for at in range(0, len(text), self.piece))


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    name: str
    arguments: str

    @property
    def value(self) -> Any:
        """The arguments as a value; a text that is not JSON stays one."""
        try:
            return jsonio.decode(self.arguments)
        except ValueError:
            return self.arguments


class Speech:
    """One reply to one request."""

    def __init__(self, reply: Reply, body: Any, size: int, numbers: Sequence[int]) -> None:
        self.reply = reply
        self.usage = reply.usage
        if self.usage is None:
            self.usage = {"input": size // _BYTES_PER_TOKEN, "output": len(reply.text) // _BYTES_PER_TOKEN + 1}
        self.model = body.get("model", "scripted") if isinstance(body, Mapping) else "scripted"
        self.calls = [_call(call, number) for call, number in zip(reply.calls, numbers, strict=True)]

    def whole(self, dialect: str) -> dict[str, Any]:
        """The reply as one value."""
        if dialect == "ollama":
            return self._ollama(self.reply.text, self._ollama_calls(), done=True)
        return self._anthropic() if dialect == "anthropic" else self._openai()

    def streamed(self, dialect: str) -> Iterator[bytes]:
        """The reply in pieces."""
        if dialect == "ollama":
            return (jsonio.encode(value) + b"\n" for value in self._ollama_pieces())
        if dialect == "anthropic":
            events = self._anthropic_events()
            return (b"event: %s\ndata: %s\n\n" % (event["type"].encode(), jsonio.encode(event)) for event in events)
        return self._openai_stream()

    # ---- OpenAI ------------------------------------------------------------------------------------------------

    def _openai(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.reply.text or None}
        if self.reply.reasoning:
            message["reasoning_content"] = self.reply.reasoning
        if self.calls:
            message["tool_calls"] = [_openai_call(call) for call in self.calls]
        choice = {"index": 0, "message": message, "finish_reason": self._openai_finish()}
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "model": self.model, "choices": [choice]}
        return answer if not self.usage else {**answer, "usage": self._openai_usage()}

    def _openai_stream(self) -> Iterator[bytes]:
        for delta in self._openai_deltas():
            yield self._openai_event([{"index": 0, "delta": delta, "finish_reason": None}])
        yield self._openai_event([{"index": 0, "delta": {}, "finish_reason": self._openai_finish()}])
        if self.usage:
            yield self._openai_event([], usage=self._openai_usage())
        yield b"data: [DONE]\n\n"

    def _openai_deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for piece in self.reply.pieces(self.reply.reasoning):
            yield {"reasoning_content": piece}
        for piece in self.reply.pieces(self.reply.text):
            yield {"content": piece}
        for index, call in enumerate(self.calls):
            named = {"name": call.name, "arguments": ""}
            yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": named}]}
            for piece in self.reply.pieces(call.arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _openai_event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        event = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": self.model, "choices": choices, **more}
        return b"data: %s\n\n" % jsonio.encode(event)

    def _openai_finish(self) -> str:
        return self.reply.finish or ("tool_calls" if self.calls else "stop")

    def _openai_usage(self) -> dict[str, Any]:
        given = self.usage or {}
        prompt, answer = given.get("input", 0), given.get("output", 0)
        details = {"prompt_tokens_details": {"cached_tokens": given["cached"]}} if "cached" in given else {}
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer, **details}

    # ---- Ollama ------------------------------------------------------------------------------------------------

    def _ollama(
        self, text: str, calls: list[dict[str, Any]], *, done: bool = False, thinking: str = ""
    ) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        if thinking or (done and self.reply.reasoning):
            message["thinking"] = thinking or self.reply.reasoning
        answer = {"model": self.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done}
        return {**answer, **self._ollama_end()} if done else answer

    def _ollama_pieces(self) -> Iterator[dict[str, Any]]:
        for piece in self.reply.pieces(self.reply.reasoning):
            yield self._ollama("", [], thinking=piece)
        for piece in self.reply.pieces(self.reply.text):
            yield self._ollama(piece, [])
        if self.calls:
            yield self._ollama("", self._ollama_calls())
        message = {"role": "assistant", "content": ""}
        yield {"model": self.model, "message": message, "done": True, **self._ollama_end()}

    def _ollama_calls(self) -> list[dict[str, Any]]:
        return [{"function": {"name": call.name, "arguments": call.value}} for call in self.calls]

    def _ollama_end(self) -> dict[str, Any]:
        given = self.usage
        usage = {} if not given else {"prompt_eval_count": given["input"], "eval_count": given["output"]}
        return {"done_reason": self.reply.finish or "stop", **usage}

    # ---- Anthropic ---------------------------------------------------------------------------------------------

    def _anthropic(self) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        if self.reply.reasoning:
            blocks.append({"type": "thinking", "thinking": self.reply.reasoning, "signature": "s"})
        if self.reply.text:
            blocks.append({"type": "text", "text": self.reply.text})
        blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.value} for call in self.calls]
        return {**self._anthropic_head(), "content": blocks, "stop_reason": self._anthropic_finish()}

    def _anthropic_head(self) -> dict[str, Any]:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model}
        return head if not self.usage else {**head, "usage": self._anthropic_usage()}

    def _anthropic_events(self) -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": {**self._anthropic_head(), "content": []}}
        yield {"type": "ping"}
        for index, (block, deltas) in enumerate(self._anthropic_blocks()):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        usage = {"usage": {"output_tokens": self.usage.get("output", 0)}} if self.usage else {}
        yield {"type": "message_delta", "delta": {"stop_reason": self._anthropic_finish()}, **usage}
        yield {"type": "message_stop"}

    def _anthropic_blocks(self) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        reply = self.reply
        if reply.reasoning:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in reply.pieces(reply.reasoning)]
            yield {"type": "thinking", "thinking": ""}, deltas
        if reply.text:
            yield (
                {"type": "text", "text": ""},
                [{"type": "text_delta", "text": piece} for piece in reply.pieces(reply.text)],
            )
        for call in self.calls:
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in reply.pieces(call.arguments)]
            yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, pieces

    def _anthropic_finish(self) -> str:
        return self.reply.finish or ("tool_use" if self.calls else "end_turn")

    def _anthropic_usage(self) -> dict[str, int]:
        given = self.usage or {}
        cached = given.get("cached", 0)
        return {
            "input_tokens": given.get("input", 0) - cached,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": given.get("output", 0),
        }


def _call(call: tuple[str, Any] | tuple[str, Any, str], number: int) -> _Call:
    name, arguments = call[0], call[1]
    text = arguments if isinstance(arguments, str) else jsonio.encode(arguments).decode()
    return _Call(call[2] if len(call) == 3 else f"call_{number}", name, text)


def _openai_call(call: _Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
