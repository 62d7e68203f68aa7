"""A second copy of SQLite in the process: Python's own ``sqlite3`` beside ours, on the same files.

Everything happens in a process of its own, which ends without closing anything: what it has acknowledged is looked for
by another one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from orihon import Base
from orihon.drivers.sqlite import SqliteConnection, connect, transaction
from orihon.errors import DamagedStore, StaleWriter, StorageUnavailable
from orihon.store.reader import TaskReader
from tests.helpers import refused

#: What programs of others do, and what they do it to. ``say`` is an acknowledgement: the test looks for all of them.
BESIDE = """
import json, os, sqlite3, sys, threading
from contextlib import closing
from pathlib import Path
from orihon import Base

base_dir = Path(sys.argv[1])
base = Base(base_dir, context_storage={"backend": "sqlite"})

def say(*words):
    print(json.dumps(words), flush=True)

def databases():
    return [path for path in base_dir.rglob("*.db") if path.stat().st_size]

def look(statement="SELECT count(*) FROM sqlite_master"):
    for path in databases():
        with closing(sqlite3.connect(path, timeout=0)) as other:
            try:
                other.execute(statement).fetchall()
            except sqlite3.OperationalError as error:
                assert "locked" in str(error), error

def in_thread():
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
"""


def run(code: str, base: Path, *arguments: str, status: int = 0) -> list[Any]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BESIDE + code, str(base), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def found(base: Path, said: list[Any]) -> None:
    """Every acknowledged task and message is there, once, in sound databases."""
    queued = {words[1] for words in said if words[0] == "task"}
    messages: dict[str, list[str]] = {}
    for _, uuid, text in (words for words in said if words[0] == "message"):
        messages.setdefault(uuid, []).append(text)
    with Base(base, context_storage={"backend": "sqlite"}) as open_base:
        open_base.needed_catalogue()
        assert queued <= set(open_base.uuids())
        for uuid, texts in messages.items():
            assert not open_base.verify(uuid)
            place = open_base.folders.find(uuid)
            assert place is not None
            store = open_base.read_store(place)
            stored = [record.message.content for record in TaskReader(store.records, uuid).messages()]
            assert [text for text in stored if text in texts] == texts
            store.close()
    for path in base.rglob("*.db"):
        connection = apsw.Connection(str(path))
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        connection.close()


def test_tasks_enqueued_beside_a_reader_are_found_again(tmp_path: Path) -> None:
    said = run(
        """
say("task", base.enqueue("first"))
look()
for number in range(6):
    say("task", base.enqueue(f"task {number}"))
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) == 7
    found(tmp_path, said)


def test_messages_added_beside_a_reader_are_found_again(tmp_path: Path) -> None:
    said = run(
        """
task = base.task("me")
task.add("user", "first")
look()
for number in range(6):
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) == 6
    found(tmp_path, said)


@pytest.mark.parametrize("reader", ["look", "in_thread"])
def test_a_reader_at_every_point_of_an_append_a_claim_and_an_enqueue(tmp_path: Path, reader: str) -> None:
    said = run(
        """
import apsw
reader, points, busy = globals()[sys.argv[2]], 0, False

def point(*_):
    global points, busy
    if not busy:
        points, busy = points + 1, True
        reader()
        busy = False

def watch(connection):
    if not str(connection.filename).startswith(str(base_dir)):
        return
    connection.exec_trace = lambda *_: point() or True   # before each statement
    connection.set_update_hook(point)                    # inside it
    connection.set_commit_hook(lambda: bool(point()))    # before the log is written
    connection.set_profile(point)                        # behind it

apsw.connection_hooks.append(watch)
from orihon.runtime.broker_queue import open_queue
queue = open_queue(base)
for number in range(2):
    say("task", base.enqueue(f"task {number}"))
taken = queue.dequeue()
say("claimed", taken.uuid)
task = base.task("me")
for number in range(2):
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
say("points", points)
os._exit(0)
""",
        tmp_path,
        reader,
    )
    assert dict(words[:2] for words in said if words[0] == "points")["points"] > 100
    found(tmp_path, said)
    claimed = next(words[1] for words in said if words[0] == "claimed")
    with Base(tmp_path) as base:
        row = base.registered(claimed)[1]
        assert row.attempts == 1


def test_a_fork_reads_and_both_go_on(tmp_path: Path) -> None:
    said = run(
        """
task = base.task("me")
say("task", base.enqueue("before"))
pid = os.fork()
if pid == 0:
    look()
    say("task", base.enqueue("child"))
    look()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
for number in range(3):
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
say("task", base.enqueue("behind"))
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) == 6
    found(tmp_path, said)


