"""``export_task`` and ``export_tasks``: a form, a place, and what was written.

The place is a file that is there whole or not at all, for the owner only, or a stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, get_args

from orihon.audit.trail import audited
from orihon.errors import InvalidInput, StorageError, StorageUnavailable, TaskNotFound
from orihon.store.key_places import needed_keys
from orihon.system.files import make_private_folder, sync_folder, unfinished_file, wrapping
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.place import tries_while_moved
from orihon.transfer.export.html import html_page
from orihon.transfer.export.lines import chat_lines, json_lines, seal_lines
from orihon.transfer.export.markdown import markdown_text
from orihon.transfer.export.story import OpenTask, opened_task
from orihon.values.task import TaskStatus

Form = Literal["jsonl", "markdown", "html", "chat"]
FORMS: tuple[Form, ...] = get_args(Form)

_WRITERS: dict[str, Callable[[OpenTask], Iterator[bytes]]] = {
    "jsonl": json_lines,
    "markdown": markdown_text,
    "html": html_page,
    "chat": chat_lines,
}
_ENDINGS = {"jsonl": ".jsonl", "markdown": ".md", "html": ".html", "chat": ".chat.jsonl"}


@dataclass(frozen=True, slots=True)
class Exported(AsJson):
    """A task that was written; ``file`` is ``None`` when it went to a stream."""

    json_fields = "task format=form file bytes"

    task: str
    form: Form
    file: Path | None
    bytes: int


class NotExported(NamedTuple):
    """A task that was left out."""

    task: str
    reason: str


@dataclass(slots=True)
class ExportRun(AsJson):
    """What became of many tasks; those left out, with the reason, stand in ``failed``."""

    json_fields = "exported failed=failures"

    exported: list[Exported] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[NotExported]:
        return [NotExported(task, reason) for task, reason in self.failed.items()]


def export_task(
    base: OpenBase,
    task: str,
    form: Form = "jsonl",
    out: Path | str | BinaryIO = Path(),
    *,
    force: bool = False,
    clear: bool = False,
) -> Exported:
    """Write one task to a file, to a folder (under its UUID), or to an open binary stream.

    ``jsonl`` is complete and can be imported again, ``chat`` the log as OpenAI chat messages, ``markdown`` and ``html``
    are for people. A task that is sealed leaves sealed, as ``jsonl`` for who has the master key; readable, and in the
    other forms, only with ``clear``. A file that is there is replaced only with ``force``. When the task's folder moves
    meanwhile, a file is begun anew; a stream, only while nothing has been written to it.
    """
    _writer(form)
    stream = None if isinstance(out, Path | str) else _Counted(out)
    for _ in tries_while_moved():
        try:
            return _export_once(base, task, form, stream or Path(str(out)), force=force, clear=clear)
        except StorageUnavailable as error:
            if error.reason != "gone" or (stream is not None and stream.size):
                raise
            problem = error
    raise problem


def _export_once(base: OpenBase, task: str, form: Form, out: Path | _Counted, *, force: bool, clear: bool) -> Exported:
    with (
        opened_task(base, task) as opened,
        audited(base.path, base.settings, "export", opened.uuid, begun=True, format=form),
    ):
        if isinstance(out, _Counted):
            out.write_all(_lines(base, opened, form, clear=clear))
            return Exported(opened.uuid, form, None, out.size)
        path = out / f"{opened.uuid}{_ENDINGS[form]}" if out.is_dir() else out
        with new_file(path, force=force) as file:
            counted = _Counted(file)
            counted.write_all(_lines(base, opened, form, clear=clear))
    return Exported(opened.uuid, form, path, counted.size)


def _lines(base: OpenBase, task: OpenTask, form: Form, *, clear: bool) -> Iterator[bytes]:
    """What is written: of a sealed task nothing that can be read, unless somebody wants that."""
    lines = _writer(form)(task)
    if clear or not task.records.is_sealed:
        return lines
    if form != "jsonl":
        raise InvalidInput("sealed_export", task=task.uuid, format=form)
    return seal_lines(lines, needed_keys(Path(base.path), base.settings), task.uuid)


def export_tasks(
    base: OpenBase,
    tasks: Sequence[str] | None,
    form: Form = "jsonl",
    out: Path | str | BinaryIO = Path(),
    *,
    force: bool = False,
    clear: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ExportRun:
    """Write many tasks, or (``None``) all that have been begun: into a folder, one file each, or one after the other.

    Only ``jsonl`` can hold several tasks in one file or stream; there, a damaged one is an error. In a folder the
    others are written all the same. ``progress`` is told how many of how many are done.
    """
    _writer(form)
    named = _all_tasks(base) if tasks is None else tasks
    in_folder = isinstance(out, Path | str) and (Path(out).is_dir() or str(out).endswith("/"))
    if not in_folder:
        if form != "jsonl" and len(named) != 1:
            raise InvalidInput("one_file_each", format=form)
        return _one_after_the_other(base, _told(named, progress), form, out, force=force, clear=clear)
    assert isinstance(out, Path | str)
    make_private_folder(Path(out))
    run = ExportRun()
    for task in _told(named, progress):
        try:
            run.exported.append(export_task(base, task, form, out, force=force, clear=clear))
        except (StorageError, TaskNotFound, InvalidInput) as error:
            run.failed[task] = str(error)
    return run


def _one_after_the_other(
    base: OpenBase,
    tasks: Iterable[str],
    form: Form,
    out: Path | str | BinaryIO,
    *,
    force: bool,
    clear: bool,
) -> ExportRun:
    run = ExportRun()
    file = Path(out) if isinstance(out, Path | str) else None
    with _stream(out, force=force) as stream:
        for task in tasks:
            try:
                exported = export_task(base, task, form, stream, clear=clear)
            except TaskNotFound as error:  # nothing of it has been written
                run.failed[task] = str(error)
            else:
                run.exported.append(replace(exported, file=file))
    return run


def _told(tasks: Sequence[str], progress: Callable[[int, int], None] | None) -> Iterator[str]:
    for done, task in enumerate(tasks):
        if progress is not None:
            progress(done, len(tasks))
        yield task


def _all_tasks(base: OpenBase) -> list[str]:
    base.open_catalogue()
    begun = {place.uuid for place in base.folders.all()}
    return [
        uuid
        for uuid in base.uuids()
        if uuid in begun or ((row := base.row(uuid)) is not None and row.status is TaskStatus.ARCHIVED)
    ]


def _writer(form: str) -> Callable[[OpenTask], Iterator[bytes]]:
    if form not in _WRITERS:
        raise InvalidInput("export_form", value=form, known=", ".join(FORMS))
    return _WRITERS[form]


@contextmanager
def _stream(out: Path | str | BinaryIO, *, force: bool) -> Iterator[BinaryIO]:
    if not isinstance(out, Path | str):
        yield out
        return
    with new_file(Path(out), force=force) as file:
        yield file


class _Counted:
    """A stream, and how much has been written to it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.size = 0

    def write_all(self, chunks: Iterator[bytes]) -> None:
        for chunk in chunks:
            self._stream.write(chunk)
            self.size += len(chunk)


@contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """The file, under its name when the block ends well; one that is there is replaced only with ``force``."""
    _refuse_existing(path, force=force)
    with unfinished_file(path) as (temporary, fd), wrapping(path):
        with os.fdopen(fd, "wb", closefd=False) as file:
            yield file
        os.fsync(fd)
        _rename(temporary, path, force=force)
        sync_folder(path.parent)


def _refuse_existing(path: Path, *, force: bool) -> None:
    with wrapping(path):
        if os.path.lexists(path) and not (force and (path.is_file() or path.is_symlink())):
            raise InvalidInput("file_exists" if path.is_file() else "not_a_file", path=path)
        if not path.parent.exists():
            raise InvalidInput("no_folder_for", folder=path.parent, name=path.name)


def _rename(temporary: Path, path: Path, *, force: bool) -> None:
    if force:
        temporary.rename(path)
        return
    try:
        path.hardlink_to(temporary)  # which, unlike a rename, replaces nothing
    except FileExistsError as error:
        raise InvalidInput("file_exists", path=path) from error
    except OSError:  # a file system without links
        _refuse_existing(path, force=False)
        temporary.rename(path)
