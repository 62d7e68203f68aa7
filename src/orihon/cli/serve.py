"""``orihon serve``: the web page of the base folder, on this machine until interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, say
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.settings import Settings
    from orihon.web.server import WebServer

_MOST_PORT = 65535
_PORT = 8377
#: For its owner's eyes only, and gone when the server ends.
_LEADS_THERE = "open-page.html"
_REDIRECT = '<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">'


def serve(
    context: typer.Context,
    port: Annotated[int, option("--port", min=0, max=_MOST_PORT, help=text("cli.serve.port"))] = _PORT,
    host: Annotated[str, option("--host", help=text("cli.serve.host"))] = "127.0.0.1",
    name: Annotated[list[str] | None, option("--allow-host", help=text("cli.serve.allow_host"))] = None,
    certificate: Annotated[Path | None, option("--tls-cert", help=text("cli.serve.certificate"))] = None,
    key: Annotated[Path | None, option("--tls-key", help=text("cli.serve.key"))] = None,
    unencrypted: Annotated[bool, flag("--unencrypted", help=text("cli.serve.unencrypted"))] = False,
    read_only: Annotated[bool, flag("--read-only", help=text("cli.serve.read_only"))] = False,
    new_token: Annotated[bool, flag("--new-token", help=text("cli.serve.new_token"))] = False,
    hide_token: Annotated[bool, flag("--hide-token", help=text("cli.serve.hide_token"))] = False,
    show_token: Annotated[bool, flag("--show-token", help=text("cli.serve.show_token"))] = False,
    open_page: Annotated[bool, flag("--open", help=text("cli.serve.open"))] = False,
    as_json: AsJson = False,
) -> None:
    """Serve until interrupted."""
    options = context.ensure_object(CommandOptions)
    if show_token:
        _print_token(options.base_path, renew=new_token, as_json=as_json)
        return
    with open_server(
        options.base_to_serve(),
        options.settings,
        host=host,
        port=port,
        names=tuple(name or ()),
        certificate=certificate,
        key=key,
        unencrypted=unencrypted,
        read_only=read_only,
        new_token=new_token,
        config=options.config_in_use,
    ) as server:
        if as_json:
            token = None if hide_token else server.token
            print_json({"address": server.address, "token": token, "read_only": read_only})
        elif hide_token:
            typer.echo(text("cli.serve.serving_only", address=server.address))
        else:
            typer.echo(text("cli.serve.serving", address=server.login_address))
        with shown_in_browser(server, options.base_path) if open_page else nullcontext():
            server.serve()


def _print_token(base: Path, *, renew: bool, as_json: bool) -> None:
    from orihon.errors import StorageUnavailable
    from orihon.web.access import open_access

    if not base.is_dir():
        raise StorageUnavailable("no_base_dir", path=base)
    token = open_access(base, renew=renew).token
    say({"token": token}, token, as_json=as_json)


@contextmanager
def shown_in_browser(server: WebServer, base: Path) -> Iterator[None]:
    """Open the page, not by its address: everybody on a machine may read what its processes were started with."""
    from html import escape

    from orihon.system.files import replace_file

    leads_there = base / _LEADS_THERE
    # The server has not begun yet, which ends well by itself: without this one a token would stay behind.
    previous = signal.signal(signal.SIGTERM, _end)
    try:
        replace_file(leads_there, [_REDIRECT.format(address=escape(server.login_address)).encode()])
        typer.launch(str(leads_there))
        yield
    finally:
        leads_there.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, previous)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def open_server(
    base: Path,
    settings: Settings,
    *,
    read_only: bool = False,
    new_token: bool = False,
    config: Path | None = None,
    **listening: Any,
) -> WebServer:
    """The server of a base folder, if what it needs is installed."""
    try:
        from orihon.web.server import Listening, WebServer
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("orihon"):
            raise
        raise InvalidInput("web_packages", detail=error.name) from error
    where = Listening(**listening)
    return WebServer(base, settings, where, read_only=read_only, new_token=new_token, config=config)
