"""Values as JSON objects and the schemas of their types: both from one walk, so that they cannot differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import pytest
from jsonschema import Draft202012Validator

from orihon.system.json_shapes import AsJson, MayMiss, definitions, schema_of, shape, to_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    first: int
    second: int


ONE, OTHER = Pair(1, 2), Pair(3, 4)


class Sums(TypedDict):
    tasks: int


@dataclass(frozen=True, slots=True)
class Inner(AsJson):
    """A shape with a name of its own."""

    json_name = "inner_of_a_test"

    word: str = ""
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Outer(AsJson):
    json_fields = "name=key word=inner.word note|null more? * -secret doubled *figures"

    key: str
    inner: Inner | None = None
    note: str = ""
    more: tuple[int, ...] = ()
    secret: str = "hidden"
    folder: Path = Path("here")
    at: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    pair: Pair = ONE
    sums: dict[str, Sums] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    mode: Literal["a", "b"] | None = None
    figures: Pair = OTHER
    free: Mapping[str, Any] = field(default_factory=dict)

    @property
    def doubled(self) -> list[str]:
        return [self.key, self.key]


@dataclass(frozen=True, slots=True)
class Holder(AsJson):
    json_fields = "number *body inner"

    number: int
    body: Mapping[str, Any]
    inner: Inner = Inner()


PLAIN = Outer("k")
FULL = Outer("k", Inner("w", Colour.BLUE), "n", (1,), sums={"u": {"tasks": 1}}, counts=Counter("x"), mode="b")


def test_words_say_what_programs_see_and_in_which_order() -> None:
    assert PLAIN.as_dict() == {
        "name": "k",
        "word": None,
        "note": None,
        "folder": "here",
        "at": "2026-01-02T00:00:00+00:00",
        "pair": {"first": 1, "second": 2},
        "sums": {},
        "counts": {},
        "mode": None,
        "free": {},
        "doubled": ["k", "k"],
        "first": 3,
        "second": 4,
    }
    assert list(FULL.as_dict())[:4] == ["name", "word", "note", "more"]
    assert to_json({Colour.RED: [FULL.inner, {1}]}) == {"red": [{"word": "w", "colour": "blue"}, [1]]}
    assert to_json(Holder(1, {"x": 2}))["x"] == 2


@pytest.mark.parametrize("value", [PLAIN, FULL, Holder(1, {"x": 2})], ids=["plain", "full", "open"])
def test_the_schema_of_a_type_is_what_its_values_become(value: AsJson) -> None:
    schema = shape(type(value))
    Draft202012Validator.check_schema(schema)
    whole = {**schema, "$defs": definitions(schema)}
    assert [error.message for error in Draft202012Validator(whole).iter_errors(value.as_dict())] == []
    assert set(schema["required"]) <= set(value.as_dict())


def test_types_become_schemas() -> None:
    assert schema_of(int | str | None) == {"type": ["integer", "string", "null"]}
    assert schema_of(Inner | None) == {"anyOf": [{"$ref": "#/$defs/inner_of_a_test"}, {"type": "null"}]}
    assert schema_of(dict[str, Any]) == {"type": "object"}
    assert (
        schema_of([{"type": "string"}]) == schema_of(tuple[str, ...]) == {"type": "array", "items": {"type": "string"}}
    )
    assert shape(Pair, more=MayMiss(Any))["required"] == ["first", "second"]
    assert shape(Holder).get("additionalProperties") is None
    assert schema_of(Outer)["properties"]["mode"] == {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}
