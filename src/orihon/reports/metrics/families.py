"""The metrics by name: kind, meaning, labels; and how they are written as Prometheus reads them.

Names that begin with ``context_`` are those of the first design. Labels are bounded: a task's id only stands at tasks
that are being worked on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from orihon.system import counters as counts
from orihon.system.counters import BOUNDS, MICROSECONDS, series

MetricKind = Literal["counter", "gauge", "histogram"]

#: The label of everything that belongs to no task at work.
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    #: Labels that are there from the beginning with 0, so that their rate is known when they first grow.
    expected: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure. ``series`` is its name with labels, as it stands in the output."""

    family: str
    series: str
    value: float

    @classmethod
    def of(cls, family: str, value: float, **labels: str) -> Sample:
        return cls(family, series(family, labels), value)


#: A metric without labels that nobody has counted yet stands at 0.
_ZERO: tuple[tuple[str, ...], ...] = ((),)

FAMILIES: tuple[Family, ...] = (
    Family(counts.MESSAGES, "counter", "Messages stored by tasks at work.", ("task_source", "role")),
    Family(counts.SUMMARIES, "counter", "Folds made by compressions.", ("task_source",)),
    Family("context_db_size_bytes", "gauge", "Bytes of a task at work; other: everything else.", ("task_id",)),
    Family(counts.COMPRESSION_SECONDS, "histogram", "Time that a compression took, its model included."),
    Family(
        counts.COMPRESSION_FAILURES,
        "counter",
        "Compressions that ended with an error, or whose model gave no text that could be used.",
        ("reason",),
        (("error",), ("model",)),
    ),
    Family("orihon_tasks", "gauge", "Tasks by status.", ("status",)),
    Family("orihon_queue_tasks", "gauge", "Tasks in line: waiting, put off for later, to be resumed.", ("state",)),
    Family("orihon_leases", "gauge", "Leases on tasks; the owner of a stale one is gone.", ("state",)),
    Family("orihon_lease_remaining_seconds", "gauge", "How long the lease of a task at work holds.", ("task_id",)),
    Family("orihon_take_overs_total", "counter", "Tasks taken over from a worker that was gone.", (), _ZERO),
    Family(counts.LOCK_ERRORS, "counter", "Times that a database was found locked.", (), _ZERO),
    Family("orihon_workers", "gauge", "Workers by state.", ("state",)),
    Family("orihon_context_usage_ratio", "gauge", "View of a task at work by the model's window.", ("task_id",)),
    Family("orihon_durable_write_age_seconds", "gauge", "Time since a task at work last wrote.", ("task_id",)),
    Family("orihon_disk_free_bytes", "gauge", "Free bytes on the disk of the base folder."),
    Family(counts.MODEL_CALLS, "counter", "Calls of models.", ("model", "purpose")),
    Family(counts.MODEL_ERRORS, "counter", "Calls of models that ended with an error.", ("model", "kind")),
    Family(counts.MODEL_TOKENS, "counter", "Tokens of calls; cached ones are among the input.", ("model", "kind")),
    Family("orihon_model_cost_total", "counter", "Cost of those tokens at the prices of the settings.", ("model",)),
    Family(counts.MODEL_SECONDS, "histogram", "Time until a model had answered, attempts included."),
    Family(counts.SAVED_TOKENS, "counter", "Tokens that folding has kept from being sent (estimate).", (), _ZERO),
    Family(counts.PROXY_REQUESTS, "counter", "Requests through the proxy, by what the model got.", ("view",)),
    Family(counts.TOOL_CALLS, "counter", "Calls of tools.", ("status",), (("success",), ("error",))),
    Family(counts.TOOL_SECONDS, "histogram", "Time that a call of a tool took."),
    Family("orihon_scrape_duration_seconds", "gauge", "Time that collecting these figures took."),
    Family("orihon_build_info", "gauge", "The version that collects.", ("version",)),
)


def counted(counters: Mapping[str, int]) -> Iterator[Sample]:
    """The samples of everything that processes count, from the catalogue's counters."""
    for family in FAMILIES:
        if family.kind == "histogram":
            yield from _histogram(family.name, counters)
        elif family.kind == "counter":
            yield from _counter(family, counters)


def _counter(family: Family, counters: Mapping[str, int]) -> Iterator[Sample]:
    zeros = [series(family.name, dict(zip(family.labels, values, strict=True))) for values in family.expected]
    found = {name: value for name, value in counters.items() if name.partition("{")[0] == family.name}
    for name, value in sorted((dict.fromkeys(zeros, 0) | found).items()):
        yield Sample(family.name, name, value)


def _histogram(name: str, counters: Mapping[str, int]) -> Iterator[Sample]:
    total = 0
    for bound in (*(f"{bound:g}" for bound in BOUNDS), "+Inf"):
        bucket = series(f"{name}_bucket", {"le": bound})
        total += counters.get(bucket, 0)
        yield Sample(name, bucket, total)
    yield Sample(name, f"{name}_sum", counters.get(f"{name}_sum", 0) / MICROSECONDS)
    yield Sample(name, f"{name}_count", total)


def written(samples: Iterable[Sample]) -> str:
    """The text that Prometheus reads; families in the order of the table, also those without a sample."""
    by_family: dict[str, list[Sample]] = {}
    for sample in samples:
        by_family.setdefault(sample.family, []).append(sample)
    lines: list[str] = []
    for family in FAMILIES:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        lines += [f"{sample.series} {_figure(sample.value)}" for sample in by_family.get(family.name, ())]
    return "\n".join(lines) + "\n"


def _figure(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(round(value, 9))
    return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
