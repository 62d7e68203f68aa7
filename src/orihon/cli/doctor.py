"""``orihon doctor``: examine a whole base folder and, when asked to, put right what loses nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_findings, print_json, progress_bar
from orihon.texts import text


def doctor(
    context: typer.Context,
    repair: Annotated[bool, flag("--repair", help=text("cli.doctor.repair"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Look, repair if asked to, print, and exit with 1 when something is left."""
    import orihon.upkeep.doctor

    options = context.ensure_object(CommandOptions)
    work = orihon.upkeep.doctor.repair if repair else orihon.upkeep.doctor.examine
    with progress_bar("cli.doctor.looking", hidden=as_json) as progress:
        findings = work(options.base, progress)
    left = [finding for finding in findings if finding.repair != "done"]
    if as_json:
        figures = {"base_dir": str(options.base_path), "clean": not left, "repaired": len(findings) - len(left)}
        print_json({**figures, "findings": findings})
    else:
        print_findings(findings)
        repairable = sum(finding.repair == "possible" for finding in left)
        typer.echo(_outcome(done=len(findings) - len(left), left=len(left), repairable=repairable))
    raise typer.Exit(1 if left else 0)


def _outcome(*, done: int, left: int, repairable: int) -> str:
    if not left:
        return text("cli.doctor.repaired", done=done) if done else text("cli.doctor.clean")
    if repairable:
        return text("cli.doctor.repairable", left=left, repairable=repairable)
    return text("cli.doctor.left", done=done, left=left)
