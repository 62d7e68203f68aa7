"""Telemetry counters of a process: what has happened, counted for the metrics until it is in the catalogue.

A series is named as Prometheus writes it, ``family{label="value"}``, which is also its name in the catalogue. Owns the
names of all series that processes count, and the limits of the durations. Promises: counting is a few dictionary
operations and never fails; memory follows the number of series, which is bounded because labels are (roles, models,
strategies; never task ids or texts). Histograms are counted into single buckets, their sums in microseconds.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping

MESSAGES = "context_messages_total"
SUMMARIES = "context_summaries_total"
COMPRESSION_SECONDS = "context_compression_duration_seconds"
COMPRESSION_FAILURES = "context_compression_failures_total"
MODEL_CALLS = "orihon_model_calls_total"
MODEL_ERRORS = "orihon_model_errors_total"
MODEL_TOKENS = "orihon_model_tokens_total"
MODEL_SECONDS = "orihon_model_call_duration_seconds"
SAVED_TOKENS = "orihon_saved_tokens_total"
PROXY_REQUESTS = "orihon_proxy_requests_total"
TOOL_CALLS = "orihon_tool_calls_total"
LOCK_ERRORS = "orihon_lock_errors_total"
TOOL_SECONDS = "orihon_tool_call_duration_seconds"

#: Upper limits of the buckets, in seconds: from a fold without a model to an answer that takes minutes.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
MICROSECONDS = 1_000_000

_LONGEST_LABEL = 120
_WRITTEN = {"\\": r"\\", '"': r"\"", "\n": r"\n"}
#: No reader of metrics needs them, and PostgreSQL keeps no NUL.
_CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_ESCAPES = str.maketrans(_CONTROLS | {ord(each): written for each, written in _WRITTEN.items()})


def series(family: str, labels: Mapping[str, str]) -> str:
    """A series as Prometheus writes it."""
    if not labels:
        return family
    written = ",".join(f'{name}="{label(value)}"' for name, value in labels.items())
    return f"{family}{{{written}}}"


def label(value: str) -> str:
    """A label's value: short, and escaped."""
    return value[:_LONGEST_LABEL].encode("utf-8", "replace").decode().translate(_ESCAPES)


class Counts:
    """Figures on their way to the catalogue. Safe for several threads."""

    def __init__(self) -> None:
        self._added: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, family: str, amount: int = 1, **labels: str) -> None:
        """So many more."""
        self.give_back({series(family, labels): amount})

    def observe(self, family: str, seconds: float) -> None:
        """Something has taken so long."""
        place = bisect_left(BOUNDS, seconds)
        limit = f"{BOUNDS[place]:g}" if place < len(BOUNDS) else "+Inf"
        took = round(max(seconds, 0.0) * MICROSECONDS)
        self.give_back({series(f"{family}_bucket", {"le": limit}): 1, f"{family}_sum": took})

    def take(self) -> dict[str, int]:
        """Everything since the last time."""
        with self._lock:
            taken, self._added = self._added, {}
        return taken

    def give_back(self, amounts: Mapping[str, int]) -> None:
        """What was taken and could not be written."""
        with self._lock:
            for name, amount in amounts.items():
                if amount:
                    self._added[name] = self._added.get(name, 0) + amount
