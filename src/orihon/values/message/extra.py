"""The ``extra`` mapping of a message or tool call: unknown provider fields, and Orihon's notes beside them.

Owns the one reserved key, ``$orihon``. What may stand under it:

    absent     list of keys that the provider's dict did not have although the canonical form has them
    as_sent    the values of known keys that carried nothing: ``null`` or ``[]``
    arguments  (tool call) "absent", "null", or "json" when the arguments were a JSON value, not a text
    opaque     (tool call) true for a call of an unknown type, kept whole
    whole      (Responses) true for an item that is kept whole as the only part
    dialect    where a converted message came from: "anthropic" or "responses"
    fields     its fields that have no place in a chat message
    reasoning  its thinking blocks or reasoning items, untouched
    blocks     {index: what the content block carried beyond its chat form}
    calls      {tool call id: what the call carried beyond its chat form}

Promises that data can never pose as a note: a provider field whose name ends in ``$orihon`` is stored with
one more ``$`` in front, and loses it again on the way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from orihon.errors import InvalidMessage

NOTES = "$orihon"

# Deep enough for every real payload, and shallow enough that walking it cannot exhaust the interpreter's
# stack.
DEEPEST = 128

_LEAVES = frozenset((str, int, float, bool, type(None)))

T = TypeVar("T")


def pack(fields: Iterable[tuple[str, Any]], notes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The extra that holds these provider fields and, if there are any, these notes."""
    extra = {f"${key}" if _looks_reserved(key) else key: value for key, value in fields}
    if notes:
        extra[NOTES] = dict(notes)
    return extra


def fields_of(extra: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The provider's fields, under the names the provider gave them."""
    for key, value in extra.items():
        if key != NOTES:
            yield (key[1:] if _looks_reserved(key) else key), value


def notes_of(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Orihon's notes; empty when there are none."""
    notes: Mapping[str, Any] = extra.get(NOTES) or {}
    return notes


def restore(data: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Complete ``data``, made in canonical form, to the dict that the provider sent."""
    data.update(fields_of(extra))
    notes = notes_of(extra)
    data.update(notes.get("as_sent", {}))
    for key in notes.get("absent", ()):
        data.pop(key, None)
    return data


def rest(data: Mapping[str, Any], *taken: str) -> Iterator[tuple[str, Any]]:
    """The fields that nobody has taken."""
    return ((key, value) for key, value in data.items() if key not in taken)


def expect(value: object, kind: type[T], field: str) -> T:
    """``value`` itself, if it is of that kind."""
    if isinstance(value, kind):
        return value
    raise wrong_type(value, kind.__name__, field)


def expect_mapping(value: object, field: str) -> Mapping[Any, Any]:
    """``value`` itself, if it is a dict or the like."""
    if isinstance(value, (dict, Mapping)):  # a dict is told at once, a mapping is asked for
        return value
    raise wrong_type(value, "dict", field)


def wrong_type(value: object, expected: str, field: str) -> InvalidMessage:
    """The error for a value of the wrong type."""
    return InvalidMessage("wrong_type", field=field, expected=expected, actual=type(value).__name__)


def check_depth(value: object, field: str) -> None:
    """Refuse data nested deeper than the walks over it can follow."""
    level = [value]
    for _ in range(DEEPEST):
        # Asking a text whether it is a mapping is slow, and nearly all are texts.
        level = [child for node in level for child in _children(node) if type(child) not in _LEAVES]
        if not level:
            return
    raise InvalidMessage("too_deep", field=field, limit=DEEPEST)


def _children(node: object) -> Iterable[object]:
    if isinstance(node, (dict, Mapping)):
        return node.values()
    return node if isinstance(node, list) else ()


def _looks_reserved(key: object) -> bool:
    return isinstance(key, str) and key.endswith(NOTES)
