"""``orihon undo``, ``redo``, ``rewind``, ``unfold``, ``edit``, ``pin``, ``unpin``: change a view, say what happened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, shown
from orihon.cli.task_argument import MOST, TaskArgument, named_task
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.hand_edits import ChangedView

__all__ = [
    "MOST",
    "AsJson",
    "Uuid",
    "edit",
    "named_task",
    "outcome",
    "pin",
    "redo",
    "rewind",
    "undo",
    "unfold",
    "unpin",
]

MADE_BY = "cli"
Uuid = TaskArgument
AsJson = Annotated[bool, flag("--json", help=text("cli.options.json"))]
_FoldNumber = Annotated[
    int, typer.Argument(metavar="FOLD", min=1, max=MOST, help=text("cli.change.fold"), show_default=False)
]
_Seq = Annotated[int, typer.Argument(metavar="SEQ", min=1, max=MOST, help=text("cli.change.seq"), show_default=False)]
_Step = Annotated[
    int, typer.Option("--to", metavar="SEQ", min=1, max=MOST, help=text("cli.rewind.to"), show_default=False)
]
_Line = Annotated[str, option("--line", help=text("cli.change.line_of"))]


def _which(command: str) -> Any:
    help_text = text(f"cli.{command}.compression")
    return typer.Option("--compression", metavar="N", min=1, max=MOST, help=help_text, show_default=False)


def undo(
    context: typer.Context,
    uuid: Uuid,
    compression: Annotated[int | None, _which("undo")] = None,
    as_json: AsJson = False,
) -> None:
    """Take the last compression back, or a given one."""
    _change(context, uuid, "undo", compression, as_json=as_json)


def redo(
    context: typer.Context,
    uuid: Uuid,
    compression: Annotated[int | None, _which("redo")] = None,
    as_json: AsJson = False,
) -> None:
    """Make it again."""
    _change(context, uuid, "redo", compression, as_json=as_json)


def rewind(
    context: typer.Context,
    uuid: Uuid,
    to: _Step,
    notice: Annotated[str, option("--notice", help=text("cli.rewind.notice"))] = "",
    as_json: AsJson = False,
) -> None:
    """Go back to an earlier step."""
    _change(context, uuid, "rewind", to, notice, as_json=as_json, seq=to)


def unfold(context: typer.Context, uuid: Uuid, fold: _FoldNumber, as_json: AsJson = False) -> None:
    """Open one fold."""
    _change(context, uuid, "unfold", fold, as_json=as_json)


def pin(context: typer.Context, uuid: Uuid, seq: _Seq, line: _Line = "", as_json: AsJson = False) -> None:
    """Protect a message or a line of it."""
    _change(context, uuid, "pin", seq, line, as_json=as_json, seq=seq)


def unpin(context: typer.Context, uuid: Uuid, seq: _Seq, line: _Line = "", as_json: AsJson = False) -> None:
    """Take the protection away."""
    _change(context, uuid, "unpin", seq, line, as_json=as_json, seq=seq)


def edit(
    context: typer.Context,
    uuid: Uuid,
    fold: _FoldNumber,
    new_text: Annotated[str | None, option("--text", help=text("cli.edit.text"))] = None,
    file: Annotated[Path | None, option("--file", help=text("cli.edit.file"))] = None,
    as_json: AsJson = False,
) -> None:
    """Give a fold another text: from the command line, a file, or a person with an editor."""
    from orihon.cli.editor import text_from
    from orihon.tasks.hand_edits import fold_text

    task = named_task(context, uuid)
    options = context.ensure_object(CommandOptions)
    old = fold_text(options.base, task, fold)
    # No lease is held while a person writes: if the fold is gone afterwards, the text is kept.
    off_disk = options.settings.encryption.key is not None
    with text_from(new_text, file, old, off_disk=off_disk) as new:
        if new != old:
            _change(context, task, "edit", fold, new, as_json=as_json)
            return
    if as_json:
        print_json(None)
    else:
        typer.echo(text("cli.edit.unchanged", fold=fold))


def _change(
    context: typer.Context, task: str, act: str, *values: int | str | None, as_json: bool, seq: int | None = None
) -> None:
    from orihon.tasks.hand_edits import change_view

    options = context.ensure_object(CommandOptions)
    changed = change_view(options.base, named_task(context, task), act, *values, made_by=MADE_BY)
    record = changed.record
    if as_json:
        print_json(record)
        return
    what = text(
        f"cli.{act}.done",
        compression=record.parent,
        opened=", ".join(map(str, record.removed)),
        made=", ".join(map(str, record.folds)),
        seq=seq,
    )
    typer.echo(outcome(what, changed))


def outcome(what: str, changed: ChangedView) -> str:
    """One line about a change that was just made."""
    record = changed.record
    return shown(
        text(
            "cli.change.line",
            what=what,
            percent=round(100 * changed.usage),
            before=record.before_tokens,
            after=record.after_tokens,
            entries=changed.entries,
            number=record.id,
        )
    )
