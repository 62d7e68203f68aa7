"""One index, two databases: the same matches in SQLite and in PostgreSQL, and what both promise."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orihon.drivers.postgres import postgres_of
from orihon.errors import NewerSchema
from orihon.search.documents import KINDS, Document, DocumentKind
from orihon.search.index import Changes, Filters, IndexedDocument, IndexProgress, SearchIndex, TaskMark, text_tokens
from orihon.search.query import parse_query
from orihon.search.sqlite_index import FILE, SqliteIndex
from orihon.settings import Settings, load_settings
from tests.helpers import raw_database, refused
from tests.services import own_schema
from tests.strategies import MIXED_TEXTS

TIME = "2026-01-02T03:04:05.000000+00:00"
_FOR_ONE_INDEX = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def shared() -> Iterator[Settings]:
    for database in own_schema():
        yield load_settings({"database": database.settings}, environ={})


@pytest.fixture(params=["sqlite", "postgres"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SearchIndex]:
    opened: SearchIndex
    if request.param == "sqlite":
        opened = SqliteIndex(tmp_path, timeout=5.0)
    else:
        from orihon.search.postgres_index import PostgresIndex

        opened = PostgresIndex(postgres_of(request.getfixturevalue("shared")))
        opened.clear()
    yield opened
    opened.close()


def document(
    text: str,
    number: int = 1,
    *,
    uuid: str = "one",
    kind: DocumentKind = "message",
    role: str = "user",
    tools: tuple[str, ...] = (),
    time: str = TIME,
) -> IndexedDocument:
    return IndexedDocument.of(uuid, Document(kind, number, time, text, role, tools))


def found(index: SearchIndex, query: str, filters: Filters | None = None) -> list[int]:
    return sorted(candidate.number for candidate in index.find(parse_query(query), filters or Filters()))


def test_words_phrases_beginnings_and_what_is_left_out(index: SearchIndex) -> None:
    texts = ["call getUserName in snake_case", "移行計画を確認する 会議", "a second user name", "Straße Café ﾊﾞｸﾞ"]
    index.write(Changes(documents=[document(text, number) for number, text in enumerate(texts, start=1)]))
    expected = {
        "user": [1, 3],
        "user name": [1, 3],
        "getusername": [1],
        '"user name"': [1, 3],
        '"name user"': [],
        "user -second": [1],
        "sec*": [3],
        "getus*": [1],
        "snake_case": [1],
        "case": [1],
        "移行": [2],
        "会": [2],
        "行計画": [2],
        "strasse cafe": [4],
        "バグ": [4],
        "-user": [],
        "🎉": [],
    }
    assert {query: found(index, query) for query in expected} == expected
    assert index.count() == 4
    assert index.check() is None


@_FOR_ONE_INDEX
@given(texts=st.lists(MIXED_TEXTS, min_size=1, max_size=4))
def test_every_token_of_a_document_finds_it(index: SearchIndex, texts: list[str]) -> None:
    uuid = secrets.token_hex(8)
    documents = [document(text, number, uuid=uuid) for number, text in enumerate(texts)]
    index.write(Changes(documents=documents))
    for each in documents:
        for token in list(dict.fromkeys([*each.words, *each.wholes]))[:12]:
            assert each.number in found(index, token, Filters(tasks=(uuid,)))


@_FOR_ONE_INDEX
@given(texts=st.lists(MIXED_TEXTS, min_size=1, max_size=4), query=MIXED_TEXTS)
def test_exactly_what_matches_is_found(index: SearchIndex, texts: list[str], query: str) -> None:
    uuid = secrets.token_hex(8)
    index.write(Changes(documents=[document(text, number, uuid=uuid) for number, text in enumerate(texts)]))
    words = texts[0].split()
    for asked in (query, " ".join(words[:2]), f'"{" ".join(words[1:3])}"', f"{words[0] if words else ''} -{query}"):
        parsed = parse_query(asked)
        expected = [number for number, text in enumerate(texts) if parsed.matches(*text_tokens(text))]
        assert found(index, asked, Filters(tasks=(uuid,))) == expected


@pytest.mark.parametrize(
    "query",
    [
        *('"', "NEAR(a b, 2)", "words : a", "a AND", "* OR *", "' | 'a", "a <-> b & !", "\0", "^a"),
        *("a" * 10_000, "(" * 999, " ".join(f'"{n} {n}" -x{n}' for n in range(2000))),
    ],
)
def test_no_query_is_an_error(index: SearchIndex, query: str) -> None:
    index.write(Changes(documents=[document("something")]))
    found(index, query)
    found(index, f"something {query}")


def test_filters(index: SearchIndex) -> None:
    old = "2025-01-02T03:04:05.000000+00:00"
    index.write(
        Changes(
            documents=[
                document("valve", 1),
                document("valve", 2, role="tool", tools=("shell run 道具",)),
                document("valve", 3, uuid="two", time=old),
                document("valve", 4, kind="plan", role=""),
                document("valve", 5, role="assistant", tools=("x" * 3000, "other")),
            ]
        )
    )
    expected = {
        Filters(): [1, 2, 3, 4, 5],
        Filters(tasks=("one",)): [1, 2, 4, 5],
        Filters(tasks=("one", "two")): [1, 2, 3, 4, 5],
        Filters(tasks=("three",)): [],
        Filters(roles=("user",)): [1, 3],
        Filters(roles=("user", "tool")): [1, 2, 3],
        Filters(tools=("shell run 道具",)): [2],
        Filters(tools=("x" * 3000,)): [5],
        Filters(tools=("shell",)): [],
        Filters(kinds=("plan",)): [4],
        Filters(since=TIME): [1, 2, 4, 5],
        Filters(until=TIME): [3],
        Filters(tasks=("one",), roles=("user",), kinds=("message",), since=old): [1],
    }
    assert {filters: found(index, "valve", filters) for filters in expected} == expected


def test_rare_and_short_come_first(index: SearchIndex) -> None:
    index.write(
        Changes(documents=[document("valve " + "other words " * 40, 1), document("valve", 2), document("pump", 3)])
    )
    scores = {candidate.number: candidate.score for candidate in index.find(parse_query("valve"), Filters())}
    assert scores[2] > scores[1] > 0


def test_a_phrase_far_into_a_long_text(index: SearchIndex) -> None:
    text = "filler " * 20_000 + "the very last phrase"
    index.write(Changes(documents=[document(text), document("last words of a phrase", 2)]))
    assert found(index, '"last phrase"') == [1]
    uncertain = [each for each in index.find(parse_query('"phrase last"'), Filters()) if not each.is_certain]
    assert found(index, '"phrase last"') == [each.number for each in uncertain]  # who reads it sees that it is none
    assert found(index, "phrase -filler") == [2]


def test_a_text_with_more_words_than_a_database_keeps(index: SearchIndex) -> None:
    text = " ".join(f"w{number:x}" for number in range(70_000))
    index.write(Changes(documents=[document(f"{text} {'漢字' * 100_000}")]))
    assert found(index, "w0 w1 wbfff") == [1]


def test_marks_and_progress_are_kept(index: SearchIndex) -> None:
    reached: dict[DocumentKind, int] = {"message": 3, "summary": 2, "tool": 1, "plan": 0}
    marks = {
        "one": TaskMark("one", "running x", is_settled=False, reached=reached),
        "two": TaskMark("two", "completed y", is_settled=True, problem="torn"),
    }
    index.write(Changes(marks=list(marks.values())))
    assert index.marks() == marks
    assert index.marks(["two", "three"]) == {"two": marks["two"]}
    assert index.problems() == {"two": "torn"}
    assert index.progress("here") == IndexProgress()
    index.note_progress("here", IndexProgress("a", "b"))
    index.note_progress("here", IndexProgress("c", "d"))
    assert index.progress("here") == IndexProgress("c", "d")
    index.compare_again()
    assert index.progress("here") == IndexProgress()


def test_a_task_is_dropped_with_everything(index: SearchIndex) -> None:
    index.write(Changes(documents=[document("valve"), document("valve", 2, uuid="two")], marks=[TaskMark("one")]))
    index.write(Changes(dropped=["one", "nobody"], documents=[document("pump", 7)]))
    assert (found(index, "valve"), found(index, "pump"), index.count()) == ([2], [7], 2)
    index.purge()
    assert found(index, "valve") == [2]
    index.clear()
    assert (index.count(), index.marks()) == (0, {})


def test_nothing_is_left_on_the_disk_of_what_was_dropped(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path, timeout=5.0)
    index.write(Changes(documents=[document("verysecretword"), document("harmless", uuid="two")]))
    index.write(Changes(dropped=["one"]))
    index.purge()
    index.close()
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"verysecretword" not in left
    assert b"harmless" in left


def test_one_writes_at_a_time(index: SearchIndex, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def other() -> SearchIndex:
        if isinstance(index, SqliteIndex):
            return SqliteIndex(tmp_path, timeout=5.0)
        from orihon.search.postgres_index import PostgresIndex

        return PostgresIndex(postgres_of(request.getfixturevalue("shared")))

    second = other()
    with index.turn(0) as is_ours:
        assert is_ours
        with second.turn(0.05) as is_theirs:
            assert not is_theirs
        got: list[bool] = []

        def wait() -> None:
            with second.turn(300) as is_theirs:
                got.append(is_theirs)

        waiting = threading.Thread(target=wait)
        waiting.start()
    waiting.join(300)
    assert got == [True]
    second.close()


def test_an_older_index_is_made_anew_and_a_newer_one_refused(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path, timeout=5.0)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    index.close()
    with raw_database(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    with refused(NewerSchema, "database"):
        SqliteIndex(tmp_path, timeout=5.0)


def test_kinds_are_columns() -> None:
    assert KINDS == ("message", "summary", "tool", "plan")  # in the order of the columns of both databases
