"""``orihon compress``: fold a task's view now, or show what that would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.changes import AsJson, Uuid, named_task, outcome
from orihon.cli.options import Options, flag, option
from orihon.cli.output import print_json, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.compression.compressor import ContextCompressor
    from orihon.compression.documents.sections import CompressionLevel
    from orihon.compression.pages import NothingToFold
    from orihon.compression.planning import Draft

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
    from orihon.compression.compressor import ContextCompressor
    from orihon.compression.pages import NothingToFold
    from orihon.view_changes import changing_task, check_changeable
    from orihon.view_reading import reading_view

    task = named_task(context, uuid)
    options = context.ensure_object(Options)
    if not preview:
        check_changeable(options.base, task, options.settings)
    with reading_view(options.base, task, options.settings) as reading:
        compressor = ContextCompressor(message_store=reading.message_store())
        planned = compressor.preview(strategy=strategy, level=_level(level), target=target)
    if isinstance(planned, NothingToFold):
        _print_nothing(planned, as_json=as_json)
        return
    if edit:
        planned = _edited(planned)
    if preview:
        _print_preview(planned, as_json=as_json)
        return
    with changing_task(options.base, task, options.settings) as changing:
        compressor = ContextCompressor(message_store=changing.messages, outbox=changing.outbox, counts=changing.counts)
        line, record = _folded(compressor, planned, level or "" if "sections" in planned.plan.strategy else "")
    if as_json:
        print_json(record)
    else:
        typer.echo(line)


def _level(name: str | None) -> CompressionLevel | None:
    from orihon.compression.documents.sections import CompressionLevel
    from orihon.errors import InvalidInput

    levels = {level.name.lower(): level for level in CompressionLevel}
    if name is not None and name not in levels:
        raise InvalidInput("level", name=name, known=", ".join(levels))
    return None if name is None else levels[name]


def _edited(planned: Draft) -> Draft:
    """The plan with the texts that a person makes of it."""
    from orihon.cli.editing import text_from

    for fold in planned.plan.folds:
        with text_from(None, None, fold.text) as new:
            if new != fold.text:
                planned = planned.with_text(fold.start_seq, new)
    return planned


def _folded(compressor: ContextCompressor, planned: Draft, level: str) -> tuple[str, dict[str, Any]]:
    result = compressor.apply(planned, level=level, made_by="cli")
    compressor.close()
    record = next(one for one in compressor.message_store.compressions() if one.id == result.compression)
    what = text("cli.compress.done", folds=len(result.folds), strategy=result.strategy)
    return outcome(what, record, compressor.message_store), record.as_record()


def _print_nothing(nothing: NothingToFold, *, as_json: bool) -> None:
    why = text(f"nothing.{nothing.reason.value}")
    if as_json:
        print_json({"folds": [], "nothing": nothing.reason.value, "strategy": nothing.strategy})
    else:
        typer.echo(text("cli.compress.nothing", why=why))


def _print_preview(planned: Draft, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_dict(planned))
        return
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


def _as_dict(planned: Draft) -> dict[str, Any]:
    return {
        "strategy": planned.plan.strategy,
        "before_tokens": planned.before_tokens,
        "after_tokens": planned.after_tokens,
        "goal": planned.goal,
        "folds": [
            {
                "start_seq": fold.start_seq,
                "end_seq": fold.end_seq,
                "form": fold.form,
                "reason": fold.reason,
                "text": fold.text,
                "report": None if fold.report is None else fold.report.as_record(),
            }
            for fold in planned.plan.folds
        ],
    }
