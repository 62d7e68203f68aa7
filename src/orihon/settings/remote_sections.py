"""The sections of the settings that name other machines: database, broker, object storage, collector of traces.

A part of the table in ``sections``; what is said there holds here too. Addresses may carry passwords: they are secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orihon.settings.kinds import FLAG, TEXT, address, choice, identifier, whole
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
            identifier(reserved=("pg_", "information_schema")), "Schema that holds the tables; made if missing."
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
        ),
    )
    name: str = field(default="orihon_tasks", metadata=spec(identifier(), "Name of the queue at the broker."))


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
        metadata=spec(FLAG, "Spans have the texts of answers, arguments and results, too (masked)."),
    )
