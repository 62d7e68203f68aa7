"""The strings of provider data that hold content, found and replaced.

Owns the line between content and structure: roles, ids, ``type`` values, signatures and base64 payloads are
structure and are never touched or counted; so are the names of fields, but keys further down that are no known
names may be anybody's words and are replaced too. Whatever stands below ``arguments`` or ``input`` of a tool call is
the model's own words, so there every string is content, keys as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orihon.system import jsonio

MapString = Callable[[str], str]

_STRUCTURE = frozenset(
    (
        "type",
        "role",
        "id",
        "call_id",
        "tool_use_id",
        "tool_call_id",
        "file_id",
        "media_type",
        "mimeType",
        "signature",
        "encrypted_content",
    )
)
_OWN_WORDS = ("arguments", "input")
#: Names that say what their value is: the value alone may look like any word.
_TELLING_KEY = re.compile(r"(?i)pass|pwd|secret|token|key|credential|auth|cookie")
_DATA_URL = re.compile(r"data:[^,\s]{0,200};base64,[A-Za-z0-9+/=_\r\n-]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\r\n-]*")
_URL_KEYS = frozenset(("url", "image_url", "file_url", "file_data", "data"))
_BASE64_KEYS = frozenset(("file_data", "b64_json"))
_KNOWN_KEYS = _STRUCTURE | _URL_KEYS | _BASE64_KEYS | {*_OWN_WORDS, "name", "text", "content", "source", "format"}
# A bare "data" is a payload only where a neighbour says what is encoded in it.
_PAYLOAD_LABELS = ("media_type", "mimeType", "format", "transcript")


def map_content(value: Any, f: MapString) -> Any:
    """``value`` with ``f`` applied to its content; ``value`` itself when that changes nothing."""
    if isinstance(value, Mapping):
        return _unless_same(value, {key: _map_entry(value, key, entry, f) for key, entry in value.items()})
    return _map_nested(value, f)


def map_json_text(text: str, f: MapString) -> str:
    """``f`` applied to a JSON text and to the strings in it, which escapes may hide; JSON stays JSON.

    A change that would break the JSON (a hit across quotes, or on a number) is made on the strings alone.
    When ``f`` is a mask, one that leaves its own output alone, and would still find something after that, the
    whole masked text is kept as one string: better clumsy than leaking.
    """
    direct = f(text)
    try:
        value = jsonio.decode(text)
        mapped = _map_own_words(value, f)
    except (ValueError, RecursionError):
        return direct
    by_strings = text if mapped is value else _json_text(mapped)
    if direct == text:
        return by_strings
    try:
        again = _map_own_words(jsonio.decode(direct), f)
    except ValueError:
        is_mask = f(direct) == direct
        return by_strings if not is_mask or f(by_strings) == by_strings else _json_text({"masked": direct})
    return direct if mapped is value or again == mapped else _json_text(again)


def content_strings(value: Any) -> Iterator[str]:
    """Every string of content in ``value``; the arguments of a call as one JSON text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if key in _OWN_WORDS and not isinstance(entry, str):
                yield _json_text(entry)
            elif key == "name" or not isinstance(entry, str) or _holds_content(value, key, entry):
                yield from content_strings(entry)
    elif isinstance(value, list):
        for item in value:
            yield from content_strings(item)


def _map_entry(block: Mapping[str, Any], key: str, entry: Any, f: MapString) -> Any:
    if key in _OWN_WORDS:
        return _kept(entry, map_json_text(entry, f)) if isinstance(entry, str) else _map_own_words(entry, f)
    if isinstance(entry, str) and not _holds_content(block, key, entry):
        return entry
    return _map_nested(entry, f)


def _map_nested(value: Any, f: MapString) -> Any:
    """The same below the fields of a message, where keys can be content as well."""
    if isinstance(value, str):
        return _kept(value, f(value))
    if isinstance(value, Mapping):
        entries = value.items()
        return _unless_same(value, {_map_key(key, f): _map_entry(value, key, entry, f) for key, entry in entries})
    if isinstance(value, list):
        items = [_map_nested(item, f) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _map_key(key: Any, f: MapString) -> Any:
    if key in _KNOWN_KEYS or not isinstance(key, str):
        return key  # what is no string is refused, with its name, when it is written
    return _kept(key, f(key))


def _holds_content(block: Mapping[str, Any], key: str, entry: str) -> bool:
    if key in _STRUCTURE:
        return False
    if key == "name":
        return not any(words in block for words in _OWN_WORDS)
    return not _is_payload(block, key, entry)


def _is_payload(block: Mapping[str, Any], key: str, entry: str) -> bool:
    if key in _URL_KEYS and entry.startswith("data:"):
        return _DATA_URL.fullmatch(entry) is not None
    labelled = key == "data" and (
        block.get("type") == "redacted_thinking"
        or (block.get("type") != "text" and any(label in block for label in _PAYLOAD_LABELS))
    )
    return (labelled or key in _BASE64_KEYS) and _BASE64.fullmatch(entry) is not None


def map_named(key: Any, value: str, f: MapString) -> str:
    """``f`` applied to a value together with its name, which may say what it is: ``{"password": "…"}``."""
    if not isinstance(key, str) or not value or not _TELLING_KEY.search(key):
        return f(value)
    written = _json_text({key: value})
    try:
        [(_, named)] = jsonio.decode(f(written)).items()
    except (ValueError, AttributeError):
        return f(value)
    return f(named) if isinstance(named, str) else f(value)


def _map_own_words(value: Any, f: MapString) -> Any:
    if isinstance(value, str):
        return _kept(value, f(value))
    if isinstance(value, Mapping):
        entries = value.items()
        mapped = {
            _map_own_words(key, f): (
                _kept(entry, map_named(key, entry, f)) if isinstance(entry, str) else _map_own_words(entry, f)
            )
            for key, entry in entries
        }
        return _unless_same(value, mapped)
    if isinstance(value, list):
        items = [_map_own_words(item, f) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _unless_same(old: Mapping[str, Any], new: dict[str, Any]) -> Mapping[str, Any]:
    """The old object where nothing changed, keys included."""
    return old if all(new.get(key, new) is entry for key, entry in old.items()) else new


def _kept(old: str, new: str) -> str:
    """The old object where nothing changed, so that callers can compare by identity."""
    return old if new == old else new


def _json_text(value: Any) -> str:
    return jsonio.encode(value).decode()
