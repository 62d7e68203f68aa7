"""``orihon compress``: fold a task's view now, or show what that would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.changes import MADE_BY, AsJson, Uuid, named_task, outcome
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.hand_edits import Preview

_EXCERPT_LINES = 12


def compress(
    context: typer.Context,
    uuid: Uuid,
    strategy: Annotated[str | None, option("--strategy", help=text("cli.compress.strategy"))] = None,
    level: Annotated[str | None, option("--level", help=text("cli.compress.level"))] = None,
    target: Annotated[
        float | None,
        typer.Option("--target", metavar="SHARE", help=text("cli.compress.target"), show_default=False),
    ] = None,
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
        _print_nothing(planned, as_json=as_json)
        return
    if edit:
        planned = planned.with_texts(_edited(planned))
    if preview:
        _print_preview(planned, as_json=as_json)
        return
    changed = apply_preview(options.base, planned, made_by=MADE_BY)
    record = changed.record
    if as_json:
        print_json(record)
    else:
        what = text("cli.compress.done", folds=len(record.folds), strategy=record.strategy)
        typer.echo(outcome(what, changed))


def _edited(planned: Preview) -> dict[int, str]:
    """The texts that a person makes of the planned ones, where they are other ones."""
    from orihon.cli.editor import text_from

    edited: dict[int, str] = {}
    for fold in planned.draft.plan.folds if planned.draft is not None else ():
        with text_from(None, None, fold.text) as new:
            if new != fold.text:
                edited[fold.start_seq] = new
    return edited


def _print_nothing(planned: Preview, *, as_json: bool) -> None:
    assert planned.nothing is not None
    if as_json:
        print_json(planned.nothing)
    else:
        typer.echo(text("cli.compress.nothing", why=text(f"nothing.{planned.nothing.reason.value}")))


def _print_preview(preview: Preview, *, as_json: bool) -> None:
    if as_json:
        print_json(preview.draft)
        return
    planned = preview.draft
    assert planned is not None
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
