"""Connections across threads and forks. Forks happen in a process of their own, not in the test runner."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import apsw

from orihon.drivers.connections import ThreadConnections
from orihon.drivers.sqlite import SqliteConnection

FORK = """
import os, sys
from pathlib import Path
from orihon.catalogue import Catalogue
from orihon.values.task import TaskKey

key = TaskKey("github", "o", "r", "issue", "1")
path = Path(sys.argv[1])
catalogue = Catalogue(path)
catalogue.tasks.register(key, "before")
to_child, to_parent = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    catalogue.tasks.register(key, "child-1")
    os.write(to_parent[1], b".")
    os.read(to_child[0], 1)
    catalogue.tasks.register(key, "child-2")
    os._exit(0)
os.read(to_parent[0], 1)
catalogue.tasks.register(key, "parent")
catalogue.close()
os.write(to_child[1], b".")
_, status = os.waitpid(pid, 0)
assert status == 0, status
print(" ".join(sorted(row.uuid for row in Catalogue(path).tasks.running())))
"""

FORK_WHILE_OTHERS_WORK = """
import os, sys, threading
from pathlib import Path
from orihon.catalogue import Catalogue
from orihon.values.task import TaskKey

key = TaskKey("github", "o", "r", "issue", "1")
catalogue = Catalogue(Path(sys.argv[1]))
stop = threading.Event()

def work(name):
    number = 0
    while not stop.is_set():
        catalogue.tasks.register(key, f"{name}-{number}")
        number += 1
    counts[name] = number

counts = {}
threads = [threading.Thread(target=work, args=(f"thread{index}",)) for index in range(3)]
for thread in threads:
    thread.start()
for index in range(10):
    pid = os.fork()
    if pid == 0:
        catalogue.tasks.register(key, f"fork-{index}")
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
stop.set()
for thread in threads:
    thread.join()
print(sum(counts.values()) + 10, len(catalogue.tasks.running()), len(catalogue.statistics.check_rollups()))
"""


def _run(code: str, path: Path) -> str:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_fork_loses_nothing_on_either_side(tmp_path: Path) -> None:
    assert _run(FORK, tmp_path / "tasks.db") == "before child-1 child-2 parent"


def test_a_fork_waits_for_the_transactions_of_other_threads(tmp_path: Path) -> None:
    expected, found, differences = _run(FORK_WHILE_OTHERS_WORK, tmp_path / "tasks.db").split()
    assert expected == found
    assert differences == "0"


def test_each_thread_has_its_own_connection_and_keeps_it(tmp_path: Path) -> None:
    opened: list[apsw.Connection] = []

    def connect() -> apsw.Connection:
        opened.append(apsw.Connection(str(tmp_path / "x.db")))
        return opened[-1]

    pool = ThreadConnections(connect)

    def use_twice() -> None:
        for _ in range(2):
            with pool.use() as outer, pool.use() as inner:
                assert outer is inner

    use_twice()
    thread = threading.Thread(target=use_twice)
    thread.start()
    thread.join()
    assert len(opened) == 2
    pool.close()
    use_twice()
    assert len(opened) == 3


def test_a_forgotten_pool_closes_its_connections(tmp_path: Path) -> None:
    gc.disable()
    try:
        pool = ThreadConnections(lambda: apsw.Connection(str(tmp_path / "x.db")))
        with pool.use() as connection:
            mine = weakref.ref(connection)
            del connection
        assert mine() in apsw.connections()
        del pool
        assert mine() is None
    finally:
        gc.enable()


def test_waiting_ends_at_the_time_limit(tmp_path: Path) -> None:
    holder = apsw.Connection(str(tmp_path / "x.db"))
    waiter = SqliteConnection(tmp_path / "x.db", timeout=0.02)
    holder.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        try:
            waiter.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            continue
        raise AssertionError("the lock was not respected")
    holder.execute("ROLLBACK")
    waiter.execute("BEGIN IMMEDIATE")
    holder.close()
    waiter.close()
