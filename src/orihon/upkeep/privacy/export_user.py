"""``export_user``: everything that belongs to a user, in files that people and programs can read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from orihon.audit import AuditFilter, audit_records, audited
from orihon.errors import DamagedStore, InvalidInput, KeyUnavailable, TaskNotFound
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, replace_file
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.transfer.export import export_tasks
from orihon.upkeep.privacy.erase import rows_of
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.privacy")

_ABOUT = "about.json"
_TASKS = "tasks"
_MOST_NOTICES = 10_000


@dataclass(frozen=True, slots=True)
class UserExport(AsJson):
    """Where a user's data was put."""

    user: str
    folder: Path
    tasks: tuple[str, ...]
    left: tuple[str, ...]  # tasks that have no records here to write: queued, packed, cleaned up


def export_user(base: OpenBase, user: str, out: Path | str) -> UserExport:
    """Write ``about.json`` (rows, figures, notices, grants, the audit) and each task's records below ``tasks/``."""
    folder = Path(out).absolute()
    if not user:
        raise InvalidInput("no_user")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput("folder_in_use", path=folder)
    with audited(base.path, base.settings, "export", begun=True, data="personal"):
        about = about_user(base, user)
        make_private_folder(folder)
        make_private_folder(folder / _TASKS)
        replace_file(folder / _ABOUT, [jsonio.encode_pretty(about)])
        written: list[str] = []
        left: list[str] = []
        for row in about["tasks"]:
            file = folder / _TASKS / f"{row['uuid']}.jsonl"
            (written if _is_written(base, row, file) else left).append(row["uuid"])
    return UserExport(user, folder, tuple(written), tuple(left))


def _is_written(base: OpenBase, row: Mapping[str, Any], out: Path | BinaryIO) -> bool:
    """Write the records of a task, if there are any that can be read: the other tasks are handed out all the same."""
    if row["status"] in (TaskStatus.QUEUED.value, TaskStatus.ARCHIVED.value):
        return False
    try:
        export_tasks(base, [row["uuid"]], "jsonl", out, clear=True)
    except (TaskNotFound, DamagedStore, KeyUnavailable) as error:
        logger.warning("%s: %s", row["uuid"], error)
        return False
    return True


def user_data(base: OpenBase, user: str) -> dict[str, Any]:
    """The same in memory: what is sealed on the disk is written nowhere."""
    if not user:
        raise InvalidInput("no_user")
    with audited(base.path, base.settings, "export", begun=True, data="personal"):
        about = about_user(base, user)
        records: dict[str, Any] = {}
        for row in about["tasks"]:
            held = BytesIO()
            if _is_written(base, row, held):
                records[row["uuid"]] = [jsonio.decode(line) for line in held.getvalue().splitlines()]
    # As a file would have it: plain values only.
    return {**jsonio.decode(jsonio.encode(about)), "records": records}


def about_user(base: OpenBase, user: str) -> dict[str, Any]:
    """What is known of a user besides the records of their tasks."""
    rows = list(rows_of(base, user))
    catalogue = base.open_catalogue()
    usage = {row.uuid: [] if catalogue is None else catalogue.usage.of_task(row.uuid) for row in rows}
    told = {
        row.uuid: [] if catalogue is None else catalogue.outbox.rows(limit=_MOST_NOTICES, task=row.uuid) for row in rows
    }
    grants = [] if catalogue is None else [one.as_dict() for one in catalogue.grants.all() if one.user == user]
    return {
        "user": user,
        "exported_at": utc_now(),
        "tasks": [
            row.as_dict() | {"prompt": row.prompt, "usage": [_plain(one) for one in usage[row.uuid]]} for row in rows
        ],
        "notifications": [
            {"id": one.id, "created_at": one.created_at, "task": one.task, "kind": one.kind, "body": dict(one.body)}
            for uuid in told
            for one in told[uuid]
        ],
        "grants": grants,
        "audit": [one.as_dict() for one in audit_records(base.path, base.settings, AuditFilter(user=user))],
    }


def _plain(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}
