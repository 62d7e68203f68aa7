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
#: In the place of a value of which only a mask that sees its neighbours knows that it is a secret.
_MASKED = "[MASKED]"

_STRUCTURE = frozenset(
    (*("type", "role", "id", "call_id", "tool_use_id", "tool_call_id", "file_id", "media_type", "mimeType"),
     *("signature", "encrypted_content"))
)  # fmt: skip
_OWN_WORDS = ("arguments", "input")
#: Names that say what their value is: the value alone may look like any word.
_TELLING_KEY = re.compile(r"(?i)pass|pwd|secret|token|key|credential|auth|cookie")
# The fields that hold what another names, those that name, and what many secrets are kept under.
_VALUES = ("value", "val", "default")
_NAMES = frozenset(("name", "key", "id", "type", "kind", "description", "label", "title", "path", "source", "user"))
_SEVERAL = re.compile(r"(?i)(?:secret|credential|password|token|key)s\Z|\Acreds\Z|secret_?data\Z")
# So much of two texts is looked at together.
_SEAM = 600
_DIGEST = re.compile(r"\]#[0-9a-f]{12}")
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

    A mask may look at names beside values, so it sees the whole text first. Where that would break the JSON or change
    its shape, it gets the values one by one; what a mask, one that leaves its own output alone, finds even then goes
    over several of them, and every value is replaced.
    """
    direct = f(text)
    try:
        value = jsonio.decode(text)
        mapped = _map_own_words(value, f)
    except (ValueError, RecursionError):
        return direct
    by_values = text if mapped is value else _json_text(mapped)
    if direct == text:
        return by_values
    try:
        whole = jsonio.decode(direct)
        if _has_shape_of(whole, value):
            again = _map_own_words(whole, f)
            return direct if again is whole else _json_text(again)
    except (ValueError, RecursionError):
        pass
    is_mask = f(direct) == direct
    return by_values if not is_mask or f(by_values) == by_values else _json_text(_without_values(mapped))


def _has_shape_of(new: Any, old: Any) -> bool:
    """Has it the same lists and fields, and strings where those are?"""
    if isinstance(old, dict):
        pairs = isinstance(new, dict) and len(new) == len(old) and zip(new.values(), old.values(), strict=True)
        return pairs is not False and all(_has_shape_of(*pair) for pair in pairs)
    if isinstance(old, list):
        same = isinstance(new, list) and len(new) == len(old)
        return same and all(_has_shape_of(*pair) for pair in zip(new, old, strict=True))
    return new == old or isinstance(new, str)


def _without_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_values(entry) for key, entry in value.items()}
    return [_without_values(item) for item in value] if isinstance(value, list) else _MASKED


def map_across(first: str, second: str, f: MapString) -> tuple[str, str]:
    """Two texts that follow each other, without what a mask finds only in both together: a key that goes over the
    seam, which then stands in the first, or a value in the second whose name is in the first."""
    head = first[-_SEAM:]
    for between, end_of_tail in (("\n", "\n"), ("", " ")):
        tail = second[:_SEAM].partition(end_of_tail)[0]
        joined = f"{head}{between}{tail}"
        masked = f(joined)
        if masked in (joined, f"{f(head)}{between}{f(tail)}") or f(masked) != masked:
            continue
        start = _alike(joined, masked)
        # A digest may end as the secret does.
        last = max((place.end() for place in _DIGEST.finditer(masked)), default=0)
        end = len(joined) - min(_alike(joined[start:][::-1], masked[start:][::-1]), len(masked) - last)
        middle = masked[start : len(masked) - (len(joined) - end)]
        seam = len(head) + len(between)
        rest = second[max(0, end - seam) :]
        if start < len(head):
            return f"{first[: len(first) - len(head)]}{head[:start]}{middle}{head[end:]}", rest
        return first, f"{tail[: max(0, start - seam)]}{middle}{rest}"
    return first, second


def _alike(one: str, other: str) -> int:
    """How many characters they begin with that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (left, right) in pairs if left != right), min(len(one), len(other)))


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
        if isinstance(entry, str):
            return _kept(entry, map_json_text(entry, f))
        written = _json_text(entry)
        mapped = map_json_text(written, f)
        return entry if mapped == written else jsonio.decode(mapped)
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


def map_named(key: Any, value: Any, f: MapString) -> Any:
    """``f`` applied to a text or a number together with its name, which may say what it is: ``{"password": "…"}``."""
    is_text = isinstance(value, str)
    if not isinstance(key, str) or value == "" or not _TELLING_KEY.search(key):
        return f(value) if is_text else value
    written = _json_text({key: value})
    try:
        [(_, named)] = jsonio.decode(f(written)).items()
    except (ValueError, AttributeError):
        return f(value) if is_text else value
    if isinstance(named, str):
        return f(named)
    return f(value) if is_text else value


def name_for(block: Mapping[Any, Any], key: Any, above: Any = None) -> Any:
    """What names the value of a field: its own name, that beside a ``value``, or that of all secrets ``above`` it."""
    if key in _VALUES:
        beside = block.get("name", block.get("key"))
        key = beside if isinstance(beside, str) and _TELLING_KEY.search(beside) else key
    if isinstance(above, str) and key not in _NAMES and _SEVERAL.search(above):
        return key if isinstance(key, str) and _TELLING_KEY.search(key) else "secret"
    return key


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _map_own_words(value: Any, f: MapString, above: Any = None) -> Any:
    if isinstance(value, str):
        return _kept(value, f(value))
    if _is_number(value):
        written = _json_text(value)
        return value if f(written) == written else f(written)
    if isinstance(value, Mapping):
        mapped = {_map_own_words(key, f): _map_field(value, key, entry, f, above) for key, entry in value.items()}
        return _unless_same(value, mapped)
    if isinstance(value, list):
        items = [_map_own_words(item, f, above) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _map_field(block: Mapping[Any, Any], key: Any, entry: Any, f: MapString, above: Any) -> Any:
    if isinstance(entry, str):
        return _kept(entry, map_named(name_for(block, key, above), entry, f))
    if _is_number(entry):
        named = map_named(name_for(block, key, above), entry, f)
        return named if named != entry else _map_own_words(entry, f)
    return _map_own_words(entry, f, key if above is None or not isinstance(entry, list) else above)


def _unless_same(old: Mapping[str, Any], new: dict[str, Any]) -> Mapping[str, Any]:
    """The old object where nothing changed, keys included."""
    return old if all(new.get(key, new) is entry for key, entry in old.items()) else new


def _kept(old: str, new: str) -> str:
    """The old object where nothing changed, so that callers can compare by identity."""
    return old if new == old else new


def _json_text(value: Any) -> str:
    return jsonio.encode(value).decode()
