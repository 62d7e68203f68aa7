"""A folder of markdown tasks: ``NAME.md`` waits, ``in-progress/`` is claimed, ``done/`` and ``failed/`` have ended.

A task is claimed by a hard link into ``in-progress/``, which succeeds once and never replaces a file, and the removal
of the old name. What is said about a task is in ``NAME.comments.md`` in the folder itself, written whole or not at all.
Files that cannot be read stay where they are and are reported once, until they change; comments that are a link or no
plain file are not read, and the next comment takes their place. Never leaves the folder: names come from
its listing, links are not followed.

A file has optional YAML front matter (``title``, ``user``, ``id``), then the text. Refused, each with its reason: links
and whatever is no plain file, files that are empty, too large or not UTF-8, front matter that is no YAML mapping, and
ids that a task cannot have.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput, OrihonError, SourceError, StorageError
from orihon.runtime.sources.base import (
    SourceComment,
    SourceOutcome,
    SourceTask,
    Speakers,
    TaskSource,
    marker,
    without_markers,
)
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, replace_file, sync_folder, wrapping
from orihon.values.task import TaskKey

_log = logging.getLogger("orihon.sources")

MAX_BYTES = 1024 * 1024
MAX_TITLE_CHARS = 200
# Enough for three short texts; deep nesting would cost the parser seconds.
MAX_FRONT_MATTER_CHARS = 2000

_FENCE = "---"


@dataclass(frozen=True, slots=True)
class TaskFile:
    """What a file says."""

    path: Path
    key: TaskKey
    title: str
    body: str
    user: str


def read_task(path: Path) -> TaskFile:
    """The task in the file."""
    head, body = _split(_text(path), path)
    title = str(head.get("title") or "").strip() or _heading(body) or path.stem
    user = str(head.get("user") or "").strip()
    try:
        key = TaskKey("folder", "", "", "task", str(head.get("id") or "").strip() or path.stem, user=user)
    except InvalidInput as error:
        raise SourceError("file_id", path=path, detail=error.cause) from error
    if not body.strip():
        raise SourceError("file_empty", path=path)
    return TaskFile(path, key, title[:MAX_TITLE_CHARS], body.strip(), user)


def read_plain(path: Path, limit: int = MAX_BYTES) -> bytes:
    """The content of a plain file, which is no larger than ``limit``."""
    # Without following links: the folder may belong to people who must not read other files through the agent.
    with wrapping(path):
        if path.is_symlink():
            raise SourceError("file_kind", path=path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise SourceError("file_gone", id=path.stem, path=path.parent) from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise SourceError("file_kind", path=path)
            with os.fdopen(fd, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(fd)
    if len(data) > limit:
        raise SourceError("file_large", path=path, limit=limit)
    return data


def _text(path: Path) -> str:
    data = read_plain(path)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SourceError("file_encoding", path=path, offset=error.start) from error


def _split(text: str, path: Path) -> tuple[Mapping[Any, Any], str]:
    """Front matter and body. A line of dashes that is never closed is a rule of markdown, not front matter."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return {}, text
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        return {}, text
    return _mapping("\n".join(lines[1:end]), path), "\n".join(lines[end + 1 :])


def _mapping(text: str, path: Path) -> Mapping[Any, Any]:
    import yaml  # slow to import, and most tasks have no front matter

    if len(text) > MAX_FRONT_MATTER_CHARS:
        raise SourceError("front_matter", path=path, line=2, detail=f"> {MAX_FRONT_MATTER_CHARS}")
    try:
        # The plain types only: a title of 1.10 or an id of 007 stays as written.
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - builds texts, lists and mappings only
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark is not None else 1
        detail = getattr(error, "problem", None) or type(error).__name__
        raise SourceError("front_matter", path=path, line=line, detail=detail) from error
    if isinstance(found, Mapping) and all(isinstance(found.get(name, ""), str) for name in ("title", "user", "id")):
        return found
    if found in (None, ""):
        return {}
    raise SourceError("front_matter", path=path, line=2, detail="title, user, id: text")


def _heading(body: str) -> str:
    first = next((line.strip() for line in body.split("\n") if line.strip()), "")
    return first.lstrip("#").strip() if first.startswith("#") else ""


IN_PROGRESS, DONE, FAILED = "in-progress", "done", "failed"
COMMENTS = ".comments.md"
MOST_COMMENT_BYTES = 16 * MAX_BYTES

_PLACES: dict[SourceOutcome, str] = {"completed": DONE, "failed": FAILED, "cancelled": FAILED, "paused": IN_PROGRESS}


_Version = tuple[str, int, int]  # a file's path, time and size


