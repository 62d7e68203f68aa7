"""``orihon wrap``: an agent, run through the proxy, and what became of its conversations."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, shown
from orihon.errors import InvalidInput, OrihonError
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.proxy.clients import Client
    from orihon.proxy.wrap_report import WrapReport

_LEAST_WINDOW = 1000
_MOST_SHOWN, _LONGEST_TITLE = 5, 60


def wrap(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME] -- ARGS", help=text("cli.wrap.command"), show_default=False)
    ] = None,
    listed: Annotated[bool, flag("--list", help=text("cli.wrap.list"))] = False,
    window: Annotated[int | None, option("--window", min=_LEAST_WINDOW, help=text("cli.wrap.window"))] = None,
    upstream: Annotated[str | None, option("--upstream", help=text("cli.wrap.upstream"))] = None,
    quiet: Annotated[bool, flag("-q", "--quiet", help=text("cli.wrap.quiet"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.wrap.json"))] = False,
) -> None:
    """Run it to its end; its exit status is ours."""
    from orihon.system.foreground import end_as

    if listed:
        _list(as_json=as_json)
        return
    if not command:
        raise InvalidInput("wrap_nothing")
    options = context.ensure_object(CommandOptions)
    status, report = _run(options, command, window, upstream)
    if report is not None and not quiet and options.verbosity >= 0:
        with suppress(OSError):  # nobody reads it
            _say_report(report, as_json=as_json)
    raise typer.Exit(end_as(status))


def _run(
    options: CommandOptions, command: list[str], window: int | None, upstream: str | None
) -> tuple[int, WrapReport | None]:
    """The status of the program, and what came of it, unless it was none of our business."""
    from orihon.proxy.clients import client_for
    from orihon.proxy.running import ProxyPlace
    from orihon.proxy.wrapping import AlreadyWrapped, Configured, HeldProxy, installed, named_upstream

    word, arguments, given = command[0], command[1:], dict(os.environ)
    client = client_for(word)
    program = installed(word, client, given.get("PATH"))
    place = ProxyPlace(options.base_to_fill())
    if upstream is not None:
        given |= client.upstream(upstream)
    try:
        openai = named_upstream(client.openai_upstreams, given, place.base)
        anthropic = named_upstream(client.anthropic_upstreams, given, place.base)
    except AlreadyWrapped as error:
        _say(text("cli.wrap.not_nested", address=_host(str(error))))
        return _program(program, arguments, dict(os.environ), lambda _: None), None
    for name in client.past_us:
        if given.get(name, "0") not in ("", "0", "false"):
            _say(text("cli.wrap.past_us", name=name, client=client.name))
    config = options.config_in_use
    configured = Configured(str(place.base), None if config is None else str(config.absolute()), options.language)
    held = HeldProxy(place, configured, _say, window=window)
    try:
        addresses = held.addresses(client, openai, anthropic)
        environment = {**os.environ, **client.environment(addresses, given)}
        before = [] if client.arguments is None else client.arguments(addresses, given)
        with held.kept():
            status = _program(program, [*before, *arguments], environment, held.file.names)
        return status, _report(options, held.file.touched(), status)
    finally:
        held.file.remove()


def _program(program: str, arguments: list[str], environment: dict[str, str], started: Any) -> int:
    from orihon.system.foreground import run_in_foreground

    try:
        return run_in_foreground(program, arguments, environment, started)
    except OSError as error:
        raise InvalidInput("wrap_cannot_run", program=program, detail=error.strerror or error) from error


def _say(line: str) -> None:
    with suppress(OSError):  # nobody reads it
        typer.echo(shown(line), err=True)


def _host(address: str) -> str:
    """An address without what may be a token in it."""
    from urllib.parse import urlsplit

    return urlsplit(address).netloc


# ---- at the end ------------------------------------------------------------------------------------------------------


def _report(options: CommandOptions, touched: list[str], status: int) -> WrapReport | None:
    from orihon.proxy.wrap_report import WrapReport, wrap_report

    code = os.waitstatus_to_exitcode(status)
    code = 128 - code if code < 0 else code
    try:
        return wrap_report(options.base, touched, code) if touched else WrapReport(code)
    except OrihonError as error:  # the program has done its work all the same
        _say(f"orihon: {error}")
        return None


def _say_report(report: WrapReport, *, as_json: bool) -> None:
    from orihon.system import jsonio
    from orihon.system.json_shapes import to_json

    if as_json:
        typer.echo(jsonio.encode(to_json(report)).decode(), err=True)
        return
    if not report.conversations:
        _say(text("cli.wrap.nothing"))
        return
    count, saved = len(report.conversations), report.saved_tokens
    _say(text("cli.wrap.report", conversations=count, messages=report.messages, folds=report.folds, saved=saved))
    for one in report.conversations[:_MOST_SHOWN]:
        title = one.title[:_LONGEST_TITLE]
        saved = one.saved_tokens
        _say(text("cli.wrap.conversation", task=one.task, messages=one.messages, saved=saved, title=title))
    if len(report.conversations) > _MOST_SHOWN:
        _say(text("cli.wrap.more", count=len(report.conversations) - _MOST_SHOWN))
    _say(text("cli.wrap.look"))


# ---- the list --------------------------------------------------------------------------------------------------------


def _list(*, as_json: bool) -> None:
    from orihon.proxy.clients import CLIENTS

    clients = [_listed(client) for client in CLIENTS]
    if as_json:
        print_json({"clients": clients})
        return
    columns = [text(f"cli.wrap.{name}") for name in ("name", "path", "sets", "arguments")]
    rows = [
        (one["name"], one["path"] or text("cli.wrap.missing"), ", ".join(one["variables"]), one["arguments"] or "-")
        for one in clients
    ]
    print_table(columns, rows, flexible=2)


def _listed(client: Client) -> dict[str, Any]:
    path = next(filter(None, map(shutil.which, client.programs)), None)
    arguments = None if client.arguments is None else text("cli.wrap.own_provider")
    return {
        "name": client.name,
        "path": path,
        "variables": list(client.variables),
        "arguments": arguments,
        "names_sessions": client.names_sessions,
    }