def test_a_viewer_that_stays_open_and_other_ways_to_look(tmp_path: Path) -> None:
    said = run(
        """
task = base.task("me")
task.add("user", "before")
viewers = [sqlite3.connect(path) for path in databases()]
for viewer in viewers:
    viewer.execute("SELECT count(*) FROM sqlite_master").fetchall()
attached = sqlite3.connect(":memory:")
attached.execute("ATTACH ? AS tasks", (str(base_dir / "tasks.db"),))
attached.execute("SELECT count(*) FROM tasks.tasks").fetchall()
attached.commit()
for number in range(6):
    look("VACUUM" if number % 2 else "SELECT count(*) FROM sqlite_master")
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
    say("task", base.enqueue(f"task {number}"))
attached.close()
say("task", base.enqueue("attached has gone"))
for viewer in viewers:
    viewer.execute("SELECT count(*) FROM sqlite_master").fetchall()
    viewer.close()
task.add("user", "viewers have gone")
say("message", task.uuid, "viewers have gone")
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) == 14
    found(tmp_path, said)


def test_a_viewer_that_outlives_us_does_not_remove_what_others_wrote(tmp_path: Path) -> None:
    """Its close must not take the log of a process that was killed meanwhile."""
    said = run(
        """
import signal, subprocess
base.enqueue("before")
viewer = sqlite3.connect(base_dir / "tasks.db")
viewer.execute("SELECT count(*) FROM tasks").fetchall()
base.close()
code = "import os, sys; from orihon import Base; base = Base(sys.argv[1]); print(base.enqueue('other'), flush=True)"
code += "; os.kill(os.getpid(), 9)"
other = subprocess.run([sys.executable, "-c", code, sys.argv[1]], capture_output=True, text=True)
say("task", other.stdout.strip())
assert viewer.execute("SELECT count(*) FROM tasks").fetchall() == [(2,)]
viewer.close()
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) == 1
    found(tmp_path, said)


