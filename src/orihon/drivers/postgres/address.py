"""The address of a server: what our sessions need is added to it, and mistakes are named without what it holds.

A misread address may have the password where its host or port should be. So nothing of an address that is refused is
ever repeated, and one that only seems to be well formed is refused.

``GuardedConnection``: a connection that notices when nobody is at the other end any more.

A network or a server may fall silent without an end of the connection, and the driver would wait for its answer for
ever. A statement that takes long is no silence: after a while the server is asked, over another connection, whether it
is at work for this one. If it is, the answer is waited for, however long; if it is not, or if nobody can be asked for
``patience`` seconds, the connection is closed and counts as lost.
"""

from __future__ import annotations

import math
import re
import time
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orihon.errors import InvalidSettings

_CONNECT_SECONDS = 10
_DEFAULTS = {
    "application_name": "orihon",
    "connect_timeout": _CONNECT_SECONDS,
    "client_encoding": "UTF8",
    # A peer that has vanished is noticed also while nothing is sent.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
#: The part of the time limit after which a silent connection is doubted: there shall be time left for another one.
DOUBT = 1 / 3

_URL = re.compile(r"postgres(?:ql)?://(?P<authority>[^/?]*)(?P<rest>.*)", re.DOTALL)
#: What libpq says before it quotes a part of the address.
_MISTAKES = (
    "invalid percent-encoded token",
    "forbidden value %00",
    "unterminated quoted string",
    "invalid connection option",
    "invalid URI query parameter",
    "extra key/value separator",
    "missing key/value separator",
    "IPv6 host address may not be empty",
    'looking for matching "]"',
    "unexpected character",
)


class Address(NamedTuple):
    """``conninfo`` is for the driver alone; ``where`` names the server to people."""

    conninfo: str
    where: str
    connect_seconds: float


def addressed(url: str, schema: str, timeout: float) -> Address:
    """The address with what our sessions need."""
    parts = _parts(url)
    wanted = {
        "search_path": schema,
        "lock_timeout": f"{round(timeout * 1000)}",
        # A process that was stopped inside a transaction holds locks: the server ends it before others give up waiting.
        "idle_in_transaction_session_timeout": f"{max(1000, round(timeout * 1000 * DOUBT))}",
        # Whoever has waited for a lock must see what the one before has written, whatever the server's default is.
        "default_transaction_isolation": r"read\ committed",
    }
    options = " ".join(f"-c {name}={value}" for name, value in wanted.items())
    given = parts.pop("options", "")
    parts["options"] = f"{given} {options}".strip()
    where = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    unheard = {"tcp_user_timeout": max(1000, round(timeout * 1000 * DOUBT))}
    conninfo = make_conninfo(**{**_DEFAULTS, **unheard, **parts})
    return Address(conninfo, where, _seconds(parts.get("connect_timeout", _CONNECT_SECONDS)))


def _parts(url: str) -> dict[str, Any]:
    found = _URL.match(url)
    if found is not None and (found["authority"].count("@") > 1 or "@" in found["rest"]):
        raise InvalidSettings("database_url_characters")
    try:
        parts: dict[str, Any] = dict(conninfo_to_dict(url))
    except (psycopg.ProgrammingError, UnicodeEncodeError) as error:
        # Neither as cause nor as context: who prints the whole story must not find the password in it.
        detail = next((mistake for mistake in _MISTAKES if mistake in str(error)), 'missing "="')
        problem = InvalidSettings("database_url", detail=detail)
    else:
        if all(_is_port(port) for port in str(parts.get("port", "")).split(",")):
            return parts
        problem = InvalidSettings("database_url_port")
    raise problem


def _seconds(given: str | int) -> float:
    try:
        seconds = float(given)
    except ValueError:
        raise InvalidSettings("database_url", detail="invalid connect_timeout") from None
    return seconds if seconds > 0 else math.inf  # for libpq 0 is no limit


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and 0 < int(text) < 65536)


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
