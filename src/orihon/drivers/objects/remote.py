"""S3, Google Cloud Storage, Azure and what speaks like them, through ``obstore``.

Credentials come from the provider's usual environment variables. ``obstore``'s errors are wrapped here, once; what is
told of them is the status and the provider's code, because the rest may hold addresses with signatures.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orihon.drivers.objects import CHUNK, MOST_READ_WHOLE, ObjectContent, ObjectInfo, ObjectStorage, check_key
from orihon.errors import InvalidSettings, StorageError, StorageUnavailable
from orihon.system.files import wrapping

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: Larger files go up in parts, which no provider can do on condition: see ``_create_in_parts``.
_ONE_PIECE = 8 << 20
_PARTS_AT_ONCE = 4

_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_DENIED = ("401", "403")

# The driver's threads do not come along into a forked child: a call there would wait for ever.
_used_in: set[int] = set()


class RemoteStorage(ObjectStorage):
    """Objects in a bucket, below the path of its address."""

    def __init__(self, url: str, endpoint: str | None = None) -> None:
        self.place = _without_secrets(url)
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise InvalidSettings("object_extra", scheme=urlsplit(url).scheme, extra="s3") from error
        self._api = obstore
        self._errors = BaseError
        try:
            self._store: ObjectStore = from_url(url, **_options(url, endpoint))
        except (BaseError, ValueError) as error:
            raise InvalidSettings("object_address", url=self.place) from error

    def create(self, key: str, source: Path | bytes) -> ObjectInfo:
        check_key(key)
        if isinstance(source, Path):
            with wrapping(source):
                size = source.stat().st_size
                if size > _ONE_PIECE:
                    return self._create_in_parts(key, source, size)
                source = source.read_bytes()
        with self._wrapping(key):
            stored = self._api.put(self._store, key, source, mode="create", use_multipart=False)
        return ObjectInfo(key, len(source), stored["e_tag"] or "")

    def _create_in_parts(self, key: str, source: Path, size: int) -> ObjectInfo:
        """Parts go to a name of their own; the copy from there is what refuses an object that is there already."""
        own = f"{key}.{secrets.token_hex(8)}"
        try:
            with self._wrapping(key):
                self._api.put(self._store, own, source, chunk_size=_ONE_PIECE, max_concurrency=_PARTS_AT_ONCE)
                self._api.copy(self._store, own, key, overwrite=False)
        finally:
            with suppress(StorageError):
                self.delete(own)
        found = self.info(key)
        if found is None or found.size != size:
            raise StorageUnavailable("object_changed", key=key, place=self.place)
        return found

    def replace(self, key: str, data: bytes, etag: str | None = None) -> ObjectInfo:
        check_key(key)
        with self._wrapping(key):
            if etag is None:
                stored = self._api.put(self._store, key, data, use_multipart=False)
            else:
                stored = self._api.put(self._store, key, data, mode={"e_tag": etag}, use_multipart=False)
        return ObjectInfo(key, len(data), stored["e_tag"] or "")

    def read(self, key: str) -> ObjectContent:
        check_key(key)
        with self._wrapping(key):
            got = self._api.get(self._store, key)
            meta = got.meta
            if meta["size"] > MOST_READ_WHOLE:
                raise StorageUnavailable("object_large", key=key, place=self.place, size=meta["size"])
            return ObjectContent(bytes(got.bytes()), meta["e_tag"] or "")

    def chunks(self, key: str) -> Iterator[bytes]:
        check_key(key)
        with self._wrapping(key):
            for chunk in self._api.get(self._store, key).stream(CHUNK):
                yield bytes(chunk)

    def info(self, key: str) -> ObjectInfo | None:
        check_key(key)
        try:
            with self._wrapping(key):
                meta = self._api.head(self._store, key)
        except StorageUnavailable as error:
            if error.reason == "object_gone":
                return None
            raise
        return ObjectInfo(key, meta["size"], meta["e_tag"] or "")

    def names(self, prefix: str) -> Iterator[str]:
        check_key(prefix)
        with self._wrapping(prefix):
            for page in self._api.list(self._store, prefix):
                yield from (meta["path"] for meta in page)

    def delete(self, key: str) -> None:
        check_key(key)
        try:
            with self._wrapping(key):
                self._api.delete(self._store, key)
        except StorageUnavailable as error:
            if error.reason != "object_gone":
                raise

    @contextmanager
    def _wrapping(self, key: str) -> Iterator[None]:
        if _used_in and os.getpid() not in _used_in:
            raise StorageUnavailable("object_forked", key=key, place=self.place)
        _used_in.add(os.getpid())
        try:
            yield
        except (self._errors, FileNotFoundError, TimeoutError, ConnectionError) as error:
            told = _told(str(error))
            raise StorageUnavailable(_reason(error), key=key, place=self.place, detail=told) from error


def _reason(error: Exception) -> str:
    """Which of our reasons an error of ``obstore`` is."""
    said, kind = str(error), type(error).__name__
    if any(mark in said for mark in _NO_BUCKET):
        return "no_bucket"
    if isinstance(error, FileNotFoundError):
        return "object_gone"
    status = _STATUS.search(said)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or (status and status[1] in _DENIED):
        return "object_denied"
    return {"AlreadyExistsError": "object_exists", "PreconditionError": "object_changed"}.get(
        kind, "object_unreachable"
    )


def _told(said: str) -> str:
    """What may be repeated of an error's text."""
    status, code = _STATUS.search(said), _CODE.search(said)
    told = [f"HTTP {status[1]}"] if status else []
    told += [code[1]] if code else []
    if not told and "credential" in said.lower():
        told = ["no credentials"]
    return " ".join(told) or "no answer"


def _options(url: str, endpoint: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        # A large object takes as long as it takes; a connection that has gone silent does not.
        "client_options": {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "6h"},
        "retry_config": {"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
    }
    scheme = urlsplit(url).scheme
    if scheme == "s3":
        options["copy_if_not_exists"] = "multipart"
        options["virtual_hosted_style_request"] = endpoint is None
    if endpoint is not None:
        options["base_url" if scheme == "gs" else "endpoint"] = endpoint
        options["client_options"]["allow_http"] = endpoint.startswith("http://")
    return options


def _without_secrets(url: str) -> str:
    place = urlsplit(url)
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"
