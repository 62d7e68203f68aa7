"""``orihon enqueue``, ``pause``, ``resume``, ``cancel``, ``retry``: what people do with the queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.changes import AsJson, Uuid, named_task
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, shown
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
    priority: Annotated[
        int, typer.Option("--priority", min=-1000, max=1000, help=text("cli.enqueue.priority"), show_default=False)
    ] = 0,
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


def pause(context: typer.Context, uuid: Uuid, as_json: AsJson = False) -> None:
    """Let a task rest."""
    _request(context, uuid, "pause", lambda queue, task: queue.pause(task), as_json=as_json)


def resume(context: typer.Context, uuid: Uuid, as_json: AsJson = False) -> None:
    """Let workers go on with it."""
    _request(context, uuid, "resume", lambda queue, task: queue.resume(task), as_json=as_json)


def cancel(context: typer.Context, uuid: Uuid, as_json: AsJson = False) -> None:
    """Give it up."""
    _request(context, uuid, "cancel", lambda queue, task: queue.cancel(task), as_json=as_json)


def retry(context: typer.Context, uuid: Uuid, as_json: AsJson = False) -> None:
    """Put it in line again."""
    _request(context, uuid, "retry", lambda queue, task: queue.retry(task), as_json=as_json)


def _queue(context: typer.Context) -> TaskQueue:
    from orihon.runtime.broker_queue import open_queue

    options = context.ensure_object(CommandOptions)
    return open_queue(options.base_path, options.settings)


def _request(
    context: typer.Context, uuid: str, name: str, act: Callable[[TaskQueue, str], TaskRow], *, as_json: bool
) -> None:
    task = named_task(context, uuid)
    queue = _queue(context)
    row = act(queue, task)
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
