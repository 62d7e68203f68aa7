"""What Typer says by itself, in the reader's language: the words of help pages, and mistakes in a command line.

The frequent mistakes have texts of our own; a rare one keeps Typer's words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    _Base = TyperCommand  # what the mixin is mixed into, for whoever checks types
else:
    _Base = object

# ---- help pages ------------------------------------------------------------------------------------------------------


class _Translated(_Base):
    """A help page in the reader's language."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.help, option.metavar = text("cli.page.help"), ""
        return option

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        pieces = " ".join(self.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, pieces, prefix=f"{text('cli.page.usage')} ")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _translate_titles()
        super().format_help(ctx, formatter)


class Command(_Translated, TyperCommand):
    """A command whose help page is translated."""


class Group(_Translated, TyperGroup):
    """The same for the list of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            raise InvalidInput("unknown_command", name=args[0], known=", ".join(self.commands))
        return super().resolve_command(ctx, args)


class DefaultGroup(Group):
    """A group that does something by itself: what its first command does, with the options of that."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in ("--help", *self.commands) or not args[0].startswith("-"))
        return super().parse_args(ctx, args if is_named else [next(iter(self.commands)), *args])


def _translate_titles() -> None:
    from typer import rich_utils

    rich_utils.ARGUMENTS_PANEL_TITLE = text("cli.page.arguments")
    rich_utils.OPTIONS_PANEL_TITLE = text("cli.page.options")
    rich_utils.COMMANDS_PANEL_TITLE = text("cli.page.commands")
    rich_utils.DEFAULT_STRING = text("cli.page.default")
    rich_utils.REQUIRED_LONG_STRING = text("cli.page.required")


# ---- mistakes --------------------------------------------------------------------------------------------------------

#: What Typer says of a value or an option, and which of our texts says the same.
_SAID = {
    "not_one_of": re.compile(r"(?P<value>.+) is not one of (?P<known>.+?)\.?", re.DOTALL),
    "out_of_range": re.compile(r"(?P<value>.+) is not in the range (?P<range>[^ ]+?)\.?", re.DOTALL),
    "no_number": re.compile(r"(?P<value>.+) is not a valid (?:int|integer|float)(?: range)?\.?", re.DOTALL),
    "needs_value": re.compile(r"Option '?(?P<name>[^ ']+)'? requires an argument\.?"),
    "takes_no_value": re.compile(r"Option '?(?P<name>[^ ']+)'? does not take a value\.?"),
    "too_many": re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<value>.*)\)", re.DOTALL),
}
_MOST_QUOTED = 200


def usage_text(error: typer.TyperException) -> str:
    """One line with what is wrong and where to look."""
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return text("cli.usage.no_option", name=getattr(error, "option_name", "?"))
    is_argument = parameter is not None and parameter.param_type_name == "argument"
    names = ["-"] if parameter is None else [parameter.metavar or parameter.name] if is_argument else parameter.opts
    if kind == "MissingParameter" and parameter is not None:
        return text("cli.usage.missing", name=names[0])
    name = " / ".join(f"'{one}'" for one in names)
    for key, pattern in _SAID.items():
        found = pattern.fullmatch(error.message)
        if found is not None:
            fields = {field: value[:_MOST_QUOTED] for field, value in found.groupdict().items()}
            return text(f"cli.usage.{key}", **{"name": name, **fields})
    return text("cli.usage.other", detail=error.format_message())
