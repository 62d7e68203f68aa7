"""What a request may bring along: checked values, and the same as a JSON schema.

One description serves both, so that the documentation cannot say anything else than the check. Whatever does not fit
raises ``InvalidInput`` before anything is done.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orihon.errors import InvalidInput

FieldKind = Literal["text", "whole", "number", "flag", "texts", "map"]
#: Far beyond any log, and far below what a database can count to.
MOST = 10**15
_LONGEST_TEXT = 1000
_MOST_TEXTS = 100
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a request. ``about`` is the key of its description below ``web.fields``."""

    name: str
    kind: FieldKind = "text"
    required: bool = False
    default: Any = None
    low: float = 1
    high: float = MOST
    longest: int = _LONGEST_TEXT
    choices: tuple[str, ...] = ()
    about: str = ""

    def schema(self) -> dict[str, Any]:
        """The values that are taken, as a JSON schema."""
        found: dict[str, Any] = dict(_SCHEMAS[self.kind])
        if self.kind in ("whole", "number"):
            found |= {"minimum": self.low, "maximum": self.high}
        if self.kind == "text":
            found |= {"enum": list(self.choices)} if self.choices else {"maxLength": self.longest}
        if self.kind == "texts":
            found |= {"maxItems": _MOST_TEXTS, "items": {"type": "string", "maxLength": self.longest}}
        if self.kind == "map":
            value = {"type": "string", "maxLength": self.longest}
            found |= {"maxProperties": _MOST_TEXTS, "additionalProperties": value}
        if self.default is not None:
            found["default"] = self.default
        return found

    def of(self, value: Any) -> Any:
        """The value of a JSON body, if it is one of those."""
        if value is None:
            return None
        fits = {
            "text": lambda: isinstance(value, str),
            "whole": lambda: isinstance(value, int) and not isinstance(value, bool),
            "number": lambda: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
            "flag": lambda: isinstance(value, bool),
            "texts": lambda: isinstance(value, list) and all(isinstance(one, str) for one in value),
            "map": lambda: isinstance(value, dict) and all(isinstance(one, str) for one in value.values()),
        }
        if not fits[self.kind]():
            self._refuse(value)
        self._check_extent(value)
        return value

    def of_text(self, value: str) -> Any:
        """The value that a query or a path has as text."""
        if self.kind == "whole":
            return self.of(int(value)) if _WHOLE.fullmatch(value) else self._refuse(value)
        if self.kind == "number":
            try:
                return self.of(float(value))
            except ValueError:
                self._refuse(value)
        if self.kind == "flag":
            return _FLAGS[value.lower()] if value.lower() in _FLAGS else self._refuse(value)
        return self.of([value] if self.kind == "texts" else value)

    def _check_extent(self, value: Any) -> None:
        if self.kind in ("whole", "number") and not self.low <= value <= self.high:
            self._refuse(value)
        texts = {"text": [value], "texts": value, "map": value.values() if isinstance(value, dict) else ()}.get(
            self.kind, ()
        )
        if len(texts) > _MOST_TEXTS or any(len(one) > self.longest for one in texts):
            raise InvalidInput("field_too_long", field=self.name, most=self.longest)
        if self.choices and value not in self.choices:
            self._refuse(value)

    def _refuse(self, value: object) -> None:
        wanted = ", ".join(self.choices) or self.kind
        if self.kind in ("whole", "number"):
            wanted = f"{self.low:g} … {self.high:g}"
        raise InvalidInput("field", field=self.name, value=str(value)[:100], wanted=wanted)


_SCHEMAS: dict[FieldKind, dict[str, Any]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "texts": {"type": "array"},
    "map": {"type": "object"},
}

#: No answer has more records than this; ``next`` says where the following ones begin.
MOST_RECORDS = 500
LIMIT = Field("limit", "whole", default=100, high=MOST_RECORDS, about="limit")
SINCE = Field("since", longest=100, about="since_time")
UNTIL = Field("until", longest=100, about="until_time")
USER = Field("user", about="only_user")
REPOSITORY = Field("repository", about="only_repository")
#: What stands in the path of an address.
PATH_FIELDS = {"number": Field("number", "whole", about="number"), "task": Field("task", longest=300, about="task")}


def from_texts(fields: Sequence[Field], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The values of an address. Empty ones count as not given: forms send their empty fields."""
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in given:
            raise InvalidInput("field_twice", field=name[:100])
        given[name] = value
    _refuse_unknown(fields, given)
    found = {field.name: field.of_text(given[field.name]) for field in fields if given.get(field.name)}
    return _completed(fields, found)


def from_body(fields: Sequence[Field], given: Any) -> dict[str, Any]:
    """The values of a JSON body."""
    if not isinstance(given, dict):
        raise InvalidInput("body")
    _refuse_unknown(fields, given)
    found = {field.name: field.of(given[field.name]) for field in fields if given.get(field.name) is not None}
    return _completed(fields, found)


def _refuse_unknown(fields: Sequence[Field], given: Mapping[str, Any]) -> None:
    known = {field.name for field in fields}
    for name in given:
        if name not in known:
            raise InvalidInput("field_unknown", field=str(name)[:100], known=", ".join(sorted(known)) or "-")


def _completed(fields: Sequence[Field], found: dict[str, Any]) -> dict[str, Any]:
    for field in fields:
        if field.required and field.name not in found:
            raise InvalidInput("field_missing", field=field.name)
        found.setdefault(field.name, field.default)
    return found
