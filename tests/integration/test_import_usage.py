"""What an import writes down of the calls is what the log says when it is read again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import import_transcripts
from orihon.catalogue import UsageRow
from orihon.settings import load_settings
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.usage import usage_rows
from tests.importing import CLAUDE_SESSION, claude_answer, claude_record, write_lines

LONG = "The export of the monthly figures goes through several steps. " * 40
SECRET = "token ghp_0123456789abcdefghijABCDEFGHIJ456789 鍵"


def answer(number: int, said: str, **changes: Any) -> dict[str, Any]:
    message = {**claude_answer(f"msg_{number}", {"type": "text", "text": said}), **changes}
    return claude_record(number, "assistant", message)


def session() -> list[dict[str, Any]]:
    """Calls with and without figures, of two models, before and after the other agent has folded its past."""
    summary = {"role": "user", "content": "This session is being continued: figures were exported."}
    return [
        claude_record(1, "user", {"role": "user", "content": LONG + SECRET}),
        answer(2, LONG),
        claude_record(3, "user", {"role": "user", "content": "And now?"}),
        answer(4, LONG, usage=None),
        claude_record(5, "user", summary, isCompactSummary=True),
        claude_record(6, "user", {"role": "user", "content": "Go on."}),
        answer(7, "Done.", usage=None),
        answer(8, "More.", model="claude-opus-4-5"),
    ]


def told_and_read(base: Path, path: Path, *, masking: bool) -> tuple[list[UsageRow], list[UsageRow]]:
    settings = load_settings({"masking": {"enabled": masking}, "context_storage": {"durability": "os"}}, environ={})
    import_transcripts(base, settings, [path])
    with OpenBase(base, settings) as opened:
        catalogue = opened.open_catalogue(create=False)
        assert catalogue is not None
        (row,) = catalogue.tasks.page()
        folder = opened.folders.find(row.uuid)
        assert folder is not None
        with closing(open_for_reading(folder.folder, settings, name=row.uuid)) as store:
            assert (SECRET in store.message(1).message.text) is not masking
            return catalogue.usage.of_task(row.uuid), usage_rows(store, row.uuid)


@pytest.mark.parametrize("masking", [False, True])
def test_at_once(tmp_path: Path, masking: bool) -> None:
    path = write_lines(tmp_path / f"{CLAUDE_SESSION}.jsonl", session())
    told, read = told_and_read(tmp_path / "base", path, masking=masking)
    assert told == read
    assert [(row.model, row.calls) for row in told] == [("claude-opus-4-5", 1), ("claude-sonnet-4-5", 3)]
    assert all(row.saved_tokens > 0 for row in told)


def test_in_several_imports(tmp_path: Path) -> None:
    path = tmp_path / f"{CLAUDE_SESSION}.jsonl"
    for length in (2, 5, 8):
        write_lines(path, session()[:length])
        told, read = told_and_read(tmp_path / "base", path, masking=False)
        assert told == read
    assert sum(row.calls for row in told) == 4
