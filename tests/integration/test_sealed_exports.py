"""What was sealed leaves sealed: an export that only the master key opens, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orihon import export_task, export_tasks, import_transcripts
from orihon.errors import InvalidInput
from orihon.importers.report import ImportReport
from orihon.settings import Settings, load_settings
from orihon.transfer.export.export import FORMS
from tests.sealing import CANARY, files_with, sealed_settings, start_sealed, write_key

Lines = list[bytes]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return sealed_settings(write_key(tmp_path / "master"))


@pytest.fixture
def base(tmp_path: Path, settings: Settings) -> Path:
    task = start_sealed(tmp_path / "here", settings, "done-1")
    for number in range(4):  # more than one piece, and a line that goes over several
        task.message_store.add_message("user", f"{number} " + f"{CANARY} " * (10_000 if number else 60_000))
    task.complete()
    return tmp_path / "here"


def brought(path: Path, there: Path, settings: Settings) -> ImportReport:
    return import_transcripts(there, settings, [path])


def problems(report: ImportReport) -> str:
    return " ".join(str(problem.fields.get("detail")) for problem in report.problems)


def test_the_forms_that_are_for_people_want_to_be_asked_for(base: Path, settings: Settings, tmp_path: Path) -> None:
    for form in FORMS:
        if form == "jsonl":
            continue
        with pytest.raises(InvalidInput, match="--clear"):
            export_task(base, "done-1", settings, form, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        export_task(base, "done-1", settings, form, tmp_path / "out", clear=True, force=True)
        assert CANARY in (tmp_path / "out").read_text()
        (tmp_path / "out").unlink()


def test_tasks_one_after_the_other_in_one_file(base: Path, settings: Settings, tmp_path: Path) -> None:
    start_sealed(base, settings, "done-2").complete()
    out = tmp_path / "out.jsonl"
    export_tasks(base, None, settings, "jsonl", out)
    assert files_with(tmp_path, CANARY) == []
    report = brought(out, tmp_path / "there", settings)
    assert sorted(task.uuid for task in report.tasks) == ["done-1", "done-2"]
    again = tmp_path / "again.jsonl"
    export_tasks(tmp_path / "there", None, settings, "jsonl", again, clear=True)
    export_tasks(base, None, settings, "jsonl", out, clear=True, force=True)
    assert _records(out) == _records(again)


def _records(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if line.startswith(b'{"stream"')]


def test_only_the_master_key_opens_it(base: Path, settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    export_task(base, "done-1", settings, "jsonl", out)
    without = brought(out, tmp_path / "there", load_settings({}, environ={}))
    assert [problem.cause for problem in without.problems] == ["export_sealed"]
    assert "encryption.key" in problems(without)
    other = sealed_settings(write_key(tmp_path / "other", "b"))
    wrong = brought(out, tmp_path / "there", other)
    assert [problem.cause for problem in wrong.problems] == ["export_sealed"]
    rotated = sealed_settings(
        f"file:{tmp_path / 'other'}",
        encryption={
            "enabled": True,
            "key": f"file:{tmp_path / 'other'}",
            "former_keys": [f"file:{tmp_path / 'master'}"],
        },
    )
    assert [task.uuid for task in brought(out, tmp_path / "there", rotated).tasks] == ["done-1"]


def _without_last(lines: Lines) -> None:
    lines.pop()


def _without_second(lines: Lines) -> None:
    del lines[2]


def _exchanged(lines: Lines) -> None:
    lines[1], lines[2] = lines[2], lines[1]


def _twice(lines: Lines) -> None:
    lines.append(lines[-1])


def _changed(lines: Lines) -> None:
    piece = json.loads(lines[1])
    piece["sealed"] = piece["sealed"][:-8] + ("AAAAAAAA" if not piece["sealed"].endswith("AAAAAAAA") else "BBBBBBBB")
    lines[1] = json.dumps(piece).encode()


def _no_piece(lines: Lines) -> None:
    del lines[1:]


def _plain_piece(lines: Lines) -> None:
    lines[1] = b'{"stream":"messages","record":{"seq":1}}'


def _of_another_task(lines: Lines) -> None:
    lines[0] = lines[0].replace(b"done-1", b"done-9")


@pytest.mark.parametrize(
    "spoil",
    [_without_last, _without_second, _exchanged, _twice, _changed, _no_piece, _plain_piece, _of_another_task],
)
def test_what_was_tampered_with_is_refused(
    base: Path, settings: Settings, tmp_path: Path, spoil: Callable[[Lines], None]
) -> None:
    out = tmp_path / "out.jsonl"
    export_task(base, "done-1", settings, "jsonl", out)
    lines = out.read_bytes().splitlines()
    assert len(lines) > 3
    spoil(lines)
    out.write_bytes(b"\n".join(lines) + b"\n")
    report = brought(out, tmp_path / "there", settings)
    assert [problem.cause for problem in report.problems] == ["export_incomplete"]
    assert report.tasks == []
    assert not list((tmp_path / "there").glob("completed/*"))
