"""The notices of tasks that move to another catalogue: they follow, and whoever sends them sends each once.

A notice that is still to be sent is first held in the new catalogue, then taken out of the old one as it was read
there, then released. So only one of the two can ever send it, whenever the process is killed, and a second run goes
on. What is being sent in this moment is left until its sender has said what became of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NoticeRow

logger = logging.getLogger("orihon.migration")

_PAGE = 500
_PATIENCE, _PAUSE = 6.0, 0.1  # seconds; a receiver has five to answer
_NOT_MEANT_SECONDS = 3600.0  # as with the first webhook of a catalogue


def carry_notices(source: Catalogue, home: Catalogue, task: str) -> None:
    """The notices of one task, but for those that are being sent now."""
    _carry(source, home, task)


def carry_the_rest(source: Catalogue, home: Catalogue) -> None:
    """The notices of all tasks that have left the old catalogue; when none is left there, those of no task, too."""
    give_up = time.monotonic() + _PATIENCE
    _carry(source, home, None)
    while (left := source.outbox.count_left()) and time.monotonic() < give_up:
        time.sleep(_PAUSE)
        _carry(source, home, None)
    for row in _pages(lambda after: home.outbox.held(after=after, limit=_PAGE)):
        if not source.outbox.has_event(row.event):  # of a run that was interrupted
            home.outbox.release(row.event)
    if left:
        logger.warning("%d notifications are still being sent from the old catalogue; migrate again for them", left)


def _carry(source: Catalogue, home: Catalogue, task: str | None) -> None:
    last = 0
    while page := source.outbox.movable(task, after=last, limit=_PAGE):
        _agree_on_webhook(source, home)
        home.outbox.adopt(page)
        logger.debug("%s: %s", task or "-", "notices_copied")
        for row in page:
            if source.outbox.remove(row):
                logger.debug("%s: %s", task or "-", "notice_removed")
                home.outbox.release(row.event)
        last = page[-1].id


def _agree_on_webhook(source: Catalogue, home: Catalogue) -> None:
    """Where one of them has never had a webhook, its old notices were not meant for the other's."""
    if source.outbox.has_used_webhook() != home.outbox.has_used_webhook():
        before = (datetime.now(UTC) - timedelta(seconds=_NOT_MEANT_SECONDS)).isoformat(timespec="microseconds")
        for catalogue in (source, home):
            catalogue.outbox.begin_webhook(before)


def _pages(read: Callable[[int], list[NoticeRow]]) -> Iterator[NoticeRow]:
    last = 0
    while page := read(last):
        yield from page
        last = page[-1].id