def test_two_processes_write_while_a_thread_looks_all_the_time(tmp_path: Path) -> None:
    code = """
stop = threading.Event()

def always():
    while not stop.is_set():
        look()

threads = [threading.Thread(target=always, daemon=True) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
for number in range(120):
    say("task", base.enqueue(f"{sys.argv[3]} {number}"))
    base.tasks(limit=5)
os._exit(0)
"""
    with Base(tmp_path) as base:
        base.enqueue("before")
    start = [sys.executable, "-c", BESIDE + code, str(tmp_path)]
    both = [
        subprocess.Popen([*start, looks, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for looks, name in (("1", "a"), ("0", "b"))
    ]
    said: list[Any] = []
    for process in both:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        said += [json.loads(line) for line in out.splitlines()]
    assert len(said) == 240
    found(tmp_path, said)


def made(path: Path) -> SqliteConnection:
    """A new database in a folder that may be new, or the one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return connect(path, timeout=20, create=True)


def test_another_connection_by_our_own_library_is_left_in_peace(tmp_path: Path) -> None:
    """What we close would drop its locks, and whoever comes next would empty the index that it has mapped."""
    said = run(
        """
import apsw, subprocess
say("task", base.enqueue("before"))
viewer = apsw.Connection(str(base_dir / "tasks.db"))
viewer.execute("BEGIN")
assert viewer.execute("SELECT count(*) FROM tasks").get == 1
for number in range(3):
    base.close()
    say("task", base.enqueue(f"task {number}"))
    base.close()
    code = "import sys; from orihon import Base; print(Base(sys.argv[1]).enqueue('other'))"
    other = subprocess.run([sys.executable, "-c", code, sys.argv[1]], capture_output=True, text=True)
    say("task", other.stdout.strip())
    assert viewer.execute("SELECT count(*) FROM tasks").get == 1
viewer.execute("COMMIT")
assert viewer.execute("SELECT count(*) FROM tasks").get == 7
viewer.close()
say("task", base.enqueue("last"))
base.close()
assert [path.name for path in base_dir.glob("tasks.db*")] == ["tasks.db"]
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) == 8
    found(tmp_path, said)


# ---- the other copy writes -------------------------------------------------------------------------------------------

HAMMER = """
WORK = [
    "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "CREATE TABLE IF NOT EXISTS foreign_table (x)",
    "INSERT INTO foreign_table VALUES (randomblob(3000))", "UPDATE foreign_table SET x = randomblob(100)",
    "SELECT count(*) FROM sqlite_master",
]
REFUSALS = ("locked", "no such table", "unable to open")   # not: "malformed"; the folder of a task moves
rounds, targets, answers = 0, [], []

def hammer(stays):
    global rounds
    kept = {}
    while True:
        for path in list(targets):
            try:
                other = kept.get(path) or sqlite3.connect(
                    f"file:{path}?mode=rw", uri=True, timeout=0.05, isolation_level=None
                )
            except sqlite3.OperationalError as error:
                assert any(words in str(error) for words in REFUSALS), error
                continue
            for statement in WORK:
                try:
                    answers.append(other.execute(statement).fetchall())
                except sqlite3.OperationalError as error:
                    assert any(words in str(error) for words in REFUSALS), error
            if stays:
                kept[path] = other
            else:
                other.close()
        rounds += 1
"""


@pytest.mark.parametrize("stays", ["", "stays"])
def test_nothing_is_lost_while_a_thread_writes_with_the_other_copy(tmp_path: Path, stays: str) -> None:
    """It writes, checkpoints and makes anew what we write to, closes it or not; we close and open it, too."""
    said = run(
        HAMMER
        + """
def open_task():
    base = Base(base_dir, context_storage={"backend": "sqlite"})
    task = base.task("me")
    task.add("user", "before")
    targets[:] = databases()
    return base, task

base.close()
base, task = open_task()
thread = threading.Thread(target=hammer, args=[sys.argv[2]], daemon=True)
thread.start()
number = 0
while number < 40 or (rounds < 2 and thread.is_alive()):
    say("task", base.enqueue(f"task {number}"))
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
    number += 1
    if number % 8 == 0:
        task.close()
        base.close()
        base, task = open_task()
assert thread.is_alive()
os._exit(0)
""",
        tmp_path,
        stays,
    )
    assert len(said) >= 80
    found(tmp_path, said)


def test_the_two_copies_wait_for_each_other(tmp_path: Path) -> None:
    """Each meets the locks of the other in the same process, also when ours has closed its last connection."""
    said = run(
        """
import apsw
from orihon.drivers.sqlite import connect, transaction

def ours(timeout=0):
    return connect(base_dir / "some.db", timeout=timeout, create=True)

def other():
    return sqlite3.connect(base_dir / "some.db", timeout=0, isolation_level=None)

def is_locked(action):
    try:
        action()
    except (sqlite3.OperationalError, apsw.BusyError) as error:
        return "locked" in str(error)
    return False

connection = ours()
with transaction(connection):
    connection.execute("CREATE TABLE t (x)")
viewer = other()
with transaction(connection):
    connection.execute("INSERT INTO t VALUES (1)")
    for each in (viewer, other()):
        say("write", is_locked(lambda: each.execute("INSERT INTO t VALUES (2)")))
        say("vacuum", is_locked(lambda: each.execute("VACUUM")))
        say("truncate", each.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 1)
        say("read", each.execute("SELECT count(*) FROM t").fetchall() == [(0,)])
    each.close()
say("journal", is_locked(lambda: viewer.execute("PRAGMA journal_mode = DELETE")))
viewer.execute("BEGIN IMMEDIATE")
viewer.execute("INSERT INTO t VALUES (3)")
say("ours", is_locked(connection.begin))
for _ in range(2):
    connection.close()
    connection = ours()
    say("ours, opened again", is_locked(connection.begin))
viewer.execute("COMMIT")
connection.begin()
connection.execute("INSERT INTO t VALUES (4)")
connection.commit()
say("found", connection.execute("SELECT group_concat(x) FROM t").get == "1,3,4")
connection.close()
viewer.close()
ours().close()
say("log is gone", not [path.name for path in base_dir.glob("some.db-*")])
os._exit(0)
""",
        tmp_path,
    )
    assert [word for word, is_so in said if not is_so] == []
    assert len(said) == 14


def test_a_child_leaves_the_locks_to_its_parent(tmp_path: Path) -> None:
    """What it closes unlocks nothing there; another copy's connection that it has inherited goes on."""
    said = run(
        """
from orihon.drivers.sqlite import connect, transaction

connection = connect(base_dir / "some.db", timeout=0, create=True)
with transaction(connection):
    connection.execute("CREATE TABLE t (x)")
viewer = sqlite3.connect(base_dir / "some.db", timeout=0, isolation_level=None)
viewer.execute("SELECT count(*) FROM t").fetchall()
with transaction(connection):
    connection.execute("INSERT INTO t VALUES (1)")
    pid = os.fork()
    if pid == 0:
        connection.close()
        del connection
        other = sqlite3.connect(base_dir / "some.db", timeout=0, isolation_level=None)
        try:
            other.execute("INSERT INTO t VALUES (2)")
        except sqlite3.OperationalError as error:
            say("child", str(error))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
pid = os.fork()
if pid == 0:
    say("inherited", viewer.execute("SELECT x FROM t").fetchall())
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
say("parent", connection.execute("SELECT x FROM t").get)
os._exit(0)
""",
        tmp_path,
    )
    assert said == [["child", "database is locked"], ["inherited", [[1]]], ["parent", 1]]


# ---- the other copy takes the log away -------------------------------------------------------------------------------

SWITCHING = """
WITHOUT_LOG = ("DELETE", "TRUNCATE", "PERSIST")   # modes that write to the database itself

def switched(path, mode):
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    assert other.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0] == mode.lower()
    return other
"""


def test_nothing_is_lost_while_a_thread_takes_the_log_away_whenever_it_can(tmp_path: Path) -> None:
    """``journal_mode = DELETE`` and the like, and writing without a log, while we open, write and close."""
    said = run(
        HAMMER
        + """
WORK = [
    "PRAGMA journal_mode = DELETE", "CREATE TABLE IF NOT EXISTS foreign_table (x)",
    "INSERT INTO foreign_table VALUES (randomblob(3000))", "BEGIN IMMEDIATE",
    "INSERT INTO foreign_table VALUES (randomblob(300000))", "COMMIT", "DELETE FROM foreign_table",
    "PRAGMA journal_mode = TRUNCATE", "VACUUM", "SELECT count(*) FROM sqlite_master",
]
REFUSALS = (*REFUSALS, "within a transaction", "no transaction")

def open_task():
    base = Base(base_dir, context_storage={"backend": "sqlite"})
    task = base.task("me")
    task.add("user", "before")
    targets[:] = databases()
    return base, task

base.close()
base, task = open_task()
thread = threading.Thread(target=hammer, args=[""], daemon=True)
thread.start()
number = 0
while number < 24 or (answers.count([("delete",)]) < 3 and thread.is_alive()):
    say("task", base.enqueue(f"task {number}"))
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
    number += 1
    if number % 3 == 0:
        task.close()
        base.close()
        before = rounds
        while rounds == before and thread.is_alive():
            pass   # the files are the other copy's
        base, task = open_task()
assert thread.is_alive()
os._exit(0)
""",
        tmp_path,
    )
    assert len(said) >= 48
    found(tmp_path, said)


def test_a_transaction_without_a_log_is_waited_for(tmp_path: Path) -> None:
    """In the same process nobody meets the locks of the other copy; its journal looked like one of a dead process."""
    said = run(
        SWITCHING
        + """
import apsw
from orihon.drivers.sqlite import connect, transaction
from orihon.errors import StorageUnavailable

path = base_dir / "some.db"
connection = connect(path, timeout=0, create=True)
with transaction(connection):
    connection.execute("CREATE TABLE t (x, filler)")
    connection.execute("INSERT INTO t VALUES (0, zeroblob(300000))")
for mode in WITHOUT_LOG:
    connection.close()
    viewer = switched(path, mode)
    for begin in ("BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"):
        viewer.execute("PRAGMA cache_size = 1")
        viewer.execute(begin)
        viewer.execute("SELECT count(*) FROM t").fetchall()
        if begin != "BEGIN":
            viewer.execute("UPDATE t SET filler = randomblob(300000)")   # goes to the file before the end
        for open_it in (connect, lambda path, timeout: connect(path, timeout=timeout, create=True)):
            try:
                open_it(path, timeout=0)
            except StorageUnavailable as error:
                say("waits", error.reason)
        if begin != "BEGIN":
            viewer.execute("UPDATE t SET x = x + 1")
        viewer.execute("COMMIT")
    connection = connect(path, timeout=20)
    with transaction(connection):
        connection.execute("UPDATE t SET x = x + 10")
    viewer.execute("SELECT x FROM t").fetchall()
    try:
        viewer.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        say("refused", str(error))
    say("both", viewer.execute("SELECT x FROM t").fetchone()[0], connection.execute("SELECT x FROM t").get)
    viewer.close()
say("whole", connection.execute("PRAGMA integrity_check").get)
os._exit(0)
""",
        tmp_path,
    )
    assert [words for words in said if words[0] == "waits"] == [["waits", "locked"]] * 18
    assert [words for words in said if words[0] == "refused"] == [["refused", "database is locked"]] * 3
    assert [words[1:] for words in said if words[0] == "both"] == [[12, 12], [24, 24], [36, 36]]
    assert said[-1] == ["whole", "ok"]


def test_what_a_killed_one_has_begun_without_a_log_is_taken_back(tmp_path: Path) -> None:
    """And what was acknowledged before is there, read by one who only looks, too."""
    with Base(tmp_path, context_storage={"backend": "sqlite"}) as base:
        task = base.task("me")
        task.add("user", "hello")
        task.close()
        uuid = task.uuid or ""
    run(
        SWITCHING
        + """
for path in databases():
    other = switched(path, "DELETE")
    other.execute("CREATE TABLE filler AS SELECT randomblob(500000) AS x")
    other.execute("PRAGMA cache_size = 1")
    other.execute("BEGIN")
    other.execute("UPDATE filler SET x = zeroblob(500000)")
    other.execute("DROP TABLE " + other.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()[0])
    assert Path(f"{path}-journal").stat().st_size
os.kill(os.getpid(), 9)
""",
        tmp_path,
        status=-signal.SIGKILL,
    )
    assert len(list(tmp_path.rglob("*-journal"))) == 2
    with Base(tmp_path, context_storage={"backend": "sqlite"}) as base:
        assert base.sql("SELECT uuid FROM tasks") == [{"uuid": uuid}]
        assert not base.verify(uuid)
        task = base.task("me")
        assert [message["content"] for message in task.messages()][-1] == "hello"
        task.close()
    assert not list(tmp_path.rglob("*-journal"))


# ---- reading ---------------------------------------------------------------------------------------------------------

REWRITE = """
import sys
from pathlib import Path
from orihon.drivers.sqlite import connect, transaction

connection = connect(Path(sys.argv[1]), timeout=20)
with transaction(connection):
    connection.execute("UPDATE t SET x = 2")
connection.wait_for(0)  # the reader keeps it off, where its lock holds
connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
"""


@pytest.mark.parametrize(
    ("locks", "expected"),
    [
        ("of descriptions", {"answer": [1], "attempts": [[1]]}),
        ("of processes", {"answer": [2], "attempts": [[1, 2], [2]]}),
    ],
)
def test_a_read_is_not_overtaken_or_made_again(tmp_path: Path, locks: str, expected: dict[str, Any]) -> None:
    """The other copy closes the file in the middle of a read; then somebody writes everything anew.

    Where SQLite's locks are those of the process, the one of the read is gone by then.
    """
    said = run(
        """
import subprocess
from orihon.drivers import sqlite_locks
from orihon.drivers.sqlite import connect, transaction

if sys.argv[3] == "of processes":
    sqlite_locks._CODE.clear()

path, attempts = base_dir / "some.db", []
connection = connect(path, timeout=20, create=True)
connection.execute("PRAGMA cache_size = 1")
with transaction(connection):
    connection.execute("CREATE TABLE t (x, filler)")
    for _ in range(200):
        connection.execute("INSERT INTO t VALUES (1, zeroblob(3000))")
with connection.alone():
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

def read():
    rows = connection.execute("SELECT x FROM t")
    attempts.append([next(rows)[0]])
    if len(attempts) == 1:
        look()
        subprocess.run([sys.executable, "-c", sys.argv[2], str(path)], check=True)
    attempts[-1] += [row[0] for row in rows]
    return attempts[-1]

say("answer", sorted(set(connection.steadily(read))))
say("attempts", [sorted(set(found)) for found in attempts])
os._exit(0)
""",
        tmp_path,
        REWRITE,
        locks,
    )
    assert dict(said) == expected


def test_the_last_close_removes_the_log_as_ever(tmp_path: Path) -> None:
    with Base(tmp_path, context_storage={"backend": "sqlite"}) as base, base.task("me") as task:
        task.add("user", "hello")
    assert not [path.name for path in tmp_path.rglob("*") if path.name.endswith(("-wal", "-shm"))]


def test_a_forgotten_connection_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    connection = made(path)
    with transaction(connection):
        connection.execute("CREATE TABLE t (x)")
    del connection
    assert [each.name for each in tmp_path.iterdir()] == ["some.db"]


# ---- what somebody does to the files all the same --------------------------------------------------------------------


@pytest.mark.parametrize("endings", [("-wal",), ("-wal", "-shm")])
@pytest.mark.parametrize("moment", ["before", "within"])
def test_a_log_that_is_removed_by_hand_costs_nothing(tmp_path: Path, endings: tuple[str, ...], moment: str) -> None:
    said = run(
        """
def remove():
    for ending in sys.argv[3:]:
        for path in base_dir.rglob("*.db" + ending):
            path.unlink()

task = base.task("me")
for number in range(3):
    task.add("user", f"message {number}")
    say("message", task.uuid, f"message {number}")
    say("task", base.enqueue(f"task {number}"))
    if sys.argv[2] == "before":
        remove()
if sys.argv[2] == "within":
    with base.catalogue._db.write() as statements:
        remove()
    with task.context.message_store.task_store.records.bare.writing():
        remove()
task.add("user", "last")
say("message", task.uuid, "last")
say("task", base.enqueue("last"))
os._exit(0)
""",
        tmp_path,
        moment,
        *endings,
    )
    assert len(said) == 8
    found(tmp_path, said)


def test_a_log_with_other_contents_in_its_place_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    connection = made(path)
    with transaction(connection):
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink()
    Path(f"{path}-wal").write_bytes(b"?" * 5000)
    with refused(DamagedStore, "log_replaced") as caught:
        connection.is_usable()
    connection.close()
    assert Path(f"{path}-wal").stat().st_size == 5000
    copy = apsw.Connection(str(caught.value.fields["kept"]))
    assert copy.execute("SELECT x FROM t").get == 1


def test_what_is_committed_into_a_database_that_was_replaced_is_not_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    connection = made(folder / "some.db")
    with transaction(connection):
        connection.execute("CREATE TABLE t (x)")

    def write_late() -> None:
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES (1)")
            folder.rename(tmp_path / "taken")
            other = made(folder / "some.db")
            with transaction(other):
                other.execute("CREATE TABLE u (x)")
            others.append(other)

    others: list[SqliteConnection] = []
    with refused(StorageUnavailable, "replaced"):
        write_late()
    connection.close()
    with transaction(others[0]):  # the log of the new one is as it was
        others[0].execute("INSERT INTO u VALUES (1)")
    others[0].close()
    assert connect(folder / "some.db", timeout=1).execute("SELECT x FROM u").get == 1


def test_a_folder_that_was_put_away_under_another_name_takes_no_more_writes(tmp_path: Path) -> None:
    connection = made(tmp_path / "task" / "some.db")

    def write_late() -> None:
        with transaction(connection):
            connection.execute("CREATE TABLE t (x)")
            (tmp_path / "task").rename(tmp_path / "taken")

    with refused(StorageUnavailable, "replaced"):
        write_late()


def test_a_folder_that_moves_as_a_whole_keeps_what_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "paused").mkdir()
    connection = made(tmp_path / "running" / "task" / "some.db")
    with transaction(connection):
        connection.execute("CREATE TABLE t (x)")
        (tmp_path / "running" / "task").rename(tmp_path / "paused" / "task")
    assert connection.is_usable()
    connection.close()
    moved = connect(tmp_path / "paused" / "task" / "some.db", timeout=1)
    assert moved.execute("SELECT count(*) FROM t").get == 0


