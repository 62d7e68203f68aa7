"""Tools for a model: definitions in any shape in and in a provider's out, and calls in words.

A model that cannot be handed tools (``function_calling: false``) is told how to call one by a JSON object in its
answer, ``{"tool": …, "arguments": {…}}``, and how to say that it is done, ``{"done": true, "comment": …}``. Results go
back to it as user messages. Only objects that name a known tool are calls; anything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from json import JSONDecoder
from typing import Any

from orihon.llm.answers import ModelAnswer, written_arguments
from orihon.system import jsonio
from orihon.texts import text
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


_OBJECT = re.compile(r"\{(?=\s*\")")
_DECODER = JSONDecoder(strict=False)  # models write line feeds inside strings


def text_call_instructions(tools: Sequence[ToolDefinition]) -> str:
    """What the model is told."""
    lines = (jsonio.encode(tool.as_openai()["function"]).decode() for tool in tools)
    return text("prompts.text_calls", tools="\n".join(lines))


def read_text_calls(answer: ModelAnswer, tools: Collection[str]) -> ModelAnswer:
    """The answer with the calls that its text makes, and whether it says that all is done; the text stays whole."""
    calls: list[dict[str, str]] = []
    done = False
    for value in json_objects(answer.text):
        tool = value.get("tool")
        if isinstance(tool, str) and tool in tools:
            arguments = value.get("arguments", {})
            written = arguments if isinstance(arguments, str) else written_arguments(arguments)
            calls.append({"id": "", "name": tool, "arguments": written})
        elif value.get("done") is True:
            done = True
    return replace(answer, calls=tuple(calls), done=done and not calls)


def read_done(said: str) -> str | None:
    """The comment of ``{"done": true, "comment": …}`` in a text; ``None`` when it does not say so."""
    for value in json_objects(said):
        if value.get("done") is True:
            return str(value.get("comment") or "")
    return None


def text_result_message(name: str, result: str) -> str:
    """A tool's result as a user message."""
    return text("prompts.text_result", name=name, result=result)


def json_objects(said: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in order, each outermost one once."""
    at = 0
    while found := _OBJECT.search(said, at):
        try:
            value, at = _DECODER.raw_decode(said, found.start())
        except (ValueError, RecursionError):  # not JSON, or a number of thousands of digits
            at = found.end()
            continue
        yield value
