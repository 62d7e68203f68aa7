"""Chains as files: ``audit/<chain>.jsonl`` below the base folder, one record on a line.

Beside each chain ``<chain>.head`` says which record was the last that is certainly on the disk: a tail that was cut off
is found by it as long as it was left alone. ``people.json`` has the persons, ``<name>.json`` small values. A writer
holds the lock of its chain only while it writes, and looks at the end of the file when somebody else has written.
A last line without an end is what a crash has left: it is cut off, kept in ``aside/``, and the chain says so.
"""

from __future__ import annotations

import logging
import math
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orihon.audit.record import GENESIS, LONGEST_LINE, AuditDraft, BrokenLine, Head, Person, head_of, link, new_name
from orihon.audit.sink import AuditSink, slot_of
from orihon.errors import StorageUnavailable
from orihon.system import jsonio
from orihon.system.files import (
    keep_aside,
    make_private_folder,
    open_private,
    replace_file,
    storage_error,
    sync_folder,
    wrapping,
    write_all,
)
from orihon.system.holding import LOCK_SECONDS, is_locked_within, lock_file

logger = logging.getLogger("orihon.audit")

FOLDER = "audit"
_CHAIN = re.compile(r"[1-9][0-9]{0,5}-[0-9a-f]{8}")
_HEAD = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})\n?")
_PEOPLE = "people"
_LOCK = "lock"
#: With so many chains a writer waits for one instead of beginning another.
_MOST_CHAINS = 64
#: So long another process may go on naming somebody who has been forgotten by the name that means nothing now.
_PEOPLE_SECONDS = 1.0
_NEEDS_ROOM = 4 * LONGEST_LINE


@dataclass(slots=True)
class _Open:
    """A chain whose lock this writer has; ``notes`` is what has to be said about it first."""

    file: int
    inode: int
    head: Head
    size: int
    notes: list[tuple[str, dict[str, Any]]]