def test_a_process_that_is_killed_while_it_writes_leaves_the_turn_to_others(tmp_path: Path) -> None:
    run(
        """
with base.needed_catalogue()._db.write():
    os.kill(os.getpid(), 9)
""",
        tmp_path,
        status=-signal.SIGKILL,
    )
    with Base(tmp_path) as base:
        assert base.enqueue("next")


def test_a_fork_does_not_keep_the_turn_of_its_parent(tmp_path: Path) -> None:
    """The locks belong to what both have open; the child closes it at once."""
    code = """
connection = connect(base_dir / "some.db", timeout=30, create=True)
connection.begin()
pid = os.fork()
if pid == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
say(pid)
os._exit(0)
"""
    command = [sys.executable, "-c", f"{BESIDE}from orihon.drivers.sqlite import connect\n{code}", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (pid,) = json.loads(process.stdout.readline())
        process.wait(60)
        os.kill(pid, 0)  # the child lives
        connection = made(tmp_path / "some.db")
        with transaction(connection):
            connection.execute("CREATE TABLE t (x)")
        connection.close()
        process.stdin.close()


def test_transactions_are_begun_in_one_place() -> None:
    source = Path(sys.modules["orihon"].__file__ or "").parent
    texts = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    assert [name for name, text in texts.items() if "BEGIN IMMEDIATE" in text] == ["drivers/sqlite.py"]
    bare = {name for name, text in texts.items() if "apsw.Connection(" in text}
    # Private copies, one that only keeps a file open, and databases that other programs have made.
    copies = {"drivers/sqlite.py", "transfer/backup/snapshot.py"}
    assert bare == {*copies, "drivers/sqlite_guard.py", "importers/lines.py"}
    writing = {name for name, text in texts.items() if 'execute("VACUUM' in text or "wal_checkpoint" in text}
    assert writing == {"drivers/sqlite.py"}


def test_a_writer_whose_task_was_taken_away_is_refused(tmp_path: Path) -> None:
    """The taker has put the folder away and a copy in its place while this writer was asleep in its transaction."""
    with Base(tmp_path, context_storage={"backend": "sqlite"}) as base:
        task = base.task("me")
        task.add("user", "before")
        folder = task.context.context_dir
        records = task.context.message_store.task_store.records.bare
        with refused(StaleWriter, "taken_away"), records.writing():
            folder.rename(folder.with_name("taken"))
            shutil.copytree(folder.with_name("taken"), folder)
        with refused(StaleWriter, "taken_away"), records.writing():
            shutil.rmtree(folder)
            folder.with_name("taken").rename(folder)
            folder.rename(folder.with_name("again"))
        folder.with_name("again").rename(folder)
        task.add("user", "behind")
