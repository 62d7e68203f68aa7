"""``get_llm_client``: from a configuration to the client of its provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orihon.llm.anthropic import AnthropicClient
from orihon.llm.base import Definitions, LLMClient
from orihon.llm.configured import client_settings
from orihon.llm.ollama import OllamaClient
from orihon.llm.openai import LMStudioClient, OpenAIClient
from orihon.settings import Settings

CLIENTS: dict[str, type[LLMClient]] = {
    client.provider: client for client in (OpenAIClient, OllamaClient, LMStudioClient, AnthropicClient)
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
    settings, context_dir = client_settings(config)
    if context_dir is not None:
        kwargs.setdefault("context_dir", context_dir)
    return CLIENTS[settings.llm.provider](settings, functions, tools, **kwargs)
