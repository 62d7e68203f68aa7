"""Answers are put together from whatever pieces servers send."""

from __future__ import annotations

from typing import Any

import pytest

from orihon.llm.answers import AnswerBuilder, decoded
from orihon.llm.transport import events
from orihon.values.records import Usage


def test_events_are_found_between_comments_and_names() -> None:
    lines = b": ping\n\nevent: a\ndata: one\nid: 3\n\ndata:two\ndata: more\n\n\nretry: 5\n\ndata: last".split(b"\n")
    assert list(events(lines)) == [b"one", b"two\nmore", b"last"]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert list(events([b"\xef\xbb\xbfdata: one", b""])) == [b"one"]
    assert decoded(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


def test_calls_stand_in_the_order_of_their_numbers() -> None:
    builder = AnswerBuilder()
    builder.call(1, call_id="b", name="two")
    builder.call(0, call_id="a", name="one")
    assert [call["name"] for call in builder.built().calls] == ["one", "two"]


def test_calls_in_pieces() -> None:
    builder = AnswerBuilder()
    builder.call(0, call_id="a", name="read", arguments='{"p"')
    builder.call(1, call_id="a", name="write")
    builder.call(0, arguments=":1}")
    assert builder.built().calls == (
        {"id": "a", "name": "read", "arguments": '{"p":1}'},
        {"id": "a", "name": "write", "arguments": "{}"},
    )


def test_servers_that_number_every_call_zero() -> None:
    builder = AnswerBuilder()
    builder.call(0, call_id="a", name="read", arguments="{}")
    builder.call(0, call_id="b", name="read", arguments='{"p":')
    builder.call(0, arguments="2}")
    assert [(call["id"], call["arguments"]) for call in builder.built().calls] == [("a", "{}"), ("b", '{"p":2}')]


def test_pieces_of_other_types_do_no_harm() -> None:
    builder = AnswerBuilder()
    for odd in (None, 3, {"a": 1}, ["x"], [{"type": "text", "text": "in a block"}]):
        builder.text(odd)
        builder.reasoning("reasoning", odd)
        builder.add_usage(odd)
        builder.call("k", call_id=odd, name=odd, arguments=None)
    answer = builder.built()
    assert (answer.text, answer.calls, answer.fields) == ("in a block", (), {})


def test_lone_surrogates_become_readable() -> None:
    shown: list[str] = []
    builder = AnswerBuilder(shown.append)
    builder.text("a\ud800")
    assert builder.built().text == "a\ufffd"
    assert shown == ["a\ufffd"]


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({}, Usage()),
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 0, 2)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens": 2}, Usage(9, 8, 2)),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 2, "output_tokens": 3},
            Usage(9, 6, 3),
        ),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3}, Usage(9, 4, 3)),
        ({"prompt_eval_count": 9, "eval_count": 4}, Usage(9, 0, 4)),
        ({"prompt_tokens": None, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": "7"}, Usage()),
    ],
)
def test_usage_of_every_provider(reported: dict[str, Any], usage: Usage) -> None:
    assert Usage.of(reported) == usage


@pytest.mark.parametrize("key", ["prompt_tokens", "completion_tokens", "input_tokens", "eval_count"])
def test_figures_beyond_belief_are_not_taken(key: str) -> None:
    assert Usage.of({key: 2**63 - 1}) == Usage.of({key: 2**70}) == Usage()
    assert Usage.of({key: 10**9}) != Usage()


def test_arguments_beyond_json_stay_a_text() -> None:
    builder = AnswerBuilder()
    builder.call(0, name="put", arguments={"a": float("inf"), "b": float("nan")})
    assert builder.built().calls[0]["arguments"] == '{"a": Infinity, "b": NaN}'
