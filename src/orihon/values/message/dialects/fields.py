"""What all dialects share: the fields of a message as they are read, its role and its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, TypedDict

from orihon.errors import InvalidMessage
from orihon.values.message.extra import check_depth, expect, wrong_type
from orihon.values.message.parts import Part, ToolCall

ROLES = ("system", "developer", "user", "assistant", "tool")

Content = str | None
Parts = tuple[Part, ...] | None


class Fields(TypedDict, total=False):
    """Keyword arguments of ``Message``."""

    role: Required[str]
    content: Content
    parts: Parts
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    name: str | None
    tool_name: str | None
    extra: Mapping[str, Any]
    dialect: str


def read_mapping(data: object) -> Mapping[str, Any]:
    """A provider's dict, if it is one that can be walked."""
    if not isinstance(data, (dict, Mapping)):  # a dict is told at once, a mapping is asked for
        raise wrong_type(data, "dict", "message")
    check_depth(data, "message")
    return data


def read_role(role: object, also: tuple[str, ...] = ()) -> str:
    """A role that Orihon knows, or one of those that only this dialect has."""
    name = expect(role, str, "role")
    if name not in ROLES and name not in also:
        raise InvalidMessage("unknown_role", role=name, known=", ".join(ROLES))
    return name


def read_content(value: object, field: str = "content") -> tuple[Content, Parts]:
    """Content that is a text, a list of blocks, or nothing."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, (list, tuple)):
        return None, tuple(Part.of(block, f"{field}[]") for block in value)
    raise wrong_type(value, "str, list or None", field)


def absent_note(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The note that a key of the canonical form was not there."""
    return {} if key in data else {"absent": [key]}
