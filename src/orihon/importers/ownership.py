"""The task that a thread becomes, while an import owns it: its row, its lease, its folder, its figures.

What is already there of a thread: how far its task goes, and whether it is still the same past.

A task's streams say how many steps of each kind were taken. ``import.json``, kept with the task, adds what they cannot
say: where earlier imports ended (``Break``), and a hash over the first messages as they were read, before anything in
them was masked.

What a format must do whose files hold whole tasks of ours: put them back as they were.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import write_metadata
from orihon.catalogue.rows import IMPORT, IMPORTED_AT
from orihon.errors import TaskBusy
from orihon.guard import Redactor
from orihon.importers.identity import task_key, task_uuid
from orihon.importers.registry import Importer, Problem, Thread, TranscriptPart
from orihon.importers.report import ImportedTask
from orihon.importers.tool_pairs import SaidStep
from orihon.settings import Settings
from orihon.store.reader import TaskReader
from orihon.store.record_codec import matches_digest
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.owning import Ownership, totals_of
from orihon.tasks.usage import record_usage_of_log
from orihon.tasks.usage_sums import UsageSums
from orihon.values.records import ModelCall
from orihon.values.task import MAX_FIELD_CHARS, TaskKey, TaskStatus

#: In the row's metadata, beside where it comes from: how many messages the figures in the row are about.
_MESSAGES = "messages"
_MOST_ABOUT = 100


def is_described(row: TaskRow, thread: Thread, messages: int) -> bool:
    """Does the row say all about a thread of so many messages?"""
    origin = row.metadata.get(IMPORT)
    is_titled = not thread.title or "title" in row.metadata  # masked, it may read differently
    return isinstance(origin, dict) and origin.get(_MESSAGES) == messages and is_titled


@dataclass(slots=True)
class ThreadUsage:
    """What the models of a thread have used."""

    calls: int = 0
    tokens: int = 0
    model: str = ""

    def add(self, call: ModelCall) -> None:
        self.calls += 1
        self.model = call.model or self.model
        self.tokens += 0 if call.usage is None else call.usage.total


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """Where imports go."""

    base: OpenBase
    catalogue: Catalogue
    redactor: Redactor
    user: str = ""
    dry_run: bool = False

    @property
    def settings(self) -> Settings:
        return self.base.settings

    def uuid_of(self, form: str, thread_id: str) -> str:
        """The task of a thread: the one that was imported last."""
        round_ = self.rounds(form, thread_id)
        return task_uuid(form, thread_id, self.user, max(round_ - 1, 0))

    def rounds(self, form: str, thread_id: str) -> int:
        """How often the thread was imported anew; 0 when it is not there."""
        number = 0
        while self.catalogue.tasks.find(task_uuid(form, thread_id, self.user, number)) is not None:
            number += 1
        return number

    def own(self, uuid: str, thread: Thread, path: Path, form: str, times: tuple[str, str]) -> OwnedTask:
        """The task, made where it is missing, with its lease and its store; ``times``: its beginning and its end."""
        row = self.catalogue.tasks.find(uuid) or self._registered(uuid, thread, path, form, times)
        owned = self.base.own(uuid)
        with ExitStack() as on_failure:
            on_failure.callback(owned.release)
            folders = self.base.folders
            here = folders.settle(uuid, TaskStatus.COMPLETED, still=owned.renew)
            here = here or folders.create(uuid, TaskStatus.COMPLETED)
            store = owned.claim(here)
            on_failure.callback(store.close)
            if store.records.kept_file(METADATA) is None:
                write_metadata(store.records, row, self.settings)
            on_failure.pop_all()
        owned.keep()
        return OwnedTask(self, row, owned, store)

    def _registered(self, uuid: str, thread: Thread, path: Path, form: str, times: tuple[str, str]) -> TaskRow:
        parent = None if thread.parent is None else self.uuid_of(form, thread.parent)
        began, ended = times
        row = TaskRow.of(
            self._masked(task_key(form, thread, self.user)),
            uuid,
            TaskStatus.COMPLETED,
            created_at=began,
            updated_at=utc_now(),
            started_at=began,
            completed_at=max(began, ended),
            backend=self.settings.context_storage.backend,
            parent_uuid=parent,
            metadata=self.described(
                thread, {"format": form, "path": str(path), "thread": thread.id, IMPORTED_AT: utc_now()}
            ),
        )
        return self.catalogue.tasks.adopt(row)

    def _masked(self, key: TaskKey) -> TaskKey:
        """Threads are named after files and folders, whatever those are called."""
        named = {name: self.redactor.mask(getattr(key, name)) for name in ("owner", "repo", "task_id")}
        return replace(key, **{name: value[:MAX_FIELD_CHARS] for name, value in named.items()})

    def described(self, thread: Thread, origin: Mapping[str, Any]) -> dict[str, Any]:
        """What a row says about a thread."""
        about = {key: value for key, value in list(thread.about.items())[:_MOST_ABOUT] if value not in (None, "", {})}
        told = {**origin, "cwd": thread.cwd, **({"about": about} if about else {})}
        metadata: dict[str, Any] = {IMPORT: {key: value for key, value in told.items() if value}}
        if thread.title:
            metadata["title"] = thread.title
        cleaned: dict[str, Any] = self.redactor.clean(metadata)
        return cleaned


class OwnedTask:
    """A task that this process may write to."""

    def __init__(self, place: ImportTarget, row: TaskRow, owned: Ownership, store: TaskStore) -> None:
        self.store = store
        self._place = place
        self.row = row
        self._owned = owned

    def refuse_other(self, expected: tuple[int, ...]) -> None:
        """Somebody else may have imported the same thread since it was looked at."""
        if counted(self.store, self.row).counts != expected:
            self.close()
            raise TaskBusy("import", uuid=self.row.uuid)

    def finish(self, thread: Thread, figures: ThreadUsage, ended: str, used: UsageSums | None = None) -> None:
        """The figures of the whole thread, whatever of them is in the catalogue already.

        ``used`` is what its calls have used; without it the log is read again.
        """
        catalogue, uuid, epoch = self._place.catalogue, self.row.uuid, self._owned.epoch
        row = catalogue.tasks.get(uuid)
        tools = self.store.count("tools")
        missing = {
            "llm_calls": max(figures.calls - row.llm_call_count, 0),
            "tool_calls": max(tools - row.tool_call_count, 0),
            "tokens": max(figures.tokens - row.total_tokens, 0),
            "compressions": max(self.store.count("compressions") - row.compression_count, 0),
        }
        if any(missing.values()):
            catalogue.tasks.add_statistics(uuid, **missing, epoch=epoch)
        if figures.calls and used is not None:
            catalogue.usage.replace(uuid, used.rows())
        elif figures.calls:
            record_usage_of_log(catalogue, self.store, uuid)
        totals = totals_of(self.store)
        catalogue.tasks.set_totals(uuid, epoch=epoch, **totals)
        origin = row.metadata.get(IMPORT)
        # The last word: it says that all figures are there.
        known = {
            **(origin if isinstance(origin, dict) else {}),
            _MESSAGES: totals["total_messages"],
            IMPORTED_AT: utc_now(),
        }
        described = self._place.described(thread, known)
        model = figures.model or thread.model or row.model
        metadata = {**row.metadata, **described}
        catalogue.tasks.update(uuid, epoch=epoch, model=model, metadata=metadata, completed_at=ended)

    def close(self) -> None:
        """Let go of it."""
        try:
            self.store.close()
        finally:
            self._owned.release()


#: The file with what an import has to remember.
NAME = "import.json"
#: Who asked for a fold that another agent has made.
TRIGGER = "import"
#: Why a summary of another agent stands in no fold.
NOT_FOLDED = "import: not folded"


@dataclass(frozen=True, slots=True)
class Break:
    """An import ended after so many items of the thread; ``closed``: calls that were open then got no result."""

    items: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored of a thread."""

    row: TaskRow | None = None
    messages: int = 0
    tools: int = 0
    plans: int = 0
    folds: int = 0
    breaks: tuple[Break, ...] = ()
    position: int = 0  # messages that ``chain`` is about
    chain: str = ""
    is_away: bool = False  # archived or cleaned up: nothing can be added

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.messages, self.tools, self.plans, self.folds

    def document(self) -> bytes:
        """``import.json``."""
        breaks = [[one.items, one.closed] for one in self.breaks]
        return jsonio.encode_pretty({"breaks": breaks, "messages": self.position, "hash": self.chain})


