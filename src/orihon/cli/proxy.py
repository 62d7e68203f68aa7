"""``orihon proxy``: one base URL for agents, on this machine until interrupted."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.proxy.running import RunningProxy
    from orihon.proxy.server import ProxyServer

_MOST_PORT = 65535
_PORT = 8378
_LEAST_WINDOW = 1000


def proxy(
    context: typer.Context,
    port: Annotated[int, option("--port", min=0, max=_MOST_PORT, help=text("cli.proxy.port"))] = _PORT,
    upstream: Annotated[str | None, option("--upstream", help=text("cli.proxy.upstream"))] = None,
    window: Annotated[int | None, option("--window", min=_LEAST_WINDOW, help=text("cli.proxy.window"))] = None,
    strict: Annotated[bool, flag("--strict", help=text("cli.proxy.strict"))] = False,
    token: Annotated[str | None, option("--token", help=text("cli.proxy.token"))] = None,
    as_json: AsJson = False,
) -> None:
    """Serve until interrupted."""
    from orihon.proxy.running import ProxyPlace, RunningProxy

    options = context.ensure_object(CommandOptions)
    wanted = RunningProxy(port, token, upstream, window, strict, os.getpid())
    server = open_checked_proxy(options, wanted)

    def ready() -> None:
        base = str(options.base_path)
        if as_json:
            print_json({"address": server.address, "base": base})
        else:
            typer.echo(text("cli.proxy.serving", address=server.address, base=base))

    with ProxyPlace(options.base_path).registered(replace(wanted, port=server.port)):
        server.serve(ready)


def open_checked_proxy(options: CommandOptions, wanted: RunningProxy) -> ProxyServer:
    """A proxy that listens, and has shown that it folds."""
    window = wanted.window
    settings = options.settings if window is None else options.settings.replace(**{"proxy.window": window})
    server = open_proxy(
        options.base_to_fill(),
        settings,
        port=wanted.port,
        upstream=wanted.upstream,
        strict=wanted.strict,
        token=wanted.token,
    )
    if trouble := server.check():
        server.close()
        raise InvalidInput("proxy_unhealthy", trouble=trouble)
    return server


def open_proxy(base: Any, settings: Any, **listening: Any) -> ProxyServer:
    """The proxy of a base folder, if what it needs is installed."""
    try:
        from orihon.proxy.server import ProxyListening, ProxyServer
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("orihon"):
            raise
        raise InvalidInput("proxy_packages", detail=error.name) from error
    return ProxyServer(base, settings, ProxyListening(**listening))
