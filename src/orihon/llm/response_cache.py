"""The response cache: answers to requests that were made before, word for word; off unless a client is given one.

Files in a private folder, or keys in Redis, named after the hash of the request, each valid for ``ttl`` seconds. What
cannot be read counts as not there, and no call fails because an answer cannot be kept. An answer with a secret in it is
not kept: secrets do not touch the disk, and a masked one would be another answer. The number of files is bounded: the
oldest go. ``LLMResponseCache`` is the same for programs that ask their model themselves.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from orihon.errors import DamagedStore, InvalidSettings, StorageError, StorageUnavailable
from orihon.guard.masking.redaction import Redactor
from orihon.guard.sealer import Sealer
from orihon.llm.answers import ModelAnswer
from orihon.settings import Settings
from orihon.system import jsonio
from orihon.system.files import make_private_folder, replace_file, storage_error, wrapping

logger = logging.getLogger("orihon.llm")

_BLOCK = 1 << 16
_HOUR = 3600.0
_MOST_FILES = 1000
_SCHEMES = ("redis://", "rediss://", "unix://")


#: Where the answers are kept, in the base folder.
FOLDER = "responses"


def response_cache(settings: Settings, base_dir: Path, sealer: Sealer | None = None) -> ResponseCache:
    """The cache that the settings name: in Redis (``llm.cache_url``), or in the base folder."""
    return ResponseCache(settings.llm.cache_url or base_dir / FOLDER, ttl=settings.llm.cache_ttl, sealer=sealer)


def clear_cache(settings: Settings, base_dir: Path) -> None:
    """Forget every answer that is kept for a base folder; in Redis, for all who share the address."""
    shutil.rmtree(base_dir / FOLDER, ignore_errors=True)
    if settings.llm.cache_url is not None:
        _RedisShelf(settings.llm.cache_url, _HOUR).clear()


class _Shelf(Protocol):
    """Where answers lie, by name. Every failure is a ``StorageError``."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, content: bytes) -> None: ...

    def drop(self, name: str) -> None: ...


class _FileShelf:
    def __init__(self, folder: Path, ttl: float, max_entries: int) -> None:
        self._folder = folder
        self._ttl = ttl
        self._max_entries = max_entries
        make_private_folder(folder)

    def get(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, self._path(name)) from error

    def put(self, name: str, content: bytes) -> None:
        replace_file(self._path(name), [content], durable=False)
        self._sweep()

    def drop(self, name: str) -> None:
        with suppress(OSError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

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


class _RedisShelf:
    """Redis forgets by itself."""

    _PREFIX = "orihon:answer:"

    def __init__(self, url: str, ttl: float) -> None:
        try:
            from redis import Redis
        except ImportError as error:
            raise InvalidSettings("cache_redis_missing") from error
        try:
            self._redis: Any = Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=5.0)
        except ValueError as error:
            raise InvalidSettings("cache_url") from error
        self._ttl = max(1, round(ttl))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from redis.exceptions import RedisError

        try:
            yield
        except (RedisError, OSError) as error:
            raise StorageUnavailable("cache", detail=type(error).__name__) from error

    def get(self, name: str) -> bytes | None:
        with self._errors():
            found = self._redis.get(self._PREFIX + name)
        return None if found is None else bytes(found)

    def put(self, name: str, content: bytes) -> None:
        with self._errors():
            self._redis.set(self._PREFIX + name, content, ex=self._ttl)

    def drop(self, name: str) -> None:
        with suppress(StorageError), self._errors():
            self._redis.delete(self._PREFIX + name)

    def clear(self) -> None:
        with self._errors():
            for name in self._redis.scan_iter(f"{self._PREFIX}*"):
                self._redis.delete(name)


def _shelf(place: Path | str, ttl: float, max_entries: int) -> _Shelf:
    if isinstance(place, str) and place.startswith(_SCHEMES):
        return _RedisShelf(place, ttl)
    return _FileShelf(Path(place), ttl, max_entries)


class ResponseCache:
    """Answers by request."""

    def __init__(
        self, place: Path | str, *, ttl: float = _HOUR, max_entries: int = _MOST_FILES, sealer: Sealer | None = None
    ) -> None:
        """In a folder or a Redis (``redis://…``). With a ``sealer`` the answers are sealed, and named so that nobody
        can tell what was asked."""
        self._shelf = _shelf(place, ttl, max_entries)
        self._sealer = sealer
        self._ttl = ttl

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
            found = self._shelf.get(key)
            if found is None:
                return None
            kept = jsonio.decode(self._opened(key, found))
            if 0 <= time.time() - kept["made_at"] <= self._ttl:
                calls = tuple({name: str(call[name]) for name in ("id", "name", "arguments")} for call in kept["calls"])
                finish, said = str(kept["finish"]), dict(kept["fields"])
                return ModelAnswer(str(kept["text"]), calls, finish=finish, fields=said, is_kept=True)
        except (ValueError, TypeError, KeyError, DamagedStore, StorageError) as error:
            logger.warning("a kept answer could not be read: %s", error)
        self._shelf.drop(key)
        return None

    def put(self, key: str, answer: ModelAnswer, redactor: Redactor) -> None:
        """Keep an answer; no call fails because of it."""
        kept: dict[str, Any] = {"made_at": time.time(), "text": answer.text, "calls": answer.calls}
        kept |= {"finish": answer.finish, "fields": dict(answer.fields)}
        if redactor.clean(kept) is not kept:
            return
        try:
            content = jsonio.encode(kept)
            self._shelf.put(key, content if self._sealer is None else self._sealer.seal_file(f"answer {key}", content))
        except StorageError as error:
            logger.warning("an answer could not be kept: %s", error)

    def _opened(self, key: str, content: bytes) -> bytes:
        return content if self._sealer is None else self._sealer.open_file(f"answer {key}", content)


class LLMResponseCache:
    """Answers of a model by what it was asked, for programs that ask it themselves.

    ``cache_backend`` is a folder, a Redis (``redis://…``), or an object with ``get(key)`` and ``set(key, value,
    ttl=seconds)``, to which the secrets of an answer are the caller's business.
    """

    def __init__(self, cache_backend: Any, *, ttl: float = _HOUR) -> None:
        self.cache: Any = cache_backend
        self._ttl = ttl
        self._kept = ResponseCache(cache_backend, ttl=ttl) if isinstance(cache_backend, str | Path) else None

    def get_cached_response(self, messages: Iterable[Mapping[str, Any]], model: str) -> str | None:
        """What the model said to just this, if that is not too long ago."""
        key = self._compute_cache_key(messages, model)
        if self._kept is not None:
            found = self._kept.get(key)
            return None if found is None else found.text
        got = self.cache.get(key)
        return got.decode() if isinstance(got, bytes) else got

    def cache_response(self, messages: Iterable[Mapping[str, Any]], model: str, response: str) -> None:
        """Keep an answer."""
        key = self._compute_cache_key(messages, model)
        if self._kept is not None:
            self._kept.put(key, ModelAnswer(response), Redactor(b""))
        else:
            self.cache.set(key, response, ttl=round(self._ttl))

    @staticmethod
    def _compute_cache_key(messages: Iterable[Mapping[str, Any]], model: str) -> str:
        asked = jsonio.encode({"model": model, "messages": [dict(message) for message in messages]})
        return hashlib.sha256(asked).hexdigest()
