"""A base folder in which everything that a page of the web server shows means harm: see ``tests.hostile``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.errors import Waiting
from orihon.notifications.notification import KINDS
from orihon.settings import Settings, load_settings
from orihon.tasks.approvals.answers import approve
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold
from tests.helpers import raw_database
from tests.hostile import hostile_task, long, short

WAITING, FINISHED = "hostile-2", "hostile-1"


@dataclass(frozen=True)
class HostileSite:
    """Where it is, and with which settings it is served."""

    base: Path
    config: Path
    settings: Settings


def hostile_site(folder: Path) -> HostileSite:
    """Tasks, a question, notices, workers, figures and settings."""
    base, config = folder / "contexts", folder / "<b onclick=caught(20)>.json"
    hostile_task(base)
    config.write_text(_SETTINGS, encoding="utf-8")
    settings = load_settings(config, environ={})
    _wait(base, settings)
    tell(base)
    with raw_database(base / "tasks.db") as connection:
        # Not the numbers: those are checked where they are written.
        names = [short(f"worker.{field}") for field in ("name", "id", "host", "space", "boot")]
        now = "2026-01-01T00:00:00.000000+00:00"
        connection.execute(
            "INSERT INTO workers VALUES (?, ?, ?, 1, 1, ?, ?, 'working', ?, 3, 1, ?, ?, 1.0)",
            (*names, WAITING, now, now),
        )
        connection.execute(
            "INSERT INTO usage (uuid, day, model, provider, calls, input_tokens) VALUES (?, '2026-01-01', ?, ?, 1, 9)",
            (WAITING, short("usage.model"), short("usage.provider")),
        )
    return HostileSite(base, config, settings)


def tell(base: Path, number: int = 0) -> None:
    """Notices of every kind, whatever they say."""
    with Catalogue(base / "tasks.db") as catalogue:
        for kind in (*KINDS, short("notice.kind")):
            said = {name: long(f"notice.{name}") for name in ("message", "reason", "error", "question", "name", "by")}
            body = {**said, "details": {short("notice.detail"): long("notice.value")}, "compression_id": short("x")}
            catalogue.outbox.add(NewNotice(f"{kind} {number}", kind, short("notice.type"), WAITING, body))


def _wait(base: Path, settings: Settings) -> None:
    key = TaskKey(*(short(f"waiting.{name}")[:200] for name in ("source", "owner", "repo", "type", "id", "user")))
    for phase in ("first", "second"):
        task = (
            TaskContextManager(base, key, settings, uuid=WAITING)
            if phase == "first"
            else TaskContextManager.resume(base, WAITING, settings)
        )
        task.phase(short(f"phase.{phase}"))
        task.message_store.add_message("user", long("waiting.user").replace("\ud800", ""))
        task.message_store.add_message("assistant", long("waiting.assistant").replace("\ud800", "") * 4)
        task.planning_store.add_plan("data", {"x": long("waiting.plan")})
        if phase == "second":
            task.message_store.folding.compress([PlannedFold(1, 2, long("fold"), reason=short("reason"))])
        with suppress(Waiting):
            task.checkpoint(
                short(f"checkpoint.{phase}"), long("checkpoint.question"), context=long("checkpoint.context")
            )
        task.catalogue.close()
        if phase == "first":
            approve(OpenBase(base, settings), WAITING, by=short("approver"))


_SETTINGS = """
{"llm": {"provider": "openai", "openai": {"model": "</script><script>caught(21)</script><img src=x onerror=caught(22)>",
 "api_key": "not-for-pages", "base_url": "http://127.0.0.1:9/"}},
 "context_storage": {"blob_bytes": 1024}}
"""
