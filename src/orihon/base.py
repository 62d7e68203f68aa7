"""``Base``: the front door. A folder or a database with tasks in it; what a command does, a method does.

>>> with Base("contexts") as base, base.task("me/project#27") as task:
...     task.add("user", "Fix the failing test")
...     answer = client.chat.completions.create(model=model, messages=task.messages())
...     task.append(answer)

Opening a base makes nothing. Each method opens what it needs when it is called, so that a program pays for what it
uses. A ``Base`` may be shared by threads and lives as long as the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from orihon.settings import Settings, load_settings
from orihon.settings.where import with_base_folder
from orihon.store.locks import NamedLocks
from orihon.system import ProgressObserver
from orihon.tasks.base import OpenBase
from orihon.tasks.folder_rows import enter_folder
from orihon.tasks.task import Task
from orihon.tasks.task_name import KeyOrName, is_id, key_named, unfinished_task
from orihon.values.task import TaskKey, TaskStatus, new_uuid

if TYPE_CHECKING:
    from orihon.audit import AuditRecord, AuditReport
    from orihon.catalogue import Grant, TaskRow
    from orihon.importers.report import ImportReport
    from orihon.notifications.notification import Notification
    from orihon.reports.costs import CostReport
    from orihon.reports.monitor import MonitorSnapshot
    from orihon.reports.overview import TaskOverview
    from orihon.reports.records import ViewDiff
    from orihon.reports.statistics import MonthlyReport
    from orihon.reports.storage import StorageSummary
    from orihon.reports.task_list import TaskList
    from orihon.search import SearchResults
    from orihon.search.recall import Recalled
    from orihon.store import StoredMessage
    from orihon.tasks.approvals.answers import Answered, PendingApproval
    from orihon.tasks.chain import ChainLink
    from orihon.tasks.grants import NewGrant
    from orihon.tasks.verify.findings import Finding
    from orihon.tasks.view_reader import ViewAt
    from orihon.transfer.archive import ArchivedTask
    from orihon.transfer.backup.backup import BackupReport
    from orihon.transfer.backup.vault import VaultKey
    from orihon.transfer.export import Exported, Form
    from orihon.transfer.export.handoff import Handoff, HandoffForm
    from orihon.transfer.migrate import MigrationReport
    from orihon.upkeep.keys import KeysOverview
    from orihon.upkeep.privacy import Anonymized, Erasure, UserExport
    from orihon.upkeep.retention import Maintenance, RetentionRun
    from orihon.upkeep.retention.vacuum import VacuumRun
    from orihon.upkeep.scan import Scanned


class Base(OpenBase):
    """Tasks and everything that can be done with them."""

    def __init__(
        self,
        where: Path | str | None = None,
        config: Mapping[str, Any] | Settings | Path | str | None = None,
        **settings: Any,
    ) -> None:
        """``where``: a folder or a ``postgresql://`` address; without it, what the settings name.

        Settings come from ``config`` (a mapping, a file, ready ``Settings``; else the configuration in force) and
        from keywords, which are the sections of a configuration file: ``Base("contexts", compression={…})``.
        """
        if config is None or isinstance(config, Mapping):
            loaded = load_settings(_merged(config or {}, settings))
        else:
            loaded = load_settings(config, flags=_dotted(settings))
        if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
            loaded = loaded.replace(**{"database.url": where, "context_storage.backend": "postgres"})
            where = None
        if where is None:
            loaded = with_base_folder(loaded)
        super().__init__(loaded.context_storage.base_dir if where is None else where, loaded, create=True)
        self._open_tasks: dict[str, Task] = {}  # a handle that was dropped still holds its lease
        self._openings = NamedLocks()

    # ---- working on tasks --------------------------------------------------------------------------------------

    def task(
        self,
        key: KeyOrName | None = None,
        *,
        title: str | None = None,
        user: str = "",
        take_over: bool = False,
        inherit: bool = True,
        inherit_from: str | None = None,
        llm_client: Any = None,
        begins: Mapping[str, Any] | None = None,
    ) -> Task:
        """The unfinished task of that key, wherever it stood; a new one where there is none.

        ``key`` is a ``TaskKey``, ``"owner/repo#27"``, a UUID, or a name of your own; without one the task is new. A
        task whose process is dead is taken over (``take_over``: also from a live one); a paused one resumes. ``begins``
        are columns of a new task's row (``metadata``, ``model``, ``context_length``). Threads that ask for one key get
        one task; those that ask for others do not wait for each other.
        """
        from orihon.tasks.context import TaskContextManager

        wanted = key_named(key, user)
        with self._openings.of(replace(wanted, uuid=None)):
            row = None if key is None else self._unfinished(key, wanted, user)
            uuid = new_uuid() if row is None else row.uuid
            with self._openings.of(uuid):  # somebody may ask for it by that name
                if (known := self._open_tasks.get(uuid)) is not None and known.is_open:
                    return known
                named = {"title": self.redactor.mask(title)} if title else {}
                if row is None and named:
                    begins = {**(begins or {}), "metadata": {**(begins or {}).get("metadata", {}), **named}}
                context = TaskContextManager(
                    self,
                    replace(wanted, uuid=None) if row is None else row.key,
                    llm_client=llm_client,
                    uuid=uuid,
                    take_over=take_over,
                    inherit=inherit,
                    inherit_from=inherit_from,
                    begins=begins,
                )
                if row is not None and named:
                    said = {**context.catalogue.tasks.get(uuid).metadata, **named}
                    context.catalogue.tasks.update(uuid, metadata=said, epoch=context.lease.epoch)
                task = Task(context.task_key, context.task_key.user, context.uuid, context=context, base=self)
                self._remember(task)
                return task

    def _remember(self, task: Task) -> None:
        """Those that are closed are forgotten."""
        with self._openings.of("remembered"):
            still = {uuid: one for uuid, one in self._open_tasks.items() if one.is_open}
            self._open_tasks = {**still, task.context.uuid: task}

    def _unfinished(self, key: KeyOrName, wanted: TaskKey, user: str) -> TaskRow | None:
        """One that only its folder tells about gets its row: nobody begins a second one beside it."""
        catalogue = self.needed_catalogue()
        if isinstance(key, str) and is_id(key) and catalogue.tasks.find(key) is None:
            place = self.folders.find(key)
            if place is not None and not place.is_bare:
                enter_folder(catalogue, place, self.settings)
        return unfinished_task(key, wanted, catalogue, user)

    def enqueue(self, key: KeyOrName | None = None, prompt: str = "", *, user: str = "", priority: int = 0) -> str:
        """Put a task in line for the workers; returns its UUID."""
        from orihon.runtime.broker_queue import open_queue

        return open_queue(self).enqueue(key_named(key, user), prompt=prompt, priority=priority)

    def pause(self, task: str) -> TaskRow:
        """Let a task rest."""
        return self._queue_request("pause", task)

    def resume(self, task: str) -> TaskRow:
        """Let workers go on with a task."""
        return self._queue_request("resume", task)

    def cancel(self, task: str) -> TaskRow:
        """Give a task up."""
        return self._queue_request("cancel", task)

    def retry(self, task: str) -> TaskRow:
        """Put a failed, cancelled or dead task in line again."""
        return self._queue_request("retry", task)

    def _queue_request(self, name: str, task: str) -> TaskRow:
        from orihon.runtime.broker_queue import open_queue

        row: TaskRow = getattr(open_queue(self), name)(self.resolve(task))
        return row

    # ---- looking -----------------------------------------------------------------------------------------------

    def tasks(self, status: TaskStatus | str | None = None, *, limit: int = 50, **wanted: str) -> TaskList:
        """The newest tasks, of a ``status``, ``user``, ``repository``, ``source`` …, with how full each context is."""
        from orihon.reports.task_list import WantedTasks, page_of_tasks

        state = status.value if isinstance(status, TaskStatus) else status
        return page_of_tasks(self, WantedTasks(status=state, **wanted), limit=limit)

    def overview(self, task: str, *, last: int = 10) -> TaskOverview:
        """One task at a glance."""
        from orihon.reports.overview import task_overview

        return task_overview(self, task, last=last)

    def view_at(self, task: str, seq: int) -> ViewAt:
        """What the model saw when message ``seq`` was the last one."""
        from orihon.tasks.view_reader import view_at

        return view_at(self, task, seq)

    def diff(self, task: str, compression: int | None = None) -> ViewDiff:
        """A view before and after a compression, the last one unless told."""
        from orihon.reports.records import view_diff

        return view_diff(self, task, compression)

    def follow(self, task: str, *, after: int = 0) -> Iterator[StoredMessage]:
        """A task's messages as they come, until it is over."""
        from orihon.reports.records import follow_messages

        return follow_messages(self, self.resolve(task), after=after)

    def chain(self, task: str) -> list[ChainLink]:
        """The tasks on the same key, and what each inherited."""
        from orihon.tasks.chain import task_chain

        return task_chain(self, task)

    def search(self, query: str, *, limit: int = 20, **filters: Any) -> SearchResults:
        """Words in everything that tasks have said and done; ``filters`` as ``search_history`` takes them."""
        from orihon.search import search_history

        return search_history(self, query, limit=limit, **filters)

    def recall(
        self, task: str, *, seq: str | int | None = None, words: str | None = None, fold: int | None = None, **room: int
    ) -> Recalled:
        """Messages of a task word for word, folded or not: ``seq="41-88"``, ``words="…"`` or ``fold=3``.

        ``characters`` bounds the answer; ``offset`` goes on where ``next`` of the one before says.
        """
        from orihon.search.recall import recall

        return recall(self, task, seq=seq, words=words, fold=fold, **room)

    def remember(self, task: str, note: str, *, by: str = "") -> int:
        """Keep a note with a task that no fold takes away; returns its number among the plans."""
        from orihon.tasks.hand_edits import remember

        return remember(self, self.resolve(task), note, made_by=by or "library")

    def sql(self, question: str, *parameters: Any) -> list[dict[str, Any]]:
        """What the catalogue answers to a ``SELECT`` of your own, row by row; ``?`` stands for each parameter.

        Read-only, and with the library that writes: reading ``tasks.db`` needs no other. Sealed texts stay sealed.
        """
        return self.needed_catalogue().ask(question, parameters)

    def costs(self, by: str = "task", since: str | None = None, until: str | None = None) -> CostReport:
        """What calls of models have cost, by ``task``, ``user``, ``repository``, ``model`` or ``day``."""
        from orihon.reports.costs import cost_report

        return cost_report(self, None, by, since, until)

    def statistics(self) -> dict[str, Any]:
        """One picture of everything: tasks by status, the queue, machines, leases, what it all took."""
        from orihon.runtime.stats import collect_cluster_stats

        return collect_cluster_stats(self)

    def workers(self) -> dict[str, Any]:
        """The machines, the workers on each of them, and the leases that they hold."""
        from orihon.runtime.stats import collect_workers

        return collect_workers(self)

    def storage(self) -> StorageSummary:
        """How many tasks, how large, which can go."""
        from orihon.reports.storage import storage_summary

        return storage_summary(self)

    def month(self, month: str = "last") -> MonthlyReport:
        """What happened in a month."""
        from orihon.reports.statistics import monthly_report

        return monthly_report(self, month)

    def metrics(self) -> str:
        """The metrics of this moment in the text format of Prometheus."""
        from orihon.reports.metrics import collect_metrics

        return collect_metrics(self)

    def monitor(self) -> MonitorSnapshot:
        """Is anything wrong? Alerts are raised and ended by it."""
        from orihon.reports.monitor import ContextMonitor

        return ContextMonitor(base_dir=self).check()

    def notifications(self, *, since: int | None = None, limit: int = 100) -> list[Notification]:
        """What people were told."""
        from orihon.reports.notifications import list_notifications

        return list_notifications(self, since=since, limit=limit)

    # ---- people ------------------------------------------------------------------------------------------------

    def pending(self) -> list[PendingApproval]:
        """What waits for a person."""
        from orihon.tasks.approvals.answers import pending

        return pending(self)

    def approve(self, task: str, *, by: str = "", reason: str = "") -> Answered:
        """Let a task go on that asks."""
        from orihon.tasks.approvals.answers import approve

        return approve(self, self.resolve(task), by=by, reason=reason)

    def reject(self, task: str, *, reason: str, by: str = "") -> Answered:
        """Say no to what a task asks."""
        from orihon.tasks.approvals.answers import reject

        return reject(self, self.resolve(task), by=by, reason=reason)

    def revise(self, task: str, *, instructions: str, by: str = "") -> Answered:
        """Ask a task for changes."""
        from orihon.tasks.approvals.answers import revise

        return revise(self, self.resolve(task), by=by, instructions=instructions)

    def grants(self) -> list[Grant]:
        """Who may come in over the network."""
        from orihon.tasks.grants import list_grants

        return list_grants(self)

    def new_grant(self, *, user: str, role: str, name: str = "", days: float | None = None) -> NewGrant:
        """A token for a person or a program."""
        from orihon.tasks.grants import new_grant

        return new_grant(self, user=user, role=role, name=name, days=days)

    def revoke_grant(self, number: str) -> Grant:
        """End a grant."""
        from orihon.tasks.grants import revoke_grant

        return revoke_grant(self, number)

    # ---- in and out --------------------------------------------------------------------------------------------

    def import_(
        self, paths: Sequence[Path | str], *, progress: ProgressObserver | None = None, **options: Any
    ) -> ImportReport:
        """What other agents have recorded, brought in; ``options`` as ``import_transcripts`` takes them."""
        from orihon.importers.importer import import_transcripts

        return import_transcripts(self, paths, progress=progress, **options)

    def export(
        self,
        task: str,
        form: Form = "jsonl",
        out: Path | str | BinaryIO = Path(),
        *,
        force: bool = False,
        clear: bool = False,
    ) -> Exported:
        """A task in a file that leaves Orihon."""
        from orihon.transfer.export import export_task

        return export_task(self, task, form, out, force=force, clear=clear)

    def handoff(
        self,
        task: str,
        form: HandoffForm = "prompt",
        out: Path | str | None = None,
        *,
        force: bool = False,
        clear: bool = False,
    ) -> Handoff:
        """The view as it is now, to go on with elsewhere: ``prompt``, ``markdown``, ``openai`` or ``anthropic``."""
        from orihon.transfer.export.handoff import hand_off

        return hand_off(self, task, form, out, force=force, clear=clear)

    def fork(self, task: str, at: int, *, name: str | None = None) -> str:
        """A new, paused task that begins as another one did up to step ``at``; returns its UUID."""
        from orihon.transfer.fork import fork_task

        return fork_task(self, self.resolve(task), at, name=name)

    def archive(self, task: str) -> ArchivedTask:
        """Pack a finished task."""
        from orihon.transfer.archive import archive_task

        return archive_task(self, self.resolve(task))

    def unarchive(self, task: str) -> None:
        """Bring a packed task back."""
        from orihon.transfer.archive import restore_task

        restore_task(self, self.resolve(task))

    def backup(
        self,
        target: str | Path,
        *,
        keep: int | None = None,
        key: VaultKey | None = None,
        progress: ProgressObserver | None = None,
    ) -> BackupReport:
        """The whole base into a folder or an object storage, while others work in it."""
        from orihon.transfer.backup.backup import backup

        return backup(self, target, progress, keep=keep, key=key)

    def migrate(self, source: str, target: str, *, progress: ProgressObserver | None = None) -> MigrationReport:
        """All tasks from one back end to another."""
        from orihon.transfer.migrate import migrate_tasks

        return migrate_tasks(self.path, self.settings, source=source, target=target, progress=progress)

    # ---- keeping it healthy ------------------------------------------------------------------------------------

    def verify(self, task: str) -> list[Finding]:
        """Derive everything about a task again and say what differs; an empty list is good."""
        from orihon.tasks.verify.verify import verify

        return verify(self, self.resolve(task))

    def doctor(self, *, repair: bool = False, progress: ProgressObserver | None = None) -> list[Finding]:
        """Examine everything and, when asked to, put right what loses nothing."""
        from orihon.upkeep import doctor

        return doctor.repair(self, progress) if repair else doctor.examine(self, progress)

    def keep(self, task: str, *, keep: bool = True) -> None:
        """Mark a task so that it is never archived or removed by age; or take the mark away."""
        from orihon.upkeep.retention import keep_task

        keep_task(self, self.resolve(task), keep=keep)

    def cleanup(self, days: float | None = None, *, dry_run: bool = False) -> RetentionRun:
        """Remove tasks that ended long ago."""
        from orihon.upkeep.retention import delete_old_contexts

        return delete_old_contexts(self, days, dry_run=dry_run)

    def maintain(self, *, dry_run: bool = False) -> Maintenance:
        """Remove the oldest tasks, pack the old ones, give the room back."""
        from orihon.upkeep.retention import maintain

        return maintain(self, dry_run=dry_run)

    def vacuum(self, *, dry_run: bool = False) -> VacuumRun:
        """Make the databases as small as what is in them."""
        from orihon.upkeep.retention import vacuum_databases

        return vacuum_databases(self, dry_run=dry_run)

    def scan(self, tasks: Iterable[str] | None = None, *, fix: bool = False) -> list[Scanned]:
        """Secrets in old histories; ``fix`` takes them out."""
        from orihon.upkeep.scan import scan_tasks

        return scan_tasks(self, None if tasks is None else map(self.resolve, tasks), fix=fix)

    def export_user(self, user: str, out: Path | str) -> UserExport:
        """Everything that belongs to a user, in files."""
        from orihon.upkeep.privacy import export_user

        return export_user(self, user, out)

    def erase_user(self, user: str, *, by: str = "", dry_run: bool = False) -> Erasure:
        """Everything of a user goes, for good."""
        from orihon.upkeep.privacy import erase_user

        return erase_user(self, user, by=by, dry_run=dry_run)

    def anonymize(self, task: str, *, names: Iterable[str] = ()) -> Anonymized:
        """A task without the names, addresses and numbers of people, for good."""
        from orihon.upkeep.privacy import anonymize_task

        return anonymize_task(self, self.resolve(task), names=names)

    def keys(self) -> KeysOverview:
        """Which master key there is, and how many data keys under which."""
        from orihon.upkeep.keys import keys_overview

        return keys_overview(self)

    def audit_records(self, *, limit: int | None = None) -> list[AuditRecord]:
        """Who did what to which task, the newest last."""
        from orihon.audit import audit_records

        return audit_records(self.path, self.settings, limit=limit)

    def verify_audit(self) -> AuditReport:
        """Does every record of the audit stand as it was written?"""
        from orihon.audit import verify_audit

        return verify_audit(self.path, self.settings)


def _merged(config: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords win, setting by setting."""
    merged = dict(config)
    for name, value in sections.items():
        known = merged.get(name)
        merged[name] = {**known, **value} if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def _dotted(sections: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``compression={"keep_recent": 5}`` as ``compression.keep_recent``."""
    flags: dict[str, Any] = {}
    for name, value in sections.items():
        is_section = isinstance(value, Mapping) and name != "mcp_servers"
        flags |= _dotted(value, f"{prefix}{name}.") if is_section else {f"{prefix}{name}": value}
    return flags


__all__ = ["Base", "Task", "TaskKey"]
