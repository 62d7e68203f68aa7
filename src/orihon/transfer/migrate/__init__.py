"""``migrate_tasks``: tasks from one back end to another, and their rows from one catalogue to another.

Promises that a task is whole and readable in exactly one place at every moment, whenever the process is killed; that
the copy is proven equal before anything is switched; that whoever wrote to the task before is refused afterwards, for
its epoch is higher; and that a second run goes on where the first one ended. A task that a live process owns is
skipped, a damaged one is left as it is; both are reported and keep nobody else from being moved.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from orihon.audit.trail import audited
from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.connect import catalogue_beside, catalogue_exists, open_catalogue
from orihon.errors import InvalidId, InvalidInput, OrihonError, StorageUnavailable, TaskBusy, TaskNotFound
from orihon.guard.logs import enter_task, leave_task
from orihon.settings import Settings, load_settings
from orihon.system import ProgressObserver
from orihon.system.files import make_private_folder
from orihon.system.json_shapes import AsJson
from orihon.tasks.place import folders_of
from orihon.tasks.task_name import is_subject, task_about
from orihon.transfer.migrate.move import Move
from orihon.transfer.migrate.rows import carry_the_rest, is_marked
from orihon.transfer.migrate.transfers import Transfer, local_settings, transfer_between
from orihon.values.task import check_id

__all__ = ["MigratedTask", "MigrationReport", "migrate_tasks"]

logger = logging.getLogger("orihon.migration")

BACKENDS = ("files", "sqlite", "postgres")
_PAGE = 1000

#: ``moved``: records and row. ``row``: there were no records. ``finished``: an earlier move was interrupted after the
#: switch. ``skipped``: a live process owns it. ``failed``: it was left as it was; ``why`` says the cause.
MigrationOutcome = Literal["moved", "row", "finished", "skipped", "failed"]


@dataclass(frozen=True, slots=True)
class MigratedTask(AsJson):
    """What became of one task; in a dry run, what would."""

    json_fields = "uuid why"

    uuid: str
    outcome: MigrationOutcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class MigrationReport(AsJson):
    """What became of all of them."""

    json_fields = "from=source to=target dry_run moved rows finished skipped failed"

    source: str
    target: str
    dry_run: bool
    tasks: tuple[MigratedTask, ...]

    def having(self, *outcomes: MigrationOutcome) -> list[MigratedTask]:
        """The tasks that one of these became of."""
        return [task for task in self.tasks if task.outcome in outcomes]

    @property
    def moved(self) -> list[str]:
        return [task.uuid for task in self.having("moved")]

    @property
    def rows(self) -> list[str]:
        return [task.uuid for task in self.having("row")]

    @property
    def finished(self) -> list[str]:
        return [task.uuid for task in self.having("finished")]

    @property
    def skipped(self) -> list[MigratedTask]:
        return self.having("skipped")

    @property
    def failed(self) -> list[MigratedTask]:
        return self.having("failed")

    @property
    def left(self) -> list[MigratedTask]:
        """Tasks that are where they were."""
        return self.having("skipped", "failed")


def migrate_tasks(
    base_dir: Path | str,
    settings: Mapping[str, Any] | Settings | None = None,
    *,
    source: str,
    target: str,
    tasks: Iterable[str] | None = None,
    progress: ProgressObserver | None = None,
    dry_run: bool = False,
) -> MigrationReport:
    """Move tasks (all, or those named by a UUID or the beginning of one) from one back end to another.

    Rows follow into the catalogue that goes with the target: into the database with ``postgres``; out of it to
    ``tasks.db`` when the tasks leave the database, unless the settings name a database and the target as back end.
    Their notifications go with the rows.
    """
    loaded = load_settings(settings)
    _refuse_pair(source, target, loaded)
    base = Path(base_dir).absolute()
    if source == "postgres":
        make_private_folder(base)
    elif not base.is_dir():
        raise StorageUnavailable("no_base_dir", path=base)
    with (
        _sides(base, loaded, source, target) as sides,
        audited(base, loaded, "migrate", source=source, target=target, dry_run=dry_run) as act,
    ):
        names = sides.candidates() if tasks is None else [sides.resolve(name) for name in dict.fromkeys(tasks)]
        outcomes: list[MigratedTask] = []
        for number, uuid in enumerate(names, start=1):
            outcome = _dealt_with(sides, uuid, dry_run=dry_run)
            outcomes.extend([outcome] if outcome is not None else [])
            if progress is not None:
                progress(number, len(names))
        if sides.other is not None and not dry_run:
            carry_the_rest(sides.other, sides.home)
        act.details["moved"] = sum(one.outcome not in ("skipped", "failed") for one in outcomes)
    return MigrationReport(source, target, dry_run, tuple(outcomes))


def finish_moves(base_dir: Path, settings: Settings) -> list[str]:
    """End the moves that were broken off, so that whoever has these settings finds the tasks and can claim them.

    A task goes on where its records count; one that was leaving the database goes back if the settings want it there.
    Returns the tasks for which that is done. What a live process moves is left to it.
    """
    done: list[str] = []
    for uuid, source, target in _broken_off(base_dir, settings):
        # The row stays in the catalogue of these settings.
        staying = settings if source != "postgres" else settings.replace(**{"context_storage.backend": target})
        report = migrate_tasks(base_dir, staying, source=source, target=target, tasks=[uuid])
        done += [task.uuid for task in report.tasks if task.outcome in ("finished", "moved")]
        for task in report.left:
            logger.warning("%s: its move was broken off and could not be ended: %s", task.uuid, task.why)
    return done


def _broken_off(base_dir: Path, settings: Settings) -> list[tuple[str, str, str]]:
    """Tasks with the way to go: from where, and to where."""
    folders, found = folders_of(base_dir, settings), []
    with ExitStack() as at_end:
        own = at_end.enter_context(open_catalogue(base_dir, settings))
        if (beside := catalogue_beside(base_dir, settings)) is not None:
            at_end.enter_context(beside)
            for uuid in beside.tasks.in_move():
                row, place = beside.tasks.get(uuid), folders.find(uuid)
                if place is not None and place.is_in_database and not beside.leases.is_held(row):
                    found.append((uuid, row.backend if row.backend in ("files", "sqlite") else "files", "postgres"))
        for uuid in own.tasks.in_move():
            row, place = own.tasks.get(uuid), folders.find(uuid)
            twin = None if beside is None else beside.tasks.find(uuid)
            went_on = twin is not None and not is_marked(twin)  # by somebody who has no database
            is_elsewhere = place is None and row.total_messages > 0
            if not is_elsewhere and not went_on and not own.leases.is_held(row):
                found.append((uuid, *_way(None if place is None else place.backend(), settings)))
    return list({way[0]: way for way in reversed(found)}.values())  # what comes first counts


def _way(here: str | None, settings: Settings) -> tuple[str, str]:
    """From one back end to another, the last of which is where the records are, or where they shall be again."""
    if settings.database.url is None:
        return ("files", "sqlite") if here == "sqlite" else ("sqlite", "files")
    if here is None or here == "postgres":
        return "files", "postgres"
    return (here, "postgres") if settings.context_storage.backend == "postgres" else ("postgres", here)


def _refuse_pair(source: str, target: str, settings: Settings) -> None:
    for name in (source, target):
        if name not in BACKENDS:
            raise InvalidInput("unknown_backend", backend=name, known=", ".join(BACKENDS))
    if source == target:
        raise InvalidInput("same_backend", backend=source)
    if "postgres" in (source, target) and settings.database.url is None:
        raise InvalidInput("migrate_database_url", source=source, target=target)


@dataclass(slots=True)
class _Sides:
    """Where tasks are and where they go."""

    transfer: Transfer
    home: Catalogue  # where the rows shall be
    other: Catalogue | None  # where they may be instead
    _found: list[str] = field(default_factory=list)

    def candidates(self) -> list[str]:
        """Every task that there may be something to do for."""
        if not self._found:
            rows = () if self.other is None else (row.uuid for row in _rows(self.other))
            self._found = sorted({*self.transfer.uuids(), *rows, *self.home.tasks.in_move()})
        return self._found

    def catalogue_of(self, uuid: str) -> Catalogue:
        """The catalogue that has the task's row now."""
        return self.home if self.other is None or self.other.tasks.find(uuid) is None else self.other

    def resolve(self, name: str) -> str:
        """The task that a UUID, the beginning of one, or a key means."""
        if is_subject(name):
            return self._about(name)
        check_id(name)
        if self.catalogue_of(name).tasks.find(name) is not None or self.transfer.find(name) is not None:
            return name
        found = [uuid for uuid in self.candidates() if uuid.startswith(name)]
        if len(found) > 1:
            raise InvalidId("ambiguous", value=name, matches=", ".join(found[:5]))
        if not found:
            raise TaskNotFound("uuid", uuid=name)
        return found[0]

    def _about(self, name: str) -> str:
        """The task that is not named by its UUID, in either catalogue."""
        if self.other is not None:
            with suppress(TaskNotFound):
                return task_about(name, self.other).uuid
        return task_about(name, self.home).uuid


