"""Reading a YAML configuration file: plain data of bounded size, or ``InvalidSettings`` with file and line.

Imported only when there is a file to read, because PyYAML is slow to import. Its loader in C is not used:
that one has no limit on nesting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from orihon.errors import InvalidSettings

MAX_BYTES = 1024 * 1024
# Counted with every alias written out: a few lines of aliases of aliases can stand for billions of values.
MAX_VALUES = 100_000


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with a line number on the errors that it lets through bare."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (
            ValueError,
            LookupError,
            AttributeError,
        ) as error:  # such as !!bool maybe, or the date 2024-13-01
            problem = f"{str(node.value)[:40]!r} does not fit {node.tag}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def read_yaml(path: Path) -> Mapping[Any, Any]:
    """The mapping in the file; an empty file is an empty mapping."""
    text = _text(path)
    try:
        document = _document(text, path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _broken(path, mark.line if mark else 0, error.problem) from error
    except yaml.reader.ReaderError as error:
        raise _broken(path, text.count("\n", 0, error.position), error.reason) from error
    except RecursionError as error:
        raise InvalidSettings("yaml_too_big", path=str(path), limit=MAX_VALUES) from error
    if not isinstance(document, Mapping | None):
        raise InvalidSettings("not_mapping", path=str(path))
    return document or {}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise InvalidSettings("missing_file", path=str(path)) from error
    except (OSError, ValueError) as error:
        raise InvalidSettings("unreadable_file", path=str(path), detail=str(error)) from error
    if len(data) > MAX_BYTES:
        raise InvalidSettings("file_too_large", path=str(path), limit=MAX_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _broken(path, data.count(b"\n", 0, error.start), str(error.reason)) from error


def _document(text: str, path: Path) -> Any:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check(root, path)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _check(root: yaml.Node, path: Path) -> None:
    """Refuse what is too big with all aliases written out, and double keys: PyYAML would drop the first."""
    waiting = [root]
    values = 0
    while waiting:
        node = waiting.pop()
        values += 1
        if values > MAX_VALUES:
            raise InvalidSettings("yaml_too_big", path=str(path), limit=MAX_VALUES)
        if isinstance(node, yaml.MappingNode):
            _refuse_double_keys(node, path)
            waiting.extend(part for pair in node.value for part in pair)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)


def _refuse_double_keys(mapping: yaml.MappingNode, path: Path) -> None:
    seen: set[str] = set()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise _broken(path, key.start_mark.line, f"{key.value!r} is given twice")
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)


def _broken(path: Path, line: int, detail: str | None) -> InvalidSettings:
    """``line`` is counted from 0, as PyYAML does."""
    return InvalidSettings("broken_yaml", path=str(path), line=line + 1, detail=detail or "?")
