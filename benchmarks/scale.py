"""What a task weighs in PostgreSQL: bytes of its rows, WAL, statements, connections. The figures behind docs/scale.md.

    python -m benchmarks.scale [--transcripts FOLDER] [--workers 4]

Counts and bytes, which a busy machine does not change. WAL and statements are counted for a whole server, so this one
is started for the purpose (PostgreSQL's own programs must be installed) and is gone afterwards. With ``--transcripts``
(JSON Lines: a header, then one OpenAI chat message per line) real conversations are stored and weighed, too.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg

from orihon import MessageStore, ScriptedModel, TaskContextManager, TaskKey, TaskQueue, WorkerProcess, archive_task
from orihon.llm.scripted import Reply, Slow
from orihon.runtime.queue import QueuedTask
from orihon.runtime.supervisor import Supervisor
from orihon.settings import Settings, load_settings
from tests.private_postgres import PrivatePostgres, private_postgres

Item = TypeVar("Item")
SCHEMA = "orihon"
TASKS = 300
SCATTERED = 100
_SERVER = """
shared_preload_libraries = 'pg_stat_statements'
max_connections = 200
checkpoint_timeout = 1h
max_wal_size = 8GB
autovacuum = off            # sizes are read when nobody tidies up
synchronous_commit = on
"""
#: Bytes of the contents, and how many messages of each are stored.
SIZES = {"medium": (4_000, 500), "long": (40_000, 100), "very long": (2_000_000, 5), "short": (300, 2000)}
RECORDS = ("message_records", "summary_records", "compression_records", "tool_records", "plan_records")
STORED = (*RECORDS, "blobs", "documents", "task_logs")


class Cost(NamedTuple):
    """What something has cost the server."""

    wal: float
    statements: float
    transactions: float = 0.0  # those that have written

    def per(self, times: float) -> Cost:
        return Cost(*(figure / times for figure in self))

    def less(self, other: Cost) -> Cost:
        return Cost(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def shown(self) -> str:
        return f"{self.wal:9,.0f} B of WAL {self.statements:8.1f} statements {self.transactions:6.1f} transactions"


class Meter:
    """Reads the server's own counters, over a connection whose statements are left out."""

    def __init__(self, server: PrivatePostgres) -> None:
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute("CREATE EXTENSION pg_stat_statements")
            session.execute("CREATE ROLE meter SUPERUSER LOGIN")
        self._session = psycopg.connect(server.url.replace("postgres@", "meter@"), autocommit=True)

    def one(self, query: str) -> int:
        row = self._session.execute(query.encode()).fetchone()
        return int(row[0] or 0) if row else 0

    def run(self, statement: str) -> None:
        self._session.execute(statement.encode())

    def cost(self, action: Callable[[], object]) -> Cost:
        before = self._now()
        action()
        return self._now().less(before)

    def size(self, *tables: str) -> int:
        """Heap, TOAST and indexes."""
        return sum(self.one(f"SELECT pg_total_relation_size('{SCHEMA}.{table}')") for table in tables)

    def parts(self, table: str) -> tuple[int, int, int]:
        name = f"'{SCHEMA}.{table}'"
        heap, indexes = self.one(f"SELECT pg_relation_size({name})"), self.one(f"SELECT pg_indexes_size({name})")
        return heap, self.size(table) - heap - indexes, indexes

    def backends(self) -> list[int]:
        """The server processes of Orihon's connections."""
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'orihon'"
        return [pid for (pid,) in self._session.execute(query)]

    def _now(self) -> Cost:
        own = "(SELECT oid FROM pg_roles WHERE rolname = 'meter')"
        return Cost(
            self.one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"),
            self.one(f"SELECT sum(calls)::bigint FROM pg_stat_statements WHERE userid <> {own}"),
            self.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"),
        )


@contextmanager
def server() -> Iterator[PrivatePostgres]:
    with private_postgres() as started:
        with (started.data / "postgresql.conf").open("a") as settings:
            settings.write(_SERVER)
        started.restart("fast")
        yield started


