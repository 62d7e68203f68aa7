"""One task as a markdown file: optional YAML front matter (``title``, ``user``, ``id``), then the text.

Reading only. Refuses, each with its reason: links and whatever is no plain file, files that are empty, too large or
not UTF-8, front matter that is no YAML mapping, and ids that a task cannot have.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput, SourceError
from orihon.system.files import wrapping
from orihon.values.task import TaskKey

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
