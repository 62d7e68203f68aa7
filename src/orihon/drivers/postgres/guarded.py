"""``GuardedConnection``: a connection that notices when nobody is at the other end any more.

A network or a server may fall silent without an end of the connection, and the driver would wait for its answer for
ever. A statement that takes long is no silence: after a while the server is asked, over another connection, whether it
is at work for this one. If it is, the answer is waited for, however long; if it is not, or if nobody can be asked for
``patience`` seconds, the connection is closed and counts as lost.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo

from orihon.drivers.postgres.address import DOUBT

_Result = TypeVar("_Result")

_PROBE_SECONDS = 2  # the shortest time that the driver takes for a limit
_AT_WORK = "SELECT state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' FROM pg_stat_activity WHERE pid = %s"


class GuardedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Set ``patience``, and ``address`` for who is to be asked."""

    patience: float = 30.0
    address: str | None = None

    def wait(self, gen: PQGen[_Result], *args: Any, **options: Any) -> _Result:
        """See ``psycopg.Connection.wait``. Who names a limit (for notices, which may stay away) has it."""
        return super().wait(gen if args or options else self._received(gen), *args, **options)

    def _received(self, gen: PQGen[_Result]) -> PQGen[_Result]:
        try:
            state = next(gen)
            silence = _Silence(self)
            while True:
                ready = yield state
                if ready:
                    silence = _Silence(self)
                elif silence.is_final():
                    self.close()
                    raise psycopg.OperationalError(f"no answer for {time.monotonic() - silence.since:.1f} seconds")
                state = gen.send(ready)
        except StopIteration as end:
            result: _Result = end.value
            return result


class _Silence:
    """Nothing has come since ``since``."""

    __slots__ = ("_connection", "_doubts", "_next_doubt", "since")

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection
        self._doubts = 0
        self.since = time.monotonic()
        self._next_doubt = self.since + connection.patience * DOUBT

    def is_final(self) -> bool:
        """Will no answer come any more?"""
        if time.monotonic() < self._next_doubt:
            return False
        is_at_work = self._ask()
        if is_at_work is False:
            self._doubts += 1
            return self._doubts > 1  # the answer may have been under way while we asked: look once more
        self._doubts = 0
        now = time.monotonic()
        if is_at_work is None and now >= self.since + self._connection.patience:
            return True
        self._next_doubt = now + self._connection.patience * DOUBT
        return False

    def _ask(self) -> bool | None:
        """Is the server at work for this connection? ``None`` when nobody says."""
        connection = self._connection
        if connection.address is None:
            return None
        try:
            with GuardedConnection.connect(
                make_conninfo(connection.address, connect_timeout=_PROBE_SECONDS), autocommit=True
            ) as probe:
                probe.patience = _PROBE_SECONDS
                found = probe.execute(_AT_WORK, (connection.info.backend_pid,)).fetchone()
        except psycopg.Error:
            return None
        return found is not None and bool(found[0])
