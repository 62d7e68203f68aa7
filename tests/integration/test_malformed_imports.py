"""Files that are cut, torn, of the wrong encoding, endless or no files at all: told, passed over, the rest imported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orihon import import_transcripts
from orihon.importers import lines
from orihon.importers.report import ImportReport
from orihon.settings import load_settings
from tests.importing import SAMPLES, Sample, make_chat_lines, make_claude_code, write_lines

SETTINGS = load_settings({"context_storage": {"durability": "os"}}, environ={})
OLD = 1_700_000_000


def bring(base: Path, *paths: Path, **options: Any) -> ImportReport:
    report = import_transcripts(base / "contexts", SETTINGS, paths, **options)
    for problem in report.problems:
        assert problem.said  # in words
    return report


@dataclass(frozen=True)
class Spoiled:
    """A file of a format after something was done to it, and what came of importing its folder."""

    sample: Sample
    path: Path
    report: ImportReport

    @property
    def problems(self) -> list[tuple[int, str]]:
        """Where and why; records of a kind that no importer knows are part of some samples."""
        found = [problem for problem in self.report.problems if problem.path == str(self.path)]
        return [(problem.line, problem.cause) for problem in found if problem.cause != "unknown_kind"]

    @property
    def messages(self) -> int:
        return sum(task.messages for task in self.report.tasks if task.path == str(self.path))


def spoil(tmp_path: Path, change: Callable[[bytes, Sample], bytes]) -> Iterator[Spoiled]:
    """Each format in turn, in a folder with a good file, which has to be imported whatever lies beside it."""
    for number, sample in enumerate(SAMPLES):
        folder = tmp_path / f"{number}"
        path = sample.make(folder)
        path.write_bytes(change(path.read_bytes(), sample))
        os.utime(path, (OLD, OLD))  # nobody is writing it
        good = write_lines(folder / "zz" / "good.jsonl", [{"role": "user", "content": "I am good."}])
        report = bring(tmp_path, folder, user=f"user-{number}")
        assert [task.messages for task in report.tasks if task.path == str(good)] == [1]
        yield Spoiled(sample, path, report)


def test_files_that_are_cut(tmp_path: Path) -> None:
    for one in spoil(tmp_path, lambda raw, sample: raw[: len(raw) * 2 // 3]):
        if one.sample.is_lines and one.path.read_bytes().count(b"\n") > 1:
            assert one.problems[-1][1] == "cut", one.sample
            assert one.messages, one.sample
        elif one.sample.is_json:
            assert one.problems, one.sample


def test_the_encodings_that_can_be_told(tmp_path: Path) -> None:
    encodings = {sample.make: ("utf-8-sig", "utf-16", "utf-8")[number % 3] for number, sample in enumerate(SAMPLES)}

    def change(raw: bytes, sample: Sample) -> bytes:
        return raw.decode().encode(encodings[sample.make]) if sample.is_json else raw

    for one in spoil(tmp_path, change):
        assert one.problems == [], one.sample
        assert {task.format for task in one.report.tasks} == {one.sample.format, "openai-chat"}
        if one.sample.is_json:  # in plain UTF-8 it says the same
            one.path.write_bytes(one.path.read_bytes().decode(encodings[one.sample.make]).encode() + b"\n")
            again = bring(tmp_path, one.path, user=f"user-{one.path.relative_to(tmp_path).parts[0]}")
            assert (again.problem_count, again.messages) == (one.report.problem_count, 0), one.sample


def test_lines_of_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binary line, one without end, one nested without end, one that is no UTF-8: the lines around them are read."""
    deep = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    def change(raw: bytes, sample: Sample) -> bytes:
        first, *others = raw.splitlines(keepends=True)
        rubbish = (b"\0\1\2\n", b'"' + b"x" * 300_000 + b'"\n', deep + b"\n", b"[1]\n", b'{"caf\xe9": 1}\n')
        return b"".join((first, *rubbish, *others)) if sample.is_lines else raw

    monkeypatch.setattr(lines, "LONGEST_LINE", 250_000)
    for one in spoil(tmp_path, change):
        if one.sample.is_lines:
            expected = [(2, "not_json"), (3, "long_line"), (4, "not_json"), (5, "not_object"), (6, "encoding")]
            assert one.problems == expected, one.sample
            assert one.messages, one.sample


