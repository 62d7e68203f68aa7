"""How a command is told which task: the argument, what a shell completes it to, and the task that it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions
from orihon.cli.output import shown
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
