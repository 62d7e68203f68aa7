"""``AuditSink``: where chains are kept. Two kinds, one contract: files below the base folder, tables in PostgreSQL.

A chain has one writer at a time: who writes takes a chain that nobody else has at this moment, the one it had last if
possible, and a new one where all are taken. So there are as many chains as there were writers at once, each of them is
long, and nobody waits for anybody.

Which settings have changed since the last run that read the same configuration.

Kept beside the chains: for each file that settings came from, a digest of each value that was set. Values are compared
as they are shown, so that a secret leaves no trace here; that one was exchanged is not noticed. What was typed on one
command line is not part of the configuration.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon.audit.record import AuditDraft, Head, Person, canonical
from orihon.settings import Settings, schema
from orihon.settings.model import leaf

#: Recorded with ``audit.level: all`` only: what is looked at, and what is added to a task.
READING = frozenset(("read", "search"))
FREQUENT = READING | {"append", "end", "open", "write"}


class AuditSink(ABC):
    """The chains of one base folder or one database."""

    #: Actions whose records may wait a moment, to be written together.
    grouped: frozenset[str] = READING

    @abstractmethod
    def is_at_home(self) -> bool:
        """Is there anything of Orihon's here to be audited? Nothing is made where there is not."""

    @abstractmethod
    def append(self, drafts: Sequence[AuditDraft], *, durable: bool) -> Head:
        """Add records to one chain, all of them or none, and say where that ends now."""

    @abstractmethod
    def check(self) -> None:
        """Raises what ``append`` would raise because nothing can be written here."""

    @abstractmethod
    def chains(self) -> list[str]:
        """The names of all chains, the oldest first. The number before the dash counts them: 1, 2, 3 …"""

    @abstractmethod
    def lines(self, chain: str) -> Iterator[bytes]:
        """The records of a chain as they lie there, without their line feeds; a last one without an end is left out."""

    def lines_about(self, chain: str, task: str) -> Iterator[bytes]:
        """Those of its records that name a task somewhere, and perhaps others."""
        name = task.encode("utf-8", "backslashreplace")
        return (line for line in self.lines(chain) if name in line)

    @abstractmethod
    def head(self, chain: str) -> Head | None:
        """What is noted beside the chain as its last durable record."""

    @abstractmethod
    def people(self) -> dict[str, tuple[Person, str]]:
        """Persons by the names that records have for them, each with the salt of its name."""

    @abstractmethod
    def forget(self, names: Sequence[str]) -> None:
        """Remove persons from that table."""

    @abstractmethod
    def drop(self, chain: str, first: int) -> None:
        """Remove the records of a chain before number ``first``."""

    @abstractmethod
    def load(self, name: str) -> Any:
        """A small value that was kept beside the chains; ``None`` when there is none."""

    @abstractmethod
    def save(self, name: str, value: Any) -> None:
        """Keep a small value beside the chains."""


def open_sink(base_dir: Path, settings: Settings) -> AuditSink:
    """In the database where the catalogue is, else below the base folder. Makes nothing."""
    if settings.database.url is not None:
        from orihon.audit.postgres_sink import PostgresAudit

        return PostgresAudit(settings)
    from orihon.audit.files_sink import FilesAudit

    return FilesAudit(base_dir)


def slot_of(chain: str) -> int:
    """The number in the name of a chain."""
    return int(chain.partition("-")[0])


_NAME = "settings"
_MOST_PLACES = 32
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """The keys whose values differ; ``keep`` keeps what is in force now for the next time."""

    settings: Settings
    keys: list[str]
    keep: Callable[[], None]


def change_of_settings(sink: AuditSink, settings: Settings) -> SettingsChange:
    """How the settings differ from those of the last run with the same configuration; keeps nothing yet."""
    place, digests = _digests(settings)
    kept: dict[str, Any] = sink.load(_NAME) or {}
    before = kept.get(place)
    before = before if isinstance(before, dict) else {}
    keys = sorted(key for key in {*before, *digests} if before.get(key) != digests.get(key))

    def keep() -> None:
        if kept.get(place) == digests:
            return
        others = [(each, known) for each, known in kept.items() if each != place]
        sink.save(_NAME, {**dict(others[-(_MOST_PLACES - 1) :]), place: digests})

    return SettingsChange(settings, keys, keep)


def _digests(settings: Settings) -> tuple[str, dict[str, str]]:
    """Where the settings come from, and what they are."""
    values = settings.as_dict()
    places: set[str] = set()
    digests: dict[str, str] = {}
    for key in schema():
        origin = settings.origin(key)
        if origin in ("default", "flag"):
            continue
        if not origin.startswith("environment "):
            places.add(origin)
        digests[key] = hashlib.sha256(canonical(leaf(values, key))).hexdigest()[:_DIGITS]
    return hashlib.sha256(canonical(sorted(places))).hexdigest()[:_DIGITS], digests