def test_binary_files(tmp_path: Path) -> None:
    for one in spoil(tmp_path, lambda raw, sample: bytes(range(256)) * 300):
        assert [cause for _, cause in one.problems] == ["unrecognised"], one.sample
        assert bring(tmp_path, one.path, format=one.sample.format).problems, one.sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one good file, which has to be imported whatever lies beside it."""
    path = tmp_path / "files"
    make_claude_code(path / "good")
    return path


def check_rest(report: ImportReport) -> None:
    assert "claude-code" in {task.format for task in report.tasks if "/good/" in task.path}


def test_what_is_no_file(tmp_path: Path, folder: Path) -> None:
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "loop").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    (folder / "twice").symlink_to(folder / "good")
    (folder / "empty.jsonl").touch()
    (folder / "notes.txt").write_text("buy pears")
    report = bring(tmp_path, folder, tmp_path / "missing")
    check_rest(report)
    assert report.new_tasks == 1
    found = {(Path(problem.path).name, problem.cause) for problem in report.problems}
    assert found == {
        ("pipe.jsonl", "not_regular"),
        ("loop", "loop"),
        ("self", "unreadable"),
        ("gone.jsonl", "unreadable"),
        ("missing", "unreadable"),
    }
    assert [Path(path).name for path in report.other_files] == ["notes.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path, folder: Path) -> None:
    make_chat_lines(folder / "private").chmod(0)
    (folder / "locked").mkdir(mode=0)
    report = bring(tmp_path, folder)
    check_rest(report)
    assert {problem.cause for problem in report.problems} == {"unreadable"}


def test_our_own_files_are_not_imported(tmp_path: Path, folder: Path) -> None:
    bring(folder, folder)
    again = bring(folder, folder)
    assert (again.files, again.unchanged, again.problems) == (1, 1, [])


def test_a_format_that_fails_stops_no_other(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orihon.importers.openai_chat import OpenAIChat

    def broken(self: object, path: Path) -> Iterator[Any]:
        yield 1 // len([])

    monkeypatch.setattr(OpenAIChat, "read", broken)
    make_chat_lines(folder / "a")
    report = bring(tmp_path, folder)
    check_rest(report)
    assert [problem.cause for problem in report.problems] == ["failed"]


def test_very_many_problems_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    path = make_chat_lines(tmp_path)
    with path.open("ab") as file:
        file.write(b"rubbish\n" * 5000)
    report = bring(tmp_path, path)
    assert (report.problem_count, len(report.problems)) == (5000, 10)
    assert sum(problem.times for problem in report.problems) == 5000
    assert json.dumps(report.as_dict())


def test_a_folder_with_many_files(tmp_path: Path, many_files: int) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(many_files):
        (folder / f"{number}.txt").write_text("x")
    make_claude_code(folder)
    report = bring(tmp_path, folder)
    assert (report.files, report.skipped, report.new_tasks) == (many_files + 1, many_files, 1)


def test_files_that_are_no_transcripts_are_no_problem_in_a_folder(tmp_path: Path, folder: Path) -> None:
    """Settings and notes lie beside the transcripts of every agent; what looks like a spoiled one is told."""
    others = {"settings.json": '{"model": "x"}', "todos.json": "[]", "NOTES.md": "# pears", "snapshot.sh": "ls"}
    spoiled = {"torn.json": "]x", "session.jsonl": '{"pears": 3}\n', "x.traj": "?", "y.db": "?", "z.md": "\0"}
    for name, content in (others | spoiled).items():
        (folder / name).write_text(content)
    report = bring(tmp_path, folder)
    check_rest(report)
    assert {Path(problem.path).name: problem.cause for problem in report.problems} == dict.fromkeys(
        spoiled, "unrecognised"
    )
    assert ({Path(path).name for path in report.other_files}, report.others) == (set(others), len(others))
    assert report.skipped == len(others) + len(spoiled)
    named = bring(tmp_path, folder / "NOTES.md")
    assert (named.is_clean, named.others) == (False, 0)


def test_a_last_line_that_is_being_written_is_no_problem(tmp_path: Path) -> None:
    path = make_chat_lines(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"role": "user", "cont')
    first = bring(tmp_path, path)
    assert (first.is_clean, first.growing) == (True, 1)
    os.utime(path, (OLD, OLD))  # nobody has written the rest: now it is one
    late = bring(tmp_path, path)
    assert ([problem.cause for problem in late.problems], late.growing) == (["cut"], 0)
    with path.open("ab") as file:
        file.write(b'ent": "one more"}\n')
    last = bring(tmp_path, path)
    assert (last.is_clean, last.growing, last.messages) == (True, 0, 1)
    assert bring(tmp_path, path).unchanged == 1


def test_a_long_file(tmp_path: Path, long_file: int) -> None:
    """Memory follows the longest message, not the file; ``--long-file=1024`` makes it one gigabyte."""
    import tracemalloc

    path = tmp_path / "chat.jsonl"
    line = json.dumps({"role": "user", "content": "pears " * 2000}) + "\n"
    with path.open("w", encoding="utf-8") as file:
        for _ in range((long_file << 20) // len(line)):
            file.write(line)
    tracemalloc.start()
    report = bring(tmp_path, path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.messages == (long_file << 20) // len(line)
    assert most < 64 << 20


def test_numbers_that_json_has_not_are_kept_as_texts(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "How many?", "weights": [float("nan"), float("inf")]}, {"role": "assistant"}]
    (task,) = bring(tmp_path, write_lines(tmp_path / "odd.jsonl", said)).tasks
    (stored,) = (tmp_path / "contexts" / "completed").glob(f"{task.uuid}/messages.jsonl")
    assert '["NaN","Infinity"]' in stored.read_text(encoding="utf-8")
