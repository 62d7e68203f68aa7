"""``orihon undo``, ``redo``, ``rewind``, ``unfold``, ``edit``, ``pin``, ``compress``, ``fork``: change a view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import MOST, AsJson, TaskArgument, named_task
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import say, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.compression.planner import Draft
    from orihon.tasks.hand_edits import ChangedView, Preview


MADE_BY = "cli"
_FoldNumber = Annotated[
    int, typer.Argument(metavar="FOLD", min=1, max=MOST, help=text("cli.change.fold"), show_default=False)
]
_Seq = Annotated[int, typer.Argument(metavar="SEQ", min=1, max=MOST, help=text("cli.change.seq"), show_default=False)]
_Step = Annotated[int, option("--to", metavar="SEQ", min=1, max=MOST, help=text("cli.rewind.to"))]
_Line = Annotated[str, option("--line", help=text("cli.change.line_of"))]


def _which(command: str) -> Any:
    help_text = text(f"cli.{command}.compression")
    return option("--compression", metavar="N", min=1, max=MOST, help=help_text)


def undo(
    context: typer.Context,
    uuid: TaskArgument,
    compression: Annotated[int | None, _which("undo")] = None,
    as_json: AsJson = False,
) -> None:
    """Take the last compression back, or a given one."""
    _change(context, uuid, "undo", compression, as_json=as_json)


def redo(
    context: typer.Context,
    uuid: TaskArgument,
    compression: Annotated[int | None, _which("redo")] = None,
    as_json: AsJson = False,
) -> None:
    """Make it again."""
    _change(context, uuid, "redo", compression, as_json=as_json)


def rewind(
    context: typer.Context,
    uuid: TaskArgument,
    to: _Step,
    notice: Annotated[str, option("--notice", help=text("cli.rewind.notice"))] = "",
    as_json: AsJson = False,
) -> None:
    """Go back to an earlier step."""
    _change(context, uuid, "rewind", to, notice, as_json=as_json, seq=to)


def unfold(context: typer.Context, uuid: TaskArgument, fold: _FoldNumber, as_json: AsJson = False) -> None:
    """Open one fold."""
    _change(context, uuid, "unfold", fold, as_json=as_json)


def pin(context: typer.Context, uuid: TaskArgument, seq: _Seq, line: _Line = "", as_json: AsJson = False) -> None:
    """Protect a message or a line of it."""
    _change(context, uuid, "pin", seq, line, as_json=as_json, seq=seq)


def unpin(context: typer.Context, uuid: TaskArgument, seq: _Seq, line: _Line = "", as_json: AsJson = False) -> None:
    """Take the protection away."""
    _change(context, uuid, "unpin", seq, line, as_json=as_json, seq=seq)


def edit(
    context: typer.Context,
    uuid: TaskArgument,
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
    say(None, text("cli.edit.unchanged", fold=fold), as_json=as_json)


def _change(
    context: typer.Context, task: str, act: str, *values: int | str | None, as_json: bool, seq: int | None = None
) -> None:
    from orihon.tasks.hand_edits import change_view

    changed = change_view(base_of(context), named_task(context, task), act, *values, made_by=MADE_BY)
    record = changed.record
    what = text(
        f"cli.{act}.done",
        compression=record.parent,
        opened=", ".join(map(str, record.removed)),
        made=", ".join(map(str, record.folds)),
        seq=seq,
    )
    say(record, outcome(what, changed), as_json=as_json)


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


# ---- compressing -----------------------------------------------------------------------------------------------------

_EXCERPT_LINES = 12


def compress(
    context: typer.Context,
    uuid: TaskArgument,
    strategy: Annotated[str | None, option("--strategy", help=text("cli.compress.strategy"))] = None,
    level: Annotated[str | None, option("--level", help=text("cli.compress.level"))] = None,
    target: Annotated[float | None, option("--target", metavar="SHARE", help=text("cli.compress.target"))] = None,
    preview: Annotated[bool, flag("--preview", help=text("cli.compress.preview"))] = False,
    edit: Annotated[bool, flag("--edit", help=text("cli.compress.edit"))] = False,
    as_json: AsJson = False,
) -> None:
    """Plan, and unless only a preview is wanted, fold."""
    from orihon.tasks.editing import check_changeable
    from orihon.tasks.hand_edits import apply_preview, preview_compression

    task = named_task(context, uuid)
    options = context.ensure_object(CommandOptions)
    if not preview:
        check_changeable(options.base, task)
    planned = preview_compression(options.base, task, strategy=strategy, level=level, target=target)
    if planned.nothing is not None:
        why = "; ".join((text(f"nothing.{planned.nothing.reason.value}"), *planned.nothing.by_hand))
        say(planned.nothing, text("cli.compress.nothing", why=why), as_json=as_json)
        return
    if edit:
        planned = planned.with_texts(_edited(planned))
    if preview:
        say(planned.draft, _print_preview, as_json=as_json)
        _tell_what_gave_way(planned)
        return
    changed = apply_preview(options.base, planned, made_by=MADE_BY)
    record = changed.record
    what = text("cli.compress.done", folds=len(record.folds), strategy=record.strategy)
    say(record, outcome(what, changed), as_json=as_json)
    _tell_what_gave_way(planned)


def _tell_what_gave_way(planned: Preview) -> None:
    for sentence in planned.draft.by_hand if planned.draft is not None else ():
        typer.echo(sentence, err=True)


def _edited(planned: Preview) -> dict[int, str]:
    """The texts that a person makes of the planned ones, where they are other ones."""
    from orihon.cli.editor import text_from

    edited: dict[int, str] = {}
    for fold in planned.draft.plan.folds if planned.draft is not None else ():
        with text_from(None, None, fold.text) as new:
            if new != fold.text:
                edited[fold.start_seq] = new
    return edited


def _print_preview(planned: Draft) -> None:
    for fold in planned.plan.folds:
        report = fold.report
        typer.echo(
            text(
                "cli.compress.fold",
                start=fold.start_seq,
                end=fold.end_seq,
                strategy=fold.reason or planned.plan.strategy,
                kept="-" if report is None else report.kept,
                found="-" if report is None else report.found,
            )
        )
        lines = fold.text.split("\n")
        for line in lines[:_EXCERPT_LINES]:
            typer.echo(f"  {shown(line)}")
        if len(lines) > _EXCERPT_LINES:
            typer.echo("  " + text("cli.compress.more", lines=len(lines) - _EXCERPT_LINES))
        if report is not None and report.lost:
            typer.echo("  " + text("cli.compress.lost", facts=shown(", ".join(report.lost[:10]))))
    before, after, folds = planned.before_tokens, planned.after_tokens, len(planned.plan.folds)
    typer.echo(text("cli.compress.preview_line", folds=folds, before=before, after=after, goal=planned.goal))


# ---- forking ---------------------------------------------------------------------------------------------------------

_At = Annotated[int, option("--at", metavar="SEQ", min=1, max=MOST, help=text("cli.fork.at"))]


def fork(context: typer.Context, uuid: TaskArgument, at: _At, as_json: AsJson = False) -> None:
    """Fork, and say what the new task begins with."""
    from orihon.tasks.view_reader import reading_view
    from orihon.transfer.fork import fork_task

    options = context.ensure_object(CommandOptions)
    task = named_task(context, uuid)
    new = fork_task(options.base, task, at)
    with reading_view(options.base, new) as view:
        figures = view.figures()
    sizes: dict[str, Any] = {"messages": at, "entries": figures.entries, "tokens": figures.tokens}
    found = {"uuid": new, "status": "paused", "forked_from": {"uuid": task, "at": at}, **sizes}
    say(found, text("cli.fork.done", new=new, old=task, at=at, **sizes), as_json=as_json)
