"""``mask.key``: the key that the placeholders of a base are made with, and beside it a copy that it is healed from.

Whichever of the two is damaged or gone is made again from the other one. A key that differs from its copy in a few
digits is damaged; one that differs all over was put there by somebody, and the copy follows it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import stat
from pathlib import Path

from orihon.errors import DamagedStore, StorageError
from orihon.system.files import create_file, keep_aside, make_way, replace_file, wrapping

logger = logging.getLogger("orihon.guard")

KEY_BYTES = 32
#: The file in a base that holds the key of its placeholders, and its copy: the key and the beginning of its SHA-256.
KEY_FILE = "mask.key"
KEY_COPY = f"{KEY_FILE}.copy"

_KEY = re.compile(rb"([0-9a-f]{64})\n?")
_COPY = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{16})\n")
# Two keys of 64 digits have four of them in common by chance; damage leaves nearly all.
_MOST_DAMAGED = 8


def load_key(base: Path) -> bytes:
    """The key of a base, in its folder; made when missing. Processes that start together agree on one."""
    path = base / KEY_FILE
    content, key, copy = _read(base)
    if content is None and copy is None:
        create_file(path, [secrets.token_hex(KEY_BYTES).encode("ascii"), b"\n"])
        content, key, copy = _read(base)
    if (key is None and copy is not None) or _is_damaged(key, copy):
        _put(path, content, [key := copy or b"", b"\n"])
        logger.warning("%s was damaged or missing; it is made again from its copy", path)
    if key is None:
        raise DamagedStore("mask_key", path=path)
    if copy != key:
        try:
            _put(base / KEY_COPY, copy, [key, b" ", _check(key), b"\n"])
        except StorageError as error:  # nothing fails without a copy
            logger.warning("%s has no copy: %s", path, error)
    return bytes.fromhex(key.decode("ascii"))


def key_trouble(base: Path) -> tuple[str, str] | None:
    """Which file is not as it must be: ``damaged``, where the other one is sound, or ``lost``. Nothing is changed."""
    content, key, copy = _read(base)
    if key is None and copy is None:
        return None if content is None else (KEY_FILE, "lost")
    if copy is None:
        return (KEY_COPY, "damaged") if os.path.lexists(base / KEY_COPY) else None
    return (KEY_FILE, "damaged") if key is None or _is_damaged(key, copy) else None


def _is_damaged(key: bytes | None, copy: bytes | None) -> bool:
    different = sum(one != other for one, other in zip(key or b"", copy or b"", strict=False))
    return 0 < different <= _MOST_DAMAGED


def _read(base: Path) -> tuple[bytes | None, bytes | None, bytes | None]:
    """What is in the key's file, the key, and the copy; ``None`` where there is none."""
    content, copied = _content(base / KEY_FILE), _COPY.fullmatch(_content(base / KEY_COPY) or b"")
    key = _KEY.fullmatch(content or b"")
    return content, key and key[1], copied[1] if copied and copied[2] == _check(copied[1]) else None


def _content(path: Path) -> bytes | None:
    """What the file holds; nothing, where something else stands there; ``None`` where there is nothing at all.

    In one look: a file that another process makes between two would seem to be none.
    """
    with wrapping(path):
        try:
            return path.read_bytes() if stat.S_ISREG(path.stat().st_mode) else b""
        except OSError as error:
            if path.is_symlink():  # that leads nowhere
                return b""
            if not isinstance(error, FileNotFoundError):
                raise
            return None


def _put(path: Path, former: bytes | None, pieces: list[bytes]) -> None:
    """Replace what stands there, and keep it aside."""
    make_way(path, path.parent)
    if former:
        keep_aside(path.parent, path.name, former)
    replace_file(path, pieces)


def _check(key: bytes) -> bytes:
    return hashlib.sha256(key).hexdigest()[:16].encode("ascii")
