"""Values as the JSON objects that programs get, and the JSON Schema of their types: one walk over classes gives both.

A dataclass becomes an object of its fields. Where programs see it otherwise, it says so itself in ``json_fields``, a
line of words in the order of the object: ``name`` is a field or property; ``name=path`` one under another name, maybe
of an inner value (``label=row.key.label``; null where something on the way is ``None``); ``name?`` is left out where it
has its default; ``name|null`` is null where it is empty; ``*name`` takes the fields of an inner value in; ``*`` stands
for all fields that no other word is about; ``-name`` is kept from programs. Types are those of the annotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import date
from enum import Enum
from functools import cache
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

Schema = dict[str, Any]

_PLAIN = frozenset((str, int, float, bool, NoneType))
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_REFERENCE = "#/$defs/"
_NAMED: dict[str, type[AsJson]] = {}


class AsJson:
    """A value that programs see. Schemas refer to a class with a ``json_name`` by that name."""

    __slots__ = ()
    json_fields: ClassVar[str] = "*"
    json_name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "json_name" in cls.__dict__:
            _NAMED[cls.json_name] = cls

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_object(self)


@dataclass(frozen=True, slots=True)
class MayMiss:
    """The form of a field that is not always there."""

    form: Any


# ---- values ----------------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """The value in objects, lists, texts, numbers and so on; what JSON has nothing for, as its text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(to_json(key)): to_json(one) for key, one in value.items()}
    if _is_object(type(value)):
        return to_object(value)
    if isinstance(value, list | tuple | AbstractSet):
        return [to_json(one) for one in value]
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, int | float) else str(value)


def to_object(value: Any) -> dict[str, Any]:
    """The value of a class as an object."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for part in _parts(kind):
        one = value
        for step in part.path:
            one = None if one is None else getattr(one, step)
        if part.mode == "?" and one == part.default:
            continue
        if part.name == "*":
            found.update(to_json(one))
        else:
            found[part.name] = to_json(one or None if part.mode == "|null" else one)
    return found


# ---- types -----------------------------------------------------------------------------------------------------------


def schema_of(form: Any) -> Schema:
    """The JSON Schema of what a value of that type becomes."""
    name = form.__dict__.get("json_name") if isinstance(form, type) else None
    if name:
        return {"$ref": _REFERENCE + name}
    if isinstance(form, Mapping):  # a schema already
        return dict(form)
    if isinstance(form, list):
        return {"type": "array", "items": schema_of(form[0])}
    if form in (Any, object):
        return {}
    origin, given = get_origin(form), get_args(form)
    if origin is Literal:
        return {"enum": list(given)}
    if origin in (Union, UnionType):
        return _any_of([schema_of(one) for one in given])
    kind = origin or form
    if kind in _WORDS:
        return {"type": _WORDS[kind]}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    if _is_object(kind) or is_typeddict(kind):
        return shape(kind)
    if issubclass(kind, Mapping):
        inner = {} if not given else {"type": "integer"} if len(given) == 1 else schema_of(given[-1])  # of a Counter
        return {"type": "object", **({"additionalProperties": inner} if inner else {})}
    if issubclass(kind, PurePath | date):
        return {"type": "string"}
    return {"type": "array", "items": schema_of(given[0]) if given else {}}


def shape(*parts: type, **more: Any) -> Schema:
    """An object with the fields of these classes, and more, and no others."""
    forms = {name: form for part in parts for name, form in _fields_of(part)} | more
    schema: Schema = {
        "type": "object",
        "properties": {
            name: schema_of(form.form if isinstance(form, MayMiss) else form)
            for name, form in forms.items()
            if name != "*"
        },
        "required": [name for name, form in forms.items() if not isinstance(form, MayMiss) and name != "*"],
    }
    return schema if "*" in forms else schema | {"additionalProperties": False}


def definitions(*schemas: Schema) -> dict[str, Schema]:
    """The shapes that these refer to by name, and those that they refer to, in the order of their names."""
    found: dict[str, Schema] = {}
    waiting = [name for schema in schemas for name in _references(schema)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = shape(_NAMED[name])
            waiting.extend(_references(found[name]))
    return dict(sorted(found.items()))


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE)
        schema = schema.values()
    if isinstance(schema, Iterable) and not isinstance(schema, str):
        for one in schema:
            yield from _references(one)


def _any_of(schemas: list[Schema]) -> Schema:
    if all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


# ---- what a class shows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """One word of ``json_fields``."""

    name: str
    path: tuple[str, ...]
    mode: Literal["", "?", "|null"]
    default: Any


def _is_object(kind: type) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")


@cache
def _parts(kind: type) -> tuple[_Part, ...]:
    known = _defaults(kind)
    words = getattr(kind, "json_fields", "*").split()
    named = {_part(word.lstrip("-"), known).path[0] for word in words if word != "*"}
    rest = [name for name in known if name not in named]
    spelled = [one for word in words for one in (rest if word == "*" else [word]) if not one.startswith("-")]
    return tuple(_part(word, known) for word in spelled)


def _part(word: str, known: Mapping[str, Any]) -> _Part:
    mode: Literal["", "?", "|null"] = "?" if word.endswith("?") else "|null" if word.endswith("|null") else ""
    name, _, path = word.removesuffix(mode).partition("=")
    if name.startswith("*"):
        name, path = "*", name[1:]
    steps = tuple((path or name).split("."))
    return _Part(name, steps, mode, known.get(steps[0]))


def _defaults(kind: Any) -> dict[str, Any]:
    """The fields of a class with their defaults."""
    if not is_dataclass(kind):
        return dict.fromkeys(kind.__annotations__)
    return {field.name: _default(field) for field in fields(kind)}


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _fields_of(kind: type) -> Iterator[tuple[str, Any]]:
    for part in _parts(kind):
        form = _type_at(kind, part.path)
        if part.mode == "?":
            yield part.name, MayMiss(_without_none(form) if part.default is None else form)
        elif part.mode == "|null":
            yield part.name, form | None
        elif part.name == "*" and _is_object(form):
            yield from _fields_of(form)
        else:
            yield part.name, form


def _type_at(kind: Any, path: tuple[str, ...]) -> Any:
    """The type at the end of a path; ``None`` may come of any step of it."""
    may_be_none = False
    for step in path:
        may_be_none = may_be_none or NoneType in get_args(kind)
        kind = _member_type(_without_none(kind), step)
    return kind | None if may_be_none else kind


def _member_type(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        member = base.__dict__.get(name)
        if isinstance(member, property):
            return get_type_hints(member.fget)["return"]
    return get_type_hints(kind)[name]


def _without_none(form: Any) -> Any:
    given = [one for one in get_args(form) if one is not NoneType]
    return Union[tuple(given)] if get_origin(form) in (Union, UnionType) else form  # noqa: UP007 - made at run time
