"""The jobs of a ``Base`` as functions of a folder and its settings, for programs that call them so.

Each opens the base, does what the method of the same job does, and closes it again. Jobs of a whole base need not be
told where: without a folder it is the one of the settings, and without settings those of the environment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from orihon.importers import importer
from orihon.reports import notifications, overview, records, statistics, storage
from orihon.search import history
from orihon.settings import Settings, load_settings
from orihon.store import StoredMessage
from orihon.tasks import chain, grants, view_reader
from orihon.tasks.approvals import answers, phase_archives
from orihon.tasks.base import OpenBase
from orihon.transfer import fork
from orihon.transfer.archive import archive
from orihon.transfer.backup import backup as back_up
from orihon.transfer.export import export
from orihon.upkeep import keys, privacy, retention, scan
from orihon.upkeep.retention import vacuum

_Arguments = ParamSpec("_Arguments")
_First = TypeVar("_First")
_Result = TypeVar("_Result", covariant=True)


class FolderJob(Protocol[_Arguments, _Result]):
    """A job of a whole base, told where or not."""

    def __call__(
        self,
        base_dir: Path | str | None = None,
        settings: Settings | None = None,
        /,
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result: ...


def _of_folder(
    job: Callable[Concatenate[OpenBase, _Arguments], _Result], *, create: bool = False
) -> FolderJob[_Arguments, _Result]:
    """A job whose settings come second."""

    @wraps(job)
    def called(
        base_dir: Path | str | None = None,
        settings: Settings | None = None,
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        wanted = load_settings(settings)
        with OpenBase(base_dir or wanted.context_storage.base_dir, wanted, create=create) as base:
            return job(base, *arguments, **options)

    return cast("FolderJob[_Arguments, _Result]", called)


def _of_task(
    job: Callable[Concatenate[OpenBase, _First, _Arguments], _Result],
) -> Callable[Concatenate[Path | str, _First, Settings, _Arguments], _Result]:
    """A job whose settings come after the task."""

    @wraps(job)
    def called(
        base_dir: Path | str,
        task: _First,
        settings: Settings,
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        with OpenBase(base_dir, settings) as base:
            return job(base, task, *arguments, **options)

    return cast("Callable[Concatenate[Path | str, _First, Settings, _Arguments], _Result]", called)


anonymize_task = _of_folder(privacy.anonymize_task)
archive_old = _of_folder(archive.archive_old)
archive_old_contexts = _of_folder(retention.archive_old_contexts)
backup = _of_folder(back_up)
delete_old_contexts = _of_folder(retention.delete_old_contexts)
delete_old_phase_archives = _of_folder(phase_archives.delete_old_phase_archives)
deliver_notifications = _of_folder(notifications.deliver_notifications)
erase_key = _of_folder(keys.erase_key)
erase_user = _of_folder(privacy.erase_user)
export_user = _of_folder(privacy.export_user)
forget = _of_folder(history.forget)
import_transcripts = _of_folder(importer.import_transcripts, create=True)
list_grants = _of_folder(grants.list_grants)
list_notifications = _of_folder(notifications.list_notifications)
maintain = _of_folder(retention.maintain)
monthly_report = _of_folder(statistics.monthly_report)
new_grant = _of_folder(grants.new_grant)
pending = _of_folder(answers.pending)
revoke_grant = _of_folder(grants.revoke_grant)
scan_tasks = _of_folder(scan.scan_tasks)
search_history = _of_folder(history.search_history)
storage_summary = _of_folder(storage.storage_summary)
vacuum_databases = _of_folder(vacuum.vacuum_databases)

approve = _of_task(answers.approve)
archive_task = _of_task(archive.archive_task)
export_task = _of_task(export.export_task)
export_tasks = _of_task(export.export_tasks)
fork_task = _of_task(fork.fork_task)
keep_task = _of_task(retention.keep_task)
reject = _of_task(answers.reject)
revise = _of_task(answers.revise)
task_chain = _of_task(chain.task_chain)
task_overview = _of_task(overview.task_overview)
view_diff = _of_task(records.view_diff)


def restore_task(base_dir: Path | str, uuid: str, settings: Settings) -> Path:
    """Bring a packed task back with the status that it had; returns its folder.

    Of a task in the database that is its scratch folder, which is there only while somebody works on it.
    """
    with OpenBase(base_dir, settings) as base:
        return archive.restore_task(base, uuid).folder


def view_at(base_dir: Path | str, task: str, seq: int, settings: Settings) -> view_reader.ViewAt:
    """What the model saw of a task when its log ended at message ``seq``."""
    with OpenBase(base_dir, settings) as base:
        return view_reader.view_at(base, task, seq)


def follow_messages(
    base_dir: Path | str, uuid: str, settings: Settings, *, after: int, wait: Callable[[float], object] = time.sleep
) -> Iterator[StoredMessage]:
    """A task's messages after this one, and then each as it comes, until the task is over."""
    with OpenBase(base_dir, settings) as base:
        yield from records.follow_messages(base, uuid, after=after, wait=wait)
