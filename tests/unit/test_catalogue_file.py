"""The catalogue's file: private, shared by threads, and clear about every fault."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from orihon.catalogue import Catalogue
from orihon.catalogue.sqlite_db import SqliteStatements
from orihon.drivers.sqlite import connect, migrate, version
from orihon.errors import DamagedStore, NewerSchema, StorageUnavailable
from orihon.values.task import TaskKey
from tests.helpers import raw_database, refused

KEY = TaskKey("github", "notfolder", "coding_agent", "issue", "27", "花子")


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    code = "import os, sys; os.umask(int(sys.argv[2], 8)); from orihon.catalogue import Catalogue;"
    code += "c = Catalogue(sys.argv[1]); c.statistics.count_by_status(); os.kill(os.getpid(), 9)"
    for umask in ("000", "277"):
        path = tmp_path / umask / "deep" / "tasks.db"
        subprocess.run([sys.executable, "-c", code, str(path), umask], check=False, timeout=60)
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_promises_about_durability_are_set(catalogue: Catalogue) -> None:
    with catalogue._db.write() as statements:
        assert isinstance(statements, SqliteStatements)
        connection = statements._connection
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2  # FULL
        assert connection.pragma("foreign_keys") == 1


def test_threads_work_side_by_side(catalogue: Catalogue) -> None:
    def work(index: int) -> None:
        for number in range(20):
            catalogue.tasks.register(KEY, f"{index}-{number}")
            catalogue.tasks.add_statistics(f"{index}-{number}", tokens=1)
            catalogue.statistics.count_by_status()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert catalogue.statistics.count_by_status() == {"running": 80}
    assert sum(rollup.tokens for rollup in catalogue.statistics.rollups()) == 80


def test_a_locked_database_is_reported_and_readers_go_on(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with Catalogue(path, timeout=0.02, max_retries=2, retry_delay=0.001) as catalogue, raw_database(path) as other:
        catalogue.tasks.register(KEY, "one")
        other.execute("BEGIN IMMEDIATE")
        with refused(StorageUnavailable, "locked") as caught:
            catalogue.tasks.register(KEY, "two")
        assert isinstance(caught.value.__cause__, apsw.BusyError)
        assert catalogue.statistics.count_by_status() == {"running": 1}
        other.execute("ROLLBACK")
        catalogue.tasks.register(KEY, "two")


def test_an_empty_file_is_an_empty_database(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.touch()
    with Catalogue(path) as catalogue:
        catalogue.tasks.register(KEY, "one")
    with Catalogue(path) as again:
        assert again.tasks.get("one").key == KEY


@pytest.mark.parametrize("content", [b"not a database " * 500, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tasks.db"
    path.write_bytes(content)
    with refused(DamagedStore, "database") as caught:
        Catalogue(path)
    assert isinstance(caught.value.__cause__, apsw.Error)
    assert path.read_bytes() == content


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with raw_database(path) as connection:
        connection.execute("CREATE TABLE tasks (uuid TEXT)")
    with refused(DamagedStore, "foreign"):
        Catalogue(path)
    with raw_database(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("tasks",)]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    Catalogue(path).close()
    with raw_database(path) as connection:
        connection.pragma("user_version", 99)
    with refused(NewerSchema, "database") as caught:
        Catalogue(path)
    assert (caught.value.fields["found"], caught.value.fields["known"]) == (99, 5)
    with raw_database(path) as connection:
        assert connection.pragma("user_version") == 99


def test_migrations_go_forward_one_transaction_each(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    connection = connect(path, timeout=1, create=True)
    migrate(connection, path, schema="CREATE TABLE t (a)", steps=[])
    connection.execute("INSERT INTO t VALUES (1)")
    good = "ALTER TABLE t ADD COLUMN b; UPDATE t SET b = a + 1"
    with pytest.raises(apsw.SQLError):
        migrate(connection, path, schema="", steps=[good, "ALTER TABLE t ADD COLUMN c; UPDATE nowhere SET c = 1"])
    assert version(connection) == 2  # the first step stands, the second left no trace
    migrate(connection, path, schema="", steps=[good, "ALTER TABLE t ADD COLUMN c; UPDATE t SET c = b + 1"])
    assert version(connection) == 3
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, 2, 3)]
    connection.close()
    fresh = connect(tmp_path / "y.db", timeout=1, create=True)
    migrate(fresh, tmp_path / "y.db", schema="CREATE TABLE t (a, b, c)", steps=["broken", "broken"])
    assert version(fresh) == 3
    fresh.close()


def test_a_row_that_cannot_be_right_raises(catalogue: Catalogue) -> None:
    for name, column, value in (("one", "status", "asleep"), ("two", "metadata", "{")):
        catalogue.tasks.register(KEY, name)
        with raw_database(catalogue.path) as connection:
            connection.execute(f"UPDATE tasks SET {column} = ? WHERE uuid = ?", (value, name))
        with refused(DamagedStore, "row"):
            catalogue.tasks.get(name)


def test_a_place_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with refused(StorageUnavailable, "io") as caught:
        Catalogue(tmp_path / "file" / "tasks.db")
    assert isinstance(caught.value.__cause__, OSError)


UNPRIVILEGED = """
import os, sys
from orihon.catalogue import Catalogue
from orihon.errors import StorageUnavailable
scratch, *places = sys.argv[1:]
Catalogue(scratch).close()  # loads what has to be loaded, as Python itself may lie where only root can read
str(StorageUnavailable("denied", path="", detail=""))
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path in places:
    try:
        Catalogue(path)
    except StorageUnavailable as error:
        print(error.reason, error)
"""


def test_missing_permission_is_reported(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        closed, readable = Path(folder) / "closed", Path(folder) / "readable"
        for place in (closed, readable):
            Catalogue(place / "tasks.db").close()
        Path(folder).chmod(0o755)
        closed.chmod(0o000)
        readable.chmod(0o555)
        places = [str(place / "tasks.db") for place in (closed, readable)] + [str(readable / "new" / "tasks.db")]
        command = [sys.executable, "-c", UNPRIVILEGED, str(tmp_path / "scratch.db"), *places]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        closed.chmod(0o700)
        readable.chmod(0o700)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["denied"] * 3


FULL = """
import resource, sys
from orihon.catalogue import Catalogue
from orihon.errors import StorageUnavailable
from orihon.values.task import TaskKey
key = TaskKey("github", "o", "r", "issue", "1")
catalogue = Catalogue(sys.argv[1])
catalogue.tasks.register(key, "first")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
stored = 1
try:
    for number in range(1000):
        catalogue.tasks.register(key, f"task-{number}", metadata={"x": "y" * 5000})
        stored += 1
except StorageUnavailable as error:
    print(error.reason)
assert len(catalogue.tasks.page(limit=2000)) == stored
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
catalogue.tasks.register(key, "last")
assert len(catalogue.tasks.page(limit=2000)) == stored + 1
assert catalogue.statistics.check_rollups() == []
"""


def test_a_full_disk_is_reported_and_the_catalogue_goes_on_after_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "tasks.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("io", "full")


def test_a_command_that_ends_with_an_open_catalogue_says_nothing_of_it(tmp_path: Path) -> None:
    Catalogue(tmp_path / "tasks.db").close()
    program = "from orihon.cli.main import run; run()"
    command = [sys.executable, "-c", program, "--base-dir", str(tmp_path), "doctor"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
