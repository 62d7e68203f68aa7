"""Small things that many tests need."""

from __future__ import annotations

import logging
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, AnyStr

import apsw
import pytest

from orihon.errors import OrihonError
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, tokenizer

#: What the fixture ``some_steps`` gives.
SomeSteps = Callable[[Sequence[Any]], Sequence[Any]]


@contextmanager
def refused(kind: type[OrihonError], reason: str) -> Iterator[pytest.ExceptionInfo[OrihonError]]:
    """The block raises this error for this reason, and the error can be read in both languages."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.reason == reason
    assert caught.value.cause
    assert caught.value.remedy


@dataclass
class Rule:
    """One rule, held against many cases: a run names all that break it. Use it in a ``with`` block."""

    broken: list[str] = field(default_factory=list)

    @contextmanager
    def case(self, *names: object) -> Iterator[None]:
        """One of the cases; the next ones are tried, whatever becomes of it."""
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            lines = traceback.extract_tb(error.__traceback__)
            self.broken.append(f"{' '.join(map(str, names))}: {error!r} at {lines[-1].name}:{lines[-1].lineno}")

    def __enter__(self) -> Rule:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None and self.broken:
            pytest.fail("\n".join([f"{len(self.broken)} cases break the rule", *self.broken]), pytrace=False)


def logged(caplog: pytest.LogCaptureFixture, logger: str) -> list[logging.LogRecord]:
    """What was logged under a name; a thread that another test has left behind may have logged something else."""
    return [record for record in caplog.records if record.name == logger]


def count_exact(text: str, name: str = DEFAULT_TOKENIZER) -> int:
    """The tokens of a text by the named tokenizer."""
    return tokenizer(name)(text)


def lasting_day() -> str:
    """Today (UTC), which goes on for a minute at least: for figures of a day that are written now and read later."""
    if (later := datetime.now(UTC) + timedelta(minutes=1)).date() != datetime.now(UTC).date():
        time.sleep(60 - later.second)
    return datetime.now(UTC).date().isoformat()


@contextmanager
def raw_database(path: Path) -> Iterator[apsw.Connection]:
    """The file as somebody else's program sees it."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(60_000)
    try:
        yield connection
    finally:
        connection.close()


class Child(subprocess.Popen[AnyStr]):
    """Another process. The end of the block waits for it, as with any; but a test that has failed ends it first."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, trace)
