"""A message becomes a record of the log, and comes back exactly.

Owns what a line of ``messages.jsonl`` looks like: the message's own fields, then what the log knows about it. Large
contents (images, files, very long texts) are moved to blobs; ``blobs`` in the record says what was where. That list
is the record's, not the message's: a message that happens to contain such a structure stays plain data.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orihon.errors import InvalidMessage
from orihon.store.contract import Pieces
from orihon.store.record_check import FIELD, checked, with_check
from orihon.store.tail import Tail
from orihon.system import jsonio
from orihon.system.clock import as_utc
from orihon.system.json_shapes import AsJson
from orihon.values.message.message import Message
from orihon.values.records import ModelCall
from orihon.values.task import shortened
from orihon.values.tokens.message_tokens import estimate_message

#: Encoded contents (images, files) are moved from this length on; plain text from ``blob_bytes`` on.
ENCODED_LENGTH = 1024
_PREVIEW_LENGTH = 200
_ENCODED_KEYS = frozenset({"data", "file_data", "b64_json"})


@dataclass(frozen=True, slots=True)
class Said:
    """A message on its way into the log, with what is known about it; without a time it was said now."""

    message: Message
    timestamp: str | None = None  # ISO 8601; kept in the form of ``utc_now``
    call: ModelCall | None = None
    encoded: bytes | None = None  # the message's body as JSON, where somebody has needed it already

    def __post_init__(self) -> None:
        if self.timestamp is not None:
            try:
                object.__setattr__(self, "timestamp", as_utc(self.timestamp))
            except (ValueError, OverflowError) as error:
                raise InvalidMessage("timestamp", value=shortened(self.timestamp)) from error


@dataclass(slots=True)
class PackedRecord:
    """Messages as the records get them."""

    messages: list[Message]
    lines: list[Pieces] = field(default_factory=list)
    view_lines: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def count_in(self, tail: Tail) -> None:
        """They are in the log now, and at the end of the view."""
        for message, tokens in zip(self.messages, self.tokens, strict=True):
            calls = {call.id: call.name for call in message.tool_calls}
            tail.count(tail.seq + 1, calls, tokens)
            tail.show(calls, message.answers, tokens)


@dataclass(frozen=True, slots=True)
class StoredMessage(AsJson):
    """A message of the log with what the log knows about it."""

    json_name = "message"
    json_fields = "seq tokens timestamp call message=chat"

    seq: int
    message: Message
    timestamp: str
    tokens: int
    epoch: int
    digest: str
    call: ModelCall | None = None  # that the message is the answer of

    @property
    def chat(self) -> dict[str, Any]:
        return self.message.to_chat()


def pack(
    message: Message,
    *,
    seq: int,
    timestamp: str,
    epoch: int,
    blob_bytes: int,
    max_bytes: int,
    put_blob: Callable[[str, bytes], None],
    call: ModelCall | None = None,
    encoded: bytes | None = None,
) -> tuple[Pieces, bytes, int]:
    """The line of the log for a message, the line of the view, and the estimate. Blobs are stored on the way.

    ``encoded`` is the message's body as JSON, if that is known already.
    """
    body = message.body()
    said = jsonio.encode(body) if encoded is None else encoded
    request = message.request()
    view_line = said if request == body else jsonio.encode(request)
    tokens = estimate_message(message, encoded_size=len(said))
    digest = content_digest(said, secrets.token_hex(8))
    # A short record has no large place.
    if len(said) > min(ENCODED_LENGTH, blob_bytes) and (places := _large_places(body, blob_bytes)):
        blobs = [_move_out(body, place, put_blob, max_bytes) for place in places]
        said = jsonio.encode({**body, "blobs": blobs})
    if len(said) > max_bytes:
        raise InvalidMessage("too_large", size=len(said), limit=max_bytes)
    # The message's own fields are encoded once and stand as they are between what the log knows about it.
    known = f',"timestamp":"{timestamp}","tokens":{tokens},"epoch":{epoch},"digest":"{digest}"'
    known += "}" if call is None else f',"call":{jsonio.encode(call.as_dict()).decode()}}}'
    return with_check(b'{"seq":%d,' % seq, memoryview(said)[1:-1], known.encode()), view_line, tokens


def pack_record(
    record: dict[str, Any], *, blob_bytes: int, max_bytes: int, put_blob: Callable[[str, bytes], None]
) -> bytes:
    """The line of any other stream; large strings go to blobs here too."""
    record.pop(FIELD, None)
    line = jsonio.encode(record)
    # A short record has no large place.
    if len(line) > min(ENCODED_LENGTH, blob_bytes) and (places := list(_large_strings(record, (), blob_bytes))):
        record["blobs"] = [_move_out(record, place, put_blob, max_bytes) for place in places]
        line = jsonio.encode(record)
    if len(line) > max_bytes:
        raise InvalidMessage("too_large", size=len(line), limit=max_bytes)
    return checked(line)


def unpack_record(record: dict[str, Any], get_blob: Callable[[str], bytes]) -> dict[str, Any]:
    """A record of any other stream with its blobs back in their places."""
    blobs = record.pop("blobs", ())
    _put_back(record, blobs, get_blob)
    return record


def unpack(record: Mapping[str, Any], get_blob: Callable[[str], bytes]) -> StoredMessage:
    """The message back out of its record."""
    return StoredMessage(
        seq=record["seq"],
        message=Message.from_body(restored_body(record, get_blob)),
        timestamp=record["timestamp"],
        tokens=record["tokens"],
        epoch=record["epoch"],
        digest=record["digest"],
        call=ModelCall.from_record(record["call"]) if "call" in record else None,
    )


def restored_body(record: Mapping[str, Any], get_blob: Callable[[str], bytes]) -> dict[str, Any]:
    """The message's fields with the blobs back in their places."""
    body = {key: value for key, value in record.items() if key in _BODY_FIELDS}
    _put_back(body, record.get("blobs", ()), get_blob)
    return body


