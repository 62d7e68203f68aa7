"""How a provider words an answer, an error and a list of models, on each wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orihon.llm.scripted import Fault
from orihon.llm.scripted_dialects import Reply
from orihon.system import jsonio
from tests.upstream.records import Request, Usage

#: All answers are of the same moment, so that the same script gives the same bytes.
CREATED = 1_790_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, with the id that it is answered by."""

    id: str
    name: str
    arguments: str

    @property
    def value(self) -> Any:
        return jsonio.decode(self.arguments)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply to one request: what a wire needs to word it."""

    reply: Reply
    request: Request
    usage: Usage
    calls: Sequence[Call]

    @property
    def id(self) -> str:
        """Never the same twice."""
        return f"{self.request.number:024d}"

    @property
    def model(self) -> str:
        return str(self.request.body.get("model", "scripted"))

    def option(self, *names: str) -> Any:
        """A field of the request, found by a path of names."""
        value: Any = self.request.body
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def made_answer(reply: Reply, request: Request, usage: Usage) -> Answer:
    """With ids for the calls that have none."""
    beginning = "toolu_" if request.wire == "messages" else "call_"
    calls = []
    for place, call in enumerate(reply.calls):
        arguments = call[1] if isinstance(call[1], str) else jsonio.encode(call[1]).decode()
        calls.append(
            Call(call[2] if len(call) == 3 else f"{beginning}{request.number:020d}{place:02d}", call[0], arguments)
        )
    return Answer(reply, request, usage, calls)


def event(value: Mapping[str, Any], *, named: bool = True) -> bytes:
    """One event of a stream; all wires but Chat Completions give it a name, too."""
    head = b"event: %s\n" % value["type"].encode() if named else b""
    return head + b"data: %s\n\n" % jsonio.encode(value)


def refusal(
    wire: str, message: str, *, status: int = 400, kind: str = "invalid_request_error", code: str = ""
) -> Fault:
    """An error in the shape of a wire."""
    if wire in ("messages", "count"):
        return Fault(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
    return Fault(status, {"error": {"message": message, "type": kind, "param": None, "code": code or None}})


def overflowing(request: Request, tokens: int = 9000, window: int = 8192) -> Fault:
    """The error of a request that does not fit the window."""
    words = {
        "chat": f"This model's maximum context length is {window} tokens. "
        f"However, your messages resulted in {tokens} tokens. Please reduce the length of the messages.",
        "responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "messages": f"prompt is too long: {tokens} tokens > {window} maximum",
    }
    return refusal(request.wire, words[request.wire], code="context_length_exceeded")


def limited(request: Request, *, seconds: int = 1) -> Fault:
    """Too many requests; come again later."""
    fault = refusal(
        request.wire, "Rate limit reached.", status=429, kind="rate_limit_error", code="rate_limit_exceeded"
    )
    return Fault(fault.status, fault.body, {"Retry-After": str(seconds)})


def models(request: Request, names: Sequence[str]) -> dict[str, Any]:
    """The list of models, as the client's provider words it."""
    if request.header("anthropic-version"):
        listed = [
            {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in names
        ]
        return {"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": CREATED, "owned_by": "scripted"} for name in names],
    }


def chunks(answer: Answer, text: str) -> Iterator[str]:
    """A text in the pieces that it is streamed in; no text has none."""
    return answer.reply.pieces(text)
