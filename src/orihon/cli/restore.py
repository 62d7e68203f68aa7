"""``orihon restore``: what a phase has folded, in the view again, on the screen, or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orihon.cli.changes import MOST, AsJson, Uuid, named_task
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, shown
from orihon.errors import InvalidInput
from orihon.texts import text

_Phase = Annotated[
    int | None,
    typer.Option("--phase", metavar="N", min=1, max=MOST, help=text("cli.restore.phase"), show_default=False),
]


def restore(
    context: typer.Context,
    uuid: Uuid,
    phase: _Phase = None,
    section: Annotated[str | None, option("--section", help=text("cli.restore.section"))] = None,
    temporary: Annotated[bool, flag("--temporary", help=text("cli.restore.temporary"))] = False,
    to: Annotated[Path | None, option("--to", help=text("cli.restore.to"))] = None,
    as_json: AsJson = False,
) -> None:
    """Open what was folded."""
    from orihon.tasks.approvals.phase_restore import read_phase, restore_phase

    if temporary and to is not None:
        raise InvalidInput("options_together", first="--temporary", second="--to")
    options, task = context.ensure_object(CommandOptions), named_task(context, uuid)
    if not temporary and to is None:
        done = restore_phase(options.base, task, phase=phase, section=section)
        sizes = {"before_tokens": done.before_tokens, "after_tokens": done.after_tokens}
        if as_json:
            print_json({"uuid": task, "folds": list(done.folds), **sizes})
        elif done.folds:
            folds = ", ".join(map(str, done.folds))
            typer.echo(text("cli.restore.done", folds=folds, before=done.before_tokens, after=done.after_tokens))
        else:
            typer.echo(text("cli.restore.nothing"))
        return
    content = read_phase(options.base, task, phase=phase, section=section)
    if to is not None:
        _write(to, content)
    if as_json:
        print_json({"uuid": task, "text": content, "file": None if to is None else str(to)})
    elif to is not None:
        typer.echo(shown(text("cli.restore.written", path=to)))
    else:
        # Line by line: a text from a task must not move the cursor.
        for line in content.splitlines():
            typer.echo(shown(line))


def _write(path: Path, content: str) -> None:
    """A new file, for the owner alone; nothing is overwritten."""
    import os

    from orihon.system.files import open_private, wrapping

    if os.path.lexists(path):
        raise InvalidInput("restore_exists", path=path)
    with wrapping(path), os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content.encode("utf-8", "replace"))
