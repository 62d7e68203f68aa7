"""What a configuration says about a client and its calls.

Read as settings, or as the first design wrote it: the provider's fields at the top (``{"model": …, "base_url": …}``),
the task's folder and the thresholds among them. Such a mapping is read whole, or refused: a field that is not known
would else be left out without a word, and a model of one's own would be asked for at the provider's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.drivers.http import Timeouts
from orihon.errors import InvalidSettings
from orihon.llm.response_cache import ResponseCache, response_cache
from orihon.llm.retry import RateLimit, RetryPolicy
from orihon.settings import Settings, load_settings
from orihon.settings.model import names, section_names

if TYPE_CHECKING:
    from orihon.guard.sealer import Sealer
    from orihon.tasks.context import TaskContextManager

#: What the first design handed over beside the provider's own fields; here they have places of their own.
_MOVED = {
    "compression_threshold": ("compression", "threshold"),
    "min_messages_to_summarize": ("compression", "min_to_compress"),
    "max_memory_messages": ("context_storage", "max_memory_messages"),
}
_FOLDER = "context_dir"


def client_settings(
    config: Mapping[str, Any] | Settings | None, provider: str | None = None
) -> tuple[Settings, Path | str | None]:
    """The settings for a client (of this provider), and the task's folder where the configuration names one."""
    flags = {} if provider is None else {"llm.provider": provider}
    if not isinstance(config, Mapping):
        return load_settings(config, flags=flags), None
    llm = config.get("llm")
    named = llm.get("provider") if isinstance(llm, Mapping) else None
    changed, folder = _rearranged(config, provider or str(named or "openai"))
    return load_settings(changed, flags=flags), folder


def _rearranged(config: Mapping[str, Any], provider: str) -> tuple[dict[str, Any], Path | str | None]:
    """The configuration as it is read today."""
    flat = {key: value for key, value in config.items() if key not in names() and key not in section_names()}
    if not flat.keys() & {*_fields(provider), *_MOVED, _FOLDER}:
        flat = {}  # sections of others
    llm = config.get("llm")
    nested = llm.get(provider) if isinstance(llm, Mapping) else None
    section = dict(nested) if isinstance(nested, Mapping) else {}
    for key, value in flat.items():
        if section.setdefault(key, value) != value:
            raise InvalidSettings("conflict", first=key, second=f"llm.{provider}.{key}", key=key, origin="config")
    changed = {key: value for key, value in config.items() if key not in flat}
    if not section:
        return changed, None
    folder = section.pop(_FOLDER, None)
    for old, (home, name) in _MOVED.items():
        if old in section:
            changed[home] = {name: section.pop(old), **dict(changed.get(home) or {})}
    changed["llm"] = {**(llm if isinstance(llm, Mapping) else {}), provider: section}
    return changed, folder


@cache
def _fields(provider: str) -> frozenset[str]:
    start = f"llm.{provider}."
    return frozenset(name.removeprefix(start) for name in names() if name.startswith(start))


def retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(retries=settings.llm.retries, first_delay=settings.llm.retry_delay)


def timeouts(settings: Settings) -> Timeouts:
    return Timeouts(settings.llm.connect_timeout, settings.llm.timeout, settings.llm.total_timeout)


def rate_limit(settings: Settings, task_ctx: TaskContextManager | None) -> RateLimit | None:
    """For all workers of a catalogue; without a task, for this process."""
    per_minute = settings.llm.requests_per_minute
    if per_minute is None:
        return None
    return RateLimit(_OWN if task_ctx is None else task_ctx.catalogue.rate_limits, per_minute)


def kept_answers(settings: Settings, task_ctx: TaskContextManager | None) -> ResponseCache | None:
    """The cache of a base folder, or the one that the settings name."""
    if not settings.llm.cache:
        return None
    base_dir = settings.context_storage.base_dir if task_ctx is None else task_ctx.base_dir
    is_sealed = settings.encryption.enabled or (task_ctx is not None and task_ctx.task_store.records.is_sealed)
    return response_cache(settings, Path(base_dir), _sealer(Path(base_dir), settings) if is_sealed else None)


def _sealer(base_dir: Path, settings: Settings) -> Sealer:
    """Answers are kept for all tasks of a base folder, so with the key of what is no task's."""
    from orihon.guard.keys import CATALOGUE
    from orihon.store.key_places import needed_keys

    return needed_keys(base_dir, settings).new_sealer(CATALOGUE)


class _OwnBuckets:
    """Token buckets of this process, for clients without a task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, provider: str, *, per_second: float, burst: int) -> float:
        with self._lock:
            now = time.monotonic()
            level, then = self._buckets.get(provider, (float(burst), now))
            level = min(float(burst), level + (now - then) * per_second)
            self._buckets[provider] = level - 1, now
            return max(0.0, (1 - level) / per_second)


_OWN = _OwnBuckets()