class FolderSource(TaskSource):
    """Tasks from the files of one folder. A file younger than ``settle_seconds`` may still be written, and waits."""

    name = "folder"

    def __init__(self, folder: Path | str, *, settle_seconds: float = 1.0, speakers: Speakers | None = None) -> None:
        self._folder = Path(folder)
        self.speakers = speakers or Speakers()
        self._settle = settle_seconds
        self._reported: set[_Version] = set()
        self._unreadable: set[_Version] = set()

    def __repr__(self) -> str:
        return f"FolderSource({str(self._folder)!r})"

    def poll(self) -> Iterator[SourceTask]:
        if not self._folder.is_dir():
            raise SourceError("folder_missing", path=self._folder)
        taken = {task.key.task_id for task in self._tasks(IN_PROGRESS)}
        for task in self._tasks("", settled=True):
            if task.key.task_id in taken:
                self._report(task.path, SourceError("file_twice", path=task.path, id=task.key.task_id))
                continue
            taken.add(task.key.task_id)
            yield self._found(task)

    def claimed(self) -> Iterator[SourceTask]:
        for task in self._tasks(IN_PROGRESS):
            yield self._found(task)

    def find(self, key: TaskKey) -> SourceTask:
        return self._found(read_task(self._path(key, IN_PROGRESS, "", DONE, FAILED)))

    def claim(self, found: SourceTask) -> bool:
        try:
            path = self._path(found.key, "")
        except SourceError:
            return False
        place = self._place(IN_PROGRESS)
        with wrapping(path):
            try:
                os.link(path, place / path.name, follow_symlinks=False)
            except (FileExistsError, FileNotFoundError):
                return False
            path.unlink(missing_ok=True)
            sync_folder(place)
            sync_folder(self._folder)
        return True

    def comment(self, key: TaskKey, said: str, *, kind: str = "") -> None:
        plain = without_markers(said).strip()
        if plain:
            path = self._path(key, IN_PROGRESS, "", DONE, FAILED)
            _append(self._comments_path(path), plain, marker(key, kind, plain))

    def finish(self, key: TaskKey, outcome: SourceOutcome, said: str) -> None:
        goal = _PLACES[outcome]
        # After a crash the work may have gone on and ended otherwise than the file's place says.
        path = self._path(key, IN_PROGRESS, goal, "", DONE, FAILED)
        if goal != IN_PROGRESS and path.parent == self._folder / goal:
            return  # it moves last: all of this was done before
        self.comment(key, said, kind=f"finish-{outcome}")
        self._bring(path, goal)

    def resumed(self, key: TaskKey) -> None:
        """A paused task has stayed where it was; one that had ended comes back."""
        self._bring(self._path(key, IN_PROGRESS, "", DONE, FAILED), IN_PROGRESS)

    def _tasks(self, place: str, *, settled: bool = False, first: str = "") -> Iterator[TaskFile]:
        folder = self._folder / place
        if place and folder.is_symlink():
            raise SourceError("folder_link", path=folder)
        for path in sorted(_listed(folder), key=lambda path: path.stem != first):
            try:
                if settled and not self._is_ready(path):
                    continue
                if _version(path) not in self._unreadable:
                    yield read_task(path)
            except SourceError as error:
                self._report(path, error)
                self._unreadable.add(_version(path))
            except StorageError as error:
                self._report(path, error)

    def _is_ready(self, path: Path) -> bool:
        claimed = self._folder / IN_PROGRESS / path.name
        with wrapping(path):
            try:
                status = path.lstat()
            except FileNotFoundError:
                return False
            if status.st_nlink > 1 and claimed.exists() and path.samefile(claimed):
                path.unlink(missing_ok=True)  # claimed by a process that died before it came to this
                return False
        return not 0 <= time.time() - status.st_mtime < self._settle

    def _report(self, path: Path, error: OrihonError) -> None:
        version = _version(path)
        if version not in self._reported:
            self._reported.add(version)
            _log.warning("%s", error)

    def _path(self, key: TaskKey, *places: str) -> Path:
        """The file of the task. Looked for in the listing: an id is never made into a path."""
        for place in places:
            for task in self._tasks(place, first=key.task_id):
                if key.task_source == self.name and task.key.task_id == key.task_id:
                    return task.path
        raise SourceError("file_gone", id=key.task_id, path=self._folder)

    def _place(self, name: str) -> Path:
        place = self._folder / name
        if place.is_symlink():
            raise SourceError("folder_link", path=place)
        make_private_folder(place)
        return place

    def _bring(self, path: Path, place: str) -> None:
        if path.parent != self._folder / place:
            self._move(path, self._place(place))

    def _move(self, path: Path, place: Path) -> None:
        """Nothing that lies there is replaced."""
        numbered = (place / f"{path.stem}.{number}.md" for number in count(2))
        with wrapping(path):
            path.rename(next(target for target in chain([place / path.name], numbered) if not target.exists()))
            sync_folder(place)
            sync_folder(path.parent)

    def _comments_path(self, path: Path) -> Path:
        return self._folder / (path.stem + COMMENTS)

    def _found(self, task: TaskFile) -> SourceTask:
        path = self._comments_path(task.path)
        said = ""
        try:
            said = without_markers(_comments(path)[-MAX_BYTES:].decode("utf-8", "replace")).strip()
        except (SourceError, StorageError) as error:
            self._report(path, error)
        # Our own words stand there, too, which may repeat what a tool has printed.
        comments = (SourceComment("comments", said, association="folder"),) if said else ()
        return SourceTask(task.key, task.title, task.body, comments, user=task.user)


def _version(path: Path) -> _Version:
    try:
        status = path.lstat()
    except OSError:
        return (str(path), 0, 0)
    return (str(path), status.st_mtime_ns, status.st_size)


def _listed(folder: Path) -> list[Path]:
    """The tasks' files, oldest first; names that editors and copying programs use for their own are left alone."""
    found: list[tuple[int, str]] = []
    with wrapping(folder), suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if not name.endswith(".md") or name.endswith(COMMENTS) or name.startswith((".", "~", "#")):
                continue
            with suppress(FileNotFoundError):
                if not entry.is_dir(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, name))
    return [folder / name for _, name in sorted(found)]


def _comments(path: Path) -> bytes:
    try:
        return read_plain(path, MOST_COMMENT_BYTES)
    except SourceError as error:
        if error.reason != "file_gone":
            raise
        return b""


def _append(path: Path, said: str, mark: str) -> None:
    try:
        before = _comments(path)
    except SourceError as error:
        if error.reason != "file_kind":
            raise
        before = b""  # replaced, whatever it leads to
    if mark.encode() not in before:
        written = f"## {utc_now()[:19]}Z\n\n{said}\n\n{mark}\n\n"
        replace_file(path, [before, written.encode("utf-8", "replace")])
