"""What commands are told, where several are told the same: which task, from when on, with JSON or without.

Owns what a shell completes the name of a task to, and the task that a name means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import shown
from orihon.errors import InvalidInput
from orihon.system.clock import as_typed
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.catalogue import TaskRow

MOST = 1_000_000_000_000  # far below what a back end can count to
#: As many tasks as somebody looks through who pressed the tabulator key.
_OFFERED = 50


def offered_tasks(context: typer.Context, _arguments: list[str], incomplete: str) -> list[tuple[str, str]]:
    """Names of tasks that begin so, for a shell: it gets none rather than an error."""
    try:
        names = dict(_names(context, incomplete))
        return [(name, about) for name, about in names.items() if name.startswith(incomplete)][:_OFFERED]
    except Exception:  # noqa: BLE001 - whoever presses the tabulator key has asked for nothing yet
        return []


def task_argument(help_key: str = "cli.options.task", metavar: str = "TASK") -> Any:
    """The argument that names a task, or several."""
    return typer.Argument(metavar=metavar, help=text(help_key), show_default=False, autocompletion=offered_tasks)


TaskArgument = Annotated[str, task_argument()]
AsJson = Annotated[bool, flag("--json", help=text("cli.options.json"))]


def named_task(context: typer.Context, name: str) -> str:
    """The UUID of the task that is meant; where that is the newest of several on its key, a line says so."""
    found = context.ensure_object(CommandOptions).base.named(name)
    if found.of > 1:
        typer.echo(shown(text("cli.naming.newest", name=name, count=found.of, uuid=found.uuid)), err=True)
    return found.uuid


def _names(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    typed = context.find_root().params
    options = CommandOptions(base_dir=typed.get("base_dir"), config=typed.get("config"))
    catalogue = options.base.open_catalogue()
    rows: list[TaskRow] = []
    if catalogue is not None:
        rows = catalogue.tasks.page(limit=_OFFERED)
        is_id = incomplete and not set(incomplete) & set("@#!/:")
        rows = [*rows, *catalogue.tasks.find_by_prefix(incomplete, _OFFERED)] if is_id else rows
    if incomplete.startswith("@"):
        yield "@last", ""
    for row in {row.uuid: row for row in rows}.values():
        label = row.key.label
        yield row.uuid, label
        yield label if ":" in incomplete else label.partition(":")[2], row.status.value


# ---- times -----------------------------------------------------------------------------------------------------------


def moment(typed: str, option: str = "--since") -> str:
    """A time in the form of the catalogue; what has no zone is UTC, and ``7d`` is seven days ago."""
    try:
        return as_typed(typed)
    except ValueError as error:
        raise InvalidInput("typed_time", option=option, value=ascii(typed[:80])) from error


# ---- tasks beside ----------------------------------------------------------------------------------------------------


def hint_at_tasks_beside(options: CommandOptions) -> None:
    """On standard error, where there are such tasks."""
    from orihon.catalogue.connect import catalogue_beside
    from orihon.errors import StorageError

    try:
        beside = catalogue_beside(options.base_path, options.settings)
        if beside is None:
            return
        with beside:
            count = sum(beside.statistics.count_by_status().values())
    except StorageError:  # what was asked for has been shown; the doctor tells of damage
        return
    if count:
        typer.echo(text("cli.list.beside", path=options.base_path, count=count), err=True)
