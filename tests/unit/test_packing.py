"""Messages as records: exact both ways, large contents in blobs, a digest that notices every change."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import InvalidMessage
from orihon.store.record_check import decode_record, has_check, is_whole
from orihon.store.record_codec import matches_digest, pack, pack_record, restored_body, unpack, unpack_record
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.tokens.message_tokens import estimate_message
from tests.helpers import refused
from tests.strategies import Json, chat_messages, json_objects

PICTURE = base64.b64encode(bytes(range(256)) * 8).decode()
LONG = "長い text\ud800\x00 " * 40


class Blobs(dict[str, bytes]):
    """Blobs kept in memory."""

    def put(self, digest: str, data: bytes) -> None:
        self[digest] = data

    def get_blob(self, digest: str) -> bytes:
        return self[digest]


def packed(message: Message, blobs: Blobs, *, blob_bytes: int = 100, max_bytes: int = 1 << 20) -> Json:
    """The record of a message, as it is read from the log."""
    line, view_line, tokens = pack(
        message,
        seq=7,
        timestamp="2026-01-01T00:00:00+00:00",
        epoch=2,
        blob_bytes=blob_bytes,
        max_bytes=max_bytes,
        put_blob=blobs.put,
    )
    assert jsonio.decode(view_line) == jsonio.decode(jsonio.encode(message.request()))
    record: Json = jsonio.decode(b"".join(line))
    assert record["tokens"] == tokens == estimate_message(message)
    return record


def large_values() -> st.SearchStrategy[Any]:
    """Strings on both sides of the limits, encoded ones and others that only look so."""
    return st.sampled_from(
        [
            LONG,
            "x" * 100,
            "x" * 101,
            f"data:image/png;base64,{PICTURE}",
            f"data:image/png;base64,{PICTURE[:-1]}",
            f"data:image/png;base64,{PICTURE}\n",
            "data:," + "x" * 2_000,
            PICTURE,
            PICTURE.rstrip("="),
            {"data": PICTURE, "format": "wav"},
            {"file_data": PICTURE[:-2] + "=="},
            [{"b64_json": PICTURE}, LONG],
        ]
    )


@given(chat_messages(), st.dictionaries(st.sampled_from(["vendor", "blobs", "parts"]), large_values(), max_size=2))
def test_any_message_comes_back(message: Json, more: Json) -> None:
    blobs = Blobs()
    (original,) = Message.from_chat({**message, **more}).as_chat()
    before = copy.deepcopy(original.body())
    record = packed(original, blobs)
    stored = unpack(record, blobs.get_blob)
    assert stored.message == original
    assert original.body() == before, "the caller's message is left alone"
    assert (stored.seq, stored.epoch) == (7, 2)
    assert matches_digest(restored_body(record, blobs.get_blob), stored.digest)


@given(chat_messages(), large_values())
def test_content_that_is_large(message: Json, value: Any) -> None:
    content = value if isinstance(value, str) else [{"type": "future", "payload": value}]
    original = Message.build("user", content)
    blobs = Blobs()
    assert unpack(packed(original, blobs), blobs.get_blob).message == original


def test_an_encoded_picture_is_stored_as_its_bytes() -> None:
    blobs = Blobs()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    record = packed(Message.build("user", [part]), blobs, blob_bytes=1 << 20)
    assert list(blobs.values()) == [base64.b64decode(PICTURE)]
    assert PICTURE not in jsonio.encode(record).decode()


@pytest.mark.parametrize("text", ["Q" * 400, PICTURE], ids=["letters", "base64"])
def test_plain_text_is_stored_as_text_whatever_it_looks_like(text: str) -> None:
    blobs = Blobs()
    record = packed(Message.build("user", text), blobs)
    assert list(blobs.values()) == [text.encode()]
    assert record["content"] == text[:200], "its beginning stays where people look for it"


def test_data_that_looks_like_our_blobs_stays_data() -> None:
    fake = {"at": ["content"], "sha256": "0" * 64, "bytes": 1, "as": "text", "head": ""}
    message = Message.from_chat({"role": "user", "content": "hello", "blobs": [fake], "extra": {"blobs": [fake]}})
    blobs = Blobs()
    record = packed(message, blobs)
    assert "blobs" not in record
    assert unpack(record, blobs.get_blob).message == message


@given(chat_messages())
def test_the_digest_is_salted(message: Json) -> None:
    (original,) = Message.from_chat(message).as_chat()
    first, second = (packed(original, Blobs())["digest"] for _ in range(2))
    assert first != second
    assert matches_digest(original.body(), first)
    assert matches_digest(original.body(), second)


@pytest.mark.parametrize(
    "change",
    [
        {"role": "assistant"},
        {"content": "hello!"},
        {"content": None},
        {"name": "bob"},
        {"name": None},
        {"tool_call_id": "x"},
        {"parts": []},
        {"extra": {"vendor": 2}},
        {"extra": {}},
    ],
)
def test_the_digest_notices_a_change(change: Json) -> None:
    message = Message.from_chat({"role": "user", "content": "hello", "name": "ann", "vendor": 1})
    digest = packed(message, Blobs())["digest"]
    assert matches_digest(message.body(), digest)
    assert not matches_digest({**message.body(), **change}, digest)


def test_the_digest_covers_what_went_to_blobs() -> None:
    blobs = Blobs()
    record = packed(Message.build("user", LONG), blobs)
    (name,) = blobs
    assert matches_digest(restored_body(record, blobs.get_blob), record["digest"])
    blobs[name] = blobs[name].replace(b"text", b"Text")
    assert not matches_digest(restored_body(record, blobs.get_blob), record["digest"])


@given(json_objects(), large_values())
def test_records_of_other_streams_come_back(fields: Json, value: Any) -> None:
    record = {"id": 1, "fields": fields, "value": value, "text": LONG}
    blobs = Blobs()
    before = copy.deepcopy(record)
    line = pack_record(dict(record), blob_bytes=100, max_bytes=1 << 20, put_blob=blobs.put)
    assert record == before
    assert is_whole(line)
    assert has_check(line)
    assert unpack_record(decode_record(line), blobs.get_blob) == record


@pytest.mark.parametrize("blob_bytes", [100, 100_000])
def test_too_large(blob_bytes: int) -> None:
    with refused(InvalidMessage, "too_large") as caught:
        packed(Message.build("user", "あ" * 400), Blobs(), blob_bytes=blob_bytes, max_bytes=1_000)
    assert caught.value.fields["limit"] == 1_000
