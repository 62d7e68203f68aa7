"""Subscribes to the queue in PostgreSQL, for tasks that have just come: LISTEN on a connection of its own.

The tables' triggers notify a channel that is named after the schema. Nothing depends on it: without a connection
whoever waits simply waits its time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress

import psycopg
from psycopg import sql

from orihon.drivers.postgres.pool import Connection, Postgres
from orihon.errors import StorageError

logger = logging.getLogger("orihon.catalogue")

_SLICE = 0.25  # how long ``stop`` may go unseen
# Connections that came over a fork: kept, for letting go of one would end the parent's session.
_PARENTS: list[Connection] = []


class QueueListener:
    """One listening connection of this process; opened when somebody waits for the first time."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Until something has come, for at most so long; what came since the last wait counts, too."""
        give_up = time.monotonic() + seconds
        self._notice_fork()
        if self._lock.acquire(blocking=False):  # otherwise another thread listens: this one just waits
            try:
                if self._hears(give_up, stop):
                    return
            finally:
                self._lock.release()
        stop.wait(max(0.0, give_up - time.monotonic()))

    def close(self) -> None:
        """Stop listening; a later wait begins again."""
        self._notice_fork()
        if self._lock.acquire(timeout=4 * _SLICE):  # somebody who still waits has the connection, and drops it late
            try:
                self._drop()
            finally:
                self._lock.release()

    def _hears(self, give_up: float, stop: threading.Event) -> bool:
        """False when listening is not possible now."""
        try:
            if self._connection is None:
                self._listen()
                return True  # a task may have come before we listened: it is time to look
            while not stop.is_set() and (left := give_up - time.monotonic()) > 0:
                if any(True for _ in self._connection.notifies(timeout=min(left, _SLICE), stop_after=1)):
                    for _ in self._connection.notifies(timeout=0):
                        pass  # one look finds all that came
                    break
        except (psycopg.Error, StorageError) as error:
            logger.info("not listening to %s: %s", self._postgres.where, error)
            self._drop()
            return False
        return True

    def _listen(self) -> None:
        connection = self._postgres.dedicated(patient=False)
        try:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._postgres.schema)))
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _notice_fork(self) -> None:
        if self._pid == os.getpid():
            return
        if self._connection is not None:
            _PARENTS.append(self._connection)
        self._connection, self._pid, self._lock = None, os.getpid(), threading.Lock()
