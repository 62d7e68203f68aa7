"""Messages on a page: long ones are cut where it does no harm, nothing is lost, nothing becomes markup."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from orihon.store.record_codec import StoredMessage
from orihon.transfer.export.message_view import outcome, output, said_text, shown_message
from orihon.transfer.export.story import StoryMessage
from orihon.values.message.message import Message

_TAG = re.compile(r"<[^>]*>")
_LINES = st.lists(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=60), max_size=80
)


def read(markup: object) -> str:
    """What somebody reads in a piece of HTML."""
    return html.unescape(_TAG.sub("", str(markup)))


@given(_LINES)
def test_an_output_is_all_there_in_two_parts(lines: list[str]) -> None:
    text = "\n".join(lines)
    shown = output(text)
    assert (read(shown.head) + read(shown.rest)).rstrip() == text.rstrip()
    assert shown.missing == 0
    assert read(shown.head).count("\n") <= 8 + 4 or not shown.rest


def test_only_the_beginning_of_an_endless_output_is_sent() -> None:
    text = "line\n" * 100_000
    shown = output(text)
    assert shown.missing == len(text) - 40_000
    assert len(shown.head) + len(shown.rest) < 41_000
    assert output(text, None).missing == 0


def test_a_long_text_is_cut_between_paragraphs_and_never_inside_code() -> None:
    code = "```python\n" + "\n\n".join(f"step_{number}()" for number in range(300)) + "\n```"
    shown = said_text(f"First.\n\n{code}\n\nLast." + "\n\nMore." * 400)
    assert read(shown.head).strip() == "First."
    assert str(shown.rest).startswith("<pre")
    assert shown.lines > 300


@given(st.text(max_size=300))
def test_nothing_that_is_said_becomes_markup(text: str) -> None:
    for shown in (output(text), said_text(text)):
        tags = set(re.findall(r"</?([a-z]+)", str(shown.head)))
        assert tags <= {"pre", "div", "strong", "code", "ins", "del"}


def test_a_message_says_what_is_not_on_the_page() -> None:
    said = StoredMessage(7, Message("user", "x" * 50_000), "2026-01-01T00:00:00+00:00", 9, 1, "d")
    assert shown_message(StoryMessage(said)).is_cut
    assert not shown_message(StoryMessage(said), whole=True).is_cut


def test_how_a_call_went() -> None:
    failed = outcome({"status": "error", "error": "exit 1", "duration_ms": 12.5})
    assert (failed.failed, failed.milliseconds, failed.error) == (True, 12.5, "exit 1")
    assert outcome({"status": "success", "duration_ms": None}).milliseconds is None
