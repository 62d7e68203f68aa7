"""A model's answer is checked against its source, both ways: what it is about, and what it makes up."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.model.call import SummaryFailure
from orihon.compression.model.grounding import Ground
from orihon.values.message.message import Message
from tests.unit.llm_models import Model, summarizer

TABLE = tomllib.loads(Path(__file__).with_name("summary_answers.toml").read_text(encoding="utf-8"))
SOURCES = {name: [Message.from_chat(message) for message in told] for name, told in TABLE["sources"].items()}
GOOD = [(source, said) for source, answers in TABLE["good"].items() for said in answers]
REFUSED = [(source, said) for source, answers in TABLE["refused"].items() for said in answers]
STRUCK = [(source, said, made_up) for source, answers in TABLE["struck"].items() for made_up, said in answers]


def answered(source: str, said: str) -> tuple[str | None, str | None]:
    """What becomes of an answer, and why there is nothing."""
    asking = summarizer(Model(said))
    return asking.summarize(SOURCES[source], 800), asking.last_failure


def test_the_table_is_large_enough() -> None:
    assert len(GOOD) >= 30
    assert len(REFUSED) + len(STRUCK) >= 30


def test_what_rests_on_its_source_is_taken_as_it_is() -> None:
    offenders = [(said, got) for source, said in GOOD if (got := answered(source, said)) != (said, None)]
    assert not offenders, "\n".join(f"{said!r}\n    became {got!r}" for said, got in offenders)


def test_what_is_about_something_else_or_made_up_is_refused() -> None:
    reasons = (SummaryFailure.UNRELATED, SummaryFailure.INVENTED)
    offenders = [(said, got) for source, said in REFUSED if (got := answered(source, said))[1] not in reasons]
    assert not offenders, "\n".join(f"{said!r}\n    became {got!r}" for said, got in offenders)


def test_what_is_made_up_is_struck_and_the_rest_stays() -> None:
    offenders = []
    for source, said, made_up in STRUCK:
        written, reason = answered(source, said)
        if written is None or made_up in written or len(written) < len(said) / 3:
            offenders.append(f"{said!r}\n    without {made_up!r}, but became {written!r} ({reason})")
    assert not offenders, "\n".join(offenders)


def test_the_reason_says_whether_it_is_about_something_else_or_made_up() -> None:
    assert answered("export", "Peel the apples and bake the pie until it is golden.")[1] == SummaryFailure.UNRELATED
    assert answered("export", "The export of invoices is in src/billing/new_export.py.")[1] == SummaryFailure.INVENTED


# ---- both ways, in general -------------------------------------------------------------------------------------------

FACTS = st.sampled_from(
    [
        *(
            "src/billing/export.py",
            "/srv/app/config.yaml",
            "~/notes.md",
            "https://example.com/a?b=1",
            "C:\\temp\\a.log",
        ),
        *("export_rows()", "CustomerSearch", "a.b.c", "MAX_RETRIES", "--maxfail=3", "3fa9c1e7b2", "UTF-8", "sha256"),
        *(
            "1,200",
            "0.4217",
            "2024-03-01",
            "19:30",
            "87.4%",
            "$450",
            "3万",
            "十二",
            "１２３",
            "459.00",
            "M05KNL",
            "Tuesday",
        ),
    ]
)
SENTENCES = st.lists(st.one_of(FACTS, st.text("abcdefgh \n。、はをに的", min_size=1, max_size=12)), min_size=1).map(
    " ".join
)


@settings(deadline=None)
@given(SENTENCES, SENTENCES)
def test_a_quotation_has_nothing_made_up(said: str, other: str) -> None:
    ground = Ground([Message("user", said), Message("assistant", other)], [1, 2])
    assert [name for line in said.splitlines() for name in ground.invented(line)] == []


@settings(deadline=None)
@given(st.lists(st.text(max_size=80), max_size=4), st.text(max_size=200))
def test_whatever_is_said_of_whatever_only_goes(source: list[str], said: str) -> None:
    ground = Ground([Message("user", text) for text in source], range(1, len(source) + 1))
    ground.is_related(said, "")
    checked = ground.checked(said)
    assert 0 <= checked.struck <= 1
    assert {*checked.text} <= {*said, " "}
    assert len(checked.text) <= len(said)
    assert bool(checked.struck) == bool(checked.invented)
    assert checked.struck or lines_of(checked.text) == lines_of(said)


def lines_of(said: str) -> list[str]:
    """The lines that are no headings."""
    stripped = (line.strip() for line in said.split("\n"))
    return [line for line in stripped if line and not line.startswith("#")]


def test_odd_texts_take_no_longer_than_others() -> None:
    odd = (
        "_",
        ".",
        "-",
        "9",
        "a",
        "a/",
        "a.",
        "aA",
        "a1",
        "A ",
        "**A ",
        "user ",
        "approved by ",
        "message 1 and ",
        "(1,",
        "承認",
        "#",
    )
    began = time.process_time()
    for piece in odd:
        said = piece * (30_000 // len(piece))
        for source, answer in ((said, "The user approved src/report.py at 14:30."), ("Fix src/report.py.", said)):
            ground = Ground([Message("user", source)], [1])
            ground.is_related(answer, "")
            ground.checked(answer)
    assert time.process_time() - began < 60
