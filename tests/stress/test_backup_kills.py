"""``kill -9`` of a backup at any moment leaves the former ones as they were, each proved, and the next one works.

A process makes one backup after the other, each with something new in it and with older ones removed, and says which
have ended. It is killed at a random moment; then the newest backup is restored and examined. ``--kills N`` makes the
campaign longer.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orihon.tasks.base import OpenBase
from orihon.transfer.backup import VaultKey, backup, check_backups, list_backups, restore_backup
from orihon.transfer.backup.vault import Memory
from orihon.upkeep.doctor import examine
from tests.conformance.child import ROOT, Lines, unmeasured
from tests.damage import paused_task, settings_for
from tests.helpers import Child

pytestmark = pytest.mark.stress

PROGRAM = """
import sys
from pathlib import Path
from orihon.tasks.base import OpenBase
from orihon.transfer.backup import backup
from tests.damage import settings_for
base, vault, backend = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
notes = next((base / "paused").iterdir()) / "notes.txt"
print("ready", flush=True)
while True:
    notes.write_text(notes.read_text() + "more\\n")
    print(backup(OpenBase(base, settings_for(backend)), vault, keep=2).run, flush=True)
"""


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_killed_backup_harms_none(backend: str, kills: int, tmp_path: Path) -> None:
    base, vault, settings = tmp_path / "base", tmp_path / "vault", settings_for(backend)
    for _ in range(4):
        _, folder = paused_task(base, backend)
        (folder / "notes.txt").write_text("")
    backup(OpenBase(base, settings), vault)
    chance = random.Random()
    rounds = max(5, kills // 40)
    ended = 0
    for number in range(rounds):
        ended += _killed(base, vault, backend, chance, at_least=int(not number))
        known = list_backups(vault, settings)
        assert known, "the former ones are there"
        looked = check_backups(vault, settings, key=VaultKey.of_base(base), newest=Memory(base).newest)
        assert (looked.damage, bool(looked.key)) == ((), True), f"after kill {number}"
        for info in known:
            restore_backup(vault, tmp_path / "copy", settings, run=info.run, key=VaultKey.of_base(base))
            assert examine(OpenBase(tmp_path / "copy", settings)) == [], f"after kill {number}"
            shutil.rmtree(tmp_path / "copy")
    assert ended
    settings = settings.replace(**{"audit.enabled": False})  # the record of a backup would be new in the next one
    last = backup(OpenBase(base, settings), vault, keep=1)
    assert [info.run for info in list_backups(vault, settings)] == [last.run]
    restore_backup(vault, tmp_path / "copy", settings, key=VaultKey.of_base(base))
    assert examine(OpenBase(tmp_path / "copy", settings)) == []
    needed = {path.name for path in (vault / "pieces").rglob("*") if path.is_file() and path.name[0] != "."}
    assert backup(OpenBase(base, settings), vault, keep=1).removed_pieces == 0
    assert {path.name for path in (vault / "pieces").rglob("*") if path.is_file() and path.name[0] != "."} == needed


def _killed(base: Path, vault: Path, backend: str, chance: random.Random, *, at_least: int) -> int:
    """Kill the backups at some moment; returns how many had ended."""
    command = [sys.executable, "-c", PROGRAM, str(base), str(vault), backend]
    environment = {**unmeasured(), "TMPDIR": str(base.parent)}  # where its temporary files stay behind
    with Child[bytes](command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        lines = Lines(process.stdout)
        assert lines.next() == b"ready"
        wanted = chance.randrange(at_least, 3)
        for _ in range(wanted):
            lines.next()
        time.sleep(chance.random() * 0.15)  # anywhere inside a backup
        process.kill()
    return wanted
