"""What lies in a task's folder beside its records: large contents and kept files, for back ends that have a folder."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from pathlib import Path

from orihon.errors import InvalidId, StaleWriter, StorageUnavailable
from orihon.store.contract import OWN_NAMES, RecordStore, check_file_name, is_file_name
from orihon.system.files import (
    BlobFolder,
    folder_size,
    is_regular,
    is_unfinished,
    make_folder_inside,
    make_way,
    move_aside,
    replace_file,
    replacing_file,
    wrapping,
)
from orihon.system.holding import HeldFolder

#: All lines that a log can make.
AllLines = Callable[[], Iterable[bytes]]


class FolderStore(RecordStore):
    """A back end whose task has a folder of its own; what the records are is still open."""

    _held: HeldFolder | None = None  # the folder of a writer, from its claim on

    def _live_in(self, folder: Path, *, durable: bool) -> None:
        self.folder = folder.absolute()  # a program may change its directory
        self._held = None
        self._keeps_blobs = durable

    def _hold(self) -> HeldFolder:
        """Open the folder: all that this writer changes, it changes in this one. See ``store.take_over``."""
        with wrapping(self.folder):
            try:
                self._held = HeldFolder(self.folder)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise StorageUnavailable("gone", path=self.folder) from error
        return self._held

    def refuse_taken(self) -> None:
        """The last look before anything is acknowledged: does what was written still count?"""
        if self._held is not None and not self._held.is_in_place():
            raise StaleWriter("taken_away", path=self.folder)

    @abstractmethod
    def _fenced(self) -> AbstractContextManager[None]:
        """A block in which nobody else gets the task: a file may get its name. Refused for a writer that was passed.

        Who stands still in it loses the folder, and the file with it.
        """

    def _blobs(self, root: Path) -> BlobFolder:
        return BlobFolder(root / "blobs", durable=self._keeps_blobs)

    def put_blob(self, digest: str, data: bytes) -> None:
        held = self._held  # open while it is used, whoever closes the store meanwhile
        self._blobs(held.path if held else self.folder).put(digest, data)

    def get_blob(self, digest: str) -> bytes:
        held = self._held
        return self._blobs(held.path if held else self.folder).get(digest)

    def drop_blob(self, digest: str) -> None:
        held = self._held
        self._blobs(held.path if held else self.folder).drop(digest)

    def blob_digests(self) -> list[str]:
        held = self._held
        blobs = (held.path if held else self.folder) / "blobs"
        with wrapping(blobs):
            names = [path.name for path in blobs.iterdir()] if blobs.is_dir() else []
        return sorted(name for name in names if not is_unfinished(name))

    def keep_file(self, name: str, content: bytes) -> None:
        held = self._held
        root = held.path if held else self.folder
        path = self._inside(name, held)
        try:
            make_folder_inside(path.parent, root)
            make_way(path, root)
            with ExitStack() as at_end, replacing_file(path, [content], durable=self._lasts_alone(name)):
                at_end.enter_context(self._fenced())
        finally:
            self.refuse_taken()

    def _lasts_alone(self, name: str) -> bool:
        """Does a kept file reach the disk when it is kept, or with the first record?"""
        return True

    def kept_file(self, name: str) -> bytes | None:
        held = self._held
        path = self._inside(name, held)
        with wrapping(path):
            return path.read_bytes() if path.is_file() and not path.is_symlink() else None

    def drop_file(self, name: str) -> None:
        held = self._held
        path = self._inside(name, held)
        with self._fenced(), wrapping(path):
            path.unlink(missing_ok=True)

    def _inside(self, name: str, held: HeldFolder | None = None) -> Path:
        """Where a kept file is: below the folder, whatever its name or a link says."""
        root = held.path if held else self.folder
        path = root.joinpath(*check_file_name(name).split("/"))
        if "/" in name and not path.parent.resolve().is_relative_to(root.resolve()):
            raise InvalidId("unsafe", what="file", value=ascii(name)[:80])
        return path

    def kept_files(self) -> list[str]:
        with wrapping(self.folder):
            found = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        names = (path.relative_to(self.folder) for path in found)
        ours = (name for name in names if name.parts[0] not in OWN_NAMES and not is_unfinished(name.name))
        return sorted(str(name) for name in ours if is_file_name(str(name)))

    def write_out(self, name: str, lines: Iterable[bytes]) -> Path:
        held = self._held
        root = held.path if held else self.folder
        make_way(root / name, root)
        replace_file(root / name, (line + b"\n" for line in lines), durable=False)
        return self.folder / name

    def size(self) -> int:
        return folder_size(self.folder)


class FormerView:
    """The file of a view that is about to be replaced: its lines that are not where the new view has them, by hashes.

    It is derived, so it decides nothing. But a log that has lost records, or has one that was changed, may leave the
    last copy of a line there: then the file is kept aside. The line of an append that never reached the log is no such.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._moved: Counter[bytes] = Counter()
        self.first_difference = 0  # the number of the line; 0 when there is none

    def along(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of the new view as they are, compared on the way."""
        if not is_regular(self._path):
            yield from lines
            return
        number = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(lines, start=1):
                if not self.first_difference and (former := file.readline()) != line + b"\n":
                    self.first_difference = number
                    self._note(former)
                yield line
            surplus = [former for _, former in zip(range(2), file, strict=False)]
            if surplus and not self.first_difference:
                self.first_difference = number + 1
                if len(surplus) == 1:
                    return
            for former in chain(surplus, file):
                self._note(former)

    def _note(self, line: bytes) -> None:
        if line.endswith(b"\n"):  # another one was never finished
            self._moved[_hash(line[:-1])] += 1

    def strange_lines(self, all_lines: AllLines) -> int:
        """How many lines of the file the log cannot make."""
        if self._moved:
            for line in all_lines():
                self._moved.pop(_hash(line), None)
                if not self._moved:
                    break
        return self._moved.total()

    def put_aside(self, folder: Path, all_lines: AllLines) -> Path | None:
        """Where the file went, if it has such lines."""
        return move_aside(self._path, folder) if self.strange_lines(all_lines) else None


def _hash(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
