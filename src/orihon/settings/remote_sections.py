"""The sections of the settings that name other machines: database, broker, object storage, collector of traces.

A part of the table in ``sections``; what is said there holds here too. Addresses may carry passwords: they are secrets.

The section of the settings about encryption at rest.

A part of the table in ``sections``; what is said there holds here too. A source says where a key is, never what it is.

The section of the settings about the audit: what is recorded, who acts, what is anchored outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from orihon.settings.kinds import (
    FLAG,
    NAME_LIST,
    PATH,
    SECRET,
    TEXT,
    URL,
    Reach,
    address,
    choice,
    identifier,
    number,
    whole,
)
from orihon.settings.sections import spec

_DAYS = whole(0)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """The database that several machines share."""

    url: str | None = field(
        default=None,
        repr=False,
        metadata=spec(
            address("postgresql", "postgres"),
            "Address of PostgreSQL: the catalogue is there instead of in `tasks.db`, and so are the messages unless "
            "`context_storage.backend` says otherwise; never shown.",
        ),
    )
    schema: str = field(
        default="orihon",
        metadata=spec(
            identifier(reserved=("pg_", "information_schema")),
            "Schema that holds the tables; made if missing.",
            reach=Reach.ADDRESS,
        ),
    )
    pool_size: int = field(default=8, metadata=spec(whole(1, 1000), "Most connections of one process."))


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The broker that wakes workers."""

    url: str | None = field(
        default=None,
        repr=False,
        metadata=spec(
            TEXT,
            "Address of a broker (`amqp://…`, `redis://…`, `sqs://…`) that tells workers of new tasks; unset: they "
            "look into the catalogue; never shown.",
            reach=Reach.ADDRESS,
        ),
    )
    name: str = field(
        default="orihon_tasks", metadata=spec(identifier(), "Name of the queue at the broker.", reach=Reach.ADDRESS)
    )


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """Packing of finished tasks."""

    enabled: bool = field(default=True, metadata=spec(FLAG, "Pack finished tasks."))
    threshold_days: int = field(default=7, metadata=spec(_DAYS, "Days from the end of a task until it is packed."))
    url: str | None = field(
        default=None,
        metadata=spec(
            address("s3", "gs", "az", "file"),
            "Object storage for packed tasks, such as `s3://bucket/prefix`; unset: `archive/` in the base folder.",
        ),
    )
    endpoint: str | None = field(
        default=None,
        metadata=spec(address("http", "https"), "Address of an object storage that is not the provider's own."),
    )
    mirror_every: int = field(
        default=0,
        metadata=spec(
            whole(0),
            "A running task's folder is copied to `archive.url` after so many messages, and when it pauses, so that "
            "another machine can go on with it; 0: never.",
        ),
    )
    format: str = field(
        default="zstd", metadata=spec(choice("zstd", "gzip", "bzip2", "xz"), "Format of the packed task.")
    )


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """OpenTelemetry spans of model calls, tools and compressions."""

    endpoint: str | None = field(
        default=None,
        metadata=spec(
            address("http", "https"),
            "Collector that spans are sent to by OTLP over HTTP, such as `http://127.0.0.1:4318`; unset: no spans.",
            env=("OTEL_EXPORTER_OTLP_ENDPOINT",),
        ),
    )
    content: bool = field(
        default=False,
        metadata=spec(FLAG, "Spans have the texts of answers, arguments and results, too (masked).", reach=Reach.GUARD),
    )


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
            reach=Reach.PROGRAM,
        ),
    )
    former_keys: tuple[str, ...] = field(
        default=(),
        metadata=spec(
            NAME_LIST,
            "The same for master keys of earlier; `orihon keys rotate` makes them dispensable.",
            reach=Reach.PROGRAM,
        ),
    )


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The audit: who did what to which task."""

    enabled: bool = field(
        default=True, metadata=spec(FLAG, "Record in the audit what is done; see `audit.md`.", reach=Reach.GUARD)
    )
    level: str = field(
        default="changes",
        metadata=spec(
            choice("changes", "all"),
            "`changes`: compressions, undo, approvals, exports, deletions, settings and the like. `all`: also every "
            "read and every message that is added.",
        ),
    )
    required: bool = field(
        default=False,
        metadata=spec(FLAG, "Refuse also reads and exports that cannot be recorded; changes always are."),
    )
    user: str | None = field(
        default=None,
        metadata=spec(
            TEXT, "Who acts where nobody has logged in; unset: the user of the operating system.", reach=Reach.GUARD
        ),
    )
    anchor_file: Path | None = field(
        default=None,
        metadata=spec(PATH, "File outside the base folder, for this one alone, to which heads of chains are added."),
    )
    anchor_webhook: str | None = field(
        default=None,
        repr=False,
        metadata=spec(URL, "Address to which heads of chains are posted; only scheme and host are ever shown."),
    )
    anchor_secret: str | None = field(
        default=None, repr=False, metadata=spec(SECRET, "Secret that these posts are signed with; unset: they are not.")
    )
    anchor_every: int = field(
        default=100,
        metadata=spec(whole(1), "Records of a chain after which its head is anchored again.", reach=Reach.LIMIT),
    )
    anchor_seconds: float = field(
        default=300.0,
        metadata=spec(number(low=0), "Seconds after which the next record is anchored in any case.", reach=Reach.LIMIT),
    )
    keep_days: int | None = field(
        default=None,
        metadata=spec(
            whole(1),
            "Days that records are kept, at least; unset: for ever. `orihon maintain` removes.",
            reach=Reach.GUARD,
        ),
    )

    @property
    def is_anchored(self) -> bool:
        """Shall heads of chains be kept outside?"""
        return self.anchor_file is not None or self.anchor_webhook is not None
