"""Whatever the umask: what Orihon writes is for its owner only, wherever and however it writes it."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.test_cli import environment
from tests.helpers import Child

ROOT = Path(__file__).parents[2]

#: Uses everything that writes, in one process that holds its databases open: ``-wal`` and ``-shm`` are there, too.
_PROGRAM = """
import os, sys
from pathlib import Path
folder, umask = Path(sys.argv[1]), int(sys.argv[2])
os.umask(umask)
os.chdir(folder)
from orihon.cli.main import main
from tests.command_walk import copied, prepare
from tests.sealing import ask, sealed_settings, start_sealed, write_key
prepare(folder / "walk")
(folder / "walk" / "config.yaml").write_text("logging: {file: logs/orihon.log}")
base = ["--config", "walk/config.yaml", "--base-dir", "walk/contexts"]
endings = {"jsonl": "jsonl", "chat": "chat.jsonl", "markdown": "md", "html": "html"}
commands = [
    *(["export", "paused-1", "--format", form, "-o", f"out/task.{ending}"] for form, ending in endings.items()),
    ["import", "walk/chat.jsonl"],
    ["compress", "paused-1", "--strategy", "offload"],
    ["fork", "paused-1", "--at", "7"],
    ["enqueue", "Do something"],
    ["search", "step"],
    ["approve", "waiting-1", "--by", "ana"],
    ["archive", "done-1"],
    ["unarchive", "packed-1"],
    ["migrate", "--from", "files", "--to", "sqlite", "paused-1"],
    ["backup", "vault"],
    ["backup", "vault", "--restore-to", "again"],
    ["maintain"],
    ["doctor", "--repair"],
    ["keys", "new", "made/master.key"],
]
(folder / "out").mkdir(mode=0o700)
for command in commands:
    assert main([*base, *command]) in (0, 1), command
assert main(["--base-dir", "fresh/contexts", "--config", "fresh.yaml", "init"]) in (0, 2)
for backend in ("files", "sqlite"):
    settings = sealed_settings(write_key(folder / "walk" / "master"), backend, archive={"url": f"file://{folder}/shelf"})
    ask(start_sealed(folder / "sealed", settings, f"{backend}-1"))
    task = start_sealed(folder / "sealed", settings, f"{backend}-2")
    task.message_store.memory_cache
print("written", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_the_owner_may_read_what_was_written(umask: int, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-c", _PROGRAM, str(folder), str(umask)]
    environ = {**environment("en"), "PYTHONPATH": str(ROOT)}
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        assert any(line == "written\n" for line in process.stdout)
        written = list(folder.rglob("*"))
        exposed = {str(path.relative_to(folder)): oct(mode) for path in written if (mode := _exposed(path))}
        process.communicate("\n")
    names = {path.name for path in written}
    assert {"context.db-wal", "context.db-shm", "tasks.db-wal", "orihon.log", "master.key", "sealed.json"} <= names
    assert {path.suffix for path in (folder / "out").iterdir()} >= {".jsonl", ".md", ".html"}
    assert exposed == {}


def _exposed(path: Path) -> int:
    """The mode of a file or folder that is not for its owner alone; 0 for all others, and for what the test made."""
    if path.name in ("chat.jsonl", "walk", "config.yaml"):
        return 0
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return 0
    wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
    return 0 if stat.S_IMODE(mode) == wanted else stat.S_IMODE(mode)
