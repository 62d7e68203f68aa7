"""``Sealer``: bytes that only the holder of a task's data key can read, bound to the place where they belong.

AES-256-GCM with a random nonce for each piece. The task, the place (a stream, a file, a column), the number there and
the version of this form are associated data: what was changed, exchanged or moved does not open, and says so. Nothing
is cached and nothing is written here. The library that ciphers is loaded when the first key is used.

Master keys: where they come from. Nothing of one is ever written, shown or logged; it is named by a fingerprint.

A source is ``file:PATH``, ``env:NAME``, ``keyring:SERVICE/NAME`` or ``command:PROGRAM ARGUMENTS…`` (no shell). What it
gives is 32 bytes as 64 hexadecimal digits or as base64. A file that others may read is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import shlex
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orihon.errors import DamagedStore, InvalidSettings, KeyUnavailable
from orihon.settings.model import schema
from orihon.settings.remote_sections import EncryptionSettings
from orihon.system.files import make_private_folder, open_private, wrapping
from orihon.system.processes import run_guarded

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: The form in which things are sealed; part of what is authenticated.
VERSION = 1
KEY_BYTES = 32
_NONCE_BYTES = 12
#: What a sealed file begins with, and what a sealed text in a database does.
FILE_MARK = b"orihon-sealed-1\n"
#: Texts that are bound to their row have the second one; earlier versions bound them to the column alone.
TEXT_MARK = "orihon-sealed-"
OLD_TEXT, BOUND_TEXT = f"{TEXT_MARK}1:", f"{TEXT_MARK}2:"
#: A record that was sealed; the store gives it a check, which is not ours to look at.
_RECORD = re.compile(rb'\{"(?:seq|id)":([0-9]{1,18}),(?:"crc32":"[0-9a-f]{8}",)?"sealed":"')


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

    @staticmethod
    def seal_of(line: bytes) -> tuple[int, str]:
        """The number of a sealed record, and what no other sealing has: its nonce."""
        head = _RECORD.match(line)
        if head is None:
            return 0, ""
        return int(head[1]), line[head.end() : head.end() + _NONCE_BYTES * 4 // 3].decode("ascii", "replace")

    def seal_file(self, name: str, content: bytes) -> bytes:
        """The content of a file of this name."""
        return FILE_MARK + self.seal(f"file {name}", 0, content)

    def open_file(self, name: str, content: bytes) -> bytes:
        """The content back."""
        if not is_sealed_file(content):
            raise DamagedStore("sealed", task=self.task, place=name, number=0)
        return self.open(f"file {name}", 0, content[len(FILE_MARK) :])

    def seal_text(self, column: str, row: str, text: str) -> str:
        """A text as another text, for a column of one row."""
        sealed = self.seal(f"{column} of {row}", 0, text.encode("utf-8", "surrogatepass"))
        return BOUND_TEXT + base64.b64encode(sealed).decode()

    def open_text(self, column: str, row: str, text: str) -> str:
        """The text back; one of an earlier version opens in its column, in whichever row."""
        mark, place = (OLD_TEXT, column) if is_old_text(text) else (BOUND_TEXT, f"{column} of {row}")
        raw = self._decoded(text.removeprefix(mark).encode("utf-8", "replace"), place, 0)
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
    return isinstance(value, str) and value.startswith((OLD_TEXT, BOUND_TEXT))


def is_old_text(value: str) -> bool:
    """Is this one that an earlier version has sealed, bound to no row?"""
    return value.startswith(OLD_TEXT)


def fingerprint(secret: bytes) -> str:
    """A name for a key that tells nothing about it."""
    return hashlib.sha256(b"orihon key id\0" + secret).hexdigest()[:16]


_HEX = re.compile(r"[0-9A-Fa-f]{64}")
_COMMAND_SECONDS = 60.0
_OURS = {"USER_CONFIG_API_KEY"}  # keys that no setting names
#: Keys that a command or a keyring gave: people may have been asked for a password.
_ASKED: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class MasterKey:
    """One master key."""

    id: str
    source: str
    secret: bytes = field(repr=False)


class MasterKeys:
    """The current master key, and former ones that still open what they wrapped."""

    def __init__(self, current: MasterKey, former: Sequence[str] = ()) -> None:
        self.current = current
        self._former = tuple(former)

    def find(self, key_id: str) -> MasterKey | None:
        """A key by its fingerprint; former ones are fetched only when one is asked for."""
        return next((key for key in (self.current, *map(read_master_key, self._former)) if key.id == key_id), None)

    def ids(self) -> list[str]:
        """The fingerprints of all."""
        return [self.current.id, *(read_master_key(source).id for source in self._former)]


def master_keys(encryption: EncryptionSettings) -> MasterKeys | None:
    """The master keys that the settings name; ``None`` where they name none and want none."""
    if encryption.key is None:
        if encryption.enabled:
            raise KeyUnavailable("no_source")
        return None
    return MasterKeys(read_master_key(encryption.key), encryption.former_keys)


def read_master_key(source: str) -> MasterKey:
    """The key that a source gives."""
    kind, _, place = source.partition(":")
    readers = {"file": _from_file, "env": _from_environment, "keyring": _from_keyring, "command": _from_command}
    if kind not in readers or not place:
        raise KeyUnavailable("bad_source", source=source)
    secret = _parsed(readers[kind](place, source), source)
    return MasterKey(fingerprint(secret), source, secret)


def write_new_key(path: Path) -> str:
    """A new key in a new file for the owner only; returns its fingerprint. A file that is there is left alone."""
    make_private_folder(path.parent)
    secret = secrets.token_bytes(KEY_BYTES)
    with wrapping(path):
        try:
            fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError as error:
            raise KeyUnavailable("file_exists", path=path) from error
        with os.fdopen(fd, "wb") as file:
            file.write(secret.hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    return fingerprint(secret)


def _parsed(text: str, source: str) -> bytes:
    word = text.strip()
    if _HEX.fullmatch(word):
        return bytes.fromhex(word)
    try:
        secret = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise KeyUnavailable("bad_key", source=source)
    return secret


def _from_file(place: str, source: str) -> str:
    path = Path(place).expanduser()
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise KeyUnavailable("open_to_others", path=path)
            return file.read(1024).decode("ascii", "replace")
    except OSError as error:
        raise KeyUnavailable("unreadable", source=source, detail=error.strerror or str(error)) from error


def _from_environment(place: str, source: str) -> str:
    if place not in os.environ:
        raise KeyUnavailable("not_set", name=place)
    return os.environ[place]


def _from_keyring(place: str, source: str) -> str:
    if source not in _ASKED:
        try:
            import keyring
            from keyring.errors import KeyringError
        except ImportError as error:
            raise KeyUnavailable("keyring_extra", source=source) from error
        service, _, name = place.partition("/")
        try:
            found = keyring.get_password(service, name)
        except KeyringError as error:
            raise KeyUnavailable("unreadable", source=source, detail=str(error)) from error
        if found is None:
            raise KeyUnavailable("not_in_keyring", service=service, name=name)
        _ASKED[source] = found
    return _ASKED[source]


def _from_command(place: str, source: str) -> str:
    if source not in _ASKED:
        try:
            arguments = shlex.split(place)
            ours = {name for row in schema().values() if row.secret for name in row.env} | _OURS  # not its business
            environment = {name: value for name, value in os.environ.items() if name not in ours}
            run = run_guarded(arguments, timeout=_COMMAND_SECONDS, at_terminal=True, env=environment)
            run.check_returncode()
        except (ValueError, OSError, subprocess.SubprocessError) as error:
            # Not the command's output: it may be the key.
            code = getattr(error, "returncode", None)
            detail = f"exit code {code}" if code is not None else type(error).__name__
            raise KeyUnavailable("unreadable", source=source, detail=detail) from error
        _ASKED[source] = run.stdout.decode("ascii", "replace")
    return _ASKED[source]
