"""JSON in and out: what goes in comes back, and what is no JSON is refused."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given

from orihon.errors import InvalidMessage
from orihon.system import jsonio
from tests.helpers import refused
from tests.strategies import json_values


@given(json_values())
def test_any_value_comes_back(value: Any) -> None:
    line = jsonio.encode(value)
    assert b"\n" not in line
    assert jsonio.decode(line) == value
    assert jsonio.decode(jsonio.encode_pretty(value)) == value


@given(json_values())
def test_every_reader_of_json_reads_it(value: Any) -> None:
    assert json.loads(jsonio.encode(value)) == value


@pytest.mark.parametrize(
    "number", [2**63, 2**64, -(2**63) - 1, 2**200, 10**18, 10**19, 1.5, 0.1, 1e300, -0.0, 5e-324, 1e18, 1e19]
)
def test_numbers_keep_value_and_type(number: float) -> None:
    back = jsonio.decode(jsonio.encode({"n": [number]}))["n"][0]
    assert back == number
    assert type(back) is type(number)
    assert repr(back) == repr(number)


def test_japanese_stays_readable() -> None:
    assert jsonio.encode({"text": "日本語"}) == '{"text":"日本語"}'.encode()


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udce9\x00", "日本語\udc80"])
def test_lone_surrogates(text: str) -> None:
    line = jsonio.encode({"text": text, "語": 1})
    line.decode("utf-8")
    assert jsonio.decode(line) == {"text": text, "語": 1}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1 + 2j, {"deep": [object()]}, {(1, 2): 3}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with refused(InvalidMessage, "not_json"):
        jsonio.encode(value)


def test_endless_structures_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with refused(InvalidMessage, "not_json"):
        jsonio.encode(loop)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"a":1}{"b":2}', b"nul", b"[" * 100_000, b"[1,]"])
def test_what_is_no_json_text_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        jsonio.decode(text)


def test_texts_and_buffers_are_read_too() -> None:
    assert jsonio.decode('{"a": "語"}') == {"a": "語"}
    assert jsonio.decode(bytearray(b"[1]")) == jsonio.decode(memoryview(b"[1]")) == [1]


def test_numbers_that_others_write_and_json_has_not_can_be_read_as_texts() -> None:
    read = jsonio.decode(b'[NaN, -Infinity, 1e999, 1.5, 2, "NaN"]', odd_numbers=False)
    assert read == ["NaN", "-Infinity", "1e999", 1.5, 2, "NaN"]
    assert jsonio.decode(jsonio.encode(read)) == read


@pytest.mark.parametrize("length", [(1 << 15) - 1, 1 << 15, (1 << 15) + 1, 100_000])
def test_a_long_text_is_written_as_a_short_one_is(length: int) -> None:
    text = ('a"\\\n\x01\x7féあ😀\u2028' * length)[:length]
    value = {"role": "user", "content": text, "n": 3, "none": None, "nested": [1.5, {"x": text}], "é": True, "ü": text}
    assert jsonio.encode(value) == orjson.dumps(value)
    torn = {"content": text, "more": "\ud800"}
    assert jsonio.decode(jsonio.encode(torn)) == torn
    with pytest.raises(InvalidMessage):
        jsonio.encode({"content": text, "n": float("nan")})
    with pytest.raises(InvalidMessage):
        jsonio.encode({"content": text, 3: 4})


def test_a_long_text_takes_little_more_than_itself() -> None:
    value = {"role": "user", "content": "x" * 4_000_000}
    tracemalloc.start()
    jsonio.encode(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * 4_000_000
