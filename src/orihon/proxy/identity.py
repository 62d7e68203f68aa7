"""Whose conversation a request belongs to, told by nothing but keyed digests.

A *chain* is a digest over tenant, wire, upstream, the client's own id and the way its system prompt begins (the
*seed*), and then over each step. Two requests with an equal chain have said the same so far, to the same model's
provider, with the same credential. Nothing of what was said, no id and no credential can be read out of a chain.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from orihon.proxy.wire import Element, ParsedRequest, Wire
from orihon.system import jsonio
from orihon.values.message.message import Message

Digest = bytes
DIGEST_BYTES = 16

_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
#: Headers in which clients name their session, the plainest first.
_SESSION_HEADERS = (
    "x-orihon-session",
    "x-claude-code-session-id",
    "session_id",
    "session-id",
    "x-session-id",
    "conversation_id",
    "conversation-id",
    "x-session-affinity",
    "x-opencode-session",
    "x-litellm-session-id",
    "x-litellm-trace-id",
)
_SESSION_FIELDS = ("prompt_cache_key", "session_id", "litellm_session_id")
_CLIENTS = {
    "claude-cli": "claude-code",
    "claude-code": "claude-code",
    "codex": "codex",
    "opencode": "opencode",
    "aider": "aider",
    "openhands": "openhands",
    "litellm": "litellm",
    "openai/python": "openai-python",
    "asyncopenai/python": "openai-python",
    "anthropic/python": "anthropic-python",
    "asyncanthropic/python": "anthropic-python",
}
#: Characters of a text's beginning: clients add to the end of an answer, or trim it.
_BEGINNINGS = (200, 48)
#: Ids that providers draw at random, also where a client has them in words.
_CALL = re.compile(r"(?:call|toolu|tooluse|fc|chatcmpl-tool)[-_][A-Za-z0-9_-]{12,}")
_MOST_REMEMBERED = 100_000
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who asks: the tenant and the client's own name for the conversation, as digests."""

    tenant: Digest
    session: Digest | None
    client: str


class KeyedDigests:
    """The keyed digests of one base. Steps that were seen before are not read again."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(b"orihon proxy", key=key).digest()
        self._known: dict[tuple[str, bytes], Digest] = {}

    def of(self, *pieces: bytes) -> Digest:
        """One digest of several pieces, wherever one ends and the next begins."""
        made = hashlib.blake2b(key=self._key, digest_size=DIGEST_BYTES)
        for piece in pieces:
            made.update(len(piece).to_bytes(8, "big"))
            made.update(piece)
        return made.digest()

    def element(self, wire: Wire, element: Element) -> Digest:
        """What a step says."""
        written = _written(element)
        raw = wire.name, hashlib.blake2b(written, digest_size=DIGEST_BYTES).digest()
        found = self._known.get(raw)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self._known[raw] = self.of(wire.said(element))
        return found

    def caller(
        self, headers: Mapping[str, str], body: Mapping[str, Any], session: str | None = None, *, names: Sequence[str]
    ) -> ClientIdentity:
        """``session``: the one in the address, for who names none itself; ``names``: further headers that carry one."""
        credential = "\n".join(f"{name}:{headers[name]}" for name in _CREDENTIALS if name in headers)
        told = _session(headers, body, names) or session
        tenant = self.of(b"tenant", credential.encode())
        return ClientIdentity(
            tenant,
            None if told is None else self.of(b"session", tenant, told.encode()),
            client_name(headers.get("user-agent", "")),
        )

    def seed(
        self, caller: ClientIdentity, wire: Wire, upstream: str, asked: ParsedRequest, *, has_tools: bool
    ) -> Digest:
        """Where the chains of such requests begin."""
        family = f"{asked.family}:{has_tools}"
        return self.of(
            b"seed", caller.tenant, wire.name.encode(), upstream.encode(), caller.session or b"", family.encode()
        )

    def response(self, caller: ClientIdentity, upstream: str, told: str) -> Digest:
        """An answer's id, which is worth something only to who has asked there: ids are no secrets, and every upstream
        gives out its own."""
        return self.of(b"response", caller.tenant, upstream.encode(), told.encode())

    def chains(self, seed: Digest, digests: Iterable[Digest]) -> list[Digest]:
        """The chain after each step."""
        found, chain = [], seed
        for digest in digests:
            chain = self.of(chain, digest)
            found.append(chain)
        return found

    def same(self, one: str, other: str) -> bool:
        """Are two secrets the same? In a time that does not tell how far."""
        return hmac.compare_digest(one.encode(), other.encode())


def _written(element: Element) -> bytes:
    try:
        return b"\n".join(map(orjson.dumps, element.entries))
    except TypeError:
        return jsonio.encode(list(element.entries))


def _session(headers: Mapping[str, str], body: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in (*names, *_SESSION_HEADERS):
        if headers.get(name):
            return f"{name}:{headers[name]}"
    metadata = body.get("metadata")
    told = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    if isinstance(told, str) and "session" in told:
        return f"user_id:{told}"
    for name in _SESSION_FIELDS:
        if isinstance(value := body.get(name), str) and value:
            return f"{name}:{value}"
    return None


def client_name(agent: str) -> str:
    """The client's name in a list for people, by what it calls itself."""
    lowered = agent.lower()
    for start, name in _CLIENTS.items():
        if start in lowered:
            return name
    bare = lowered.partition("/")[0].strip()
    kept = "".join(letter if letter.isalnum() else "-" for letter in bare)[:_LONGEST_NAME].strip("-")
    return kept or "client"


# ---- answers, in a history that is written anew ----------------------------------------------------------------------
#
# Some clients put other messages around an answer, or say its calls in words; the ids of calls and the way a long text
# begins stay. Of what is too short to be told from others nothing is taken. Whether it is unique, the index knows.


def marks_given(messages: Iterable[Message]) -> Iterator[str]:
    """What an answer is known by."""
    for message in messages:
        yield from _calls(message)
        yield from _beginnings(message.text)[:1]


def marks_repeated(messages: Iterable[Message]) -> Iterator[str]:
    """What a message of a request may know an answer by."""
    for message in messages:
        if message.role == "assistant":
            yield from _calls(message)
            yield from _CALL.findall(message.text)
            yield from _beginnings(message.text)


def _calls(message: Message) -> Iterator[str]:
    return (call.id for call in message.tool_calls if _CALL.fullmatch(call.id))


def _beginnings(said: str) -> Sequence[str]:
    text = said.strip()
    return [text[:length] for length in _BEGINNINGS if len(text) >= length]
