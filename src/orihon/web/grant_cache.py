"""A cache of grants: which let somebody in at this moment, read from the catalogue and kept for a few seconds.

A grant that is revoked is out within ``SECONDS``, one that runs out at once. Only tokens that were good once are
remembered, by their digests. A read may take as long as the database does: not for the thread that answers everybody.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from orihon.catalogue.grants import Grant
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.grants import digest_of

#: How long a look is believed.
SECONDS = 3.0
_MOST_KEPT = 1000


class Granted:
    """The grants of one base folder. Threads may share it."""

    def __init__(self, base: OpenBase) -> None:
        self._base = base
        self._looked: OrderedDict[str, tuple[float, Grant | None]] = OrderedDict()  # by the grant's own name
        self._names: OrderedDict[str, str] = OrderedDict()  # of grants, by the digests of their tokens
        self._lock = threading.Lock()

    def by_token(self, token: str, *, only_known: bool = False) -> Grant | None:
        """The grant that a token belongs to, good or not; ``only_known``: no look for one that was never shown."""
        digest = digest_of(token)
        with self._lock:
            name = self._names.get(digest)
        if name is not None:
            return self.by_name(name)
        if only_known:
            return None
        found = self._read(digest=digest)
        if found is not None:
            with self._lock:
                self._names[digest] = found.id
                _limit(self._names)
            self._keep(found.id, found)
        return found

    def by_name(self, name: str) -> Grant | None:
        """A grant by its own name, good or not."""
        with self._lock:
            at, found = self._looked.get(name, (0.0, None))
        if at and time.monotonic() - at < SECONDS:
            return found
        found = self._read(name=name)
        self._keep(name, found)
        return found

    def _keep(self, name: str, found: Grant | None) -> None:
        with self._lock:
            self._looked.pop(name, None)
            self._looked[name] = (time.monotonic(), found)
            _limit(self._looked)

    def _read(self, *, name: str = "", digest: str = "") -> Grant | None:
        catalogue = self._base.open_catalogue()
        if catalogue is None:
            return None
        return catalogue.grants.by_digest(digest) if digest else catalogue.grants.find(name)


def is_good(grant: Grant | None) -> bool:
    """Does it let anybody in now?"""
    return grant is not None and grant.is_good(utc_now())


def _limit(kept: OrderedDict[str, str] | OrderedDict[str, tuple[float, Grant | None]]) -> None:
    while len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
