"""The catalogue with a million tasks: listing, claiming and statistics, in SQLite and in PostgreSQL.

    python -m benchmarks.catalogue [--tasks 1000000] [--rounds 30] [--folder FOLDER] [--database URL] [--only sqlite]

The tasks are generated inside the database: 2,000 users in 1,000 repositories, most tasks over, the last ones waiting
or with workers. Each figure is the median of the rounds, as the caller of the library sees it. The temporary folder and
the temporary schema are removed at the end.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import apsw

from orihon.catalogue import Catalogue, ClaimLimits
from orihon.catalogue.connect import open_catalogue
from orihon.settings import load_settings
from orihon.values.task import TaskStatus

WANTED = 50.0  # milliseconds
_DATABASE = "postgresql://127.0.0.1:5432/test"

# ``n`` counts the tasks; the last 25,000 are queued, running or paused. Text that both databases understand.
_COLUMNS = """
    uuid, task_source, owner, repo, task_type, task_id, task_identifier, repository, "user", status, created_at,
    updated_at, started_at, completed_at, process_id, hostname, llm_provider, model, context_length, backend,
    llm_call_count, tool_call_count, total_tokens, total_messages, claimed, attempts, priority, lease_owner, lease_host,
    lease_pid, lease_pid_start, lease_pid_space, lease_boot, lease_heartbeat, lease_until
"""
_ROWS = """
    'task-' || {hash} || '-' || n, 'github', 'team', 'repo-' || (n % 1000), 'issue', n, n,
    'team/repo-' || (n % 1000), 'user-' || (n % 2000), status, {time}, {time},
    CASE WHEN status <> 'queued' THEN {time} END,
    CASE WHEN status IN ('completed', 'failed', 'cancelled') THEN {time} END,
    4711, 'host', 'openai', 'a-model', 128000, 'files', 12, 30, 45000 + n % 1000, 80,
    CASE WHEN status = 'running' THEN 1 ELSE 0 END, 1, n % 3,
    CASE WHEN status = 'running' THEN 'worker' END, CASE WHEN status = 'running' THEN 'elsewhere' END,
    CASE WHEN status = 'running' THEN 4711 END, CASE WHEN status = 'running' THEN 1 END,
    CASE WHEN status = 'running' THEN 'pid:[1]' END, CASE WHEN status = 'running' THEN :boot END,
    CASE WHEN status = 'running' THEN :now END, CASE WHEN status = 'running' THEN :now + 3600 END
"""
_STATUS = """
    CASE WHEN n > :tasks - 25000 AND n % 25 < 20 THEN 'queued' WHEN n > :tasks - 25000 AND n % 25 < 22 THEN 'running'
        WHEN n > :tasks - 25000 THEN 'paused' WHEN n % 17 = 0 THEN 'failed' WHEN n % 101 = 0 THEN 'cancelled'
        ELSE 'completed' END
"""
_SQLITE = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :tasks)
INSERT INTO tasks ({_COLUMNS})
SELECT {_ROWS} FROM (SELECT n, {_STATUS} AS status FROM numbers)
""".format(
    hash="printf('%08x', n * 2654435761 % 4294967296)",
    time="strftime('%Y-%m-%dT%H:%M:%S', 1700000000 + n * 30, 'unixepoch') || '.000000+00:00'",
)
_POSTGRES = f"""
INSERT INTO tasks ({_COLUMNS})
SELECT {_ROWS} FROM (SELECT n, {_STATUS} AS status FROM generate_series(1, CAST(:tasks AS bigint)) AS n) AS numbered
""".format(
    hash="lpad(to_hex(n * 2654435761 % 4294967296), 8, '0')",
    time="""to_char(to_timestamp(1700000000 + n * 30) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || '.000000+00:00'""",
)


@contextmanager
def sqlite(folder: Path, tasks: int) -> Iterator[Catalogue]:
    with Catalogue(folder / "tasks.db") as catalogue:
        moment = catalogue._db.moment()
        connection = apsw.Connection(str(folder / "tasks.db"))
        triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; BEGIN")
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(_SQLITE, {"tasks": tasks, "boot": moment.era, "now": moment.seconds})
        for _, text in triggers:
            connection.execute(str(text))
        connection.execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        catalogue.statistics.rebuild_rollups()
        yield catalogue


