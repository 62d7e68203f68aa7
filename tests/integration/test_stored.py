"""Tasks that earlier versions stored are read, verified and gone on with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orihon import MessageStore, TaskContextManager, TaskKey, load_settings
from orihon.catalogue import Catalogue
from orihon.verify import verify
from tests.helpers import raw_database
from tests.stored.make import PICTURE, UUIDS

SAMPLES = sorted(
    path for path in (Path(__file__).parent.parent / "stored").glob("*/*") if path.is_dir() and path.name in UUIDS
)


@pytest.fixture(params=SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def base_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A private copy of a sample, with its databases under their names."""
    folder = tmp_path / str(request.param.name)
    shutil.copytree(request.param, folder)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
        if path.suffix == ".sample":
            path.rename(path.with_suffix(""))
    return folder


def test_there_are_samples_of_both_back_ends() -> None:
    assert {path.name for path in SAMPLES} == {"files", "sqlite"}


def test_an_old_task_is_read_whole_and_found_clean(base_dir: Path) -> None:
    uuid = UUIDS[base_dir.name]
    folder = base_dir / "completed" / uuid
    store = MessageStore(folder, backend=base_dir.name)
    messages = [stored.message for stored in store.get_messages()]
    assert [message.role for message in messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "user")
    ]
    assert messages[1].to_chat()["content"][1]["image_url"]["url"] == PICTURE
    assert messages[3].content == "line 0\0 \ud800 \x1b[31mred\x1b[0m"
    assert messages[8].extra["reasoning_content"] == "because"
    assert [line["content"] for line in store.get_messages_for_llm() if isinstance(line["content"], str)][1:2] == [
        "[Previous conversation summary]\nRead a.py three times."
    ]
    assert [record.kind for record in store.compressions()] == ["pin", "compress", "undo", "redo", "compress"]
    store.close()
    assert verify(base_dir, uuid, load_settings({})) == []


def test_an_old_catalogue_goes_on(base_dir: Path) -> None:
    uuid = UUIDS[base_dir.name]
    with Catalogue(base_dir / "tasks.db") as catalogue:
        assert catalogue.get(uuid).total_messages == 10
        assert catalogue.check_rollups() == []
    Catalogue(base_dir / "new.db").close()
    assert _columns_and_names(base_dir / "tasks.db") == _columns_and_names(base_dir / "new.db")
    next_task = TaskContextManager(base_dir, TaskKey("github", "me", "project", "issue", "27", "me"))
    inherited = next_task.get_inheritance_context()
    assert inherited is not None
    assert inherited.uuid == uuid
    next_task.complete()


def _columns_and_names(path: Path) -> tuple[set[tuple[object, ...]], set[tuple[object, ...]]]:
    """What a migrated database must have in common with a new one."""
    with raw_database(path) as connection:
        names = set(connection.execute("SELECT type, name, tbl_name FROM sqlite_schema"))
        columns = "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_xinfo('tasks')"
        indexes = set(connection.execute("SELECT name, sql, '' FROM sqlite_schema WHERE type = 'index'"))
        return set(connection.execute(columns)), names | indexes
