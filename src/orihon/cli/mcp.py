"""``orihon mcp``: the history as an MCP server, and the configuration of clients that use it."""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.arguments import AsJson
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import print_table, say, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.mcp.install import Installation

_Address = Annotated[str | None, option("--http", metavar="[HOST:]PORT", help=text("cli.mcp.http"))]


def serve(
    context: typer.Context,
    http: _Address = None,
    allow_changes: Annotated[bool, flag("--allow-changes", help=text("cli.mcp.allow_changes"))] = False,
    name: Annotated[list[str] | None, option("--allow-host", help=text("cli.mcp.allow_host"))] = None,
    hide_token: Annotated[bool, flag("--hide-token", help=text("cli.mcp.hide_token"))] = False,
    as_json: AsJson = False,
) -> None:
    """Serve until the client goes, or until interrupted."""
    if http is None:
        for given, word in ((name, "--allow-host"), (hide_token, "--hide-token"), (as_json, "--json")):
            if given:
                raise InvalidInput("option_alone", option=word, needs="--http")
        _serve_streams(context, allow_changes=allow_changes)
        return
    try:
        from orihon.mcp.http import HistoryHttpServer, listening_at
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    options = context.ensure_object(CommandOptions)
    where = listening_at(http, name or ())
    with HistoryHttpServer(options.base_to_serve(), options.settings, where, allow_changes=allow_changes) as server:
        token = None if hide_token else server.token
        key = "cli.mcp.serving_only" if hide_token else "cli.mcp.serving"
        told = {"address": server.address, "token": token, "allow_changes": allow_changes}
        say(told, text(key, address=server.address, token=token), as_json=as_json)
        server.serve()


class ClientName(StrEnum):
    """What ``install`` takes."""

    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"
    OPENCODE = "opencode"
    VSCODE = "vscode"


_Client = Annotated[ClientName | None, typer.Argument(help=text("cli.mcp.client"), show_default=False)]


def install(
    context: typer.Context,
    client: _Client = None,
    project: Annotated[bool, flag("--project", help=text("cli.mcp.project"))] = False,
    write: Annotated[bool, flag("--write", help=text("cli.mcp.write"))] = False,
    force: Annotated[bool, flag("--force", help=text("cli.mcp.force"))] = False,
    allow_changes: Annotated[bool, flag("--allow-changes", help=text("cli.mcp.allow_changes"))] = False,
    list_clients: Annotated[bool, flag("--list", help=text("cli.mcp.list"))] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a client has to be told, or tell it."""
    from orihon.mcp.clients import CLIENTS, started_by
    from orihon.mcp.install import install_in, listed

    if (client is None) != list_clients:
        raise InvalidInput("mcp_no_client", known=", ".join(CLIENTS))
    if client is None:
        say({"clients": listed()}, _print_clients, as_json=as_json)
        return
    if force and not write:
        raise InvalidInput("option_alone", option="--force", needs="--write")
    options = context.ensure_object(CommandOptions)
    named = options.config or os.environ.get("ORIHON_CONFIG") or None
    command = started_by(options.base_path, config=named, allow_changes=allow_changes)
    here = Path.cwd() if project else None
    done = install_in(CLIENTS[client.value], command, project=here, write=write, force=force)
    say(done, _print_installation, as_json=as_json)


def _print_clients(found: dict[str, list[dict[str, str]]]) -> None:
    columns = ("client", "title", "file", "project_file")
    names = [text(f"cli.mcp.columns.{column}") for column in columns]
    print_table(names, ([one[column] for column in columns] for one in found["clients"]), flexible=2)


def _print_installation(done: Installation) -> None:
    typer.echo(shown(text(f"cli.mcp.{done.status}", file=done.file, client=done.client)), err=done.status == "shown")
    if done.backup is not None:
        typer.echo(shown(text("cli.mcp.backup", file=done.backup)))
    if done.status == "shown":
        for line in done.snippet.splitlines():
            typer.echo(shown(line))


def _serve_streams(context: typer.Context, *, allow_changes: bool) -> None:
    try:
        from orihon.mcp.server import serve_streams
    except ModuleNotFoundError as error:
        raise _not_installed(error) from error
    # A thread waits for the next line, and nobody can call it back: Ctrl-C ends the process as SIGTERM does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve_streams(base_of(context), allow_changes=allow_changes)


def _not_installed(error: ModuleNotFoundError) -> Exception:
    if (error.name or "").startswith("orihon"):
        return error
    return InvalidInput("mcp_packages", detail=error.name)
