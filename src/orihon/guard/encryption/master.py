"""Master keys: where they come from. Nothing of one is ever written, shown or logged; it is named by a fingerprint.

A source is ``file:PATH``, ``env:NAME``, ``keyring:SERVICE/NAME`` or ``command:PROGRAM ARGUMENTS…`` (no shell). What it
gives is 32 bytes as 64 hexadecimal digits or as base64. A file that others may read is refused.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
import shlex
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orihon.errors import KeyUnavailable
from orihon.guard.encryption.sealer import KEY_BYTES, fingerprint
from orihon.settings import EncryptionSettings
from orihon.system.files import make_private_folder, open_private, wrapping

_HEX = re.compile(r"[0-9A-Fa-f]{64}")
_COMMAND_SECONDS = 60.0
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
            run = subprocess.run(arguments, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=True)
        except (ValueError, OSError, subprocess.SubprocessError) as error:
            # Not the command's output: it may be the key.
            code = getattr(error, "returncode", None)
            detail = f"exit code {code}" if code is not None else type(error).__name__
            raise KeyUnavailable("unreadable", source=source, detail=detail) from error
        _ASKED[source] = run.stdout.decode("ascii", "replace")
    return _ASKED[source]
