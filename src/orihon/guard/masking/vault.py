"""What placeholders stand for, in the memory of this process and nowhere else: opt-in (``masking.vault``).

A placeholder is exchanged for its value at the last moment only: in a request on its way to the model, and in the
arguments of a call on their way into the tool. Nothing of it is written, and a new process knows nothing of it.
"""

from __future__ import annotations

import json
import re
import threading

MOST = 10_000
#: What stands in the place of a secret: its kind and a keyed hash.
PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_]*\]#[0-9a-f]{8,}")


class Vault:
    """Values by their placeholders; the oldest go when there are too many."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()

    def keep(self, placeholder: str, value: str) -> None:
        """Remember what was masked."""
        with self._lock:
            self._values.pop(placeholder, None)
            self._values[placeholder] = value
            while len(self._values) > MOST:
                del self._values[next(iter(self._values))]

    def restored_json(self, text: str) -> str:
        """A JSON text, which stays one, with the values of the placeholders that are known."""

        def written(match: re.Match[str]) -> str:
            value = self._values.get(match[0])
            return match[0] if value is None else json.dumps(value, ensure_ascii=False)[1:-1]

        return PLACEHOLDER.sub(written, text)


VAULT = Vault()
