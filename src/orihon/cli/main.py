"""The ``orihon`` command: global options, the commands, and how an error is said.

Commands import what they need when they run, so that ``orihon --help`` is quick. Exit codes: 0 all is well, 1 something
was found, 2 an error or a wrong command line, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

import orihon
from orihon.cli.commands import COMMANDS, DEFAULTS, WITHOUT_SETTINGS
from orihon.cli.help import Command, DefaultGroup, Group, usage_text
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, shown
from orihon.cli.streams import EXIT_NO_READER, ReaderGone, open_missing_streams, writing_output
from orihon.errors import InvalidInput, OrihonError
from orihon.texts import LANGUAGES, set_language, text

PROGRAM = "orihon"
_COMPLETION = "_ORIHON_COMPLETE"
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
_TRACEBACK_FROM = 2  # -vv
#: Options before the command that take a value.
_WITH_VALUE = ("--base-dir", "--config", "--lang")


class Language(StrEnum):
    """What ``--lang`` takes."""

    EN = "en"
    JA = "ja"


class ShellName(StrEnum):
    """What can be completed in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


class DemoModelKind(StrEnum):
    """What ``demo --model`` takes."""

    SCRIPTED = "scripted"
    AUTO = "auto"
    LOCAL = "local"


class _Program(Group):
    """All of it; what becomes of the output, help pages too, is one place's business."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        with writing_output():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with writing_output():
            return super().invoke(ctx)


class _Configured(Command):
    """A command that runs with language and logging as the settings say; its help page needs none."""

    def invoke(self, ctx: Any) -> Any:
        ctx.ensure_object(CommandOptions).apply()
        return super().invoke(ctx)


def run() -> None:
    """The entry point of the executable."""
    from orihon.system.processes import close_to_children

    close_to_children()  # before any key is read
    open_missing_streams()
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code."""
    set_language(_language_in(arguments))  # help texts are written when the commands are put together
    options = CommandOptions()
    try:
        command = typer.main.get_command(build(_command_in(arguments)))
        with writing_output():
            code = command.main(list(arguments) or ["--help"], PROGRAM, standalone_mode=False, obj=options)
    except typer.TyperException as error:
        return _say(usage_text(error), None, options)
    except OrihonError as error:
        return _say(str(error), error, options)
    except ReaderGone:
        return EXIT_NO_READER
    except Exception as error:  # noqa: BLE001 - the last resort: a person gets a line, with -vv all of it
        return _say(text("cli.internal", kind=type(error).__name__, detail=error), error, options)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def build(only: str | None = None) -> typer.Typer:
    """The application in the language that is set, with every command or with ``only`` that one and its group's."""
    app = typer.Typer(cls=_Program, add_completion=False, help=text("cli.help"))
    app.callback()(_global_options)
    groups: dict[str, typer.Typer] = {}
    for name, place in COMMANDS.items():
        first, _, second = name.partition(" ")
        if only is not None and first != only:
            continue
        module, function = place.split(":")
        command = getattr(import_module(f"orihon.cli.{module}"), function)
        kind = Command if name in WITHOUT_SETTINGS else _Configured
        if not second:
            app.command(name, cls=kind, help=text(f"cli.{name}.help"))(command)
            continue
        if first not in groups:
            groups[first] = typer.Typer(cls=DefaultGroup if first in DEFAULTS else Group, add_completion=False)
            groups[first].callback(invoke_without_command=True)(_show_group)
            app.add_typer(groups[first], name=first, help=text(f"cli.{first}.help"))
        groups[first].command(second, cls=kind, help=text(f"cli.{first}.{second}"))(command)
    return app


def _command_in(arguments: Sequence[str]) -> str | None:
    """The command of a command line, if it can be told at once: then no other has to be put together."""
    if _prepare_completion():
        return None
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word if any(name.partition(" ")[0] == word for name in COMMANDS) else None
    return None


def _show_group(context: typer.Context) -> None:
    """A group without a command says which ones it has."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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
    options = context.ensure_object(CommandOptions)
    options.base_dir, options.config = base_dir, config
    options.language = None if lang is None else lang.value
    options.verbosity = verbose - quiet


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"orihon {orihon.__version__}")
        raise typer.Exit


def play_demo(
    folder: Annotated[Path | None, option("--folder", help=text("cli.demo.folder"))] = None,
    model: Annotated[DemoModelKind, option("--model", help=text("cli.demo.model"))] = DemoModelKind.SCRIPTED,
    phases: Annotated[bool, flag("--phases", help=text("cli.demo.phases"))] = False,
    open_page: Annotated[bool, flag("--open", help=text("cli.demo.open"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Play the demo; its module is heavy and is imported only here."""
    from orihon.cli.demo_command import demo, demo_of_phases

    if phases and model is not DemoModelKind.SCRIPTED:
        raise InvalidInput("options_together", first="--phases", second="--model")
    if open_page and as_json:
        raise InvalidInput("options_together", first="--open", second="--json")
    if phases:
        demo_of_phases(folder, as_json=as_json, open_page=open_page)
    else:
        demo(folder, model.value, as_json=as_json, open_page=open_page)


def completion(
    shell: Annotated[ShellName, typer.Argument(help=text("cli.completion.shell"), show_default=False)],
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Print the script; where it belongs is in the help."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not on its list

    script = get_completion_script(prog_name=PROGRAM, complete_var=_COMPLETION, shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        typer.echo(script)


def _prepare_completion() -> bool:
    """Does a shell ask what could come next? Then Typer is told which shells there are."""
    if not os.environ.get(_COMPLETION):
        return False
    from typer.completion import completion_init  # type: ignore[attr-defined]  # not on its list

    completion_init()
    return True


def _language_in(arguments: Sequence[str]) -> str | None:
    """The value of ``--lang``, before anything is parsed."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return next((value for name, value in pairwise(words) if name == "--lang" and value in LANGUAGES), None)


def _say(line: str, error: BaseException | None, options: CommandOptions) -> int:
    """One line for a person; what a programmer wants to see only when it was asked for.

    Masked, for both may quote what they were given, and the screen of a worker is a journal.
    """
    from orihon.guard.logs import masked

    if error is not None and options.verbosity >= _TRACEBACK_FROM:
        import traceback

        typer.echo(masked("".join(traceback.format_exception(error))), err=True, nl=False)
    with suppress(OSError):  # the exit code is said all the same
        typer.echo(f"orihon: {shown(masked(line))}", err=True)
    return EXIT_ERROR
