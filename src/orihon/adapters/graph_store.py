"""``OrihonStore``: what LangGraph remembers across threads, as the records of one task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from langgraph.store.base import Item
from langgraph.store.memory import InMemoryStore

from orihon.adapters.common import Where, base_at, check_kept, refusing_as, session_row
from orihon.adapters.graph_records import KIND
from orihon.adapters.open_tasks import open_tasks
from orihon.settings import Settings
from orihon.store.reader import TaskReader
from orihon.system.clock import utc_now


class OrihonStore(InMemoryStore):
    """A ``BaseStore`` in a base. Finds and compares as LangGraph's own store in memory does; what it has is kept."""

    def __init__(
        self,
        where: Where = None,
        config: Mapping[str, Any] | Settings | Path | str | None = None,
        *,
        name: str = "langgraph-store",
        user: str = "",
        index: Any = None,
    ) -> None:
        super().__init__(index=index)
        self.base = base_at(where, config)
        self.name, self.user = name, user
        self._tasks = open_tasks(self.base)
        self._task = ""
        self._read = 0

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Do what is asked, on what is there now."""
        self._follow()
        return list(super().batch(ops))

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """The same in a thread."""
        return await asyncio.to_thread(self.batch, ops)

    def _follow(self) -> None:
        with self._tasks.if_open(self.name, self.user) as task:
            if task is not None:
                self._take(task.context.uuid, task.context.task_store)
                return
        row = session_row(self.base, self.name, user=self.user)
        place = None if row is None else self.base.folders.find(row.uuid)
        if row is not None and place is not None:
            with closing(self.base.read_store(place)) as store:
                self._take(row.uuid, store)

    def _take(self, uuid: str, store: TaskReader) -> None:
        if uuid != self._task:
            self._data.clear()
            self._vectors.clear()
            self._task, self._read = uuid, 0
        for record in store.read("checkpoints", self._read + 1):
            if record["kind"] == KIND:
                for item in record.get("items", ()):
                    self._put(record["created_at"], **item)
            self._read = record["id"]

    def _put(self, at: str, namespace: list[str], key: str, value: Any, vectors: Mapping[str, Any] | None) -> None:
        name = tuple(namespace)
        former = self._data[name].pop(key, None) if name in self._data else None
        self._vectors[name].pop(key, None)
        if value is None:
            return
        now = datetime.fromisoformat(at)
        began = now if former is None else former.created_at
        self._data[name][key] = Item(value=value, key=key, namespace=name, created_at=began, updated_at=now)
        if vectors:
            self._vectors[name][key].update(vectors)

    def _apply_put_ops(self, put_ops: Mapping[tuple[tuple[str, ...], str], Any]) -> None:
        """Kept first; what is found from now on is what was kept."""
        from langgraph.errors import InvalidUpdateError

        items = []
        for (namespace, key), op in put_ops.items():
            check_kept(op.value, "value")
            vectors = {path: [*map(float, vector)] for path, vector in self._vectors[namespace].get(key, {}).items()}
            value = None if op.value is None else self.base.redactor.clean(dict(op.value))
            items.append({"namespace": [*namespace], "key": key, "value": value, "vectors": vectors})
        if not items:
            return
        with refusing_as(InvalidUpdateError), self._tasks.using(self.name, self.user) as task:
            record = {"kind": KIND, "items": items, "created_at": utc_now()}
            store = task.context.task_store
            store.change(lambda tail: store.add_inside("checkpoints", record, masked=True))
            self._take(task.context.uuid, store)
