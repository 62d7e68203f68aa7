"""``get_llm_client``: from a configuration to the client of its provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.drivers.http import Timeouts
from orihon.llm.anthropic import AnthropicClient
from orihon.llm.base import Definitions, LLMClient
from orihon.llm.ollama import OllamaClient
from orihon.llm.openai import LMStudioClient, OpenAIClient
from orihon.llm.response_cache import FOLDER as CACHE_FOLDER
from orihon.llm.response_cache import ResponseCache
from orihon.llm.retry import RateLimit, RetryPolicy
from orihon.settings import Settings, load_settings

if TYPE_CHECKING:
    from orihon.guard.sealer import Sealer
    from orihon.tasks.context import TaskContextManager


CLIENTS: dict[str, type[LLMClient]] = {
    client.provider: client for client in (OpenAIClient, OllamaClient, LMStudioClient, AnthropicClient)
}
# The first design handed these over inside the provider's section; here they have places of their own.
_MOVED = {
    "compression_threshold": ("compression", "threshold"),
    "max_memory_messages": ("context_storage", "max_memory_messages"),
}


def get_llm_client(
    config: Mapping[str, Any] | Settings | None = None,
    functions: Definitions | None = None,
    tools: Definitions | None = None,
    **kwargs: Any,
) -> LLMClient:
    """The client of the provider in use; ``kwargs`` are those of ``LLMClient``."""
    if config is None and kwargs.get("task_ctx") is not None:
        config = kwargs["task_ctx"].settings
    if isinstance(config, Mapping):
        config, context_dir = _rearranged(config)
        if context_dir is not None:
            kwargs.setdefault("context_dir", context_dir)
    settings = load_settings(config)
    for name, value in _means(settings, kwargs.get("task_ctx")).items():
        kwargs.setdefault(name, value)
    return CLIENTS[settings.llm.provider](settings, functions, tools, **kwargs)


def _means(settings: Settings, task_ctx: TaskContextManager | None) -> dict[str, Any]:
    """What the settings say about calls. Cache and rate limit lie in the base folder of a task."""
    wanted = settings.llm
    means: dict[str, Any] = {
        "timeouts": Timeouts(wanted.connect_timeout, wanted.timeout, wanted.total_timeout),
        "retry": RetryPolicy(retries=wanted.retries, first_delay=wanted.retry_delay),
        "stream": wanted.stream,
    }
    if task_ctx is not None and wanted.cache:
        is_sealed = settings.encryption.enabled or task_ctx.task_store.records.is_sealed
        sealer = _cache_sealer(task_ctx) if is_sealed else None
        means["cache"] = ResponseCache(task_ctx.base_dir / CACHE_FOLDER, ttl=wanted.cache_ttl, sealer=sealer)
    if task_ctx is not None and wanted.requests_per_minute is not None:
        means["rate_limit"] = RateLimit(task_ctx.catalogue.rate_limits, wanted.requests_per_minute)
    return means


def _cache_sealer(task_ctx: TaskContextManager) -> Sealer:
    """Answers are kept for all tasks of a base folder, so with the key of what is no task's."""
    from orihon.guard.keys import CATALOGUE
    from orihon.store.key_places import needed_keys

    return needed_keys(task_ctx.base_dir, task_ctx.settings).new_sealer(CATALOGUE)


def _rearranged(config: Mapping[str, Any]) -> tuple[dict[str, Any], Path | str | None]:
    """The configuration as it is read today, and the task's folder if it stood in the provider's section."""
    llm = config.get("llm")
    section = llm.get(llm.get("provider", "openai")) if isinstance(llm, Mapping) else None
    if not isinstance(llm, Mapping) or not isinstance(section, Mapping):
        return dict(config), None
    kept = {key: value for key, value in section.items() if key not in _MOVED and key != "context_dir"}
    changed: dict[str, Any] = {**config, "llm": {**llm, llm.get("provider", "openai"): kept}}
    for old, (home, name) in _MOVED.items():
        if old in section:
            changed[home] = {name: section[old], **dict(changed.get(home) or {})}
    return changed, section.get("context_dir")
