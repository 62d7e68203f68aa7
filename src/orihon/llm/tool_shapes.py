"""Tool definitions: in any of the shapes that callers have, out in the shape that a provider wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orihon.values.message.extra import expect, expect_mapping

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_SCHEMAS = ("parameters", "inputSchema", "input_schema")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that the model may call."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: _NO_PARAMETERS, hash=False)

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> ToolDefinition:
        """From OpenAI's ``{"type": "function", "function": …}``, an old function, or a tool of MCP or Anthropic."""
        expect_mapping(definition, "tools[]")
        inner = definition.get("function", definition)
        expect_mapping(inner, "tools[].function")
        schema = next((inner[key] for key in _SCHEMAS if inner.get(key)), _NO_PARAMETERS)
        expect_mapping(schema, "tools[].parameters")
        return cls(expect(inner.get("name"), str, "tools[].name"), inner.get("description") or "", schema)

    def as_openai(self) -> dict[str, Any]:
        """As OpenAI, LM Studio and Ollama want it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def as_anthropic(self) -> dict[str, Any]:
        """As Anthropic wants it."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}


def read_tools(
    functions: Iterable[Mapping[str, Any]] | None, tools: Iterable[Mapping[str, Any]] | None
) -> tuple[ToolDefinition, ...]:
    """Both lists as one; a tool that is in both counts once."""
    found = {tool.name: tool for tool in map(ToolDefinition.of, (*(functions or ()), *(tools or ())))}
    return tuple(found.values())
