"""The server's errors become ours, once, with their cause; which of them a further attempt may mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from orihon.errors import DamagedStore, StorageError, StorageUnavailable

#: By SQLSTATE, or by its class: the first two characters.
_REASONS = {
    "53100": "server_full",
    "53200": "server_full",
    "25006": "server_read_only",
    "3D000": "no_database",
    "42501": "server_denied",
    "28": "server_denied",
    "55P03": "server_locked",
    "57014": "server_locked",
    "40": "server_locked",
    "53300": "server_unreachable",
    "57P": "server_unreachable",
    "08": "server_unreachable",
}
_DAMAGED = ("XX001", "XX002")
_CHANGED_TABLE = "0A000"
#: Mistakes in the parameters of an address. No further attempt mends them.
_MISTAKES = re.compile(
    r"(?P<said>invalid [\w ]+ value|invalid port number|certificate verify failed"
    r"|server does not support SSL, but SSL was required|root certificate file|no password supplied"
    r"|unrecognized configuration parameter|invalid value for parameter|permission denied to set parameter)"
    r"(?P<rest>.*)"
)


def storage_error(error: psycopg.Error, where: str, timeout: float) -> StorageError:
    """The error of our tree for one of the driver's; ``where`` names the server without its password."""
    detail = said_by(error)
    if error.sqlstate in _DAMAGED:
        return DamagedStore("server", where=where, detail=detail)
    return StorageUnavailable(_reason(error), where=where, detail=detail, seconds=timeout)


@contextmanager
def server_errors(where: str, timeout: float) -> Iterator[None]:
    """Turns the driver's errors into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise storage_error(error, where, timeout) from error


def is_lost(error: psycopg.Error) -> bool:
    """Was it the connection that failed, or a server that is going down or coming up? Another may be luckier."""
    return _reason(error) == "server_unreachable"


def is_conflict(error: psycopg.Error) -> bool:
    """Was it a race? A server whose default is a stricter isolation tells it so.

    So is a newer Orihon that has given a table another column: the server then refuses the statements that it
    remembers with the columns of before.
    """
    return error.sqlstate in ("40001", "40P01") or is_outdated(error)


def is_outdated(error: psycopg.Error) -> bool:
    """Does the connection remember statements that no longer fit the tables? A new one does not."""
    return error.sqlstate == _CHANGED_TABLE


def said_by(error: psycopg.Error) -> str:
    """What the server or the driver said, on one line."""
    said = error.diag.message_primary or str(error)
    if not error.sqlstate and (mistake := _MISTAKES.search(said)):
        # The values of an address are not repeated, except the names that the server says.
        said = mistake["said"] + (mistake["rest"] if "FATAL" in said else "")
    return " ".join(said.split())


def _reason(error: psycopg.Error) -> str:
    state = error.sqlstate or ""
    for length in (5, 3, 2):
        if (reason := _REASONS.get(state[:length])) is not None:
            return reason
    if state or not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return "server_error"
    return _reason_of_refusal(str(error)) or "server_unreachable"


def _reason_of_refusal(text: str) -> str | None:
    """An answer to the attempt to log in carries no SQLSTATE; it cannot be told from the network's but by its words."""
    if _MISTAKES.search(text):
        return "server_settings"
    if "FATAL" not in text:
        return None
    if 'database "' in text and "does not exist" in text:
        return "no_database"
    is_refusal = any(word in text for word in ("authentication", "password", "pg_hba", "role ", "does not"))
    return "server_denied" if is_refusal else None
