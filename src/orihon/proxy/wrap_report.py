"""What became of the requests of a wrap: the conversations, and what folding has saved in them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from orihon.errors import StateError, StorageError
from orihon.reports.costs import costs_of_task
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.values.records import REWIND, Compression


@dataclass(frozen=True, slots=True)
class WrappedConversation(AsJson):
    """One of them, from its beginning on, which may have been in an earlier wrap."""

    task: str
    title: str
    kind: str  # main, or what it is beside the conversation itself
    messages: int
    calls: int
    folds: int
    input_tokens: int
    saved_tokens: int  # that folding has kept from being sent


@dataclass(frozen=True, slots=True)
class WrapReport(AsJson):
    """All that one wrap has touched."""

    json_fields = "* messages folds saved_tokens"

    status: int
    conversations: tuple[WrappedConversation, ...] = ()

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.conversations)

    @property
    def folds(self) -> int:
        return sum(one.folds for one in self.conversations)

    @property
    def saved_tokens(self) -> int:
        return sum(one.saved_tokens for one in self.conversations)


def wrap_report(base: OpenBase, uuids: Iterable[str], status: int) -> WrapReport:
    """The figures of these tasks as they are now, also while the proxy has them open."""
    found = [one for uuid in dict.fromkeys(uuids) if (one := _conversation(base, uuid)) is not None]
    return WrapReport(status, tuple(sorted(found, key=lambda one: one.kind != "main")))


def _conversation(base: OpenBase, uuid: str) -> WrappedConversation | None:
    catalogue = base.open_catalogue()
    row = None if catalogue is None else catalogue.tasks.find(uuid)
    if row is None or catalogue is None:
        return None
    line = costs_of_task(catalogue, base.settings, uuid)
    messages, folds = row.total_messages, row.compression_count
    with suppress(StorageError, StateError), reading_task(base, uuid) as (store, _):
        messages = store.count("messages")
        changes = map(Compression.from_record, store.read("compressions"))
        folds = sum(one.kind == "compress" and one.strategy != REWIND for one in changes)
    return WrappedConversation(
        uuid,
        str(row.metadata.get("title") or ""),
        str((row.metadata.get("proxy") or {}).get("kind") or "main"),
        messages,
        line.calls,
        folds,
        line.input_tokens,
        line.saved_tokens,
    )
