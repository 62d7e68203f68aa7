"""Things taken out of a history that should never have been written: a recorded redaction.

A record that is redacted keeps its number, its time and its count of tokens. Its content becomes what the guard makes
of it, with a digest of its own, and its field ``redacted`` says when, by whom, what for and of what kind, with the
digest of what stood there: whoever has the original can still prove that it was this. Each stream is replaced whole or
not at all, and new large contents are there before; a crash leaves a task that is sound, and a second run goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orihon.store.contract import STREAMS, RecordStore, Stream
from orihon.store.kept_files import DIGESTS, has_digest, keep_with_digest, stamped
from orihon.store.record_check import LEAF, REDACTED, checked, decode_record, leaf_of
from orihon.store.record_codec import pack, pack_record, restored_body, unpack_record
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.values.message.message import Message
from orihon.values.message.strings import map_json_text
from orihon.values.records import ModelCall

#: In what a record says of its redaction: what for, each time.
PURPOSES = "purposes"
#: Fields of records whose values are ours, and fields below which all is somebody's words, keys as well. The names of
#: all other fields are ours: a person may be called as one of them is.
_STRUCTURE = frozenset(
    ("kind", "form", "trust", "status", "decision", "on_timeout", "timestamp", "created_at", "at", "expires_at")
)
_OWN_WORDS = frozenset(("arguments", "result", "error", "plan_content"))
_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z0-9_]*)\]#[0-9a-f]{8,}")

Mask = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that a mask finds in a task: where, and of what kinds; never the value."""

    where: str  # a stream, a blob, a file
    number: int  # in the stream; 0 where there is none
    kinds: tuple[str, ...]


