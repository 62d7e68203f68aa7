"""The section of the settings about encryption at rest.

A part of the table in ``sections``; what is said there holds here too. A source says where a key is, never what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orihon.settings.kinds import FLAG, NAME_LIST, TEXT
from orihon.settings.sections import spec


@dataclass(frozen=True, slots=True)
class EncryptionSettings:
    """Encryption of what is kept on disk and in the database."""

    enabled: bool = field(default=False, metadata=spec(FLAG, "Seal new tasks, so that nothing plain reaches the disk."))
    key: str | None = field(
        default=None,
        metadata=spec(
            TEXT,
            "Where the master key is: `file:PATH`, `env:NAME`, `keyring:SERVICE/NAME` or `command:PROGRAM …`; it gives "
            "32 bytes as 64 hexadecimal digits or as base64. Also opens sealed tasks while `enabled` is off.",
        ),
    )
    former_keys: tuple[str, ...] = field(
        default=(),
        metadata=spec(NAME_LIST, "The same for master keys of earlier; `orihon keys rotate` makes them dispensable."),
    )
