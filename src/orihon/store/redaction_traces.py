"""What a scan that was killed leaves behind, so that the next one finishes its work.

Owns the list of the tasks whose redaction has begun: what is derived from their records (views, indexes, free places of
databases) may still have what the records no longer have. And the files in a task's folder that were never finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orihon.system import jsonio
from orihon.system.files import is_regular, is_unfinished, replace_file, wrapping
from orihon.system.holding import lock_file

NAME: Final = "redacting.json"
#: The same for tasks that were packed, and are to be packed again.
REPACKING: Final = "repacking.json"
_REQUEST, _ASIDE = "request.json", "aside"


class Begun:
    """The tasks of a base folder whose redaction has begun and was not finished."""

    def __init__(self, base: Path, name: str = NAME) -> None:
        self._path = base / name
        self.tasks: set[str] = self._noted()

    def add(self, uuid: str) -> None:
        """The redaction of this task begins."""
        self.tasks.add(uuid)
        self._change(lambda noted: noted | {uuid})

    def forget(self, uuids: Iterable[str]) -> None:
        """These are finished."""
        finished = set(uuids)
        self.tasks -= finished
        self._change(lambda noted: noted - finished)

    def _noted(self) -> set[str]:
        with wrapping(self._path), suppress(FileNotFoundError, ValueError):
            told = jsonio.decode(self._path.read_bytes())
            if isinstance(told, list):
                return {uuid for uuid in told if isinstance(uuid, str)}
        return set()

    def _change(self, change: Callable[[set[str]], set[str]]) -> None:
        """Change what is noted, with what other processes have noted since we looked."""
        with self._alone():
            noted = self._noted()
            changed = change(noted)
            if not changed:
                self._path.unlink(missing_ok=True)
            elif changed != noted:
                replace_file(self._path, [jsonio.encode(sorted(changed))])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with wrapping(self._path.parent):
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                lock_file(folder, self._path.parent)
                yield
            finally:
                os.close(folder)


def leftovers(folder: Path, mask: Callable[[str], str]) -> list[Path]:
    """Files of a process that died, the last request, and what was kept aside, in which ``mask`` finds something."""
    found: list[Path] = []
    if not folder.is_dir():
        return found
    for path in sorted(folder.rglob("*")):
        # One that vanishes meanwhile belongs to somebody who is at work.
        with wrapping(path), suppress(FileNotFoundError):
            is_aside = path.relative_to(folder).parts[0] == _ASIDE
            if is_regular(path) and (is_aside or is_unfinished(path.name) or path.name == _REQUEST):
                text = path.read_bytes().decode("utf-8", "surrogateescape")
                if mask(text) != text:
                    found.append(path)
    return found
