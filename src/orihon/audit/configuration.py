"""Which settings have changed since the last run that read the same configuration.

Kept beside the chains: for each file that settings came from, a digest of each value that was set. Values are compared
as they are shown, so that a secret leaves no trace here; that one was exchanged is not noticed. What was typed on one
command line is not part of the configuration.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orihon.audit.record import canonical
from orihon.audit.sink import AuditSink
from orihon.settings import Settings, schema

_NAME = "settings"
_MOST_PLACES = 32
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """The keys whose values differ; ``keep`` keeps what is in force now for the next time."""

    settings: Settings
    keys: list[str]
    keep: Callable[[], None]


def change_of_settings(sink: AuditSink, settings: Settings) -> SettingsChange:
    """How the settings differ from those of the last run with the same configuration; keeps nothing yet."""
    place, digests = _digests(settings)
    kept: dict[str, Any] = sink.load(_NAME) or {}
    before = kept.get(place)
    before = before if isinstance(before, dict) else {}
    keys = sorted(key for key in {*before, *digests} if before.get(key) != digests.get(key))

    def keep() -> None:
        if kept.get(place) == digests:
            return
        others = [(each, known) for each, known in kept.items() if each != place]
        sink.save(_NAME, {**dict(others[-(_MOST_PLACES - 1) :]), place: digests})

    return SettingsChange(settings, keys, keep)


def _digests(settings: Settings) -> tuple[str, dict[str, str]]:
    """Where the settings come from, and what they are."""
    values = settings.as_dict()
    places: set[str] = set()
    digests: dict[str, str] = {}
    for key in schema():
        origin = settings.origin(key)
        if origin in ("default", "flag"):
            continue
        if not origin.startswith("environment "):
            places.add(origin)
        digests[key] = hashlib.sha256(canonical(_leaf(values, key))).hexdigest()[:_DIGITS]
    return hashlib.sha256(canonical(sorted(places))).hexdigest()[:_DIGITS], digests


def _leaf(node: Any, key: str) -> Any:
    for name in key.split("."):
        node = node[name]
    return node