def known_of(base: OpenBase, uuid: str) -> Known:
    """What is stored under this UUID, by a look that changes nothing."""
    row = base.row(uuid)
    if row is None:
        return Known()
    folder = base.folders.find(uuid)
    if folder is None:
        return Known(row, is_away=row.status is not TaskStatus.COMPLETED or row.total_messages > 0)
    with closing(base.read_store(folder)) as store:
        return counted(store, row)


def counted(store: TaskReader, row: TaskRow) -> Known:
    """What a store has."""
    folded = sum(record.get("trigger") == TRIGGER for record in store.read("compressions"))
    unfolded = sum(record.get("reason") == NOT_FOLDED for record in store.read("summaries"))
    breaks, position, chain = _remembered(store.records.kept_file(NAME))
    return Known(
        row,
        store.count("messages"),
        store.count("tools"),
        store.count("planning"),
        folded + unfolded,
        breaks,
        position,
        chain,
        is_away=row.status is not TaskStatus.COMPLETED,
    )


def _remembered(raw: bytes | None) -> tuple[tuple[Break, ...], int, str]:
    """What ``import.json`` says; one that somebody has damaged says nothing, which is found out by the messages."""
    try:
        found: Any = jsonio.decode(raw or b"{}")
        breaks = tuple(Break(int(items), bool(closed)) for items, closed in found.get("breaks", ()))
        return breaks, int(found.get("messages", 0)), str(found.get("hash", ""))
    except (ValueError, TypeError, AttributeError):
        return (), 0, ""


