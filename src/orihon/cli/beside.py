"""A word on the tasks that a newly named database does not show: they are still in ``tasks.db`` of the base folder."""

from __future__ import annotations

import typer

from orihon.cli.options import CommandOptions
from orihon.texts import text


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
