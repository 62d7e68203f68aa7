"""The databases of the first design."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from orihon import import_transcripts
from orihon.importers.registry import recognised
from orihon.importers.seed_tree import key_from
from orihon.settings import load_settings
from orihon.values.task import TaskKey
from tests.importing_agents import told

SCHEMA = """
CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, content TEXT NOT NULL,
    timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, token_count INTEGER, is_summarized BOOLEAN DEFAULT 0,
    summary_id INTEGER, metadata TEXT
);
CREATE TABLE summaries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, start_message_id INTEGER NOT NULL, end_message_id INTEGER NOT NULL,
    summary_content TEXT NOT NULL, token_count INTEGER, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE tool_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, message_id INTEGER NOT NULL, tool_name TEXT NOT NULL, arguments TEXT NOT NULL,
    result TEXT, duration_ms INTEGER, status TEXT, error_message TEXT, timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "contexts" / "github" / "kim" / "shop" / "issue_27" / "context.db"
    path.parent.mkdir(parents=True)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(SCHEMA)
    connection.execute("INSERT INTO metadata (key, value) VALUES ('context_length', '128000')")
    said = [
        ("system", "You count pears.", "{}"),
        ("user", "How many pears? 梨は?", "{}"),
        ("assistant", "I count.", json.dumps({"tool_call": {"name": "count"}})),
        ("tool", "17", json.dumps({"tool_name": "count"})),
        ("user", "And apples?", "not json"),
        ("assistant", "None.", "{}"),
    ]
    for role, content, metadata in said:
        connection.execute(
            "INSERT INTO messages (role, content, timestamp, metadata) VALUES (?, ?, '2025-01-02 03:04:05', ?)",
            (role, content, metadata),
        )
    connection.execute(
        "INSERT INTO summaries (start_message_id, end_message_id, summary_content) VALUES (2, 4, '17 pears were found')"
    )
    connection.execute(
        "INSERT INTO tool_calls (message_id, tool_name, arguments, result, duration_ms, status, timestamp)"
        " VALUES (4, 'count', '{\"what\": \"pears\"}', '17', 12, 'success', '2025-01-02 03:04:05')"
    )
    connection.close()
    return path


def test_a_database_is_one_task(database: Path) -> None:
    found = recognised(database.read_bytes()[: 1 << 16], database)
    assert found is not None
    assert found.name == "seed-tree"
    session = told("seed-tree", database)
    (thread,) = session.threads
    assert thread.key == TaskKey("github", "kim", "shop", "issue", "27")
    assert thread.title == "How many pears? 梨は?"
    assert [line[1] for line in session.lines] == [
        *("You count pears.", "How many pears? 梨は?", "I count.", "17", "And apples?", "None.")
    ]
    assert session.said[0].timestamp == "2025-01-02T03:04:05"
    assert [fold.text for fold in session.folds] == ["17 pears were found"]
    assert [(tool.tool_name, tool.arguments, tool.result, tool.duration_ms) for tool in session.tools] == [
        ("count", {"what": "pears"}, 17, 12.0)
    ]


def test_the_whole_tree_is_imported(database: Path, tmp_path: Path) -> None:
    settings = load_settings({}, environ={})
    report = import_transcripts(tmp_path / "new", settings, [tmp_path / "logs"])
    assert (report.problems, report.new_tasks, report.folds) == ([], 1, 1)
    assert report.mended.calls_added == 1  # that design kept results without their calls
    connection = apsw.Connection(str(database))
    connection.execute("INSERT INTO messages (role, content) VALUES ('user', 'one more')")
    connection.close()
    again = import_transcripts(tmp_path / "new", settings, [tmp_path / "logs"])
    assert (again.problems, again.grown_tasks, again.messages) == ([], 1, 1)


def test_a_database_of_another_kind_is_told(tmp_path: Path) -> None:
    path = tmp_path / "context.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE messages (id INTEGER, is_summarized INTEGER, token_count INTEGER)")
    connection.close()
    report = import_transcripts(tmp_path / "new", load_settings({}, environ={}), [path])
    assert [problem.cause for problem in report.problems] == ["schema"]


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("github/kim/shop/issue_27/context.db", TaskKey("github", "kim", "shop", "issue", "27")),
        ("gitlab/kim/shop/merge_request_3/context.db", TaskKey("gitlab", "kim", "shop", "merge_request", "3")),
        ("github/kim/shop/strange/context.db", None),
    ],
)
def test_the_place_says_which_task_it_is(place: str, key: TaskKey | None, tmp_path: Path) -> None:
    assert key_from(tmp_path / place) == key