@contextmanager
def postgres(url: str, folder: Path, tasks: int) -> Iterator[Catalogue]:
    import psycopg

    schema = f"orihon_benchmark_{secrets.token_hex(4)}"
    storage = {"backend": "files"}
    settings = load_settings({"database": {"url": url, "schema": schema}, "context_storage": storage}, environ={})
    try:
        with open_catalogue(folder, settings) as catalogue:
            fill_postgres(catalogue, url, schema, tasks)
            yield catalogue
    finally:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def fill_postgres(catalogue: Catalogue, url: str, schema: str, tasks: int) -> None:
    """So many tasks in a catalogue that has none."""
    import psycopg

    from orihon.catalogue.postgres_db import PostgresTasks

    values = {"tasks": tasks, "boot": "another", "now": catalogue._db.moment().seconds}
    text = _POSTGRES.replace("%", "%%")
    for name in values:
        text = text.replace(f":{name}", f"%({name})s")
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as session:
        session.execute("ALTER TABLE tasks DISABLE TRIGGER USER")
        session.execute(text.encode(), values)
        session.execute("ALTER TABLE tasks ENABLE TRIGGER USER")
        session.execute("VACUUM ANALYZE tasks")
    catalogue.statistics.rebuild_rollups()
    assert isinstance(catalogue._db, PostgresTasks)
    catalogue._db.merge_rollups()  # as whoever writes next does


def answers(url: str) -> bool:
    """Is there a server?"""
    import psycopg

    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def actions(catalogue: Catalogue, tasks: int) -> dict[str, Callable[[], object]]:
    """What is timed."""
    middle = catalogue.tasks.page(status=TaskStatus.COMPLETED, user="user-7", limit=100)[-1].uuid
    limited = ClaimLimits(max_attempts=3, tasks_per_user=3)
    return {
        "list: first page": catalogue.tasks.page,
        "list: by status": lambda: catalogue.tasks.page(status=TaskStatus.FAILED),
        "list: by user": lambda: catalogue.tasks.page(user="user-77"),
        "list: by repository": lambda: catalogue.tasks.page(repository="team/repo-77"),
        "list: by user and status": lambda: catalogue.tasks.page(user="user-77", status=TaskStatus.FAILED),
        "list: a later page": lambda: catalogue.tasks.page(before=middle),
        "list: a later page by status": lambda: catalogue.tasks.page(status=TaskStatus.COMPLETED, before=middle),
        "find by the beginning": lambda: catalogue.tasks.find_by_prefix("task-0a"),
        "claim": catalogue.queue.claim_next,
        "claim, with a limit on users": lambda: catalogue.queue.claim_next(limits=limited),
        "claim, looking for dead workers": lambda: catalogue.queue.claim_next(abandoned=True),
        "statistics: rollups": catalogue.statistics.rollups,
        "statistics: by status": catalogue.statistics.count_by_status,
        "statistics: by user and status": catalogue.statistics.count_by_user_and_status,
        "statistics: tokens": catalogue.statistics.token_usage,
        "statistics: what waits": catalogue.queue.count_waiting,
    }


def medians(catalogue: Catalogue, tasks: int, rounds: int) -> dict[str, float]:
    """Milliseconds."""
    assert sum(catalogue.statistics.count_by_status().values()) == tasks
    found = {}
    for name, action in actions(catalogue, tasks).items():
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            assert action()
            times.append((time.perf_counter() - began) * 1000)
        found[name] = statistics.median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--database", default=_DATABASE)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="orihon-catalogue-", dir=options.folder))
    places: dict[str, Callable[[], AbstractContextManager[Catalogue]]] = {
        "sqlite": lambda: sqlite(folder, options.tasks),
        "postgres": lambda: postgres(options.database, folder, options.tasks),
    }
    results = {}
    try:
        for name, place in places.items():
            if options.only not in (None, name):
                continue
            if name == "postgres" and not answers(options.database):
                print(f"postgres: left out, there is none at {options.database}")
                continue
            began = time.perf_counter()
            with place() as catalogue:
                print(f"{name}: {options.tasks:,} tasks after {time.perf_counter() - began:.0f} s", flush=True)
                results[name] = medians(catalogue, options.tasks, options.rounds)
    finally:
        shutil.rmtree(folder)
    report(results)


def report(results: dict[str, dict[str, float]]) -> None:
    print(f"\n{'median, ms (wanted: under ' + str(round(WANTED)) + ')':34}", *(f"{name:>10}" for name in results))
    for action in next(iter(results.values())):
        print(f"{action:34}", *(f"{result[action]:10.2f}" for result in results.values()))
    slow = {f"{name}: {action}" for name, result in results.items() for action in result if result[action] >= WANTED}
    print(f"too slow: {', '.join(sorted(slow)) or 'nothing'}")


if __name__ == "__main__":
    main()
