"""The ``orihon`` command: global options, the commands, and how an error is said.

Commands import what they need when they run, so that ``orihon --help`` is quick. Exit codes: 0 all is well, 1 something
was found, 2 an error or a wrong command line, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

import orihon
from orihon.cli.help import Command, Group
from orihon.cli.options import Options, flag, option
from orihon.cli.output import shown
from orihon.errors import InvalidInput, OrihonError
from orihon.texts import LANGUAGES, set_language, text

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
_TRACEBACK_FROM = 2  # -vv


class Language(StrEnum):
    """What ``--lang`` takes."""

    EN = "en"
    JA = "ja"


class DemoModelKind(StrEnum):
    """What ``demo --model`` takes."""

    SCRIPTED = "scripted"
    AUTO = "auto"
    LOCAL = "local"


class _Configured(Command):
    """A command that runs with language and logging as the settings say; its help page needs none."""

    def invoke(self, ctx: Any) -> Any:
        ctx.ensure_object(Options).apply()
        return super().invoke(ctx)


def run() -> None:
    """The entry point of the executable."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code."""
    set_language(_language_in(arguments))  # help texts are written when the commands are put together
    options = Options()
    try:
        command = typer.main.get_command(build())
        code = command.main(list(arguments) or ["--help"], "orihon", standalone_mode=False, obj=options)
    except typer.TyperException as error:
        return _say(_usage(error), None, options)
    except OrihonError as error:
        return _say(str(error), error, options)
    except Exception as error:  # noqa: BLE001 - the last resort: a person gets a line, with -vv all of it
        return _say(text("cli.internal", kind=type(error).__name__, detail=error), error, options)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def build() -> typer.Typer:
    """The application in the language that is set."""
    from orihon.cli import approvals, archive, changes, queue, retention
    from orihon.cli.backup import backup
    from orihon.cli.chain import chain
    from orihon.cli.compress import compress
    from orihon.cli.doctor import doctor
    from orihon.cli.fork import fork
    from orihon.cli.list import list_tasks
    from orihon.cli.migrate import migrate
    from orihon.cli.restore import restore
    from orihon.cli.squeeze import squeeze
    from orihon.cli.stats import stats
    from orihon.cli.tools import tools
    from orihon.cli.verify import verify
    from orihon.cli.view import view
    from orihon.cli.worker import worker
    from orihon.cli.workers import workers

    app = typer.Typer(cls=Group, add_completion=False, help=text("cli.help"))
    app.callback()(_global_options)
    commands: dict[str, Callable[..., None]] = {
        "list": list_tasks,
        "view": view,
        "chain": chain,
        "compress": compress,
        "undo": changes.undo,
        "redo": changes.redo,
        "rewind": changes.rewind,
        "fork": fork,
        "unfold": changes.unfold,
        "edit": changes.edit,
        "pin": changes.pin,
        "unpin": changes.unpin,
        "enqueue": queue.enqueue,
        "worker": worker,
        "pause": queue.pause,
        "resume": queue.resume,
        "cancel": queue.cancel,
        "retry": queue.retry,
        "approvals": approvals.approvals,
        "approve": approvals.approve,
        "reject": approvals.reject,
        "revise": approvals.revise,
        "restore": restore,
        "archive": archive.archive,
        "unarchive": archive.unarchive,
        "keep": retention.keep,
        "cleanup": retention.cleanup,
        "vacuum": retention.vacuum,
        "maintain": retention.maintain,
        "tools": tools,
        "verify": verify,
        "doctor": doctor,
        "backup": backup,
        "migrate": migrate,
        "workers": workers,
        "stats": stats,
        "squeeze": squeeze,
        "demo": _demo,
    }
    for name, function in commands.items():
        app.command(name, cls=_Configured, help=text(f"cli.{name}.help"))(function)
    return app


def _global_options(
    context: typer.Context,
    base_dir: Annotated[Path | None, option("--base-dir", help=text("cli.options.base_dir"))] = None,
    config: Annotated[Path | None, option("--config", help=text("cli.options.config"))] = None,
    lang: Annotated[Language | None, option("--lang", help=text("cli.options.lang"))] = None,
    verbose: Annotated[int, flag("-v", "--verbose", count=True, help=text("cli.options.verbose"))] = 0,
    quiet: Annotated[int, flag("-q", "--quiet", count=True, help=text("cli.options.quiet"))] = 0,
    version: Annotated[bool, flag("--version", help=text("cli.options.version"), callback=_print_version)] = False,
) -> None:
    """What stands before the command."""
    assert not version  # printing it ends the program
    options = context.ensure_object(Options)
    options.base_dir, options.config = base_dir, config
    options.language = None if lang is None else lang.value
    options.verbosity = verbose - quiet


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"orihon {orihon.__version__}")
        raise typer.Exit


def _demo(
    folder: Annotated[Path | None, option("--folder", help=text("cli.demo.folder"))] = None,
    model: Annotated[DemoModelKind, option("--model", help=text("cli.demo.model"))] = DemoModelKind.SCRIPTED,
    phases: Annotated[bool, flag("--phases", help=text("cli.demo.phases"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Play the demo; its module is heavy and is imported only here."""
    from orihon.cli.demo import demo, demo_of_phases

    if phases and model is not DemoModelKind.SCRIPTED:
        raise InvalidInput("options_together", first="--phases", second="--model")
    if phases:
        demo_of_phases(folder, as_json=as_json)
    else:
        demo(folder, model.value, as_json=as_json)


def _language_in(arguments: Sequence[str]) -> str | None:
    """The value of ``--lang``, before anything is parsed."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return next((value for name, value in pairwise(words) if name == "--lang" and value in LANGUAGES), None)


def _usage(error: typer.TyperException) -> str:
    """What is wrong with a command line; Typer says it in English only."""
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return text("cli.usage.no_option", name=getattr(error, "option_name", "?"))
    if kind == "MissingParameter" and parameter is not None:
        is_option = parameter.param_type_name == "option"
        return text("cli.usage.missing", name=parameter.opts[0] if is_option else parameter.metavar or parameter.name)
    return text("cli.usage.other", detail=error.format_message())


def _say(line: str, error: BaseException | None, options: Options) -> int:
    """One line for a person; what a programmer wants to see only when it was asked for."""
    if error is not None and options.verbosity >= _TRACEBACK_FROM:
        import traceback

        typer.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    typer.echo(f"orihon: {shown(line)}", err=True)
    return EXIT_ERROR