class Redaction:
    """What ``mask`` finds in the records of one task, and how it is taken out of them."""

    def __init__(self, store: TaskStore, mask: Mask, *, by: str, purpose: str = "") -> None:
        """To take out, ``store`` has to be the task's writer; each record says who did it, and what for."""
        self._store = store
        self._records: RecordStore = store.records
        self._mask = mask
        self._by = by
        self._purpose = purpose

    def hits(self) -> Iterator[Hit]:
        """Everything, without changing anything."""
        for stream in STREAMS:
            for number, old, new in self._changed(stream):
                yield Hit(stream, number, _kinds(old, new))
        for name, before, after in self._changed_files():
            yield Hit(name, 0, _kinds(before, after))
        for digest in self._loose_blobs():
            yield Hit(f"blobs/{digest[:12]}", 0, ())

    def apply(self) -> list[Hit]:
        """Take everything out; what was taken out."""
        found: list[Hit] = []
        self._records.save("heads", b"{}")  # first: whoever goes on after a crash must not go on from there
        for stream in STREAMS:
            rewritten: dict[int, bytes] = {}
            for number, old, new in self._changed(stream):
                kinds = _kinds(old, new)
                (line,) = self._records.read(stream, (number, number))
                rewritten[number] = self._packed(stream, old, new, kinds, leaf_of(line))
                found.append(Hit(stream, number, kinds))
            if rewritten:
                self._records.rewrite(stream, rewritten)
        for name, before, after in self._changed_files():
            self._keep_file(name, after.encode("utf-8", "surrogatepass"))
            found.append(Hit(name, 0, _kinds(before, after)))
        for digest in self._loose_blobs():
            self._records.drop_blob(digest)
        return found

    # ---- records -----------------------------------------------------------------------------------------------

    def _changed(self, stream: Stream) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """Number, record and masked record, with the large contents in their places."""
        for number, line in enumerate(self._records.read(stream), start=1):
            record: dict[str, Any] = decode_record(line)
            if stream == "messages":
                old = {**record, **restored_body(record, self._records.get_blob)}
                new = self._masked_message(old)
            else:
                old = unpack_record(record, self._records.get_blob)
                noted = old.get(REDACTED)
                new = {key: self._masked_field(key, value) for key, value in old.items() if key != REDACTED}
                new = new if noted is None else {**new, REDACTED: noted}
            if new != old:
                yield number, old, new

    def _masked_message(self, record: Mapping[str, Any]) -> dict[str, Any]:
        message = Message.from_body(restored_body({**record, "blobs": ()}, self._records.get_blob))
        masked = message.map_strings(self._mask)
        new = {**record, **masked.body()}
        call = record.get("call")
        return new if call is None else {**new, "call": {**call, "model": self._mask(call["model"])}}

    def _masked_field(self, name: str, value: Any) -> Any:
        """The value of a field of a record; names of fields stay."""
        if name in _OWN_WORDS:
            return self._masked(value)
        if isinstance(value, str):
            return value if name in _STRUCTURE else self._mask(value)
        if isinstance(value, dict):
            return {key: self._masked_field(key, item) for key, item in value.items()}
        return [self._masked_field(name, item) for item in value] if isinstance(value, list) else value

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, dict):
            return {self._mask(key): self._masked(item) for key, item in value.items()}
        return [self._masked(item) for item in value] if isinstance(value, list) else value

    def _packed(
        self, stream: Stream, old: Mapping[str, Any], new: Mapping[str, Any], kinds: tuple[str, ...], leaf: str
    ) -> bytes:
        before = old.get(REDACTED) or {}
        noted: dict[str, Any] = {"at": utc_now(), "by": self._by, LEAF: leaf}
        noted["kinds"] = sorted({*kinds, *before.get("kinds", ())})
        noted[PURPOSES] = sorted({self._purpose, *before.get(PURPOSES, ())} - {""})
        blob_bytes, max_bytes = self._store.blob_bytes, self._store.max_bytes
        put_blob = self._records.put_blob
        if stream != "messages":
            record = {**new, REDACTED: noted}
            return pack_record(record, blob_bytes=blob_bytes, max_bytes=max_bytes, put_blob=put_blob)
        pieces, _, _ = pack(
            Message.from_body(restored_body({**new, "blobs": ()}, self._records.get_blob)),
            seq=new["seq"],
            timestamp=new["timestamp"],
            epoch=new["epoch"],
            blob_bytes=blob_bytes,
            max_bytes=max_bytes,
            put_blob=put_blob,
            call=ModelCall.from_record(new["call"]) if "call" in new else None,
        )
        packed = decode_record(b"".join(pieces))
        # The count stays: folds and the view were counted with it.
        noted["digest"] = before.get("digest", old["digest"])
        return checked(jsonio.encode({**packed, "tokens": old["tokens"], REDACTED: noted}))

    # ---- files and large contents ------------------------------------------------------------------------------

    def _changed_files(self) -> Iterator[tuple[str, str, str]]:
        for name in self._records.kept_files():
            if name == DIGESTS:
                continue
            old = (self._records.kept_file(name) or b"").decode("utf-8", "surrogateescape")
            new = map_json_text(old, self._mask) if name.endswith(".json") else self._mask(old)
            if new != old:
                yield name, old, new

    def _keep_file(self, name: str, content: bytes) -> None:
        if has_digest(self._records, name):
            keep_with_digest(self._records, name, content)
            return
        if name.endswith(".json") and b'"crc32"' in content[:40]:
            fields = decode_record(content)
            content = stamped(fields) if isinstance(fields, dict) else content
        self._records.keep_file(name, content)

    def _loose_blobs(self) -> list[str]:
        """Large contents that no record mentions, and in which there is something to take out."""
        mentioned = {
            blob["sha256"]
            for stream in STREAMS
            for line in self._records.read(stream)
            for blob in decode_record(line).get("blobs", ())
        }
        loose = [digest for digest in self._records.blob_digests() if digest not in mentioned]
        return [digest for digest in loose if self._hides(self._records.get_blob(digest))]

    def _hides(self, data: bytes) -> bool:
        text = data.decode("utf-8", "surrogateescape")
        return self._mask(text) != text


def _kinds(old: object, new: object) -> tuple[str, ...]:
    """The kinds of the placeholders that are new."""
    before, after = (_PLACEHOLDER.findall(jsonio.encode(value).decode()) for value in (old, new))
    more = {kind for kind in after if after.count(kind) > before.count(kind)}
    return tuple(sorted(more)) or tuple(sorted(set(after)))
