"""``orihon enqueue``, ``pause``, ``resume``, ``cancel``, ``retry``, ``worker``, ``workers``: the queue."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, TaskArgument, named_task
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import print_json, print_table, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.catalogue import TaskRow
    from orihon.runtime.queue import TaskQueue

_Prompt = Annotated[str | None, typer.Argument(metavar="PROMPT", help=text("cli.enqueue.prompt"), show_default=False)]


def enqueue(
    context: typer.Context,
    prompt: _Prompt = None,
    file: Annotated[Path | None, option("--file", help=text("cli.enqueue.file"))] = None,
    source: Annotated[str, option("--source", help=text("cli.enqueue.source"))] = "cli",
    repository: Annotated[str, option("--repository", help=text("cli.enqueue.repository"))] = "",
    kind: Annotated[str, option("--type", help=text("cli.enqueue.type"))] = "task",
    number: Annotated[str | None, option("--id", help=text("cli.enqueue.id"))] = None,
    user: Annotated[str, option("--user", help=text("cli.enqueue.user"))] = "",
    priority: Annotated[int, option("--priority", min=-1000, max=1000, help=text("cli.enqueue.priority"))] = 0,
    no_inherit: Annotated[bool, flag("--no-inherit", help=text("cli.enqueue.no_inherit"))] = False,
    inherit_from: Annotated[str | None, option("--inherit-from", help=text("cli.enqueue.inherit_from"))] = None,
    as_json: AsJson = False,
) -> None:
    """Put a task in line."""
    from orihon.cli.editor import text_from
    from orihon.values.task import TaskKey, new_uuid

    if prompt is not None and file is not None:
        raise InvalidInput("options_together", first="PROMPT", second="--file")
    if no_inherit and inherit_from is not None:
        raise InvalidInput("options_together", first="--no-inherit", second="--inherit-from")
    older = None if inherit_from is None else named_task(context, inherit_from)
    owner, _, repo = repository.rpartition("/")
    key = TaskKey(source, owner, repo, kind, number or new_uuid(), user)
    with text_from("" if prompt is None and file is None else prompt, file, "") as wanted:
        if not wanted.strip() and source == "cli":
            raise InvalidInput("no_prompt")
        queue = _queue(context)
        uuid = queue.enqueue(
            key, prompt=wanted, source=source, priority=priority, inherit=not no_inherit, inherit_from=older
        )
    if as_json:
        _print_row(queue.catalogue.tasks.get(uuid))
    else:
        typer.echo(uuid)
    queue.close()


def pause(context: typer.Context, uuid: TaskArgument, as_json: AsJson = False) -> None:
    """Let a task rest."""
    _request(context, uuid, "pause", as_json=as_json)


def resume(context: typer.Context, uuid: TaskArgument, as_json: AsJson = False) -> None:
    """Let workers go on with it."""
    _request(context, uuid, "resume", as_json=as_json)


def cancel(context: typer.Context, uuid: TaskArgument, as_json: AsJson = False) -> None:
    """Give it up."""
    _request(context, uuid, "cancel", as_json=as_json)


def retry(context: typer.Context, uuid: TaskArgument, as_json: AsJson = False) -> None:
    """Put it in line again."""
    _request(context, uuid, "retry", as_json=as_json)


def _queue(context: typer.Context) -> TaskQueue:
    from orihon.runtime.broker_queue import open_queue

    options = context.ensure_object(CommandOptions)
    return open_queue(options.base_to_fill(), options.settings)


def _request(context: typer.Context, uuid: str, name: str, *, as_json: bool) -> None:
    task, queue = named_task(context, uuid), _queue(context)
    row: TaskRow = getattr(queue, name)(task)
    queue.close()
    if as_json:
        _print_row(row)
        return
    # A worker holds it and has been told, or it is done.
    state = "asked" if row.requested == name and row.lease_owner is not None else "done"
    typer.echo(shown(text(f"cli.{name}.{state}", uuid=row.uuid, owner=row.lease_owner, status=row.status.value)))


def _print_row(row: TaskRow) -> None:
    from orihon.runtime.queue import QueueAnswer

    print_json(QueueAnswer(row))


# ---- working ---------------------------------------------------------------------------------------------------------

_MOST = 10_000
_EXIT_REFUSED = 2


def worker(
    context: typer.Context,
    count: Annotated[int | None, option("--workers", "-n", min=1, max=_MOST, help=text("cli.worker.count"))] = None,
    until_empty: Annotated[bool, flag("--until-empty", help=text("cli.worker.until_empty"))] = False,
    handler: Annotated[str | None, option("--handler", help=text("cli.worker.handler"))] = None,
    as_json: Annotated[bool, flag("--json", help=text("cli.worker.json"))] = False,
) -> None:
    """Start the workers and stay with them."""
    from orihon.guard.logs import shifted
    from orihon.runtime.child import LogPlan
    from orihon.runtime.handlers import DEFAULT_HANDLER
    from orihon.runtime.stats import collect_worker_stats
    from orihon.runtime.supervisor import Supervisor

    options = context.ensure_object(CommandOptions)
    settings = options.settings
    usual = settings.multiprocess.max_workers if settings.multiprocess.enabled else 1
    screen = shifted("WARNING", options.verbosity)
    supervisor = Supervisor(
        count or usual,
        settings,
        base_dir=options.base_to_fill(),
        handler=handler or DEFAULT_HANDLER,
        until_empty=until_empty,
        logs=LogPlan(shifted(settings.logging.level, options.verbosity), settings.logging.file, screen),
    )
    typer.echo(shown(text("cli.worker.begins", count=len(supervisor.workers), folder=options.base_path)), err=True)
    before = collect_worker_stats(options.base_path, settings)["tasks"]
    could_work = supervisor.run()
    if not could_work:
        typer.echo(f"orihon: {text('cli.worker.refused')}", err=True)
        raise typer.Exit(_EXIT_REFUSED)
    stats = collect_worker_stats(options.base_path, settings)
    if as_json:
        print_json(stats)
    else:
        done = {status: max(0, count - before.get(status, 0)) for status, count in stats["tasks"].items()}
        bad = done.get("dead", 0) + done.get("failed", 0)
        ended = {"completed": done.get("completed", 0), "dead": bad, "waiting": stats["waiting"]}
        typer.echo(text("cli.worker.ends", **ended), err=True)


# ---- who works -------------------------------------------------------------------------------------------------------

_SHORT_ID = 8
_WORKER_COLUMNS = ("host", "worker", "state", "task", "processed", "failed", "heard")
_LEASE_COLUMNS = ("lease_host", "owner", "lease_task", "epoch", "left")


def workers(context: typer.Context, as_json: AsJson = False) -> None:
    """Who works on what, on which machine."""
    from orihon.runtime.stats import collect_workers

    found = collect_workers(base_of(context))
    if as_json:
        print_json(found)
        return
    if not found["workers"] and not found["leases"]:
        typer.echo(text("cli.workers.none"), err=True)
        return
    _print("worker", _WORKER_COLUMNS, [_worker_cells(worker) for worker in found["workers"]])
    _print("lease", _LEASE_COLUMNS, [_lease_cells(lease) for lease in found["leases"]])


def _print(kind: str, columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    """A table on a terminal; otherwise lines that begin with what they are about."""
    if not rows:
        return
    if sys.stdout.isatty():
        print_table([text(f"cli.workers.{column}") for column in columns], rows, flexible=1)
    else:
        print_table(["", *columns], [(kind, *row) for row in rows], flexible=1)


def _worker_cells(worker: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        worker["host"],
        worker["name"],
        text(f"cli.workers.states.{worker['state']}") if sys.stdout.isatty() else worker["state"],
        _short(worker["task_uuid"]),
        worker["processed"],
        worker["failed"],
        "-" if worker["heartbeat_age"] is None else seconds(worker["heartbeat_age"]),
    )


def _lease_cells(lease: Mapping[str, Any]) -> tuple[object, ...]:
    stale = text("cli.workers.stale") if sys.stdout.isatty() else "stale"
    left = seconds(lease["seconds_left"])
    return (
        lease["host"],
        lease["owner"],
        _short(lease["uuid"]),
        lease["epoch"],
        f"{left} {stale}" if lease["is_stale"] else left,
    )


def _short(uuid: str | None) -> str:
    return "-" if uuid is None else uuid[:_SHORT_ID] if sys.stdout.isatty() else uuid


def seconds(value: float) -> str:
    """A time for people, a number for programs."""
    return text("cli.workers.seconds", seconds=f"{value:,.0f}") if sys.stdout.isatty() else f"{value:.1f}"
