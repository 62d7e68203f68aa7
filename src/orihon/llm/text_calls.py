"""Tool calls in words, for models that cannot be handed tools (``function_calling: false``).

The model is told how to call a tool by a JSON object in its answer, ``{"tool": …, "arguments": {…}}``, and how to say
that it is done, ``{"done": true, "comment": …}``. Results go back to it as user messages. Only objects that name a
known tool are calls; anything else is text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from json import JSONDecoder
from typing import Any

from orihon.llm.answers import ModelAnswer, written_arguments
from orihon.llm.tool_shapes import ToolDefinition
from orihon.system import jsonio
from orihon.texts import text

_OBJECT = re.compile(r"\{(?=\s*\")")
_DECODER = JSONDecoder(strict=False)  # models write line feeds inside strings


def instructions(tools: Sequence[ToolDefinition]) -> str:
    """What the model is told."""
    lines = (jsonio.encode(tool.as_openai()["function"]).decode() for tool in tools)
    return text("prompts.text_calls", tools="\n".join(lines))


def read(answer: ModelAnswer, tools: Collection[str]) -> ModelAnswer:
    """The answer with the calls that its text makes, and whether it says that all is done; the text stays whole."""
    calls: list[dict[str, str]] = []
    done = False
    for value in objects(answer.text):
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
    for value in objects(said):
        if value.get("done") is True:
            return str(value.get("comment") or "")
    return None


def result_message(name: str, result: str) -> str:
    """A tool's result as a user message."""
    return text("prompts.text_result", name=name, result=result)


def objects(said: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, in order, each outermost one once."""
    at = 0
    while found := _OBJECT.search(said, at):
        try:
            value, at = _DECODER.raw_decode(said, found.start())
        except (ValueError, RecursionError):  # not JSON, or a number of thousands of digits
            at = found.end()
            continue
        yield value
