"""LM Studio: OpenAI's chat completions, served by templates that take one system message and only at the beginning."""

from __future__ import annotations

from collections.abc import Iterator

from orihon.llm.openai import OpenAIClient
from orihon.llm.provider_shapes import one_system_prompt
from orihon.llm.request_file import ViewLines, messages_of, separated
from orihon.system import jsonio


class LMStudioClient(OpenAIClient):
    """Models in LM Studio."""

    provider = "lmstudio"
    key_hosts = ()

    def _messages(self, view: ViewLines) -> Iterator[bytes]:
        return separated(map(jsonio.encode, one_system_prompt(messages_of(view))))
