"""Orihon's own exports in JSON Lines (``orihon export``): the identical task comes back.

Every record is taken over byte for byte: numbers, digests, folds and so the view are the same. The task keeps its UUID
where that is free. It is put together in a hidden folder and is there whole or not at all; an export that is cut off,
damaged, or names files that no task has, is refused. A task that was at work when it was exported comes back paused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path, PurePosixPath
from typing import Any, Self

from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import key_in, origin_in, read_metadata, write_metadata
from orihon.drivers.postgres import postgres_of
from orihon.errors import IllegalTransition, KeyUnavailable, OrihonError, StorageUnavailable
from orihon.importers.export_rows import key_of, record_usage, row_of
from orihon.importers.identity import task_uuid
from orihon.importers.lines import LONGEST_LINE, peek
from orihon.importers.ownership import ImportTarget, Restorer
from orihon.importers.registry import Problem, admit_document, check_bounds
from orihon.importers.report import ImportedTask
from orihon.importers.shapes import fields, words
from orihon.store.contract import NUMBER_FIELD, OWN_NAMES, STREAMS, Stream
from orihon.store.copy import BatchWriter, contents_of
from orihon.store.kept_files import stamped
from orihon.store.key_places import needed_keys
from orihon.store.record_check import is_whole
from orihon.store.record_codec import matches_digest, restored_body
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.files import is_unfinished, make_private_folder, publish_folder, staged_folder
from orihon.transfer.export.lines import SEALED_VERSION, VERSION, open_lines
from orihon.transfer.staging import IMPORT, StagedRecords, copy_task, open_unguarded, remove_unfinished
from orihon.values.task import check_id, folder

MARK = "orihon_export"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class OrihonExport(Restorer):
    """The reader of such files."""

    name = "orihon"

    def recognises(self, head: bytes, path: Path) -> bool:
        return MARK in peek(head).first

    def restore(self, path: Path, place: ImportTarget) -> Iterator[Problem | ImportedTask]:
        """Every task of the file."""
        try:
            with path.open("rb") as file:
                lines = _Lines(iter(lambda: file.readline(LONGEST_LINE + 1), b""))
                while lines.has_more:
                    yield from _restored(lines, path, place)
        except OSError as error:
            yield Problem("unreadable", fields={"detail": error.strerror or str(error)})


class _Lines:
    """The lines of a file, one to look ahead."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.number = 0
        self._next: bytes | None = next(lines, None)

    @property
    def has_more(self) -> bool:
        return self._next is not None

    @property
    def is_head(self) -> bool:
        return self._next is not None and self._next[:40].lstrip(b'{ \xef\xbb\xbf"').startswith(MARK.encode())

    def until_head(self) -> Iterator[bytes]:
        """The lines up to the next task of the file."""
        while self.has_more and not self.is_head:
            yield self.take()

    def take(self) -> bytes:
        assert self._next is not None
        line, self._next = self._next, next(self._lines, None)
        self.number += 1
        check_bounds(len(line))
        return line


class _Damaged(Exception):
    """The export of a task cannot be used."""


def _restored(lines: _Lines, path: Path, place: ImportTarget) -> Iterator[Problem | ImportedTask]:
    """The next task of the file."""
    start = lines.number + 1
    plain = lines
    try:
        head = fields(_decoded(lines.take()))
        if head.get(MARK) == SEALED_VERSION:
            keys = needed_keys(place.base.path, place.settings)
            plain = _Lines(open_lines(lines.until_head(), head.get("sealed"), keys))
            head = fields(_decoded(plain.take())) if plain.has_more else {}
        if head.get(MARK) != VERSION:
            raise _Damaged("newer" if isinstance(head.get(MARK), int) else "no head")
        with _Staging(place, head) as staging:
            for line in plain.until_head():
                staging.take(line)
            result = staging.finished(path)
        if result is not None:
            yield result
        return
    except _Damaged as error:
        version = head.get(MARK) if str(error) == "newer" else None
        cause = "export_incomplete" if version is None else "export_version"
        yield Problem(cause, lines.number, {"detail": str(error), "version": version})
    except StorageUnavailable:
        raise
    except KeyUnavailable as error:
        yield Problem("export_sealed", start, {"detail": str(error)})
    except OrihonError as error:
        cause = "export_erased" if error.reason == "erased" else "export_incomplete"
        yield Problem(cause, start, {"detail": error.cause})
    for _ in lines.until_head():  # the next task may be whole
        pass