@contextmanager
def _sides(base: Path, settings: Settings, source: str, target: str) -> Iterator[_Sides]:
    local = local_settings(settings)
    with ExitStack() as at_end:
        leaves = source == "postgres" and settings.context_storage.backend != target
        home_settings, other_settings = (local, settings) if leaves else (settings, local)
        home = at_end.enter_context(open_catalogue(base, home_settings))
        other = None
        if (leaves or target == "postgres") and catalogue_exists(base, other_settings):
            other = at_end.enter_context(open_catalogue(base, other_settings))

        def is_local(uuid: str) -> bool:
            return leaves or (other is not None and other.tasks.find(uuid) is not None)

        yield _Sides(transfer_between(base, settings, source, target, is_local), home, other)


def _rows(catalogue: Catalogue) -> Iterator[TaskRow]:
    last: str | None = None
    while page := catalogue.tasks.page(limit=_PAGE, before=last):
        yield from page
        last = page[-1].uuid


def _dealt_with(sides: _Sides, uuid: str, *, dry_run: bool) -> MigratedTask | None:
    """One task; whatever keeps it from being moved keeps no other. ``None``: there is nothing to do for it."""
    enter_task(uuid)
    try:
        catalogue = sides.catalogue_of(uuid)
        move = Move(uuid, sides.transfer, catalogue, sides.home)
        outcome = move.outlook()
        if outcome is None:
            return None
        if not dry_run:
            move.run()
        return MigratedTask(uuid, outcome)
    except TaskBusy as busy:
        return MigratedTask(uuid, "skipped", str(busy))
    except StorageUnavailable:
        raise  # a full disk or a server that is away stops all of them
    except OrihonError as error:
        logger.warning("%s: not moved: %s", uuid, error)
        return MigratedTask(uuid, "failed", str(error))
    finally:
        leave_task(uuid)
