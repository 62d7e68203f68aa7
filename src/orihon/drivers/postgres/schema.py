"""The tables: made when missing, brought up to date step by step, refused when a newer Orihon made them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql

from orihon.errors import NewerSchema, StorageUnavailable

#: A new schema gets these; an old one the steps that it lacks.
_TABLES = ("records.sql", "catalogue.sql")
#: Texts that bring a version to the next one: the first makes version 2 out of 1.
_STEPS: tuple[str, ...] = ("to_version_2.sql", "to_version_3.sql")

VERSION = 1 + len(_STEPS)


def bring_up_to_date(connection: psycopg.Connection[Any], schema: str, where: str) -> None:
    """Version ``VERSION``, whatever was there. One process at a time; all of a step or nothing of it."""
    if version_of(connection, schema) == VERSION:
        return
    _refuse_encoding(connection, where)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('orihon.' || %s))", (schema,))
        found = version_of(connection, schema)
        if found > VERSION:
            raise NewerSchema("database", path=f"{where} {schema}", found=found, known=VERSION)
        if found == 0:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            _run(connection, "CREATE TABLE orihon_version (version integer NOT NULL)")
            for name in _TABLES:
                _run(connection, _text(name))
            connection.execute("INSERT INTO orihon_version VALUES (%s)", (VERSION,))
        else:
            for name in _STEPS[found - 1 :]:
                _run(connection, _text(name))
            connection.execute("UPDATE orihon_version SET version = %s", (VERSION,))


def version_of(connection: psycopg.Connection[Any], schema: str) -> int:
    """The version of the tables in the schema; 0 when there are none."""
    # Not to_regclass: it may answer from what the session remembers, and not see what another has made meanwhile.
    known = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'orihon_version'"
    if connection.execute(known, (schema,)).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM orihon_version").fetchone()
    return 0 if row is None else int(row[0])


def _refuse_encoding(connection: psycopg.Connection[Any], where: str) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StorageUnavailable("server_encoding", where=where, encoding=encoding)


def _run(connection: psycopg.Connection[Any], text: str) -> None:
    """Several statements in one text; nothing from outside is part of it."""
    connection.execute(text.encode())


def _text(name: str) -> str:
    return files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
