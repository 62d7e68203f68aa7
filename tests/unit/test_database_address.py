"""Wrong addresses of a database: the mistake is named, and nothing that may be the password is repeated."""

from __future__ import annotations

import time
import traceback

import pytest

from orihon.drivers.postgres.pool import Postgres
from orihon.errors import InvalidSettings, StorageUnavailable
from orihon.settings import load_settings
from tests.helpers import refused
from tests.services import Database

SECRET = "hush7"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"postgresql://u:{SECRET}@x/y{SECRET}@127.0.0.1:5432/test", "database_url_characters"),
        (f"postgresql://u:{SECRET}/pw@127.0.0.1:5432/test", "database_url_characters"),
        (f"postgresql://u:{SECRET}@{SECRET}@127.0.0.1/test", "database_url_characters"),
        (f"postgresql://u:pw?{SECRET}@127.0.0.1/test", "database_url_characters"),
        (f"postgresql://u:{SECRET}/test", "database_url_port"),
        ("postgresql://u@127.0.0.1:99999/test", "database_url_port"),
        (f"postgresql://u:{SECRET}%zz@127.0.0.1/test", "database_url"),
        (f"postgresql://u@127.0.0.1/test?{SECRET}=1", "database_url"),
        (f"postgresql://u@127.0.0.1/test?{SECRET}", "database_url"),
        (f"postgresql://u@127.0.0.1/test?connect_timeout={SECRET}", "database_url"),
        (f"host=127.0.0.1 {SECRET} dbname=test", "database_url"),
    ],
)
def test_a_wrong_address_is_refused_without_its_words(url: str, reason: str) -> None:
    with refused(InvalidSettings, reason) as caught:
        Postgres(url, "orihon")
    assert SECRET not in "".join(traceback.format_exception(caught.value, limit=0))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:a%40b%2Fc@127.0.0.1:5432/test",
        "postgres://u:p#w@a:1,b:2/test?target_session_attrs=read-write",
        "postgresql:///test?host=/run/postgresql",
        "postgresql://[::1]/test?connect_timeout=0",
    ],
)
def test_a_right_address_is_taken(url: str) -> None:
    assert Postgres(url, "orihon").where.endswith("/test")


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        (f"sslmode={SECRET}", "invalid sslmode value"),
        ("options=-cno_such_option%3D1", 'unrecognized configuration parameter "no_such_option"'),
    ],
)
def test_what_no_further_attempt_mends_is_said_at_once(postgres: Database, parameter: str, said: str) -> None:
    started = time.monotonic()
    with refused(StorageUnavailable, "server_settings") as caught:
        Postgres(f"{postgres.url.partition('?')[0]}?{parameter}", "orihon", timeout=120).open()
    assert time.monotonic() - started < 100
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["pg_mine", "pg_catalog", "information_schema"])
def test_schemas_of_the_server_itself_are_refused(name: str) -> None:
    with refused(InvalidSettings, "not_identifier"):
        load_settings({"database": {"schema": name}})
