"""Every command of ``orihon`` with arguments that work, on a base folder with a bit of everything.

A new command needs a row here, and a schema in ``scripts.json_forms``: tests fail where one is missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orihon import archive_old_contexts
from orihon.catalogue import Catalogue, Grant
from orihon.errors import Waiting
from orihon.system.clock import utc_now
from orihon.tasks.approvals.answers import approve
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey, TaskStatus
from tests.damage import KEY, settings_for, start_task
from tests.integration.worker_handlers import HANDLER

WAITING = TaskKey("github", "owner", "repo", "issue", "29", "user")
DONE = TaskKey("gitlab", "group", "project", "merge_request", "5", "ana")


@dataclass(frozen=True)
class Run:
    """One call of a command. ``variant`` names the form of its JSON, as in the schemas."""

    command: str
    arguments: tuple[str, ...] = ()
    variant: str = ""
    codes: tuple[int, ...] = (0,)
    dear: bool = False  # starts processes of its own
    silent: bool = False  # has nothing to say for people here

    @property
    def name(self) -> str:
        return f"{self.command} {self.variant}".strip()

    def command_line(self, folder: Path) -> list[str]:
        """What is typed, in a copy of the prepared folder."""
        place = ["--base-dir", str(folder / ("new" if self.command == "init" else "contexts"))]
        filled = [word.replace("{folder}", str(folder)) for word in self.arguments]
        return [*place, *self.command.split(), *filled]


def runs() -> Iterator[Run]:
    """All of them."""
    yield Run("list")
    yield Run("show", ("paused-1",))
    lists = ("--messages", "--summaries", "--tools", "--plans", "--folds", "--inherited")
    yield Run("show", ("paused-1", *lists), "--messages --summaries --tools --plans --folds --inherited")
    yield Run("show", ("done-1", "--follow"), "--follow")
    yield Run("show", ("paused-1", "--export-html", "{folder}/page.html"), "--export-html FILE")
    yield Run("view", ("paused-1",))
    yield Run("view", ("paused-1", "--at", "8"), "--at SEQ")
    yield Run("view", ("paused-1", "--folds"), "--folds")
    yield Run("view", ("paused-1", "--fold", "2"), "--fold N")
    yield Run("view", ("paused-1", "--fold", "2", "--original"), "--fold N --original")
    yield Run("diff", ("paused-1",))
    yield Run("chain", ("paused-1",))
    yield Run("search", ("step",))
    yield Run("export", ("paused-1", "-o", "{folder}/out.jsonl"))
    yield Run("handoff", ("paused-1", "-o", "{folder}/handoff.md"))
    yield Run("import", ("{folder}/chat.jsonl",))
    yield Run("compress", ("paused-1", "--strategy", "offload"))
    yield Run("compress", ("paused-1", "--preview"), "--preview")
    yield Run("undo", ("paused-1",))
    yield Run("redo", ("undone-1",))
    yield Run("rewind", ("paused-1", "--to", "10"))
    yield Run("fork", ("paused-1", "--at", "7"))
    yield Run("unfold", ("paused-1", "2"))
    yield Run("edit", ("paused-1", "2", "--text", "other words"))
    yield Run("pin", ("paused-1", "11"))
    yield Run("unpin", ("paused-1", "8"))
    yield Run("enqueue", ("Do something",))
    yield Run("worker", ("--until-empty", "--handler", HANDLER), dear=True)
    yield Run("pause", ("queued-1",))
    yield Run("resume", ("paused-1",))
    yield Run("cancel", ("paused-1",))
    yield Run("retry", ("failed-1",))
    yield Run("approvals")
    yield Run("approve", ("waiting-1", "--by", "ana"))
    yield Run("reject", ("waiting-1", "--reason", "not yet", "--by", "ana"))
    yield Run("revise", ("waiting-1", "--instructions", "shorter", "--by", "ana"))
    yield Run("notifications")
    yield Run("restore", ("waiting-1",))
    yield Run("archive", ("done-1",))
    yield Run("archive", ("--dry-run",), "--dry-run")
    yield Run("unarchive", ("packed-1",))
    yield Run("keep", ("done-1",))
    yield Run("cleanup", ("--days", "0"))
    yield Run("vacuum")
    yield Run("maintain", ("--dry-run",))
    yield Run("tools")
    yield Run("verify", ("paused-1",))
    yield Run("scan", ("paused-1",))
    yield Run("doctor", codes=(0, 1))
    yield Run("backup", ("{folder}/backup",))
    yield Run("backup", ("{folder}/backups", "--list"), "--list")
    yield Run("backup", ("{folder}/backups", "--check"), "--check")
    yield Run("backup", ("{folder}/backups", "--restore-to", "{folder}/again"), "--restore-to FOLDER")
    yield Run("migrate", ("--from", "files", "--to", "sqlite", "paused-1"))
    yield Run("keys show")
    yield Run("keys new", ("{folder}/master.key",))
    yield Run("keys rotate")
    yield Run("audit show")
    yield Run("audit verify")
    yield Run("workers")
    yield Run("stats")
    yield Run("stats", ("--summary",), "--summary")
    yield Run("stats", ("paused-1",), "TASK")
    yield Run("monitor", codes=(0, 1))
    yield Run("monitor", ("--report", "this"), "--report")
    yield Run("costs")
    yield Run("metrics")
    yield Run("serve", ("--show-token",), "--show-token")
    yield Run("mcp install", ("claude", "--project"))
    yield Run("mcp install", ("--list",), "--list")
    yield Run("wrap", ("--list",), "--list")
    yield Run("privacy export", ("user", "{folder}/mine"))
    yield Run("privacy anonymize", ("done-1",))
    yield Run("privacy erase", ("nobody", "--yes"))
    yield Run("grants new", ("--user", "ann", "--role", "operate"))
    yield Run("grants list")
    yield Run("grants revoke", ("0a1b2c3d",))
    yield Run("squeeze", ("{folder}/chat.jsonl", "--tokens", "200"))
    yield Run("completion", ("bash",))
    yield Run("torture", ("--campaign", "kills", "--backend", "files", "--trials", "1", "--dir", "{folder}"), dear=True)
    yield Run("config show")
    yield Run("init")
    yield Run("trust", ("{folder}/configured",))
    yield Run("trust", ("--list",), "--list")
    yield Run("trust", ("{folder}", "--remove"), "--remove")


def prepare(folder: Path) -> None:
    """A base folder ``contexts`` with tasks in every state, a transcript and a backup beside it."""
    from orihon.transfer.backup import backup

    base, settings = folder / "contexts", settings_for("files")
    start_task(base, settings, uuid="done-1", key=DONE).complete()
    start_task(base, settings, uuid="packed-1", key=DONE).complete()
    with Catalogue(base / "tasks.db") as catalogue:
        catalogue.tasks.update("done-1", keep=True)
        archive_old_contexts(base, settings, 0)
        catalogue.tasks.update("done-1", keep=False)
        catalogue.tasks.register(KEY, "queued-1", status=TaskStatus.QUEUED, prompt="steps 1 0")
    start_task(base, settings, uuid="paused-1").stop()
    undone = start_task(base, settings, uuid="undone-1")
    undone.message_store.folding.undo()
    undone.stop()
    start_task(base, settings, uuid="failed-1", key=DONE).fail("the disk was full")
    asking = TaskContextManager(base, WAITING, settings, uuid="waiting-1")
    asking.message_store.add_message("user", "Plan the level.")
    _ask(asking, "concept")
    approve(OpenBase(base, settings), "waiting-1", by="ann")
    _ask(TaskContextManager.resume(base, "waiting-1", settings), "prototype")
    chat = [{"role": "user", "content": f"Question {number}: " + "why? " * 40} for number in range(6)]
    (folder / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in chat), encoding="utf-8")
    with Catalogue(base / "tasks.db") as catalogue:
        catalogue.grants.add(Grant("0a1b2c3d", "ann", "read", "", utc_now(), None, None), "0" * 64)
    backup(OpenBase(base, settings), str(folder / "backups"))
    (folder / "configured").mkdir(mode=0o700)
    (folder / "configured" / "config.yaml").write_text("tools: {shell: true}\n", encoding="utf-8")
    (folder / "configured" / "config.yaml").chmod(0o600)


def _ask(task: TaskContextManager, phase: str) -> None:
    task.phase(phase)
    task.message_store.add_message("assistant", f"## 決定\n\n- {phase}: three rooms.\n\n## 調査\n\n" + "Looked. " * 200)
    with suppress(Waiting):
        task.checkpoint(phase, "これでよいですか？")
    task.catalogue.close()


def copied(prepared: Path, to: Path) -> Path:
    """The prepared folder, for one run of a command."""
    shutil.copytree(prepared, to)
    return to
