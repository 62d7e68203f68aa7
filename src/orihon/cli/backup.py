"""``orihon backup`` and ``migrate``: copies of the base folder, and tasks from one back end to another."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, task_argument
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, progress_bar, say, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.transfer.backup.vault import VaultKey
    from orihon.transfer.migrate import MigrationReport

_MOST_KEPT = 1_000_000
_Keep = Annotated[int | None, option("--keep", metavar="N", min=1, max=_MOST_KEPT, help=text("cli.backup.keep"))]


def backup(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", help=text("cli.backup.target"), show_default=False)],
    keep: _Keep = None,
    listing: Annotated[bool, flag("--list", help=text("cli.backup.list"))] = False,
    check: Annotated[bool, flag("--check", help=text("cli.backup.check"))] = False,
    restore_to: Annotated[Path | None, option("--restore-to", help=text("cli.backup.restore_to"))] = None,
    run: Annotated[str | None, option("--run", help=text("cli.backup.run"))] = None,
    key_file: Annotated[Path | None, option("--key-file", help=text("cli.backup.key_file"))] = None,
    unverified: Annotated[bool, flag("--unverified", help=text("cli.backup.unverified"))] = False,
    show_key: Annotated[bool, flag("--show-key", help=text("cli.backup.show_key"))] = False,
    as_json: AsJson = False,
) -> None:
    """Make a backup, or do something with those that are there."""
    options = context.ensure_object(CommandOptions)
    acts = {"--list": listing, "--check": check, "--keep": keep, "--restore-to": restore_to, "--show-key": show_key}
    _check_options(acts, {"--run": run, "--unverified": unverified})
    if show_key:
        _show_key(options, as_json=as_json)
    elif listing:
        _list(target, options, key_file, as_json=as_json)
    elif check:
        _check(target, options, key_file, as_json=as_json)
    elif restore_to is not None:
        _restore(target, restore_to, run, options, key_file, unverified=unverified, as_json=as_json)
    else:
        _make(options, target, keep, key_file, as_json=as_json)


def _check_options(acts: Mapping[str, object], of_restore: Mapping[str, object]) -> None:
    """One thing at a time."""
    first, *others = [name for name, value in acts.items() if value] or [""]
    if others:
        raise InvalidInput("options_together", first=first, second=others[0])
    for name, value in of_restore.items():
        if value and first != "--restore-to":
            raise InvalidInput("option_alone", option=name, needs="--restore-to")


def _key(path: Path | None, options: CommandOptions, *, own: bool = True) -> VaultKey | None:
    """The key in a file, or from standard input; else that of the base folder, if it has one."""
    from orihon.system.files import wrapping
    from orihon.transfer.backup.vault import VaultKey

    if path is None:
        return VaultKey.of_base(options.base_path) if own else None
    with wrapping(path):
        return VaultKey.parse(sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes(), str(path))


def _show_key(options: CommandOptions, *, as_json: bool) -> None:
    from orihon.transfer.backup.vault import VaultKey

    key = VaultKey.made_for(options.base.path)
    say({"key": key.text, "name": key.name}, key.text, as_json=as_json)
    typer.echo(text("cli.backup.keep_key"), err=True)


def _make(options: CommandOptions, target: str, keep: int | None, key_file: Path | None, *, as_json: bool) -> None:
    from orihon.transfer.backup import backup as make

    key = _key(key_file, options, own=False)
    with progress_bar("cli.backup.working", hidden=as_json) as progress:
        report = make(options.base, target, progress, keep=keep, key=key)
    if report.missing:
        typer.echo(shown(text("cli.backup.missing", run=report.missing, place=report.place)), err=True)
    if as_json:
        print_json(report)
        return
    figures: dict[str, Any] = {"tasks": report.tasks, "files": report.files, "size": report.size}
    done = text("cli.backup.done", run=report.run, sent=report.sent, chunks=report.new_pieces, **figures)
    typer.echo(shown(done))
    if report.is_new_vault:
        typer.echo(shown(text("cli.backup.new_vault", vault=report.vault, key=report.key, target=target)))
    if keep is not None:
        typer.echo(text("cli.backup.removed", backups=report.removed_backups, chunks=report.removed_pieces))


def _list(target: str, options: CommandOptions, key_file: Path | None, *, as_json: bool) -> None:
    from orihon.transfer.backup import list_backups

    found = list_backups(target, options.settings, key=_key(key_file, options))
    if as_json:
        print_json({"backups": found})
    elif not found:
        typer.echo(text("cli.backup.none"))
    else:
        names = ("run", "created_at", "tasks", "files", "size")
        rows = [
            [*(getattr(info, name) for name in names), text(f"cli.backup.standing.{info.standing}")]
            for info in reversed(found)
        ]
        columns = [text(f"cli.backup.columns.{name}") for name in (*names, "standing")]
        print_table(columns, rows, flexible=1)


def _check(target: str, options: CommandOptions, key_file: Path | None, *, as_json: bool) -> None:
    """Exits with 1 when something is damaged."""
    from orihon.transfer.backup import check_backups
    from orihon.transfer.backup.vault import Memory

    with progress_bar("cli.backup.checking", hidden=as_json) as progress:
        report = check_backups(
            target, options.settings, progress, key=_key(key_file, options), newest=Memory(options.base_path).newest
        )
    figures: dict[str, Any] = {"backups": report.backups, "pieces": report.pieces, "size": report.size}
    if as_json:
        damage = [{"reason": error.reason, **error.fields} for error in report.damage]
        whose = {"vault": report.vault, "key": report.key, "unkeyed": report.unkeyed}
        print_json({**figures, **whose, "clean": not damage, "damage": damage})
    else:
        for error in report.damage:
            typer.echo(shown(error.cause))
        lines = [text(f"cli.backup.{'damaged' if report.damage else 'clean'}", count=len(report.damage), **figures)]
        if not report.key:
            lines.append(text("cli.backup.not_proved", vault=report.vault or "-"))
        elif not report.damage:
            lines.append(text("cli.backup.proved", vault=report.vault, key=report.key))
        if report.unkeyed:
            lines.append(text("cli.backup.unkeyed", count=report.unkeyed))
        for line in reversed(lines) if report.damage else lines:
            typer.echo(shown(line))
    raise typer.Exit(1 if report.damage else 0)


def _restore(
    target: str,
    folder: Path,
    run: str | None,
    options: CommandOptions,
    key_file: Path | None,
    *,
    unverified: bool,
    as_json: bool,
) -> None:
    from orihon.transfer.backup import restore_backup

    trusted: dict[str, Any] = {"key": _key(key_file, options), "unverified": unverified}
    with progress_bar("cli.backup.restoring", hidden=as_json) as progress:
        report = restore_backup(target, folder, options.settings, progress, run=run, **trusted)
    figures: dict[str, Any] = {"tasks": report.tasks, "files": report.files, "size": report.size}
    done = text("cli.backup.restored", run=report.run, folder=report.folder, **figures)
    whose = {"vault": report.vault or "-", "time": report.created_at, "key": report.key}
    trust = text(f"cli.backup.{'trusted' if report.key else 'untrusted'}", run=report.run, **whose)
    came_along: dict[str, Any] = dict(report.powers)
    powers = text("cli.backup.powers", **came_along)
    say(report, done, as_json=as_json)
    for line in (trust, powers):
        typer.echo(shown(line), err=as_json)
    if report.passed_over:
        names = ", ".join(report.passed_over)
        typer.echo(shown(text("cli.backup.passed_over", runs=names)), err=True)


# ---- another back end ------------------------------------------------------------------------------------------------

_Tasks = Annotated[list[str] | None, task_argument("cli.migrate.uuids", "[TASK]...")]


def migrate(
    context: typer.Context,
    source: Annotated[str, option("--from", help=text("cli.migrate.from"))],
    target: Annotated[str, option("--to", help=text("cli.migrate.to"))],
    uuids: _Tasks = None,
    dry_run: Annotated[bool, flag("--dry-run", help=text("cli.migrate.dry_run"))] = False,
    as_json: AsJson = False,
) -> None:
    """Move, print, and exit with 1 when a task was left where it was."""
    from orihon.transfer.migrate import migrate_tasks

    options = context.ensure_object(CommandOptions)
    with progress_bar("cli.migrate.moving", hidden=as_json) as progress:
        report = migrate_tasks(
            options.base_path,
            options.settings,
            source=source,
            target=target,
            tasks=uuids or None,
            progress=progress,
            dry_run=dry_run,
        )
    say(report, _print_migration, as_json=as_json)
    raise typer.Exit(1 if report.left else 0)


def _print_migration(report: MigrationReport) -> None:
    for task in report.tasks:
        if report.dry_run or task in report.left:
            key = f"would_{task.outcome}" if report.dry_run and task not in report.left else task.outcome
            words = (text(f"cli.migrate.{key}"), task.uuid, task.why)
            typer.echo("\t".join(shown(word) for word in words if word))
    counts: dict[str, Any] = {
        outcome: len(report.having(outcome)) for outcome in ("moved", "row", "finished", "skipped", "failed")
    }
    kind = "would" if report.dry_run else "done"
    typer.echo(text(f"cli.migrate.{kind}", source=report.source, target=report.target, **counts))
