"""``orihon doctor``, ``verify``, ``scan``: examine a base folder, one task, or old histories; repair what can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, TaskArgument, named_task, task_argument
from orihon.cli.options import CommandOptions, base_of, flag
from orihon.cli.output import print_findings, print_json, progress_bar, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.base import OpenBase
    from orihon.tasks.verify.verify import Redacted


def doctor(
    context: typer.Context,
    repair: Annotated[bool, flag("--repair", help=text("cli.doctor.repair"))] = False,
    as_json: AsJson = False,
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
        origin = options.settings.origin("context_storage.base_dir")
        if origin != "flag":
            typer.echo(shown(text("cli.doctor.in_folder", path=options.base_path.absolute(), origin=origin)))
        repairable = sum(finding.repair == "possible" for finding in left)
        typer.echo(_outcome(done=len(findings) - len(left), left=len(left), repairable=repairable))
    raise typer.Exit(1 if left else 0)


def _outcome(*, done: int, left: int, repairable: int) -> str:
    if not left:
        return text("cli.doctor.repaired", done=done) if done else text("cli.doctor.clean")
    if repairable:
        return text("cli.doctor.repairable", left=left, repairable=repairable)
    return text("cli.doctor.left", done=done, left=left)


# ---- one task --------------------------------------------------------------------------------------------------------

_SAID = {
    "read": "cli.verify.clean",
    "archived": "cli.verify.archived",
    "removed": "cli.verify.removed",
    "none": "cli.verify.no_records",
}


def verify(context: typer.Context, uuid: TaskArgument, as_json: AsJson = False) -> None:
    """Look, print, and exit with 1 when something is wrong."""
    from orihon.tasks.verify.verify import Redacted, redacted_records, unprotected_records
    from orihon.tasks.verify.verify import verify as look

    task = named_task(context, uuid)
    base = base_of(context)
    with progress_bar("cli.doctor.looking", hidden=as_json):
        findings = look(base, task)
    records, noted = _records(base, task) if not findings else (None, {})
    redacted = redacted_records(base, task) if records == "read" else Redacted()
    unprotected = unprotected_records(base, task) if records == "read" else {}
    attested = _attested(base, task)
    if as_json:
        archive = noted if records == "archived" else None
        told = {"records": records, "archive": archive, "redacted": redacted.records}
        told["attested"] = attested
        told |= {"redacted_secrets": redacted.secrets, "redacted_people": redacted.people, "unprotected": unprotected}
        print_json({"task": task, "clean": not findings, "findings": findings, **told})
    elif records is None:
        print_findings(findings)
    else:
        typer.echo(shown(text(_SAID[records], task=task, **noted)))
        if records == "read":
            typer.echo(text("cli.verify.attested", **attested) if attested else text("cli.verify.not_attested"))
        _say_redacted(redacted)
        if unprotected:
            streams = ", ".join(f"{stream} {count}" for stream, count in unprotected.items())
            typer.echo(text("cli.verify.unprotected", count=sum(unprotected.values()), streams=streams))
    raise typer.Exit(1 if findings else 0)


def _attested(base: OpenBase, task: str) -> dict[str, Any] | None:
    """Up to which message, and when, the audit attests what the log says."""
    from orihon.audit.verify import attestations

    found = attestations(base.path, base.settings, task).attestations
    if not found:
        return None
    return {"messages": (found[-1].heads.get("messages") or [0])[0], "at": found[-1].time, "times": len(found)}


def _say_redacted(redacted: Redacted) -> None:
    if redacted.secrets:
        typer.echo(text("cli.verify.redacted_secrets", count=redacted.secrets))
    if redacted.people:
        typer.echo(text("cli.verify.redacted_people", count=redacted.people))
    if redacted.records and not (redacted.secrets or redacted.people):
        typer.echo(text("cli.verify.redacted", count=redacted.records))


def _records(base: OpenBase, task: str) -> tuple[str, dict[str, Any]]:
    """Whether there were records to look at, and if not, what the row says of them."""
    from orihon.catalogue.rows import CLEANED
    from orihon.values.task import TaskStatus

    row = base.row(task)
    if row is None or base.folders.places(task):
        return "read", {}
    if CLEANED in row.metadata:
        return "removed", {"at": row.metadata[CLEANED].get("at", "-")}
    if row.status is TaskStatus.ARCHIVED:
        noted = row.metadata.get("archived")
        known = noted if isinstance(noted, dict) else {}
        return "archived", {name: known.get(name, "-") for name in ("place", "key")}
    return "none", {}


# ---- secrets ---------------------------------------------------------------------------------------------------------


def scan(
    context: typer.Context,
    tasks: Annotated[list[str] | None, task_argument("cli.scan.tasks", "[TASK]...")] = None,
    fix: Annotated[bool, flag("--fix", help=text("cli.scan.fix"))] = False,
    as_json: AsJson = False,
) -> None:
    """Look, print where something is, and exit with 1 while it is still there."""
    from orihon.upkeep.scan import scan_tasks

    named = [named_task(context, task) for task in tasks] if tasks else None
    with progress_bar("cli.scan.looking", hidden=as_json):
        scanned = scan_tasks(base_of(context), named, fix=fix)
    is_clean = all(one.is_clean for one in scanned)
    if as_json:
        print_json({"clean": is_clean, "fixed": fix, "tasks": scanned})
        raise typer.Exit(0 if is_clean else 1)
    for one in scanned:
        for hit in one.hits:
            where = f"{hit.where} {hit.number}" if hit.number else hit.where
            typer.echo(shown(f"{one.task}  {where}  {', '.join(hit.kinds)}"))
        if one.left_out is not None:
            typer.echo(shown(text(f"cli.scan.left_{one.left_out}", task=one.task, reason=one.reason)))
    fixed = sum(len(one.hits) for one in scanned if one.is_fixed)
    found = fixed or sum(len(one.hits) for one in scanned)
    key = "clean" if not found else "fixed" if fixed else "found"
    typer.echo(shown(text(f"cli.scan.{key}", tasks=len(scanned), found=found)))
    raise typer.Exit(0 if is_clean else 1)
