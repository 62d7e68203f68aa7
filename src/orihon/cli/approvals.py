"""``orihon approvals``, ``approve``, ``reject``, ``revise``, ``restore``: what waits for people, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import MOST, AsJson, TaskArgument, named_task
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, say, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.approvals.answers import Answered, SweepReport

_By = Annotated[str | None, option("--by", help=text("cli.answer.by"))]
_Number = Annotated[
    int | None, option("--checkpoint", metavar="N", min=1, max=MOST, help=text("cli.answer.checkpoint"))
]
_Sections = Annotated[list[str] | None, option("--section", help=text("cli.answer.section"))]


def approvals(
    context: typer.Context,
    remind: Annotated[bool, flag("--remind", help=text("cli.approvals.remind"))] = False,
    as_json: AsJson = False,
) -> None:
    """List what waits."""
    from orihon.tasks.approvals.answers import SweepReport, pending, sweep

    options = context.ensure_object(CommandOptions)
    done = sweep(options.base) if remind else SweepReport()
    found = pending(options.base)
    if as_json:
        print_json({"pending": found, **done.as_dict()})
        return
    _say_swept(done)
    if not found:
        typer.echo(text("cli.approvals.none"))
        return
    columns = ["UUID", *(text(f"cli.approvals.column_{name}") for name in ("task", "name", "question"))]
    columns += [text("cli.approvals.column_since"), text("cli.approvals.column_until")]
    rows = [
        (
            one.uuid,
            one.label,
            f"{one.checkpoint.id} {one.checkpoint.name}",
            one.checkpoint.question,
            one.checkpoint.created_at[:19],
            (one.checkpoint.expires_at or "-")[:19],
        )
        for one in found
    ]
    print_table(columns, rows, flexible=3)


def approve(
    context: typer.Context,
    uuid: TaskArgument,
    reason: Annotated[str, option("--reason", help=text("cli.approve.reason"))] = "",
    by: _By = None,
    checkpoint: _Number = None,
    as_json: AsJson = False,
) -> None:
    """Say yes."""
    from orihon.tasks.approvals.answers import approve as answer

    _give(context, uuid, answer, as_json, by=by, checkpoint=checkpoint, reason=reason)


def reject(
    context: typer.Context,
    uuid: TaskArgument,
    reason: Annotated[str, option("--reason", help=text("cli.reject.reason"))],
    section: _Sections = None,
    by: _By = None,
    checkpoint: _Number = None,
    as_json: AsJson = False,
) -> None:
    """Say no."""
    from orihon.tasks.approvals.answers import reject as answer

    _give(context, uuid, answer, as_json, by=by, checkpoint=checkpoint, reason=reason, sections=section or ())


def revise(
    context: typer.Context,
    uuid: TaskArgument,
    instructions: Annotated[str, option("--instructions", help=text("cli.revise.instructions"))],
    section: _Sections = None,
    by: _By = None,
    checkpoint: _Number = None,
    as_json: AsJson = False,
) -> None:
    """Ask for changes."""
    from orihon.tasks.approvals.answers import revise as answer

    _give(
        context, uuid, answer, as_json, by=by, checkpoint=checkpoint, instructions=instructions, sections=section or ()
    )


def _give(
    context: typer.Context, uuid: str, answer: Callable[..., Answered], as_json: bool, *, by: str | None, **said: Any
) -> None:
    options, task = context.ensure_object(CommandOptions), named_task(context, uuid)
    say(answer(options.base, task, by=by or _me(), **said), _print_answer, as_json=as_json)


def _me() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may know no name for its user
        return "cli"


def _print_answer(done: Answered) -> None:
    assert done.checkpoint.answer is not None
    decision = text(f"approvals.decision.{done.checkpoint.answer.decision}")
    name, before, after = done.checkpoint.name, done.before_tokens, done.after_tokens
    line = text("cli.answer.done", name=name, uuid=done.uuid, decision=decision, before=before, after=after)
    typer.echo(shown(line))
    if done.waits_for is not None:
        asked = done.waits_for
        typer.echo(shown(text("cli.answer.still", name=asked.name, question=asked.question)))
    elif done.requested == "resume":
        typer.echo(text("cli.answer.in_line"))
    else:
        typer.echo(text("cli.answer.paused", status=done.status.value))


def _say_swept(done: SweepReport) -> None:
    for kind, found in (("expired", done.expired), ("reminded", done.reminded)):
        for one in found:
            typer.echo(shown(text(f"cli.approvals.{kind}", uuid=one.uuid, name=one.checkpoint.name)))


# ---- what a phase has folded -----------------------------------------------------------------------------------------

_Phase = Annotated[int | None, option("--phase", metavar="N", min=1, max=MOST, help=text("cli.restore.phase"))]


def restore(
    context: typer.Context,
    uuid: TaskArgument,
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
