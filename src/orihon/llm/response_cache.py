"""The response cache: answers to requests that were made before, word for word; off unless a client is given one.

Files in a private folder, named after the hash of the request, each valid for ``ttl`` seconds. What a file holds that
cannot be read counts as not there. An answer with a secret in it is not kept: secrets do not touch the disk, and a
masked one would be another answer. The number of files is bounded: the oldest go.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from orihon.errors import DamagedStore, StorageError
from orihon.guard.masking.redaction import Redactor
from orihon.guard.sealer import Sealer
from orihon.llm.answers import ModelAnswer
from orihon.system import jsonio
from orihon.system.files import make_private_folder, replace_file, wrapping

logger = logging.getLogger("orihon.llm")

_BLOCK = 1 << 16
_HOUR = 3600.0


#: Where the answers are kept, in the base folder.
FOLDER = "responses"


def clear_cache(base_dir: Path) -> None:
    """Forget every answer that is kept for a base folder."""
    shutil.rmtree(base_dir / FOLDER, ignore_errors=True)


class ResponseCache:
    """Answers by request."""

    def __init__(
        self, folder: Path | str, *, ttl: float = _HOUR, max_entries: int = 1000, sealer: Sealer | None = None
    ) -> None:
        """With a ``sealer`` the answers are sealed, and named so that nobody can tell what was asked."""
        self._folder = Path(folder)
        self._sealer = sealer
        self._ttl = ttl
        self._max_entries = max_entries
        make_private_folder(self._folder)

    def key(self, url: str, body: Path | bytes) -> str:
        """The name of a request: where it goes, and every byte of it."""
        digest = hashlib.sha256(url.encode() + b"\0")
        if isinstance(body, bytes):
            digest.update(body)
            return self._named(digest.hexdigest())
        with wrapping(body), body.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return self._named(digest.hexdigest())

    def _named(self, digest: str) -> str:
        return digest if self._sealer is None else self._sealer.blob_name(digest)

    def get(self, key: str) -> ModelAnswer | None:
        """The answer, if there is one that is not too old."""
        try:
            kept = jsonio.decode(self._opened(key, self._path(key).read_bytes()))
            if 0 <= time.time() - kept["made_at"] <= self._ttl:
                calls = tuple({name: str(call[name]) for name in ("id", "name", "arguments")} for call in kept["calls"])
                finish, said = str(kept["finish"]), dict(kept["fields"])
                return ModelAnswer(str(kept["text"]), calls, finish=finish, fields=said, is_kept=True)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, DamagedStore) as error:
            logger.warning("a kept answer could not be read: %s", error)
        with suppress(OSError):
            self._path(key).unlink()
        return None

    def put(self, key: str, answer: ModelAnswer, redactor: Redactor) -> None:
        """Keep an answer; no call fails because of it."""
        kept: dict[str, Any] = {"made_at": time.time(), "text": answer.text, "calls": answer.calls}
        kept |= {"finish": answer.finish, "fields": dict(answer.fields)}
        if redactor.clean(kept) is not kept:
            return
        try:
            content = jsonio.encode(kept)
            sealed = content if self._sealer is None else self._sealer.seal_file(f"answer {key}", content)
            replace_file(self._path(key), [sealed], durable=False)
            self._sweep()
        except StorageError as error:
            logger.warning("an answer could not be kept: %s", error)

    def _opened(self, key: str, content: bytes) -> bytes:
        return content if self._sealer is None else self._sealer.open_file(f"answer {key}", content)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _sweep(self) -> None:
        """Another process may sweep at the same time: what is gone is gone."""
        ages: list[tuple[float, Path]] = []
        for path in self._folder.glob("*.json"):
            with suppress(OSError):
                ages.append((path.stat().st_mtime, path))
        ages.sort(reverse=True)
        oldest = time.time() - self._ttl
        for index, (age, path) in enumerate(ages):
            if age < oldest or index >= self._max_entries:
                with suppress(OSError):
                    path.unlink()
