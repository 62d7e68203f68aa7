"""``SealedTasks``: the database of a catalogue whose texts are encrypted.

What people and models have said (prompts, error texts, notes on a task, what notifications are about) is sealed on its
way in and opened on its way out; keys, states, times and figures stay readable, for the catalogue sorts, counts and
leases by them. Of the notes only whether there are some of a kind that statements ask for can be seen. Rows that were
written plain stay so until they are written anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar

from orihon.catalogue.rows import CLEANED, IMPORT, UNREAD
from orihon.catalogue.tasks_db import DatabaseRow, Moment, Reading, Result, Statements, TasksDatabase, Value
from orihon.errors import DamagedStore, InvalidSettings, KeyUnavailable
from orihon.guard.keys import CATALOGUE, DataKeys
from orihon.guard.sealer import Sealer, is_sealed_text
from orihon.system import jsonio

#: Bindings that are texts, and columns that are: the place that they are sealed for.
_TEXTS = {"prompt": "prompt", "error_message": "error_message", "error": "last_error", "last_error": "last_error"}
#: The same for JSON objects.
_OBJECTS = {"metadata": "metadata", "body": "body"}
_SEALED = "sealed"
#: Names in the notes that statements look for.
_VISIBLE = (CLEANED, IMPORT)
_EMPTY = "{}"

Inner = TypeVar("Inner", bound=Reading)


class Texts:
    """Seals and opens the values of statements; fetches the key when the first one needs it.

    ``seals`` is asked once, by the first value that would be sealed.
    """

    def __init__(self, keys: Callable[[], DataKeys], *, seals: Callable[[], bool]) -> None:
        self._keys = keys
        self._seals = cache(seals)
        self._sealer: Sealer | None = None

    def sealed(self, bindings: Mapping[str, Value]) -> dict[str, Value]:
        """The bindings as the database keeps them."""
        return {name: self._sealed_value(name, value) for name, value in bindings.items()}

    def opened(self, record: DatabaseRow) -> DatabaseRow:
        """A row as it was written."""
        return {name: self._opened_value(name, value) for name, value in record.items()}

    def _sealed_value(self, name: str, value: Value) -> Value:
        if not isinstance(value, str) or not value:
            return value
        if name in _TEXTS and self._seals():
            return self._sealing().seal_text(_TEXTS[name], value)
        if name in _OBJECTS and value != _EMPTY and self._seals():
            notes = jsonio.decode(value)
            visible = {each: 1 for each in _VISIBLE if each in notes}
            return jsonio.encode({**visible, _SEALED: self._sealing().seal_text(_OBJECTS[name], value)}).decode()
        return value

    def _opened_value(self, name: str, value: Any) -> Any:
        if name in _TEXTS and is_sealed_text(value):
            return self._opening().open_text(_TEXTS[name], value)
        if name in _OBJECTS and isinstance(value, str) and (sealed := sealed_object(value)):
            return self._opening().open_text(_OBJECTS[name], sealed)
        return value

    def _sealing(self) -> Sealer:
        if self._sealer is None:
            self._sealer = self._keys().new_sealer(CATALOGUE)
        return self._sealer

    def _opening(self) -> Sealer:
        if self._sealer is None:
            self._sealer = self._keys().sealer(CATALOGUE)
        return self._sealer


class ReadableTexts(Texts):
    """The same for who removes rows, which needs no key: what cannot be opened is left out of them.

    Notes say so under ``UNREAD``. Nothing is sealed: a wrong key must leave no traces, and who removes has nothing to
    say. Rows that are read so must never be written back.
    """

    def __init__(self, keys: Callable[[], DataKeys]) -> None:
        super().__init__(keys, seals=lambda: False)
        self._failure: KeyUnavailable | InvalidSettings | None = None

    def _opened_value(self, name: str, value: Any) -> Any:
        try:
            return super()._opened_value(name, value)
        except (KeyUnavailable, InvalidSettings, DamagedStore) as error:
            if name not in _OBJECTS:
                return ""
            visible: dict[str, Any] = {each: {} for each in _VISIBLE if f'"{each}"' in value}
            return jsonio.encode({**visible, UNREAD: error.cause}).decode()

    def _opening(self) -> Sealer:
        if self._failure is not None:  # a program that gives no key is not asked again for each row
            raise self._failure
        try:
            return super()._opening()
        except (KeyUnavailable, InvalidSettings) as error:
            self._failure = error
            raise


def sealed_object(value: str) -> str:
    """The sealed text in a JSON object; empty when it is a plain one."""
    if f'"{_SEALED}"' not in value:
        return ""
    try:
        found = jsonio.decode(value)
    except ValueError as error:
        raise DamagedStore("row", uuid="?", detail=str(error)) from error
    sealed = found.get(_SEALED) if isinstance(found, dict) else None
    return str(sealed) if is_sealed_text(sealed) else ""


class _SealedReading(Generic[Inner]):
    """Statements that can be asked, with what they give opened."""

    def __init__(self, inner: Inner, texts: Texts) -> None:
        self._inner = inner
        self._texts = texts

    def all(self, name: str, /, *conditions: str, **bindings: Value) -> list[DatabaseRow]:
        return [self._texts.opened(row) for row in self._inner.all(name, *conditions, **self._texts.sealed(bindings))]

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        found = self._inner.one(name, **self._texts.sealed(bindings))
        return None if found is None else self._texts.opened(found)

    def values(self, name: str, /, **bindings: Value) -> list[tuple[Any, ...]]:
        return self._inner.values(name, **self._texts.sealed(bindings))

    def moment(self) -> Moment:
        return self._inner.moment()


class _SealedStatements(_SealedReading[Statements]):
    """Statements of a transaction."""

    def run(self, name: str, /, **bindings: Value) -> int:
        return self._inner.run(name, **self._texts.sealed(bindings))


class SealedTasks(_SealedReading[TasksDatabase]):
    """The database of a catalogue, with its texts sealed."""

    @property
    def where(self) -> str:
        return self._inner.where

    @property
    def dies_with_us(self) -> bool:
        return self._inner.dies_with_us

    def open(self) -> None:
        self._inner.open()

    def close(self) -> None:
        self._inner.close()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Statements]:
        with self._inner.write(durable=durable) as statements:
            yield _SealedStatements(statements, self._texts)

    def change(
        self,
        action: Callable[[Statements], Result],
        *,
        done: Callable[[Statements], Result | None] | None = None,
        durable: bool = True,
    ) -> Result:
        def looked(statements: Statements) -> Result | None:
            assert done is not None
            return done(_SealedStatements(statements, self._texts))

        return self._inner.change(
            lambda statements: action(_SealedStatements(statements, self._texts)),
            done=None if done is None else looked,
            durable=durable,
        )

    def ask(self, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
        return self._inner.ask(question, parameters)

    def merge_rollups(self) -> None:
        self._inner.merge_rollups()

    def wait_for_tasks(self, seconds: float, stop: threading.Event) -> None:
        self._inner.wait_for_tasks(seconds, stop)
