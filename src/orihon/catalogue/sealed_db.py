"""``SealedTasks``: the database of a catalogue whose texts are encrypted.

What people and models have said (prompts, error texts, notes on a task, what notifications are about) is sealed on its
way in and opened on its way out; keys, states, times and figures stay readable, for the catalogue sorts, counts and
leases by them. Of the notes only whether there are some of a kind that statements ask for can be seen.

A text is bound to its row and its column: elsewhere it does not open. Where a task has a data key, a plain text in its
row is refused (an error text left out); a plain row of a task that has none yet is sealed when somebody takes the task.
Earlier versions bound texts to their column alone, and left rows plain: that is read until ``seal_anew`` has sealed
everything, and the key of the catalogue says that it has (``mark``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Generic, TypeVar

from orihon.catalogue.rows import CLEANED, IMPORT, UNREAD
from orihon.catalogue.tasks_db import DatabaseRow, Moment, Reading, Result, Statements, TasksDatabase, Value
from orihon.errors import DamagedStore, InvalidSettings, KeyUnavailable
from orihon.guard.keys import CATALOGUE, FIRST_MARK, DataKeys, KeyPlace, find_key
from orihon.guard.sealer import Sealer, is_old_text, is_sealed_text
from orihon.system import jsonio

#: Bindings that are texts, and columns that are: the place that they are sealed for.
_TEXTS = {"prompt": "prompt", "error_message": "error_message", "error": "last_error", "last_error": "last_error"}
#: The same for JSON objects.
_OBJECTS = {"metadata": "metadata", "body": "body"}
#: What a row is called by: of the table of tasks, of notifications, of alerts.
_NAMES = ("uuid", "event", "name")
_SEALED = "sealed"
#: Names in the notes that statements look for.
_VISIBLE = (CLEANED, IMPORT)
_EMPTY = "{}"
#: What the database itself writes about a task, in notices of its own.
_FIGURES = frozenset(("attempts", "retries"))
#: Statements that somebody takes a task by, before it is begun.
_TAKING = frozenset(("take_lease", "claim_task"))
_TASK_TEXTS = ("prompt", "error_message", "metadata")
_PAGE = 200

Inner = TypeVar("Inner", bound=Reading)


class Texts:
    """Seals and opens the values of statements; fetches the key when the first one needs it.

    ``seals`` is asked once, by the first value that would be sealed.
    """

    def __init__(
        self, keys: Callable[[], DataKeys], place: Callable[[], KeyPlace], *, seals: Callable[[], bool]
    ) -> None:
        self._keys = keys
        self._place = cache(place)
        self.seals = cache(seals)
        self._sealer: Sealer | None = None
        self._is_strict: bool | None = None

    def sealed(self, bindings: Mapping[str, Value]) -> dict[str, Value]:
        """The bindings as the database keeps them."""
        return {name: self._sealed_value(name, value, bindings) for name, value in bindings.items()}

    def opened(self, record: DatabaseRow) -> DatabaseRow:
        """A row as it was written."""
        return {name: self._opened_value(name, value, record) for name, value in record.items()}

    def is_old(self, record: DatabaseRow) -> bool:
        """Has the row a text that ``seal_anew`` would seal?"""
        texts = [sealed_in(name, value) for name, value in record.items()]
        return any(one is not None and is_old_text(one) for one in texts) or self._plain_in(record) != []

    def has_key(self, task: object) -> bool:
        """Is the task sealed, and not erased?"""
        known = find_key(self._place(), task) if isinstance(task, str) else None
        return known is not None and known.wrapped is not None and not known.is_staged

    def _plain_in(self, record: DatabaseRow) -> list[str]:
        """The columns of a row whose texts are plain although its task is sealed."""
        found = [name for name, value in record.items() if _is_plain(name, value)]
        return found if found and self.has_key(record.get("uuid") or record.get("task")) else []

    def _sealed_value(self, name: str, value: Value, row: Mapping[str, Value]) -> Value:
        if not isinstance(value, str) or not value:
            return value
        if name in _TEXTS and self.seals():
            return self._sealing().seal_text(_TEXTS[name], _called(row), value)
        if name in _OBJECTS and value != _EMPTY and self.seals():
            notes = jsonio.decode(value)
            visible = {each: 1 for each in _VISIBLE if each in notes}
            sealed = self._sealing().seal_text(_OBJECTS[name], _called(row), value)
            return jsonio.encode({**visible, _SEALED: sealed}).decode()
        return value

    def _opened_value(self, name: str, value: Any, row: DatabaseRow) -> Any:
        sealed = sealed_in(name, value)
        if sealed is None:
            return self._plain_value(name, value, row) if _is_plain(name, value) else value
        column = _TEXTS.get(name) or _OBJECTS[name]
        text = self._opening().open_text(column, _called(row), sealed)
        if is_old_text(sealed) and self.refuses_old():
            raise DamagedStore("row_text", uuid=_called(row), column=name)
        return text

    def _plain_value(self, name: str, value: Any, row: DatabaseRow) -> Any:
        task = row.get("uuid") or row.get("task")
        if task is None or not self.refuses_old() or not self.has_key(task):
            return value
        if name == "error_message":  # who watches over the queue without the key says so what became of a task
            return ""
        raise DamagedStore("row_text", uuid=_called(row), column=name)

    def refuses_old(self) -> bool:
        """Is every text here bound to its row, unless somebody has put others there?"""
        if self._is_strict is None:
            known = find_key(self._place(), CATALOGUE)
            self._is_strict = known is not None and known.mark >= FIRST_MARK
        return self._is_strict

    def note_sealed(self) -> None:
        """Every text is bound to its row: others are refused from now on."""
        self._sealing()
        self._keys().note_mark(CATALOGUE, FIRST_MARK)
        self._is_strict = None

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

    def __init__(self, keys: Callable[[], DataKeys], place: Callable[[], KeyPlace]) -> None:
        super().__init__(keys, place, seals=lambda: False)
        self._failure: KeyUnavailable | InvalidSettings | None = None

    def _opened_value(self, name: str, value: Any, row: DatabaseRow) -> Any:
        try:
            return super()._opened_value(name, value, row)
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


def sealed_in(name: str, value: Any) -> str | None:
    """The sealed text in the value of a column; ``None`` where there is none."""
    if name in _TEXTS:
        return value if is_sealed_text(value) else None
    return sealed_object(value) or None if name in _OBJECTS and isinstance(value, str) else None


def _is_plain(name: str, value: Any) -> bool:
    """Does a column say something in plain?"""
    if name not in {**_TEXTS, **_OBJECTS} or not isinstance(value, str) or value in ("", _EMPTY):
        return False
    if sealed_in(name, value) is not None:
        return False
    if name != "body":
        return True
    try:
        found = jsonio.decode(value)
    except ValueError:
        return True
    figures = found if isinstance(found, dict) else {"": ""}
    return not (figures.keys() <= _FIGURES and all(isinstance(figure, int) for figure in figures.values()))


def _called(row: Mapping[str, Any]) -> str:
    """What a row is called, with what kind of name that is."""
    return next(f"{name} {row[name]}" for name in _NAMES if row.get(name) is not None)


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

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        if name in _TAKING and self._texts.seals():
            self._seal_first(bindings["uuid"])
        return super().one(name, **bindings)

    def _seal_first(self, uuid: Value) -> None:
        """A task that was queued plain may be begun sealed; once it has a key, its row is what it says."""
        row = self._inner.one("task", uuid=uuid)
        if row is None or self._texts.has_key(uuid):
            return
        if any(_is_plain(name, row[name]) for name in _TASK_TEXTS):
            texts = self._texts.opened(row)
            self.run("seal_task", uuid=uuid, **{name: texts[name] for name in _TASK_TEXTS})

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

    # ---- texts of earlier versions -----------------------------------------------------------------------------

    def count_old(self) -> int:
        """How many rows have texts that are bound to no row, or are plain although the task is sealed."""
        if self._texts.refuses_old():
            return 0
        return sum(self._texts.is_old(row) for rows in self._with_texts() for _, row in rows)

    def seal_anew(self) -> int:
        """Seal those texts for their rows; from then on others are refused. Stopped halfway, it is gone on with."""
        if self._texts.refuses_old():
            return 0
        done = 0
        for rows in self._with_texts():
            old = [(table, row) for table, row in rows if self._texts.is_old(row)]
            if old:
                done += self.change(partial(_sealed_anew, old))
        self._texts.note_sealed()
        return done

    def _with_texts(self) -> Iterator[list[tuple[str, DatabaseRow]]]:
        uuids = [str(row[0]) for row in self._inner.values("states_of_tasks")]
        for first in range(0, len(uuids), _PAGE):
            found = (self._inner.one("task", uuid=uuid) for uuid in uuids[first : first + _PAGE])
            yield [("tasks", row) for row in found if row is not None]
        since = -1
        while notices := self._inner.all("notifications", since=since, limit=_PAGE):
            yield [("notifications", row) for row in notices]
            since = notices[-1]["id"]
        yield [("alerts", row) for row in self._inner.all("alerts")]

    def ask(self, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
        return self._inner.ask(question, parameters)

    def merge_rollups(self) -> None:
        self._inner.merge_rollups()

    def wait_for_tasks(self, seconds: float, stop: threading.Event) -> None:
        self._inner.wait_for_tasks(seconds, stop)


def _sealed_anew(rows: Sequence[tuple[str, DatabaseRow]], statements: Statements) -> int:
    """Each as it is now: somebody may have written it since."""
    done = 0
    for table, row in rows:
        if table == "tasks":
            now = statements.one("task_to_change", uuid=row["uuid"])
            values = {} if now is None else {"uuid": row["uuid"], **{name: now[name] for name in _TASK_TEXTS}}
            done += statements.run("seal_task", **values) if values else 0
        elif table == "notifications":
            now = statements.one("notification", event=row["event"])
            values = {} if now is None else {name: now[name] for name in ("event", "body", "last_error")}
            done += statements.run("seal_notification", **values) if values else 0
        else:
            now = next((one for one in statements.all("alerts") if one["name"] == row["name"]), None)
            done += 0 if now is None else statements.run("seal_alert", name=now["name"], body=now["body"])
    return done
