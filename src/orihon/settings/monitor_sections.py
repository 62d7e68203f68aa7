"""The sections of the settings about what the monitor calls wrong, and what the history search may find."""

from __future__ import annotations

from dataclasses import dataclass, field

from orihon.settings.kinds import FLAG, number, whole
from orihon.settings.sections import spec

_COUNT = whole(0)
_AMOUNT = number(low=0)


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """From when on something is wrong with a base folder or a catalogue."""

    interval: float = field(
        default=60.0,
        metadata=spec(number(above=0), "Seconds between two looks of a `ContextMonitor` that is told none."),
    )
    min_free_gb: float = field(
        default=1.0, metadata=spec(_AMOUNT, "Fewest gigabytes that have to be free on the disk of the base folder.")
    )
    max_size_gb: float = field(default=10.0, metadata=spec(_AMOUNT, "Most gigabytes that the base folder may take."))
    old_days: int = field(default=30, metadata=spec(_COUNT, "Days after its end from which a task counts as old."))
    max_old: int = field(
        default=100, metadata=spec(_COUNT, "Most old tasks that may be there and neither archived nor removed.")
    )
    max_stale_leases: int = field(
        default=0, metadata=spec(_COUNT, "Most running tasks that may be without a live process.")
    )
    max_compression_failures: float = field(
        default=0.05,
        metadata=spec(number(low=0, high=1), "Largest share of compressions of a day that may fail."),
    )
    max_write_age: float = field(
        default=1800.0,
        metadata=spec(number(above=0), "Most seconds since the last durable write, while tasks are running."),
    )
    max_lock_errors: int = field(
        default=10, metadata=spec(_COUNT, "Most times in an hour that a database may be found locked.")
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """When the index of the history search is kept up to date, beside every search."""

    idle: bool = field(
        default=True, metadata=spec(FLAG, "Workers that have nothing to do read what is new into the search index.")
    )
    archived: bool = field(
        default=True,
        metadata=spec(FLAG, "Read a task into the search index before it is archived, so that it is found later."),
    )
