"""The back ends behave as stores must with encryption at rest, too; and what is sealed cannot be touched unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.errors import DamagedStore, KeyUnavailable, OrihonError
from orihon.settings import load_settings
from orihon.store.factory import open_for_reading, open_task_store
from orihon.store.key_places import base_of, erase_key
from tests.conformance.backends import SealedFiles, SealedPostgres, SealedSqlite
from tests.conformance.checkpoint_records import CheckpointBehaviour
from tests.conformance.folds import FoldBehaviour
from tests.conformance.invariants import check_task
from tests.conformance.log import DATA_URL, PICTURE, LogBehaviour
from tests.conformance.processes import EpochBehaviour
from tests.conformance.siblings import SiblingBehaviour
from tests.helpers import refused
from tests.sealing import holds

_SAID = ("first words", "other words", "third words", "final words")

_PLAIN = b'{"seq":2,"role":"user","content":"x","timestamp":"t","tokens":1,"epoch":1,"digest":"d"}'

#: What somebody does to the second record, out of the second and the third.
TAMPERED: dict[str, Callable[[bytes, bytes], bytes]] = {
    "flipped": lambda own, other: own[:60] + (b"A" if own[60:61] != b"A" else b"B") + own[61:],
    "cut": lambda own, other: own[:-40] + b'"}',
    "exchanged": lambda own, other: other,
    "renumbered": lambda own, other: other.replace(b":3,", b":2,", 1),
    "not base64": lambda own, other: own[:60] + b"!" + own[61:],
    "plain": lambda own, other: (
        b'{"seq":2,"role":"user","content":"x","timestamp":"t","tokens":1,"epoch":1,"digest":"d"}'
    ),
}


class SealedConformance(LogBehaviour, SiblingBehaviour, CheckpointBehaviour, EpochBehaviour):
    """What a store promises that sealing could break, and what only a sealed one does."""

    test_fifty_megabytes_go_to_a_blob_and_come_back: Any = None  # the plain back ends show it; it takes seconds

    def test_an_image_is_stored_once(self, store: MessageStore) -> None:
        content: list[Any] = [{"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}}]
        for _ in range(2):
            store.add_message("user", content)
        ((name, raw),) = self.backend.blobs(store.context_dir).items()
        assert store.task_store.records.blob_digests()[0] not in name
        assert PICTURE[:64] not in raw
        again = self.reopened(store)
        assert again.get_messages_for_llm()[1]["content"] == content
        check_task(again)

    def filled(self, folder: Path) -> list[bytes]:
        """A task with four messages, closed; their records as they are stored."""
        store = self.backend.open(folder)
        for said in _SAID:
            store.add_message("user", said)
        store.close()
        raw = self.backend.raw_log(folder)
        assert not holds(raw, *_SAID)
        return [line[line.index(b"{") :] for line in raw.splitlines()]

    @pytest.mark.parametrize("how", TAMPERED)
    def test_a_record_that_was_touched_does_not_open(self, how: str, folder: Path) -> None:
        records = self.filled(folder)
        self.backend.damage(folder, 2, TAMPERED[how](records[1], records[2]))
        store = self.backend.open(folder)
        for way in (lambda: store.get_message(2), store.get_messages_for_llm, store.view):
            with pytest.raises(DamagedStore):
                way()
        assert store.get_message(1).message.content == _SAID[0]
        assert store.get_message(4).message.content == _SAID[3]

    def test_a_record_of_another_task_does_not_open(self, folder: Path) -> None:
        self.filled(folder)
        theirs = self.filled(folder.with_name(folder.name[:-1] + "x"))
        self.backend.damage(folder, 2, theirs[1])
        with refused(DamagedStore, "sealed"):
            self.backend.open(folder).get_message(2)

    def test_a_content_that_was_touched_does_not_open(self, folder: Path) -> None:
        store = self.backend.open(folder, blob_bytes=100)
        store.add_message("user", "long " * 100)
        ((blob, content),) = self.backend.blobs(folder).items()
        self.backend.put_blob(folder, blob, content[:-1] + bytes([content[-1] ^ 1]))
        with refused(DamagedStore, "sealed"):
            store.get_message(1)
        self.backend.lose_blob(folder, blob)
        with refused(DamagedStore, "blob_missing"):
            store.get_message(1)
        store.close()

    @pytest.mark.parametrize(
        ("encryption", "reason"),
        [
            ({}, "sealed"),
            ({"key": "env:OTHER_MASTER_KEY"}, "other_master"),
            ({"key": "env:NO_MASTER_KEY"}, "not_set"),
            ({"enabled": True}, "no_source"),
        ],
    )
    def test_without_the_right_key_there_is_one_clear_error(
        self, encryption: dict[str, Any], reason: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.filled(folder)
        monkeypatch.setenv("OTHER_MASTER_KEY", "0b" * 32)
        settings = load_settings({**self.backend.config(), "encryption": encryption}, environ={})
        before = self.backend.raw_log(folder)
        with refused(KeyUnavailable, reason):
            list(open_for_reading(folder, settings).messages())
        with pytest.raises(OrihonError):
            store = open_task_store(folder, settings)
            MessageStore(folder, settings, task_store=store).add_message("user", "more")
        assert self.backend.raw_log(folder) == before

    def test_a_task_whose_key_is_erased_is_gone_for_good(self, folder: Path) -> None:
        self.filled(folder)
        settings = load_settings(self.backend.config(), environ={})
        assert erase_key(base_of(folder), settings, folder.name)
        assert not erase_key(base_of(folder), settings, folder.name)
        with refused(KeyUnavailable, "erased"):
            self.backend.open(folder).get_message(1)
        with refused(KeyUnavailable, "erased"):
            self.backend.open(folder).add_message("user", "late")

    def test_a_spoilt_index_is_made_anew(self, folder: Path) -> None:
        self.filled(folder)
        self.backend.garble(folder, "index")
        store = self.backend.open(folder)
        assert store.add_message("user", "more") == len(_SAID) + 1
        check_task(store)
        store.close()


class TestSealedFiles(SealedConformance):
    backend = SealedFiles()


class TestSealedSqlite(SealedConformance):
    backend = SealedSqlite()


@pytest.mark.usefixtures("tasks_database")
class TestSealedPostgres(SealedConformance, FoldBehaviour):  # it reads a whole view at once
    backend = SealedPostgres()