def words(size: int, rng: random.Random) -> str:
    """Text that compresses about as prose and code do: a vocabulary of its own, some words common, some rare."""
    vocabulary = ["".join(rng.choices("etaoinshrdlucm_", k=rng.randint(2, 9))) for _ in range(1500)]
    text = " ".join(vocabulary[int(1500 * rng.random() ** 2)] for _ in range(size // 5))
    return text[:size]


def each(act: Callable[[Item], object], items: Sequence[Item]) -> None:
    for item in items:
        act(item)


def messages(meter: Meter, folder: Path, settings: Settings) -> None:
    print("one message                 content    stored  = heap + TOAST + index (+ blob)       WAL of its append")
    rng = random.Random(7)
    MessageStore(folder / "first", settings).add_message("user", "makes the tables")
    for name, (size, count) in SIZES.items():
        opened, texts = (
            MessageStore(folder / name.replace(" ", "-"), settings),
            [words(size, rng) for _ in range(count)],
        )
        before, blobs = meter.parts("message_records"), meter.size("blobs")

        def append(opened: MessageStore = opened, texts: Sequence[str] = texts) -> None:
            for text in texts:
                opened.add_message("user", text)

        cost = meter.cost(append).per(count)
        heap, toast, index = (
            (after - earlier) / count for earlier, after in zip(before, meter.parts("message_records"), strict=True)
        )
        blob = (meter.size("blobs") - blobs) / count
        print(
            f"  {name:<22} {size:>10,} {heap + toast + index + blob:>9,.0f}"
            f"  = {heap:,.0f} + {toast:,.0f} + {index:,.0f} (+ {blob:,.0f})   {cost.wal:,.0f} B"
            f" in {cost.statements:.2f} statements"
        )


def transcripts(meter: Meter, folder: Path, settings: Settings, source: Path) -> None:
    uuids: list[str] = []
    lengths, sizes, before = [], [], meter.size(*STORED)
    for path in sorted(source.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[1:] if line]
        with TaskContextManager(folder / "base", TaskKey("cli", "", "", "talk", str(len(uuids))), settings) as context:
            for line in lines:
                context.message_store.append(line)
            uuids.append(context.uuid)
        lengths.append(len(lines))
        sizes += [len(json.dumps(line, ensure_ascii=False).encode()) for line in lines]
    stored = meter.size(*STORED) - before
    print(
        f"real conversations: {len(lengths)} with {sum(lengths):,} messages\n"
        f"  messages of one: median {statistics.median(lengths):,.0f}, mean {statistics.mean(lengths):,.0f}, "
        f"most {max(lengths):,}\n"
        f"  bytes of a message as JSON: median {statistics.median(sizes):,.0f}, mean {statistics.mean(sizes):,.0f}, "
        f"90th percentile {statistics.quantiles(sizes, n=10)[-1]:,.0f}, most {max(sizes):,}\n"
        f"  stored, everything counted: {stored / len(sizes):,.0f} B per message"
    )
    shelf = settings.replace(**{"archive.url": (folder / "shelf").absolute().as_uri()})
    packed = sum(archive_task(folder / "base", uuid, shelf).bytes for uuid in uuids)
    for table in STORED:
        meter.run(f"VACUUM {SCHEMA}.{table}")
    left = "SELECT sum(pg_column_size(t.*)) FROM {}.{} AS t WHERE uuid = ANY('{{{}}}')"
    rows = [meter.one(left.format(SCHEMA, table, ",".join(uuids))) for table in ("tasks", "left_logs")]
    print(
        f"  archived (zstd): {packed / len(sizes):,.0f} B per message, {packed / stored:.2f} of what the rows were; "
        f"what stays of each task: {sum(rows) / len(uuids):,.0f} B in rows"
    )


def catalogue(meter: Meter, folder: Path, settings: Settings) -> None:
    queue = TaskQueue(folder / "base", settings)
    names: list[str] = []
    before = meter.size("tasks")

    def enqueue() -> None:
        for number in range(TASKS):
            key = TaskKey("github", "team", f"repo-{number % 20}", "issue", str(number), f"user-{number % 40}")
            names.append(queue.enqueue(key, prompt="Fix the failing test in the parser, then run all of them."))

    print("one action, no page for the first time since a checkpoint")
    _line("put in line", meter.cost(enqueue).per(TASKS))
    row = (meter.size("tasks") - before) / TASKS
    held: list[QueuedTask | None] = []
    _line("claim", meter.cost(lambda: held.extend(queue.dequeue() for _ in range(TASKS))).per(TASKS))
    tasks = [task for task in held if task is not None]
    assert len(tasks) == TASKS
    _line("renew a lease", meter.cost(lambda: each(queue.renew, tasks)).per(TASKS))
    _line("look for a wish", meter.cost(lambda: each(queue.catalogue.queue.requested, names)).per(TASKS))
    meter.run("CHECKPOINT")
    scattered = tasks[::10]  # no two of them on one page
    after = meter.cost(lambda: each(queue.renew, scattered)).per(len(scattered))
    _line("acknowledge the end", meter.cost(lambda: each(queue.ack, tasks)).per(TASKS))
    print("the first time after a checkpoint, rows far apart (whole pages go into the WAL)")
    _line("renew a lease", after)
    _line("append, short", scattered_appends(meter, folder, settings))
    print(f"one row in tasks: {row:,.0f} B when queued, {(meter.size('tasks') - before) / TASKS:,.0f} B after its life")
    queue.close()


def scattered_appends(meter: Meter, folder: Path, settings: Settings) -> Cost:
    """Between the tasks lie so many others that each has pages of its own."""
    opened = []
    for number in range(SCATTERED):
        opened.append(MessageStore(folder / f"quiet-{number}", settings))
        opened[-1].add_message("user", "x" * 300)
        meter.run(
            f"""WITH made AS (
                INSERT INTO {SCHEMA}.task_logs (uuid) SELECT 'other-{number}-' || n FROM generate_series(1, 100) AS n
                RETURNING number
            )
            INSERT INTO {SCHEMA}.message_records SELECT number, n, 'x' FROM made, generate_series(1, 10) AS n"""
        )
    meter.run("CHECKPOINT")
    return meter.cost(lambda: [one.add_message("user", "x" * 300) for one in opened]).per(SCATTERED)


def _line(name: str, cost: Cost) -> None:
    print(f"  {name:<42} {cost.shown()}")


def life(meter: Meter, folder: Path, config: dict[str, Any], steps: int, count: int) -> tuple[Cost, float]:
    """``count`` tasks of so many calls of the model and one tool call each; the cost and the bytes of one task."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "notes.txt").write_text(words(2000, random.Random(3)))
    one = [
        *(
            Reply(words(300, random.Random(step)), calls=[("workspace_read_file", {"path": "notes.txt"})])
            for step in range(steps)
        ),
        Reply("It is done."),
        Reply("What was done: the notes were read."),
    ]
    with ScriptedModel(one * count) as model:
        settings = load_settings(
            {**config, "llm": {"openai": {"base_url": model.base_url}}, "tools": {"workspace": str(workspace)}}
        )
        queue = TaskQueue(folder / "base", settings)
        size = meter.size(*STORED, "tasks")

        def live() -> None:
            for number in range(count):
                queue.enqueue(TaskKey("cli", "", "", "task", f"{steps}-{number}"), prompt="Read the notes.")
            WorkerProcess(1, settings, base_dir=folder / "base", until_empty=True).run()

        cost = meter.cost(live)
        completed = sum(row.task_id.startswith(f"{steps}-") for row in queue.catalogue.tasks.page(limit=count))
        assert completed == count
        queue.close()
    return cost.per(count), (meter.size(*STORED, "tasks") - size) / count


def lives(meter: Meter, folder: Path, config: dict[str, Any]) -> None:
    few, many, count = 5, 25, 10
    life(meter, folder, config, few, count)  # makes what only the first one makes
    short, small = life(meter, folder, config, few, count)
    long, large = life(meter, folder, config, many, count)
    step = long.less(short).per(many - few)
    print(f"whole tasks of a worker: {few} and {many} steps (an answer of 300 bytes, a tool result of 2,000 bytes)")
    _line("each step", step)
    _line("each task, its steps left out", short.less(step.per(1 / few)))
    grown = (large - small) / (many - few)
    print(f"  stored: {grown:,.0f} B for a step, {small - few * grown:,.0f} B for a task without its steps")


@contextmanager
def supervised(meter: Meter, folder: Path, config: dict[str, Any], count: int) -> Iterator[TaskQueue]:
    """So many worker processes at one queue, all of them idle."""
    with ScriptedModel([Slow(6.0, Reply("Done."))] * 4 * count) as model:
        settings = load_settings({**config, "llm": {"openai": {"base_url": model.base_url}}})
        supervisor = Supervisor(count, settings, base_dir=folder / "base")
        thread = threading.Thread(target=supervisor.run)
        thread.start()
        try:
            _until(lambda: _in_state(meter, "workers", "idle") >= count)
            time.sleep(5)  # their naps have grown to the longest
            yield TaskQueue(folder / "base", settings)
        finally:
            supervisor.stop()
            thread.join()


def workers(meter: Meter, folder: Path, config: dict[str, Any], count: int) -> None:
    """Real processes: how many connections they have, and what they ask while there is nothing to do."""
    seconds, looks = 20.0, 80
    with supervised(meter, folder, config, count) as queue:
        idle = meter.cost(lambda: time.sleep(seconds)).per(seconds * count)
        resting, memory = len(meter.backends()), _private_bytes(meter.backends())
        woken = meter.cost(lambda: notify(meter, looks, seconds)).per(looks * count)
        enqueue_slow(queue, count)
        _until(lambda: _in_state(meter, "workers", "working") >= count)
        time.sleep(1)  # until all of them wait for an answer
        waiting = meter.cost(lambda: time.sleep(4)).per(4 * count)
        _until(lambda: not _in_state(meter, "tasks", "running"))
    often = {**config, "multiprocess": {"heartbeat_interval": 0.5}}
    with supervised(meter, folder, often, count) as queue:
        working = connections_at_work(meter, queue, count)
    print(f"{count} workers and their supervisor, multiprocess.poll_interval 1 s, no broker")
    print(f"  connections: {resting} idle, {working} at work at most; private memory of one at the server: {memory}")
    _line("one idle worker, each second", idle)
    _line("one idle worker, each notification", Cost(0, woken.statements))
    _line("one worker, each second of an answer", waiting)


def notify(meter: Meter, times: int, seconds: float) -> None:
    for _ in range(times):
        meter.run(f"NOTIFY {SCHEMA}")
        time.sleep(seconds / times)


def enqueue_slow(queue: TaskQueue, count: int) -> None:
    for number in range(count):
        queue.enqueue(TaskKey("cli", "", "", "task", f"slow-{number}"), prompt="Take your time.")
    queue.close()  # its connection is not a worker's


def connections_at_work(meter: Meter, queue: TaskQueue, count: int) -> int:
    enqueue_slow(queue, count)
    most = 0

    def are_done() -> bool:
        nonlocal most
        most = max(most, len(meter.backends()))
        return not _in_state(meter, "tasks", "queued") and not _in_state(meter, "tasks", "running")

    _until(are_done)
    return most


def _in_state(meter: Meter, table: str, state: str) -> int:
    column = "status" if table == "tasks" else "state"
    return meter.one(f"SELECT count(*) FROM {SCHEMA}.{table} WHERE {column} = '{state}'")


def _private_bytes(pids: Sequence[int]) -> str:
    try:
        rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in pids]
    except OSError:
        return "not readable here"
    private = [sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) for lines in rollups]
    return f"{statistics.median(private) / 1024:.1f} MiB"


def _until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcripts", type=Path, help="a folder with conversations")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    if not (list(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb")):
        print("left out, PostgreSQL's server programs (initdb, pg_ctl) are not installed")
        return
    with server() as started, tempfile.TemporaryDirectory(prefix="orihon-scale-") as name:
        folder, meter = Path(name), Meter(started)
        config: dict[str, Any] = {"database": {"url": started.url, "schema": SCHEMA}, "language": "en"}
        settings = load_settings({**config, "masking": {"enabled": False}})
        messages(meter, folder, settings)
        if options.transcripts is not None:
            transcripts(meter, folder, settings, options.transcripts)
        catalogue(meter, folder, settings)
        lives(meter, folder, config)
        workers(meter, folder, config, options.workers)


if __name__ == "__main__":
    main()
