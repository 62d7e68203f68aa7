"""What the tests of encryption at rest share: settings with a master key, a task that says a canary everywhere."""

from __future__ import annotations

import base64
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, LiteralString

from orihon.errors import Waiting
from orihon.settings import Settings, load_settings
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold
from tests.services import Database

#: Words that nothing masks and nothing but these tests says.
CANARY = "quetzalfinch"
JAPANESE_CANARY = "金糸雀鳴く"
SAID = f"the {CANARY} sings, {JAPANESE_CANARY}"
KEY = TaskKey("github", "owner", "repo", "issue", "27", "user")


def write_key(path: Path, letter: str = "a") -> str:
    """A master key in a file; returns its source."""
    path.write_text(letter * 64 + "\n", encoding="ascii")
    path.chmod(0o600)
    return f"file:{path}"


def sealed_settings(
    source: str | None, backend: str = "files", database: Database | None = None, **sections: Any
) -> Settings:
    """Settings that seal new tasks under the key of ``source``."""
    config: dict[str, Any] = {
        "context_storage": {"backend": backend, "blob_bytes": 1024},
        "encryption": {"enabled": True, "key": source},
        **sections,
    }
    if database is not None:
        config["database"] = database.settings
    return load_settings(config, environ={})


def start_sealed(base: Path, settings: Settings, uuid: str, key: TaskKey = KEY) -> TaskContextManager:
    """A running task that says the canary in every way that it has."""
    task = TaskContextManager(base, key, settings, uuid=uuid)
    store = task.message_store
    store.add_message("system", SAID)
    for turn in range(3):
        store.add_message("user", f"{turn} {SAID}", note=SAID)
        call = {"id": f"c{turn}-{CANARY}", "type": "function", "function": {"name": "look", "arguments": f'"{CANARY}"'}}
        store.add_message("assistant", None, tool_calls=[call])
        store.add_message("tool", SAID * (100 if turn == 2 else 1), tool_call_id=f"c{turn}-{CANARY}")
    picture = "data:image/png;base64," + base64.b64encode(SAID.encode() * 100).decode()
    store.add_message("user", [{"type": "image_url", "image_url": {"url": picture}}])
    task.tool_store.add_tool_call("look", {"path": SAID}, SAID * 100, SAID)
    task.planning_store.add_plan("initial", {"steps": [SAID]})
    store.folding.compress([PlannedFold(2, 4, SAID, reason=SAID)], trigger="manual", made_by="ana")
    store.folding.pin(5)
    task.task_store.records.keep_file("outputs/look-0123abcd.txt", SAID.encode())
    return task


def ask(task: TaskContextManager) -> None:
    """The task asks a person, and waits."""
    task.phase("concept")
    task.message_store.add_message("assistant", f"## 決定\n\n- {SAID}\n\n## 調査\n\n" + f"{SAID}\n" * 50)
    with suppress(Waiting):
        task.checkpoint("concept", SAID, SAID)
    task.catalogue.close()


def files_with(folder: Path, *words: str) -> list[str]:
    """The files below a folder that hold one of these, plain or encoded, in their contents or their names.

    Another process reads them: who closes a file of SQLite drops the locks that it has on it.
    """
    packing = subprocess.run(["tar", "-cf", "-", "-C", folder, "."], stdout=subprocess.PIPE, check=False)
    assert packing.returncode in (0, 1), packing  # 1: somebody wrote to a file meanwhile, and it is packed all the same
    packed, found = packing.stdout, []
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if holds(member.name.encode(), *words) or (content is not None and holds(content.read(), *words)):
                found.append(member.name)
    return found


def holds(data: bytes, *words: str) -> bool:
    """Does the data say one of these, in one of the ways that our files say things?"""
    return any(form in data for word in words for form in _forms(word))


def _forms(word: str) -> Iterator[bytes]:
    raw = word.encode()
    yield raw
    yield word.encode("unicode_escape")
    yield from (base64.b64encode(b"x" * shift + raw)[4:-4] for shift in range(3))  # wherever it stands in something


def rows_with(database: Database, *words: str) -> list[str]:
    """The tables of a schema that hold one of these."""
    import psycopg

    found = []
    with psycopg.connect(database.url, autocommit=True) as connection:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        for (name,) in connection.execute(names, (database.schema,)).fetchall():
            statement: LiteralString = "SELECT * FROM "
            rows = connection.execute((statement + f'{database.schema}."{name}"').encode()).fetchall()
            if any(holds(_bytes(value), *words) for row in rows for value in row):
                found.append(str(name))
    return found


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else os.fsencode(str(value))