class Past:
    """Compares what is read with what is stored, message by message."""

    def __init__(self, base: OpenBase, uuid: str, known: Known, redactor: Redactor) -> None:
        """``redactor`` masks as the writer does: the log has only masked messages."""
        self.has_changed = False
        self._base = base
        self._uuid = uuid
        self._known = known
        self._redactor = redactor
        self._hash = sha256()  # of all hashes the quickest here: processors have instructions for it
        self._last: SaidStep | None = None

    @property
    def chain(self) -> str:
        """The hash over all messages that were seen."""
        return self._hash.hexdigest()

    def see(self, step: SaidStep, number: int) -> bytes:
        """The next message; gives what it says as JSON."""
        said = jsonio.encode(step.message.body())
        self._hash.update(said)
        known = self._known
        if number > known.messages and number != known.position:
            return said
        self._last = step
        if number == known.position:
            self.has_changed = self.has_changed or self.chain != known.chain
        elif number == known.messages:  # an import that was cut off has left no hash
            self.has_changed = self.has_changed or not self._is_stored(step, number)
        return said

    def settle(self, number: int) -> None:
        """All ``number`` messages that the file has were seen: an older copy of it is no other past."""
        if 0 < number < self._known.messages and self._last is not None and number != self._known.position:
            self.has_changed = self.has_changed or not self._is_stored(self._last, number)

    def _is_stored(self, step: SaidStep, number: int) -> bool:
        folder = self._base.folders.find(self._uuid)
        if folder is None:
            return False
        message = step.message.map_strings(self._redactor.mask) if self._redactor.enabled else step.message
        with closing(self._base.read_store(folder)) as store:
            record = next(store.read("messages", number, number), None)
        return record is not None and matches_digest(message.body(), record["digest"])


class Restorer(Importer):
    """The reader of such a format."""

    @abstractmethod
    def restore(self, path: Path, place: ImportTarget) -> Iterator[Problem | ImportedTask]:
        """The tasks in the file."""

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        """Nothing that would have to be written anew."""
        return iter(())
