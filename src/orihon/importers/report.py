"""What came of an import: figures, the tasks that grew, and what could not be read.

Of very many tasks and problems only the first are named; all of them are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orihon.importers.registry import Problem
from orihon.importers.tool_pairs import Mended
from orihon.system.json_shapes import AsJson
from orihon.texts import text

#: How many tasks and problems are named.
MOST_NAMED = 1000
#: How many problems of one cause are named for one file.
MOST_OF_A_CAUSE = 10


@dataclass(frozen=True, slots=True)
class ImportedTask(AsJson):
    """A task that was made, or has grown."""

    uuid: str
    format: str
    path: str
    title: str
    is_new: bool
    parent: str | None
    messages: int  # that were new
    folds: int
    tool_calls: int
    plans: int


@dataclass(frozen=True, slots=True)
class NamedProblem(AsJson):
    """What could not be read: where, and why; ``times`` counts the like of it in the same file."""

    json_fields = "path line cause times text=said"

    path: str
    cause: str
    line: int
    fields: Mapping[str, Any]
    times: int = 1

    @property
    def said(self) -> str:
        """For people."""
        return text(f"importing.problems.{self.cause}", **self.fields)


@dataclass(slots=True)
class ImportReport(AsJson):
    """The whole of it."""

    json_fields = (
        "dry_run clean=is_clean files imported unchanged skipped others growing size new_tasks grown_tasks messages "
        "folds tool_calls plans mended formats=sorted_formats problem_count tasks problems other_files"
    )

    dry_run: bool = False
    files: int = 0  # looked at
    imported: int = 0  # files with something new
    unchanged: int = 0
    skipped: int = 0  # files of which nothing could be read
    others: int = 0  # of those, files in folders that are no transcripts
    growing: int = 0  # files that somebody wrote to just now, and that end in a call or in the middle of a line
    size: int = 0  # bytes of the files that were read
    new_tasks: int = 0
    grown_tasks: int = 0
    messages: int = 0
    folds: int = 0
    tool_calls: int = 0
    plans: int = 0
    mended: Mended = field(default_factory=Mended)
    formats: Counter[str] = field(default_factory=Counter)  # files by format
    problem_count: int = 0
    tasks: list[ImportedTask] = field(default_factory=list)
    problems: list[NamedProblem] = field(default_factory=list)
    other_files: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Was everything read?"""
        return not self.problem_count

    @property
    def sorted_formats(self) -> dict[str, int]:
        return dict(sorted(self.formats.items()))

    def add_task(self, task: ImportedTask) -> None:
        self.new_tasks += task.is_new
        self.grown_tasks += not task.is_new
        self.messages += task.messages
        self.folds += task.folds
        self.tool_calls += task.tool_calls
        self.plans += task.plans
        if len(self.tasks) < MOST_NAMED:
            self.tasks.append(task)

    def add_other(self, path: Path) -> None:
        self.others += 1
        if len(self.other_files) < MOST_NAMED:
            self.other_files.append(str(path))

    def add_problems(self, problems: FileProblems) -> None:
        self.problem_count += problems.count
        self.problems.extend(problems.named()[: MOST_NAMED - len(self.problems)])


class FileProblems:
    """What could not be read of one file: the first of every cause, and how many there were."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first: dict[str, list[Problem]] = {}
        self._times: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self._times.total()

    def add(self, problem: Problem) -> None:
        # Records of an unknown kind are told apart by it, and nothing else is.
        cause = f"{problem.cause} {problem.fields['kind']}" if "kind" in problem.fields else problem.cause
        self._times[cause] += 1
        first = self._first.setdefault(cause, []) if len(self._first) < MOST_NAMED or cause in self._first else []
        if len(first) < (1 if "kind" in problem.fields else MOST_OF_A_CAUSE):
            first.append(problem)

    def clear(self) -> None:
        self._first.clear()
        self._times.clear()

    def named(self) -> list[NamedProblem]:
        result = []
        for cause, first in self._first.items():
            more = self._times[cause] - len(first)
            for problem in first:
                times = 1 + (more if problem is first[-1] else 0)
                place = str(self._path)
                result.append(NamedProblem(place, problem.cause, problem.line, problem.fields, times))
        return sorted(result, key=lambda problem: problem.line)
