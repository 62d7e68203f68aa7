"""``orihon workers``: the machines, their workers, and the leases."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, print_table
from orihon.texts import text

_SHORT_ID = 8
_WORKER_COLUMNS = ("host", "worker", "state", "task", "processed", "failed", "heard")
_LEASE_COLUMNS = ("lease_host", "owner", "lease_task", "epoch", "left")


def workers(
    context: typer.Context,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Who works on what, on which machine."""
    from orihon.runtime.stats import collect_workers

    options = context.ensure_object(CommandOptions)
    found = collect_workers(options.base)
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
