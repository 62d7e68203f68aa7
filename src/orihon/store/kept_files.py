"""Kept files that would be missed, and how damage to them is noticed.

A JSON file of ours carries its check in itself (``stamped``). Of a text, ``digests.json`` has the SHA-256: of the one
that is being written, before it is, and until then of the one that it replaces (empty where there was none), so that a
crash in between is no damage.
"""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Mapping
from typing import Any

from orihon.errors import DamagedStore
from orihon.store.contract import RecordStore
from orihon.store.record_check import FIELD
from orihon.system import jsonio

logger = logging.getLogger("orihon.store")

DIGESTS = "digests.json"


def stamped(fields: Mapping[str, Any]) -> bytes:
    """A JSON file for people, with the check of what it says in front."""
    return jsonio.encode_pretty({FIELD: _check(fields), **fields})


def fields_in(raw: bytes) -> dict[str, Any] | None:
    """What such a file says; ``None`` when it is damaged. One that was written without a check is taken as it is."""
    try:
        fields = jsonio.decode(raw)
    except ValueError:
        return None
    if not isinstance(fields, dict) or not fields:
        return None
    first = next(iter(fields))
    rest = {name: value for name, value in fields.items() if name != first}
    fits = fields[first] == _check(rest)
    if first == FIELD:
        return rest if fits else None
    return None if fits or FIELD in fields else fields  # the check may have lost its name


def keep_with_digest(records: RecordStore, name: str, content: bytes) -> None:
    """Keep a text that is to be read as it was written, or not at all."""
    before = records.kept_file(name)
    known = [_digest(content), _digest(before)]
    records.keep_file(DIGESTS, stamped({**_digests(records), name: known}))
    records.keep_file(name, content)
    records.keep_file(DIGESTS, stamped({**_digests(records), name: known[:1]}))


def intact_file(records: RecordStore, name: str) -> bytes | None:
    """The text, if there is one; ``DamagedStore`` when it is not what was written."""
    content = records.kept_file(name)
    if _digest(content) not in _digests(records).get(name, [_digest(content)]):
        raise DamagedStore("file", path=records.folder / name)
    return content


def trusted_file(records: RecordStore, name: str) -> bytes | None:
    """The same for who goes on without it: one that is not what was written is said in the log, and not given."""
    try:
        return intact_file(records, name)
    except DamagedStore as error:
        logger.warning("%s", error)
        return None


def are_digests_damaged(records: RecordStore) -> bool:
    """Is there a ``digests.json`` that says nothing any more?"""
    raw = records.kept_file(DIGESTS)
    return raw is not None and fields_in(raw) is None


def has_digest(records: RecordStore, name: str) -> bool:
    """Is a kept file one of those?"""
    return name in _digests(records)


def _digests(records: RecordStore) -> dict[str, Any]:
    raw = records.kept_file(DIGESTS)
    return {} if raw is None else fields_in(raw) or {}


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _check(fields: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(jsonio.encode(fields)):08x}"
