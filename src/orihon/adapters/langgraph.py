"""LangGraph on a task: ``OrihonSaver`` keeps the threads of a graph, ``OrihonStore`` what it remembers across threads.

>>> graph = builder.compile(checkpointer=OrihonSaver("contexts"))
>>> graph.invoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "hello"}})

A thread is the task of that name. The messages of its state are that task's log, each once, however many checkpoints
have it; checkpoints and writes are records of the task that point at them.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from orihon.adapters.common import Where, base_at, check_version, refusing_as, session_row
from orihon.adapters.graph_records import KIND, GraphRecords, Place, record_at
from orihon.adapters.graph_store import OrihonStore
from orihon.adapters.graph_values import KnownMessages, Packing, Unpacking, write_messages
from orihon.adapters.open_tasks import open_tasks
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.store.reader import TaskReader
from orihon.store.tail import Tail
from orihon.system.clock import utc_now
from orihon.tasks.task import Task
from orihon.values.message.extra import wrong_type

__all__ = ["OrihonSaver", "OrihonStore"]

check_version("langgraph-checkpoint", "4.0", "5")

#: The fields of a checkpoint besides its values.
_STRATEGIES = ("keep_latest", "delete")


class _Reading:
    """One thread for who reads: its records, where they are, and what they say."""

    def __init__(self, thread: str, store: TaskReader, records: GraphRecords, values: Unpacking) -> None:
        self.thread = thread
        self.store = store
        self.records = records
        self._values = values

    def whole(self, place: Place) -> CheckpointTuple:
        """A checkpoint with everything that belongs to it."""
        record = record_at(self.store, self.records.checkpoints[place[0]][place[1]])
        checkpoint = self._values.value(record["state"])
        own = {(channel, version): kept for channel, version, kept in record["values"]}
        values = {}
        for channel, version in checkpoint["channel_versions"].items():
            kept = own[channel, version] if (channel, version) in own else self.kept(place[0], channel, version)
            if kept is not None:
                values[channel] = self._values.value(kept)
        parent = self.records.parents[place]
        return CheckpointTuple(
            config=self._config(*place),
            checkpoint={**checkpoint, "channel_values": values},
            metadata=self._values.value(record["metadata"]),
            parent_config=None if parent is None else self._config(place[0], parent),
            pending_writes=list(self.writes(place)),
        )

    def kept(self, namespace: str, channel: str, version: Any) -> Mapping[str, Any] | None:
        """The stored value of a version of a channel; ``None`` when it is empty, or was never stored."""
        number = self.records.values.get((namespace, channel, version))
        if number is None:
            return None
        for name, of, kept in record_at(self.store, number)["values"]:
            if (name, of) == (channel, version):
                return dict(kept)
        return None

    def writes(self, place: Place, channels: Sequence[str] | None = None) -> Iterator[tuple[str, str, Any]]:
        """The writes at a checkpoint, in the order in which a step applies them."""
        found = self.records.writes.get(place, {})
        ordered = sorted(found.items(), key=lambda one: writes_sort_key(one[1][2], *one[0]))
        for (step, _), (number, at, _) in ordered:
            _, channel, kept = record_at(self.store, number)["writes"][at]
            if channels is None or channel in channels:
                yield step, channel, self._values.value(kept)

    def state(self, place: Place) -> dict[str, Any]:
        """A checkpoint without its values."""
        found: dict[str, Any] = self._values.value(
            record_at(self.store, self.records.checkpoints[place[0]][place[1]])["state"]
        )
        return found

    def value(self, kept: Mapping[str, Any]) -> Any:
        return self._values.value(kept)

    def metadata(self, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = self._values.value(
            record_at(self.store, self.records.checkpoints[place[0]][place[1]])["metadata"]
        )
        return found

    def _config(self, namespace: str, checkpoint: str) -> dict[str, Any]:
        names = {"thread_id": self.thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
        return {"configurable": names}


class OrihonSaver(BaseCheckpointSaver[str]):
    """Checkpoints of LangGraph in a base: a folder, a database, or a ``Base`` that is open."""

    def __init__(
        self,
        where: Where = None,
        config: Mapping[str, Any] | Settings | Path | str | None = None,
        *,
        user: str = "",
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.base = base_at(where, config)
        self.user = user
        self._tasks = open_tasks(self.base)
        self._known = KnownMessages()
        self._records: dict[str, GraphRecords] = {}
        self._turns: dict[str, threading.RLock] = {}

    def __enter__(self) -> OrihonSaver:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> OrihonSaver:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Let go of every thread: any process goes on with it."""
        self._tasks.let_go()

    # ---- reading -----------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self, thread: str) -> Iterator[_Reading | None]:
        with self._tasks.if_open(thread, self.user) as task:
            if task is not None:
                yield self._read(thread, task.context.uuid, task.context.task_store)
                return
        row = session_row(self.base, thread, user=self.user)
        place = None if row is None else self.base.folders.find(row.uuid)
        if row is None or place is None:
            yield None
            return
        with closing(self.base.read_store(place)) as store:
            yield self._read(thread, row.uuid, store)

    def _read(self, thread: str, uuid: str, store: TaskReader) -> _Reading:
        records = self._records.setdefault(uuid, GraphRecords())
        records.follow(store)
        return _Reading(thread, store, records, Unpacking(store, self.serde, self._known, uuid))

    def get_tuple(self, config: Mapping[str, Any]) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest of its thread."""
        thread, namespace, checkpoint = _named(config)
        with self._reading(thread) as found:
            if found is None:
                return None
            checkpoint = checkpoint or found.records.latest(namespace)
            if checkpoint is None or checkpoint not in found.records.checkpoints.get(namespace, {}):
                return None
            return found.whole((namespace, checkpoint))

    def list(
        self,
        config: Mapping[str, Any] | None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the framework's name
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first: of a thread, or of all."""
        threads = self._threads() if config is None else [_named(config)[0]]
        names = {} if config is None else config["configurable"]
        end = None if before is None else before["configurable"].get("checkpoint_id")

        def found() -> Iterator[CheckpointTuple]:
            for thread in threads:
                with self._reading(thread) as reading:
                    if reading is not None:
                        yield from _listed(reading, names, filter or {}, end)

        yield from found() if limit is None else islice(found(), max(limit, 0))

    def get_delta_channel_history(self, *, config: Mapping[str, Any], channels: Sequence[str]) -> Mapping[str, Any]:
        """What channels got on the way to a checkpoint, since each was last stored whole."""
        thread, namespace, checkpoint = _named(config)
        found: dict[str, Any] = {channel: {"writes": []} for channel in channels}
        with self._reading(thread) as reading:
            checkpoint = checkpoint or (None if reading is None else reading.records.latest(namespace))
            if reading is None or checkpoint is None:
                return found
            remaining = set(channels)
            for place in reading.records.ancestors((namespace, checkpoint)):
                if not remaining:
                    break
                for write in reversed([*reading.writes(place, [*remaining])]):
                    found[write[1]]["writes"].append(write)
                versions = reading.state(place)["channel_versions"]
                for channel in [one for one in remaining if one in versions]:
                    if (kept := reading.kept(namespace, channel, versions[channel])) is not None:
                        found[channel]["seed"] = reading.value(kept)
                        remaining.discard(channel)
        for history in found.values():
            history["writes"].reverse()
        return found

    def _threads(self) -> Sequence[str]:
        rows = self.base.rows() if self.base.has_catalogue() else ()
        names = sorted({row.key.task_id for row in rows})
        return [name for name in names if session_row(self.base, name, user=self.user) is not None]

    # ---- writing -----------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self, thread: str) -> Iterator[Task]:
        from langgraph.errors import InvalidUpdateError

        # A graph stores from several threads at once: what one has written the next one points at.
        turn = self._turns.setdefault(thread, threading.RLock())
        with refusing_as(InvalidUpdateError), turn, self._tasks.using(thread, self.user) as task:
            yield task

    def _packing(self, task: Task) -> Packing:
        # Who has a serializer of his own wants everything to pass it.
        logs = type(self.serde) is JsonPlusSerializer
        return Packing(self.serde, self.base.redactor, self._known, task.context.uuid, log=logs)

    def put(
        self,
        config: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Store a checkpoint: of its values those that are new."""
        thread, namespace, parent = _named(config)
        state = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        values = checkpoint["channel_values"]
        about = get_checkpoint_metadata(config, metadata)
        with self._writing(thread) as task:
            packing = self._packing(task)
            looked = [
                (channel, version, packing.look_at(values[channel], f"channel_values.{channel}"))
                if channel in values
                else (channel, version, None)
                for channel, version in new_versions.items()
            ]
            record = {
                "kind": KIND,
                "ns": namespace,
                "checkpoint": checkpoint["id"],
                "parent": parent,
                "run": about.get("run_id"),
                "made_up": [*(about.get("counters_since_delta_snapshot") or ())],
                "state": packing.plain_or_packed(state, "checkpoint", mask=False),
                "metadata": packing.plain_or_packed(about, "metadata"),
                "created_at": utc_now(),
            }

            def body(tail: Tail) -> None:
                write_messages(packing, task.context.task_store, tail)
                kept = [[channel, version, None if said is None else said()] for channel, version, said in looked]
                task.context.task_store.add_inside("checkpoints", {**record, "values": kept}, masked=True)

            task.context.task_store.change(body)
            packing.learn()
        names = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"]}
        return {"configurable": names}

    def put_writes(
        self, config: Mapping[str, Any], writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a step has written, before the next checkpoint has it."""
        thread, namespace, checkpoint = _named(config)
        with self._writing(thread) as task:
            packing = self._packing(task)
            made_up = self._made_up(thread, namespace, checkpoint or "")
            looked = [
                (
                    WRITES_IDX_MAP.get(channel, at),
                    channel,
                    packing.look_at(value, f"writes.{channel}", to_log=channel in made_up),
                )
                for at, (channel, value) in enumerate(writes)
            ]
            names = {"kind": KIND, "ns": namespace, "checkpoint": checkpoint, "step": task_id, "path": task_path}

            def body(tail: Tail) -> None:
                write_messages(packing, task.context.task_store, tail)
                kept = [[at, channel, said()] for at, channel, said in looked]
                record = {**names, "writes": kept, "created_at": utc_now()}
                task.context.task_store.add_inside("checkpoints", record, masked=True)

            task.context.task_store.change(body)
            packing.learn()

    def _made_up(self, thread: str, namespace: str, checkpoint: str) -> Collection[str]:
        """Channels that no checkpoint has whole: their messages are in the writes alone."""
        with self._reading(thread) as found:
            if found is None or checkpoint not in found.records.checkpoints.get(namespace, {}):
                return ()
            return found.records.made_up.get((namespace, checkpoint), ())

    def delete_thread(self, thread_id: str) -> None:
        """The thread is over: another one of this name begins anew. Its history stays until retention removes it."""
        if session_row(self.base, str(thread_id), user=self.user) is None:
            return
        with self._writing(str(thread_id)) as task:
            task.cancel()
        self._records.pop(task.context.uuid, None)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Drop the checkpoints of runs, in whatever threads."""
        wanted = set(map(str, run_ids))
        for thread in self._threads() if wanted else ():
            with self._reading(thread) as found:
                runs = {} if found is None else found.records.runs
                places = [place for place, run in runs.items() if run is not None and str(run) in wanted]
            self._drop(thread, places)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drop all checkpoints of threads (``delete``), or all but the newest and those it is made from."""
        if strategy not in _STRATEGIES:
            raise InvalidInput("prune_strategy", value=strategy, known=", ".join(_STRATEGIES))
        for thread in map(str, thread_ids):
            with self._reading(thread) as found:
                if found is None:
                    continue
                kept = _needed(found) if strategy == "keep_latest" else set()
                places = [place for place in found.records.parents if place not in kept]
            self._drop(thread, places)

    def _drop(self, thread: str, places: Sequence[Place]) -> None:
        if places:
            record = {"kind": KIND, "drop": [[*place] for place in places], "created_at": utc_now()}
            with self._writing(thread) as task:
                store = task.context.task_store
                store.change(lambda tail: store.add_inside("checkpoints", record, masked=True))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A second thread with everything that the first one has; messages keep their order and get new numbers."""
        with self._reading(str(source_thread_id)) as found:
            if found is None:
                return
            messages = [stored.message for stored in found.store.messages()]
            records = [record for record in found.store.read("checkpoints") if record["kind"] == KIND]
        with self._writing(str(target_thread_id)) as task:
            store = task.context.task_store

            def body(tail: Tail) -> None:
                before = tail.seq
                for message in messages:
                    store.append_inside(message, tail)
                moved = [_moved(record, before) for record in records]
                store.add_inside("checkpoints", *moved, masked=True)

            store.change(body)

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """Versions grow, and those of two branches differ."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311 - no secret

    # ---- for async programs ------------------------------------------------------------------------------------

    async def aget_tuple(self, config: Mapping[str, Any]) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: Mapping[str, Any] | None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the framework's name
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        for one in await asyncio.to_thread(lambda: [*found]):
            yield one

    async def aput(
        self,
        config: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> dict[str, Any]:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Mapping[str, Any], writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aget_delta_channel_history(
        self, *, config: Mapping[str, Any], channels: Sequence[str]
    ) -> Mapping[str, Any]:
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)


def _named(config: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Thread, namespace and checkpoint of a config."""
    names = config.get("configurable") or {}
    if "thread_id" not in names:
        raise wrong_type(None, "text", "configurable.thread_id")
    checkpoint = names.get("checkpoint_id")
    namespace = str(names.get("checkpoint_ns") or "")
    return str(names["thread_id"]), namespace, None if checkpoint is None else str(checkpoint)


def _listed(
    reading: _Reading, names: Mapping[str, Any], wanted: Mapping[str, Any], end: str | None
) -> Iterator[CheckpointTuple]:
    namespace, only = names.get("checkpoint_ns"), names.get("checkpoint_id")
    places = [
        (one, checkpoint)
        for one, checkpoints in reading.records.checkpoints.items()
        if namespace in (None, one)
        for checkpoint in checkpoints
        if only in (None, checkpoint) and (end is None or checkpoint < end)
    ]
    for place in sorted(places, key=lambda place: place[1], reverse=True):
        said = reading.metadata(place) if wanted else {}
        if all(said.get(name) == value for name, value in wanted.items()):
            yield reading.whole(place)


def _needed(reading: _Reading) -> set[Place]:
    """The newest checkpoint of each namespace, and those before it from which its channels are made up."""
    kept: set[Place] = set()
    for namespace in reading.records.checkpoints:
        latest = reading.records.latest(namespace)
        if latest is None:
            continue
        kept.add((namespace, latest))
        versions = reading.state((namespace, latest))["channel_versions"]
        made_up = {
            channel
            for channel in reading.records.made_up.get((namespace, latest), ())
            if reading.kept(namespace, channel, versions.get(channel, "")) is None
        }
        for place in reading.records.ancestors((namespace, latest)):
            if not made_up:
                break
            kept.add(place)
            versions = reading.state(place)["channel_versions"]
            made_up -= {one for one in made_up if reading.kept(namespace, one, versions.get(one, "")) is not None}
    return kept


def _moved(record: Mapping[str, Any], by: int) -> dict[str, Any]:
    """A record whose messages have other numbers."""
    moved = {name: value for name, value in record.items() if name != "id"}
    for name in ("values", "writes"):
        if name in moved:
            moved[name] = [[first, second, _shifted(kept, by)] for first, second, kept in moved[name]]
    return moved


def _shifted(kept: Mapping[str, Any] | None, by: int) -> Mapping[str, Any] | None:
    if kept is None or not by:
        return kept
    if "messages" in kept:
        return {"messages": [[first + by, last + by] for first, last in kept["messages"]]}
    return {"message": kept["message"] + by} if "message" in kept else kept
