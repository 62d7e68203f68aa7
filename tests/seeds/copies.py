"""The copies of the documents' examples, and how a flow written half in words is run: statement by statement."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

BLOCKS = Path(__file__).with_name("blocks")

# "3. ", "b. ", "- ", and words in front of a colon, as in "- on success: context_manager.complete()".
_LABEL = re.compile(r"^(?:(?:\d+|[a-z])\.\s|-\s)?\s*(?:[^\x00-\x7f]+[:：]\s*)?")
_CODE = (ast.Assign, ast.For, ast.If, ast.Import, ast.Try, ast.With)


def block(document: str, name: str) -> str:
    """One example of a document."""
    return (BLOCKS / document / name).read_text(encoding="utf-8")


def listed(document: str, name: str) -> list[Any]:
    """The records of a JSON Lines example."""
    return [json.loads(line) for line in block(document, name).splitlines()]


def statements(flow: str) -> list[str]:
    """What of a flow is a program, one statement each, without the words between. What an arrow explains is none."""
    lines, found, start = flow.splitlines(), list[str](), 0
    while start < len(lines):
        ends = range(len(lines), start, -1) if _source(lines[start : start + 1]).strip() else ()
        end = next((end for end in ends if _is_code(_source(lines[start:end]))), None)
        if end is not None:
            found.append(_source(lines[start:end]).strip())
        start = start + 1 if end is None else end
    return found


def _source(lines: list[str]) -> str:
    """The lines as they stand under each other, the label of the first one as wide as it is."""
    first = lines[0].expandtabs()
    label = _LABEL.match(first.lstrip())
    body = first.lstrip() if label is None else first.lstrip()[label.end() :]
    indent = len(first) - len(first.lstrip())
    width = max(indent, len(first) - len(body))
    rest = [line if len(line) - len(line.lstrip()) >= width else " " * (width - indent) + line for line in lines[1:]]
    return textwrap.dedent("\n".join([" " * width + body, *rest]))


def _is_code(source: str) -> bool:
    try:
        found = parsed(source).body
    except SyntaxError:
        return False
    return len(found) == 1 and (
        isinstance(found[0], _CODE) or (isinstance(found[0], ast.Expr) and isinstance(found[0].value, ast.Call))
    )


def parsed(source: str) -> ast.Module:
    """The syntax tree. Python 3.11 refuses when another one is made meanwhile, as a traceback in a log does."""
    while True:
        with suppress(SystemError):
            return ast.parse(source)


def run(steps: Iterable[str], names: dict[str, Any]) -> dict[str, Any]:
    """Run statements one after the other, with these names; returns them as they are then."""
    for step in steps:
        exec(compile(step, "a design document", "exec"), names)
    return names
