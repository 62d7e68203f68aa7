"""A cache of previews that somebody has open, until they are applied: what was shown is what is made.

They are kept in memory, the newest few; a preview that is gone after a restart is made anew.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence

from orihon.errors import IllegalFold
from orihon.tasks.hand_edits import Preview

MOST_KEPT = 50


class Drafts:
    """The previews of one server."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Preview] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, preview: Preview) -> str:
        """The name by which it can be applied."""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[name] = preview
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return name

    def get(self, name: str, uuid: str) -> Preview:
        """The preview of that name; ``IllegalFold`` where it is not kept any more, or another task's."""
        with self._lock:
            found = self._kept.get(name)
        if found is None or found.uuid != uuid:
            raise IllegalFold("preview_gone")
        return found

    def names(self) -> Sequence[str]:
        """Of all that are kept, the oldest first."""
        with self._lock:
            return list(self._kept)
