"""The outbox: a notice is written to the catalogue, and sent from there.

Promises that the work which a notice is about is never stopped by it: a catalogue that cannot be written is logged, and
the notice is lost with that. Of an event that is told again after a crash (``event_of``) there is one notice.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.errors import OrihonError
from orihon.notifications.notification import NotificationType
from orihon.notifications.sender import send_soon, wait_until_sent
from orihon.settings import Settings
from orihon.store.factory import make_redactor

logger = logging.getLogger("orihon.notifications")


class Outbox:
    """Where notices of one catalogue are put."""

    def __init__(self, catalogue: Catalogue, base_dir: Path, settings: Settings) -> None:
        self._catalogue = catalogue
        self._base_dir = base_dir
        self._settings = settings

    def add(
        self,
        kind: str,
        type: NotificationType,  # noqa: A002 - the field's name in the design
        task: str | None,
        body: Mapping[str, Any],
        *,
        event: str | None = None,
    ) -> None:
        """Write it down and have it sent; returns before it is."""
        try:
            redactor = make_redactor(self._settings, self._base_dir)
            told = redactor.clean(dict(body))
            self._catalogue.outbox.add(NewNotice(event or secrets.token_hex(16), kind, type, task, told))
        except OrihonError as error:
            logger.warning("%s: a notification (%s) could not be written: %s", task or "-", kind, error)
            return
        self.send()

    def send(self) -> None:
        """Have sent what is there: for notices that the catalogue has written itself."""
        try:
            send_soon(self._base_dir, self._settings)
        except OrihonError as error:  # an address that is none
            logger.warning("notifications are not sent: %s", error)

    def wait(self, timeout: float) -> bool:
        """Until everything has been tried once; ``False`` when ``timeout`` seconds were too few."""
        return wait_until_sent(self._base_dir, self._settings, timeout)


def event_of(*parts: object) -> str:
    """The same name for the same event, whoever tells it and however often."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]