class FilesAudit(AuditSink):
    """The chains of one base folder."""

    def __init__(self, base_dir: Path) -> None:
        self.folder = base_dir / FOLDER
        self._catalogue = base_dir / "tasks.db"
        # As texts: a record is written in less time than it takes to put a path together.
        self._place = str(self.folder)
        self._people_file = f"{self._place}/{_PEOPLE}.json"
        self._last = ""  # the chain that was written to last
        self._known: dict[str, tuple[int, int, Head]] = {}  # inode and size of a chain when it was left, and its head
        self._people: dict[Person, str] = {}
        self._people_seen: tuple[int, int, int] | None = None
        self._people_looked_at = -math.inf

    def is_at_home(self) -> bool:
        return bool(self._last) or self._is_there()  # once written to, the next write finds out

    def _is_there(self) -> bool:
        return self._catalogue.exists() or self.folder.is_dir()

    def check(self) -> None:
        if not self.folder.is_dir():
            make_private_folder(self.folder)
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise StorageUnavailable("denied", path=self.folder, detail=os.strerror(13))

    # ---- writing -----------------------------------------------------------------------------------------------

    def append(self, drafts: Sequence[AuditDraft], *, durable: bool) -> Head:
        if not self.folder.is_dir():
            self._begin()
        names = {draft.person: self._name(draft.person) for draft in drafts}
        try:
            chain = self._free_chain()
            try:
                return self._append(chain, drafts, names, durable=durable)
            finally:
                os.close(chain.file)  # with its lock
        except OSError as error:
            raise storage_error(error, self.folder) from error

    def _begin(self) -> None:
        """A new folder; or one that was removed under a process that goes on, and made anew with another catalogue."""
        if self._last and not self._catalogue.exists():
            self._last = ""
            raise StorageUnavailable("gone", path=self.folder.parent)
        make_private_folder(self.folder)
        self._people_looked_at = -math.inf

    def _append(
        self, chain: _Open, drafts: Sequence[AuditDraft], names: Mapping[Person, str], *, durable: bool
    ) -> Head:
        notes = [replace(drafts[0], action=action, task="", details=said) for action, said in chain.notes]
        lines, head = link([*notes, *drafts], chain.head, names.__getitem__)
        data = b"".join(lines)
        self._write(chain, data)
        if durable:
            os.fsync(chain.file)
            self._note_head(head)
        self._known[head.chain] = (chain.inode, chain.size + len(data), head)
        self._last = head.chain
        return head

    @staticmethod
    def _write(chain: _Open, data: bytes) -> None:
        """All of it or nothing."""
        try:
            write_all(chain.file, data)
        except OSError:
            os.ftruncate(chain.file, chain.size)
            raise

    def _note_head(self, head: Head) -> None:
        fd = open_private(self.folder / f"{head.chain}.head", os.O_WRONLY | os.O_CREAT)
        try:
            write_all(fd, f"{head.number:018d} {head.hash}\n".encode("ascii"), 0)
        finally:
            os.close(fd)

    def _free_chain(self) -> _Open:
        """A chain that nobody else writes to until its file is closed."""
        if self._last and (chain := self._opened(self._last, wait=False)) is not None:
            return chain
        names = self.chains()
        for name in names:
            if (chain := self._opened(name, wait=False)) is not None:
                return chain
        if len(names) >= _MOST_CHAINS and (chain := self._opened(names[os.getpid() % len(names)], wait=True)):
            return chain
        return self._new_chain()

    def _opened(self, name: str, *, wait: bool) -> _Open | None:
        path = f"{self._place}/{name}.jsonl"
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if not is_locked_within(file, LOCK_SECONDS if wait else 0):
                raise BlockingIOError
            status = os.fstat(file)
            if not status.st_nlink:  # old records were removed meanwhile: this is the old file
                raise BlockingIOError
            known = self._known.get(name)
            if known is not None and known[:2] == (status.st_ino, status.st_size):
                return _Open(file, status.st_ino, known[2], status.st_size, [])
            return self._looked_at(name, file, status)
        except (BlockingIOError, FileNotFoundError):
            os.close(file)
            return None
        except BrokenLine:
            logger.warning("chain %s of the audit ends with what is no record of it: it is not continued", name)
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise

    def _looked_at(self, name: str, file: int, status: os.stat_result) -> _Open:
        """The chain as somebody else, or an earlier process, has left it."""
        notes: list[tuple[str, dict[str, Any]]] = []
        size = status.st_size
        tail = os.pread(file, _NEEDS_ROOM, max(0, size - _NEEDS_ROOM))
        whole, _, torn = tail.rpartition(b"\n")
        if torn:
            kept = keep_aside(self.folder, f"{name}.jsonl", torn)
            size -= len(torn)
            os.ftruncate(file, size)
            logger.warning("the last record of the audit's chain %s was unfinished; it is kept in %s", name, kept)
            notes.append(("repair", {"chain": name, "bytes": len(torn)}))
        last = whole.rpartition(b"\n")[2]
        head = head_of(last) if last else Head(name)
        if head.chain != name:
            raise BrokenLine
        noted = self.head(name)
        if noted is not None and noted.number > head.number:
            notes.append(("cut", {"chain": name, "number": noted.number, "hash": noted.hash}))
        return _Open(file, status.st_ino, head, size, notes)

    def _new_chain(self) -> _Open:
        make_private_folder(self.folder)
        with self._alone():
            slots = [slot_of(name) for name in self.chains()]
            name = f"{max(slots, default=0) + 1}-{secrets.token_hex(4)}"
            os.close(open_private(self.folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            sync_folder(self.folder)
        chain = self._opened(name, wait=True)
        assert chain is not None
        return chain

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """For what concerns all chains."""
        file = open_private(self.folder / _LOCK, os.O_WRONLY | os.O_CREAT)
        try:
            lock_file(file, self.folder / _LOCK)
            yield
        finally:
            os.close(file)

    # ---- reading -----------------------------------------------------------------------------------------------

    def chains(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        with wrapping(self.folder):
            # A chain that somebody has removed is one that has no record left.
            found = {path.stem for kind in ("jsonl", "head") for path in self.folder.glob(f"*.{kind}")}
        return sorted(filter(_CHAIN.fullmatch, found), key=lambda name: (slot_of(name), name))

    def lines(self, chain: str) -> Iterator[bytes]:
        path = self.folder / f"{chain}.jsonl"
        if not path.exists():  # its head is found, and with it that all is gone
            return
        with wrapping(path), path.open("rb") as file:
            left = os.fstat(file.fileno()).st_size  # what comes later is for the next look
            while (line := file.readline(left)).endswith(b"\n"):
                left -= len(line)
                yield line[:-1]

    def head(self, chain: str) -> Head | None:
        path = self.folder / f"{chain}.head"
        with wrapping(path):
            try:
                found = _HEAD.fullmatch(path.read_bytes())
            except FileNotFoundError:
                return None
        return Head(chain, int(found[1]), found[2].decode("ascii")) if found else Head(chain, 0, GENESIS[:-1] + "?")

    def drop(self, chain: str, first: int) -> None:
        path = self.folder / f"{chain}.jsonl"
        opened = self._opened(chain, wait=True)
        assert opened is not None
        try:
            kept = (line + b"\n" for line in self.lines(chain) if head_of(line).number >= first)
            replace_file(path, kept)
        finally:
            os.close(opened.file)

    # ---- persons and small values ------------------------------------------------------------------------------

    def people(self) -> dict[str, tuple[Person, str]]:
        """An entry of another form is nobody's: whoever proves the chains misses the person."""
        entries = self.load(_PEOPLE) or {}
        return {
            name: (Person(one["user"], one["address"]), one["salt"]) for name, one in entries.items() if _names(one)
        }

    def forget(self, names: Sequence[str]) -> None:
        with wrapping(self.folder), self._alone():
            entries = self.load(_PEOPLE) or {}
            self.save(_PEOPLE, {name: one for name, one in entries.items() if name not in set(names)})
        self._people_looked_at = -math.inf

    def _name(self, person: Person) -> str:
        """The name of a person, which is in the table when this returns."""
        now = time.monotonic()
        if now - self._people_looked_at >= _PEOPLE_SECONDS:
            self._people_looked_at = now
            seen = self._seen_people()
            if seen is None or seen != self._people_seen:
                self._people = {known: name for name, (known, _) in self.people().items()}
                self._people_seen = seen
        if person not in self._people:
            with wrapping(self.folder), self._alone():
                entries = self.load(_PEOPLE) or {}
                name, salt = new_name(person)
                self.save(_PEOPLE, entries | {name: {"user": person.user, "address": person.address, "salt": salt}})
            self._people[person] = name
        return self._people[person]

    def _seen_people(self) -> tuple[int, int, int] | None:
        with suppress(FileNotFoundError):
            status = os.stat(self._people_file)
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None

    def load(self, name: str) -> Any:
        path = self.folder / f"{name}.json"
        with wrapping(path):
            with suppress(FileNotFoundError, ValueError):
                found = jsonio.decode(path.read_bytes())
                if isinstance(found, dict):
                    return found
            if path.exists():
                logger.warning("%s cannot be read", path)
            return None

    def save(self, name: str, value: Any) -> None:
        make_private_folder(self.folder)
        replace_file(self.folder / f"{name}.json", [jsonio.encode_pretty(value)])


def _names(entry: Any) -> bool:
    """Is this what the table has for a person?"""
    return isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in ("user", "address", "salt"))
