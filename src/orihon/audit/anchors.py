"""Anchors: heads of chains, kept where who can write to the store cannot write.

Anybody who may change all files of a store can also write a chain anew from some record on. What was anchored before
stays as it was: from an anchor it follows what every record up to it said. ``Anchoring`` writes heads to a file (one
JSON object on a line, only ever added to) and posts them to a webhook, in the background. Neither keeps anybody from
working: what cannot be anchored is logged, and the next anchor covers it.

Which chains there must be: the catalogue knows each that was ever begun, so that none can just be deleted.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orihon.audit.record import Head
from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.errors import InvalidInput, InvalidSettings, OrihonError, StorageError
from orihon.settings import Settings
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, open_private, wrapping, write_all

if TYPE_CHECKING:
    from orihon.notifications.sender import MemorySender
    from orihon.settings.remote_sections import AuditSettings

logger = logging.getLogger("orihon.audit")

_LAST_SECONDS = 6.0  # of a program that ends


class Anchoring:
    """Anchors the heads that one process has written."""

    def __init__(self, settings: AuditSettings) -> None:
        self.audit = settings
        self._last = self._anchored_at()

    def _anchored_at(self) -> float:
        """When anybody wrote to the file last, for the first decision of a new process."""
        if self.audit.anchor_file is not None and self.audit.anchor_webhook is None:
            with suppress(OSError):
                return self.audit.anchor_file.stat().st_mtime
        return 0.0

    def note(self, head: Head, added: int) -> None:
        """``added`` records have come to a chain; anchor it if it is time."""
        every = self.audit.anchor_every
        is_due = head.number // every > (head.number - added) // every
        if is_due or time.time() - self._last >= self.audit.anchor_seconds:
            self.anchor(head)

    def anchor(self, head: Head) -> None:
        """Anchor it now."""
        self._last = time.time()
        line = {**head.as_dict(), "time": utc_now()}
        if self.audit.anchor_file is not None:
            try:
                _append(self.audit.anchor_file, jsonio.encode(line) + b"\n")
            except StorageError as error:
                logger.warning("the audit could not be anchored: %s", error)
        if self.audit.anchor_webhook is not None:
            body = jsonio.encode({"event": "audit.anchor", **line})
            try:
                sender = _sender(self.audit.anchor_webhook, self.audit.anchor_secret)
                sender.post(f"{head.chain}-{head.number}", body)
            except InvalidSettings as error:  # what was recorded is done, and an anchor is no part of it
                logger.warning("the audit could not be anchored: %s", error)


def _append(path: Path, line: bytes) -> None:
    with wrapping(path):
        if not path.parent.is_dir():
            make_private_folder(path.parent)
        fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, through_links=True)
        try:
            write_all(fd, line)
            os.fsync(fd)
        finally:
            os.close(fd)


@lru_cache(maxsize=8)
def _sender(url: str, secret: str | None) -> MemorySender:
    """One thread for each receiver. A program that ends waits for it a moment: its last anchor may be its only one."""
    from orihon.notifications.sender import MemorySender
    from orihon.notifications.webhook import Webhook

    sender = MemorySender(Webhook(url, secret), "audit")
    atexit.register(sender.close, _LAST_SECONDS)
    return sender


class Anchored(NamedTuple):
    """A head, and when it was anchored, which is when its record was written; empty where nobody has kept that."""

    head: Head
    time: str


def read_anchors(path: Path) -> Iterator[Anchored]:
    """The heads in a file of anchors: what we have written, or what a receiver has kept, one object on a line."""
    with wrapping(path), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _anchor_in(line, path, number)


def _anchor_in(line: bytes, path: Path, number: int) -> Anchored:
    try:
        found: Any = jsonio.decode(line)
        return Anchored(Head(str(found["chain"]), int(found["number"]), str(found["hash"])), str(found.get("time", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput("audit_anchor", path=path, line=number) from error


def note_chain(base_dir: Path, settings: Settings, chain: str) -> None:
    """A chain was begun. After its first record: one that a crash kept from being begun must not be missed."""
    try:
        if catalogue_exists(base_dir, settings):
            with open_catalogue(base_dir, settings) as catalogue:
                catalogue.counters.note_chain(chain)
    except OrihonError as error:  # what was recorded is done, and can be proved without it
        logger.warning("the audit's chain %s could not be noted in the catalogue: %s", chain, error)


def known_chains(base_dir: Path, settings: Settings) -> set[str]:
    """The chains that were ever begun, as far as the catalogue can be asked."""
    try:
        if catalogue_exists(base_dir, settings):
            with open_catalogue(base_dir, settings) as catalogue:
                return catalogue.counters.noted_chains()
    except OrihonError as error:
        logger.warning("the catalogue cannot tell which chains the audit has: %s", error)
    return set()
