"""``Sealer``: bytes that only the holder of a task's data key can read, bound to the place where they belong.

AES-256-GCM with a random nonce for each piece. The task, the place (a stream, a file, a column), the number there and
the version of this form are associated data: what was changed, exchanged or moved does not open, and says so. Nothing
is cached and nothing is written here. The library that ciphers is loaded when the first key is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from typing import TYPE_CHECKING

from orihon.errors import DamagedStore, InvalidSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: The form in which things are sealed; part of what is authenticated.
VERSION = 1
KEY_BYTES = 32
_NONCE_BYTES = 12
#: What a sealed file begins with, and what a sealed text in a database does.
FILE_MARK = b"orihon-sealed-1\n"
TEXT_MARK = "orihon-sealed-1:"
_RECORD = re.compile(rb'\{"(?:seq|id)":([0-9]{1,18}),"sealed":"')


def cipher(key: bytes) -> AESGCM:
    """The cipher for a key; ``InvalidSettings`` where the library is missing."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise InvalidSettings("encryption_extra", extra="encryption") from error
    return AESGCM(key)


class Sealer:
    """Seals and opens what belongs to one task."""

    __slots__ = ("_cipher", "_names", "_prefix", "task")

    def __init__(self, data_key: bytes, task: str) -> None:
        self.task = task
        self._cipher = cipher(data_key)
        self._prefix = b"orihon\0%d\0%s\0" % (VERSION, task.encode("utf-8", "surrogatepass"))
        self._names = hmac.digest(data_key, b"orihon blob names", "sha256")

    # ---- bytes -------------------------------------------------------------------------------------------------

    def seal(self, place: str, number: int, plain: bytes) -> bytes:
        """Nonce, ciphertext and tag, for this place and number."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, self._bound(place, number))

    def open(self, place: str, number: int, sealed: bytes) -> bytes:
        """What was sealed for this place and number; ``DamagedStore`` for anything else."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bound(place, number))
        except (InvalidTag, ValueError) as error:
            raise DamagedStore("sealed", task=self.task, place=place, number=number) from error

    # ---- records, files and texts ------------------------------------------------------------------------------

    def seal_record(self, stream: str, field: str, number: int, record: bytes) -> bytes:
        """A record as another record: its number, and the rest of it sealed."""
        return b'{"%s":%d,"sealed":"%s"}' % (
            field.encode(),
            number,
            base64.b64encode(self.seal(stream, number, record)),
        )

    def open_record(self, stream: str, line: bytes) -> bytes:
        """The record back; the number that it says it has is part of what was sealed."""
        head = _RECORD.match(line)
        if head is None or not line.endswith(b'"}'):
            raise DamagedStore("sealed", task=self.task, place=stream, number=line[:24].decode("ascii", "replace"))
        number = int(head[1])
        return self.open(stream, number, self._decoded(line[head.end() : -2], stream, number))

    def seal_file(self, name: str, content: bytes) -> bytes:
        """The content of a file of this name."""
        return FILE_MARK + self.seal(f"file {name}", 0, content)

    def open_file(self, name: str, content: bytes) -> bytes:
        """The content back."""
        if not is_sealed_file(content):
            raise DamagedStore("sealed", task=self.task, place=name, number=0)
        return self.open(f"file {name}", 0, content[len(FILE_MARK) :])

    def seal_text(self, place: str, text: str) -> str:
        """A text as another text, for a column."""
        return TEXT_MARK + base64.b64encode(self.seal(place, 0, text.encode("utf-8", "surrogatepass"))).decode()

    def open_text(self, place: str, text: str) -> str:
        """The text back."""
        raw = self._decoded(text.removeprefix(TEXT_MARK).encode("utf-8", "replace"), place, 0)
        return self.open(place, 0, raw).decode("utf-8", "surrogatepass")

    def has_key_of(self, other: Sealer) -> bool:
        """Does what the other one sealed open here as it is?"""
        return (self.task, self._names) == (other.task, other._names)

    def blob_name(self, digest: str) -> str:
        """What the content with this SHA-256 is called on the disk: the name tells nobody what is in it."""
        return hmac.digest(self._names, digest.encode(), "sha256").hex()

    def _bound(self, place: str, number: int) -> bytes:
        return b"%s%s\0%d" % (self._prefix, place.encode("utf-8", "surrogatepass"), number)

    def _decoded(self, encoded: bytes, place: str, number: int) -> bytes:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise DamagedStore("sealed", task=self.task, place=place, number=number) from error


def is_sealed_record(line: bytes) -> bool:
    """Is this a record that was sealed? A plain one has other fields after its number."""
    return _RECORD.match(line) is not None


def is_sealed_file(content: bytes) -> bool:
    """Is this the content of a file that was sealed?"""
    return content.startswith(FILE_MARK)


def is_sealed_text(value: object) -> bool:
    """Is this a text that was sealed?"""
    return isinstance(value, str) and value.startswith(TEXT_MARK)


def fingerprint(secret: bytes) -> str:
    """A name for a key that tells nothing about it."""
    return hashlib.sha256(b"orihon key id\0" + secret).hexdigest()[:16]
