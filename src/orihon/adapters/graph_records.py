"""What a graph keeps of its state, as records of a task: checkpoints, the writes of steps, and what was dropped.

They stand in the stream ``checkpoints`` as records of the kind ``langgraph`` and are never changed. Here is where each
is; what it says is read when somebody asks. Names no framework: what a value means is the business of the saver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orihon.store.reader import TaskReader

KIND = "langgraph"

Version = str | int | float
#: A checkpoint: its namespace and its id.
Place = tuple[str, str]


class GraphRecords:
    """Where the records of one thread are."""

    def __init__(self) -> None:
        self._read = 0
        self.checkpoints: dict[str, dict[str, int]] = {}
        self.parents: dict[Place, str | None] = {}
        self.runs: dict[Place, Any] = {}
        #: Channels that are made up of writes, where there are some.
        self.made_up: dict[Place, list[str]] = {}
        #: Where the value of a version of a channel is; ``None`` where the channel is empty.
        self.values: dict[tuple[str, str, Version], int | None] = {}
        #: For each write, by the id of its step and its own number: the record, the place in it, and the path.
        self.writes: dict[Place, dict[tuple[str, int], tuple[int, int, str]]] = {}

    def follow(self, store: TaskReader) -> None:
        """Take in what was written since the last time."""
        last = store.count("checkpoints")
        if last > self._read:
            for record in store.read("checkpoints", self._read + 1, last):
                if record["kind"] == KIND:
                    self._take(record)
                self._read = record["id"]

    def _take(self, record: Mapping[str, Any]) -> None:
        if "drop" in record:
            for namespace, checkpoint in record["drop"]:
                self.forget((namespace, checkpoint))
            return
        if "items" in record:
            return
        place = (record["ns"], record["checkpoint"])
        if "writes" in record:
            found = self.writes.setdefault(place, {})
            for at, (number, _, _) in enumerate(record["writes"]):
                if number < 0 or (record["step"], number) not in found:
                    found[record["step"], number] = (record["id"], at, record["path"])
            return
        self.checkpoints.setdefault(place[0], {})[place[1]] = record["id"]
        self.parents[place] = record["parent"]
        self.runs[place] = record.get("run")
        if record.get("made_up"):
            self.made_up[place] = record["made_up"]
        for channel, version, kept in record["values"]:
            self.values[place[0], channel, version] = None if kept is None else record["id"]

    def forget(self, place: Place) -> None:
        """A checkpoint and its writes are gone; values stay, others may have them."""
        self.checkpoints.get(place[0], {}).pop(place[1], None)
        self.parents.pop(place, None)
        self.runs.pop(place, None)
        self.made_up.pop(place, None)
        self.writes.pop(place, None)

    def latest(self, namespace: str) -> str | None:
        """The newest checkpoint: ids grow."""
        return max(self.checkpoints.get(namespace, ()), default=None)

    def ancestors(self, place: Place) -> Iterator[Place]:
        """The checkpoints that one came from, the nearest first."""
        parent = self.parents.get(place)
        while parent is not None and (above := (place[0], parent)) in self.parents:
            yield above
            parent = self.parents[above]


def record_at(store: TaskReader, number: int) -> dict[str, Any]:
    """One record of the stream."""
    return next(store.read("checkpoints", number, number))


def runs_of(numbers: list[int]) -> list[list[int]]:
    """Numbers that follow one another as their first and last: a list that only grows stays short."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
