"""``kill -9`` at any moment loses nothing that was acknowledged.

A writer appends and folds and says what the store has acknowledged; it is killed at a random moment, the task is
opened again and compared, and the next writer goes on. ``--kills N`` makes the campaign longer; a database, where
a killed process can do less harm, gets a part of them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orihon import MessageStore
from orihon.tasks.verify.verify import Finding, verify_task
from tests.conformance.backends import BACKENDS, FilesBackend
from tests.conformance.child import ROOT, Lines, unmeasured
from tests.conformance.invariants import check_task
from tests.stress.writers import digest

pytestmark = pytest.mark.stress

#: A new task after so many kills: checking everything takes time that grows with the log.
KILLS_PER_TASK = 10
SHARE = {"postgres": 0.3}
#: More than writers without a lease come by between two kills: who takes over has a higher epoch than all of them.
EPOCHS = 1000


@dataclass
class Acknowledged:
    """What the store has promised."""

    messages: dict[int, str] = field(default_factory=dict)
    changes: int = 0

    def lost(self, store: MessageStore) -> list[int]:
        """Messages that were acknowledged and are gone or not what they were."""
        kept = {stored.seq: digest(stored.message.content) for stored in store.get_messages()}
        return [seq for seq, said in self.messages.items() if kept.get(seq) != said]

    def read(self, line: str) -> None:
        what, number, *rest = line.split()
        if what == "ack":
            self.messages[int(number)] = rest[0]
        else:
            self.changes = max(self.changes, int(number))


class Writers:
    """The process that starts writers, and the means to kill them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._lines = Lines(process.stdout)

    def kill_one(self, kind: str, folder: Path, chance: random.Random, acknowledged: Acknowledged) -> None:
        """One life of a writer: start it, hear some acknowledgements, kill it, hear the rest."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {folder} {chance.getrandbits(32)}\n".encode())
        self._process.stdin.flush()
        pid, heard, wanted = 0, 0, chance.randrange(16)
        while not pid or heard < wanted:
            line = self._lines.next().decode()
            assert line != "failed", "the writer ended by itself"
            if line.startswith("pid "):
                pid = int(line[4:])
            else:
                acknowledged.read(line)
                heard += 1
        time.sleep(chance.random() * 0.003)  # anywhere inside an append or a fold
        os.kill(pid, signal.SIGKILL)
        while (line := self._lines.next().decode()) != "dead":
            acknowledged.read(line)


@contextmanager
def writers() -> Iterator[Writers]:
    command = [sys.executable, "-m", "tests.stress.writers"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=unmeasured())
    with process:
        yield Writers(process)
        assert process.stdin is not None
        process.stdin.close()


def mistakes(store: MessageStore, folder: Path) -> list[Finding]:
    """What ``verify`` finds; a temporary file that a kill has left is only a warning."""
    return [finding for finding in verify_task(store.task_store, folder) if finding.severity != "warning"]


def test_no_acknowledged_message_is_lost(kind: str, kills: int, tmp_path: Path) -> None:
    kills = round(kills * SHARE.get(kind, 1))
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    total = 0
    with writers() as started:
        for task in range(0, kills, KILLS_PER_TASK):
            acknowledged = Acknowledged()
            folder = tmp_path / f"task-{chance.getrandbits(64):x}"
            for kill in range(task, min(task + KILLS_PER_TASK, kills)):
                started.kill_one(kind, folder, chance, acknowledged)
                store = BACKENDS[kind].open(folder, epoch=EPOCHS * (kill + 1))
                store.task_store.claim()  # what the dead one has sent arrives before this, or is refused
                assert acknowledged.lost(store) == [], f"after kill {kill}, seed {seed}"
                assert len(store.compressions()) >= acknowledged.changes
                store.answer_open_calls("interrupted")
                store.add_message("system", f"opened again after kill {kill}")
                check_task(store)
                store.close()
                assert mistakes(store, folder) == []
            total += len(acknowledged.messages)
    assert total > kills, "the writers hardly wrote"


def test_a_store_that_acknowledges_too_early_is_caught(kills: int, tmp_path: Path) -> None:
    chance = random.Random(7)
    losses = 0
    with writers() as started:
        for number in range(min(kills, 10)):
            acknowledged = Acknowledged()
            folder = tmp_path / f"task-{number}"
            started.kill_one("hasty", folder, chance, acknowledged)
            losses += len(acknowledged.lost(FilesBackend().open(folder)))
    assert losses > 0