class _Staging:
    """One task while it is put together."""

    def __init__(self, place: ImportTarget, head: Mapping[str, Any]) -> None:
        self._place = place
        self._told = fields(head.get("task"))
        self._contents = fields(head.get("contents"))
        self._home = place.base.path / "completed"
        wanted = place.settings.context_storage.backend
        self._backend = "files" if wanted == "postgres" else wanted
        self._is_there = False  # a task without a row: an import died between the two
        self._counts: dict[str, int] = {"blobs": 0, "files": 0, **dict.fromkeys(STREAMS, 0)}
        self._epoch = 1

    def __enter__(self) -> Self:
        remove_unfinished(self._home, IMPORT)
        with ExitStack() as stack:
            self._path = stack.enter_context(self._staged_folder())
            make_private_folder(self._path)
            self.store = self._opened(self._path, self._backend, self._path.name)
            stack.callback(self._let_go)
            self.store.records.claim(1)
            self._writer = BatchWriter(self.store.records)
            self._at_end = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()

    def _let_go(self) -> None:
        self.store.records.close()
        if self.store.records.is_sealed:
            needed_keys(self._place.base.path, self._place.settings).forget(self._path.name)

    def _staged_folder(self) -> AbstractContextManager[Path]:
        return staged_folder(self._home / f".{secrets.token_hex(8)}{IMPORT}")

    def _opened(self, path: Path, backend: str, name: str, epoch: int | None = None) -> TaskStore:
        return open_unguarded(path, self._place.settings, backend, name, epoch=epoch)

    # ---- lines -------------------------------------------------------------------------------------------------

    def take(self, line: bytes) -> None:
        """The next line of the export."""
        if not line.strip():
            return
        if len(line) > LONGEST_LINE:
            raise _Damaged("a line is too long")
        value = fields(_decoded(line))
        if "blob" in value:
            self._take_blob(words(value["blob"]), _bytes(value.get("base64")))
        elif "file" in value:
            self._take_file(words(value["file"]), _bytes(value.get("base64")))
        elif value.get("stream") in STREAMS and isinstance(value.get("record"), dict):
            self._take_record(value["stream"], value["record"], line)
        else:
            raise _Damaged("a line that is none of an export")

    def _take_blob(self, digest: str, data: bytes) -> None:
        if not _SHA256.fullmatch(digest) or hashlib.sha256(data).hexdigest() != digest:
            raise _Damaged("a content that is not what its name says")
        self.store.records.put_blob(digest, data)
        self._counts["blobs"] += 1

    def _take_file(self, name: str, data: bytes) -> None:
        parts = PurePosixPath(name).parts
        is_plain = bool(parts) and all(_NAME.fullmatch(part) and part.strip(".") for part in parts)
        if not is_plain or parts[0] in OWN_NAMES or is_unfinished(parts[-1]) or len(parts) > 4:
            raise _Damaged("a file that no task has")
        self.store.records.keep_file(name, data)
        self._counts["files"] += 1

    def _take_record(self, stream: Stream, record: dict[str, Any], line: bytes) -> None:
        self._counts[stream] += 1
        if record.get(NUMBER_FIELD[stream]) != self._counts[stream]:
            raise _Damaged(f"{stream}: a number is missing")
        if stream == "messages":
            self._check_message(record)
        # As it was stored, byte for byte; somebody may have written the line anew.
        before = b'{"stream":"%s","record":' % stream.encode()
        raw = line.rstrip()
        same = raw[len(before) : -1] if raw.startswith(before) and raw.endswith(b"}}") else b""
        if not is_whole(same) and not is_whole(same := jsonio.encode(record)):
            raise _Damaged(f"{stream} {self._counts[stream]} is not what its check says")
        self._writer.add(stream, same)

    def _check_message(self, record: dict[str, Any]) -> None:
        try:
            is_same = matches_digest(restored_body(record, self.store.records.get_blob), record["digest"])
            self._epoch = max(self._epoch, int(record["epoch"]))
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise _Damaged("a message without its fields") from error
        if not is_same:
            raise _Damaged(f"message {self._counts['messages']} is not what its digest says")

    # ---- the task ----------------------------------------------------------------------------------------------

    def finished(self, path: Path) -> ImportedTask | None:
        """The whole task in its place; nothing where it is already there."""
        self._writer.flush()
        known = {name: count for name, count in self._contents.items() if name in self._counts}
        if not known or any(self._counts[name] != count for name, count in known.items()):
            raise _Damaged("something is missing at its end")
        self.store.records.close()
        self.store.epoch = self._epoch
        self.store.claim()  # makes the view
        uuid = self._free_uuid()
        if uuid is None or self._place.dry_run:
            return None if uuid is None else self._result(uuid, path)
        self._settled(uuid, path)
        return self._result(uuid, path)

    def _free_uuid(self) -> str | None:
        """The task's own UUID, or one that follows from it; ``None`` when the same task is there already."""
        own = words(self._told.get("uuid"))
        try:
            candidate = check_id(own)
        except OrihonError:
            candidate = task_uuid(OrihonExport.name, own, self._place.user)
        self._refuse_erased(candidate)
        number = 0
        mine = contents_of(self.store)
        while (here := self._place.base.folders.find(candidate)) is not None or self._place.base.row(candidate):
            if here is not None:
                with closing(self._place.base.read_store(here)) as other:
                    theirs = contents_of(other)
                    is_wanted = self._is_for(candidate, other)
                if is_wanted and (theirs.streams, theirs.view) == (mine.streams, mine.view):
                    self._is_there = self._place.base.row(candidate) is None
                    return candidate if self._is_there else None
            candidate = task_uuid(OrihonExport.name, own, self._place.user, number)
            self._refuse_erased(candidate)
            number += 1
        return candidate

    def _refuse_erased(self, uuid: str) -> None:
        """Before anything of it is where tasks are."""
        if self._place.catalogue.tombstones.find(uuid) is not None:
            raise IllegalTransition("erased", uuid=uuid)

    def _is_for(self, uuid: str, store: TaskStore) -> bool:
        """Is a task that is here whose this one shall be? Another's is no reason to go without."""
        if not self._place.user:
            return True
        row = self._place.base.row(uuid)
        key = key_in(read_metadata(store.records) or {}) if row is None else row.key
        return key is not None and key.user == key_of(self._told, self._place.user).user

    def _settled(self, uuid: str, path: Path) -> None:
        place = self._place
        row = row_of(self._told, uuid, self.store, place, self._epoch, str(path))
        told = read_metadata(self.store.records) or {}
        if uuid == self._told.get("uuid") and key_in(told) == row.key:
            self.store.records.keep_file(METADATA, stamped({**told, **origin_in(row.metadata)}))
        else:
            write_metadata(self.store.records, row, place.settings)
        if self._is_there:
            pass
        elif place.settings.context_storage.backend == "postgres":
            with StagedRecords(place.base.folders, postgres_of(place.settings), uuid, IMPORT) as records:
                self._copy_to(records.folder, "postgres", uuid)
                records.publish()
        else:
            self._into_folder(uuid, place.base.path / (folder(row.status) or "completed") / uuid)
        place.catalogue.tasks.adopt(row)
        record_usage(place, row)

    def _into_folder(self, uuid: str, target: Path) -> None:
        if not self.store.records.is_sealed:
            self.store.records.close()
            publish_folder(self._path, target)
            return
        with self._staged_folder() as staged:  # sealed for the name that it gets
            make_private_folder(staged)
            self._copy_to(staged, self._backend, uuid)
            publish_folder(staged, target)

    def _copy_to(self, staged: Path, backend: str, uuid: str) -> None:
        with closing(self._opened(staged, backend, uuid, self._epoch)) as copy:
            copy_task(self.store, copy)

    def _result(self, uuid: str, path: Path) -> ImportedTask:
        metadata = fields(self._told.get("metadata"))
        return ImportedTask(
            uuid=uuid,
            format=OrihonExport.name,
            path=str(path),
            title=words(metadata.get("title")),
            is_new=True,
            parent=words(self._told.get("parent_uuid")) or None,
            messages=self._counts["messages"],
            folds=self._counts["summaries"],
            tool_calls=self._counts["tools"],
            plans=self._counts["planning"],
        )


def _decoded(line: bytes) -> Any:
    admit_document(line)
    try:
        return jsonio.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise _Damaged("a line that is no JSON") from error


def _bytes(encoded: object) -> bytes:
    try:
        return base64.b64decode(words(encoded), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _Damaged("a content that cannot be decoded") from error