def _put_back(target: dict[str, Any], blobs: Iterable[Mapping[str, Any]], get_blob: Callable[[str], bytes]) -> None:
    for blob in blobs:
        *path, last = blob["at"]
        node: Any = target
        for step in path:
            node = node[step]
        node[last] = _as_string(blob, get_blob(blob["sha256"]))


_BODY_FIELDS = frozenset(
    {"role", "content", "tool_name", "tool_calls", "tool_call_id", "name", "parts", "extra", "unsent"}
)


def content_digest(said: bytes, salt: str) -> str:
    """A salted hash of all that a message says, as JSON: content can be taken out later and the proof stays."""
    hasher = hashlib.sha256(salt.encode())
    hasher.update(said)
    return f"sha256:{salt}:{hasher.hexdigest()}"


def matches_digest(body: Mapping[str, Any], digest: str) -> bool:
    """Is this still the content that was hashed?"""
    _, salt, _ = digest.split(":")
    return content_digest(jsonio.encode(body), salt) == digest


# ---- blobs -----------------------------------------------------------------------------------------------------

FieldPath = tuple[str | int, ...]


def _large_places(body: Mapping[str, Any], blob_bytes: int) -> list[FieldPath]:
    content = body["content"]
    places: list[FieldPath] = [("content",)] if content is not None and len(content) > blob_bytes else []
    if len(body) > 2:
        for field in ("parts", "tool_calls", "extra"):
            if field in body:
                places.extend(_large_strings(body[field], (field,), blob_bytes))
    return places


def _large_strings(value: Any, place: FieldPath, blob_bytes: int) -> Iterator[FieldPath]:
    if isinstance(value, dict):
        entries: Iterable[tuple[str | int, Any]] = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    else:
        return
    for key, item in entries:
        if isinstance(item, str):
            size = len(item)
            if size > blob_bytes or (size > ENCODED_LENGTH and _is_encoded(item, key)):
                yield (*place, key)
        elif isinstance(item, (dict, list)):
            yield from _large_strings(item, (*place, key), blob_bytes)


def _is_encoded(value: str, key: str | int) -> bool:
    return value.startswith("data:") or key in _ENCODED_KEYS


def _move_out(
    body: dict[str, Any], place: FieldPath, put_blob: Callable[[str, bytes], None], max_bytes: int
) -> dict[str, Any]:
    """Stores the string at ``place`` as a blob and leaves its beginning there, for people who read the file."""
    *path, last = place
    node: Any = body
    for step in path:
        node[step] = node = node[step].copy()  # the caller's message is not ours to change
    value: str = node[last]
    head, data = _decoded(value) if _is_encoded(value, last) else ("", None)
    encoding = "text" if data is None else "base64"
    data = value.encode("utf-8", "surrogatepass") if data is None else data
    if len(data) > max_bytes:
        raise InvalidMessage("too_large", size=len(data), limit=max_bytes)
    digest = hashlib.sha256(data).hexdigest()
    put_blob(digest, data)
    node[last] = value[:_PREVIEW_LENGTH] if encoding == "text" else head
    return {"at": list(place), "sha256": digest, "bytes": len(data), "as": encoding, "head": head}


def _decoded(value: str) -> tuple[str, bytes | None]:
    """The bytes of a base64 string (with its ``data:…;base64,`` head), if encoding them again gives the same string."""
    head = ""
    if value.startswith("data:"):
        comma = value.find(";base64,", 0, 256)
        if comma < 0:
            return "", None
        head = value[: comma + len(";base64,")]
    try:
        data = base64.b64decode(value[len(head) :], validate=True)
    except (binascii.Error, ValueError):
        return "", None
    same = base64.b64encode(data).decode() == value[len(head) :]
    return (head, data) if same else ("", None)


def _as_string(blob: Mapping[str, Any], data: bytes) -> str:
    if blob["as"] == "text":
        return data.decode("utf-8", "surrogatepass")
    return str(blob["head"]) + base64.b64encode(data).decode()
