"""Help pages in the reader's language: the few words that Typer puts in by itself."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from orihon.errors import InvalidInput
from orihon.texts import text


class Command(TyperCommand):
    """A command whose help page is translated."""

    def get_help_option(self, ctx: Any) -> Any:
        return _translated(super().get_help_option(ctx))

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _translate_titles()
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """The same for the list of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            raise InvalidInput("unknown_command", name=args[0], known=", ".join(self.commands))
        return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return _translated(super().get_help_option(ctx))

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        _write_usage(self, ctx, formatter)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _translate_titles()
        super().format_help(ctx, formatter)


def _translated(option: Any) -> Any:
    if option is not None:
        option.help, option.metavar = text("cli.page.help"), ""
    return option


def _write_usage(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    pieces = " ".join(command.collect_usage_pieces(ctx))
    formatter.write_usage(ctx.command_path, pieces, prefix=f"{text('cli.page.usage')} ")


def _translate_titles() -> None:
    from typer import rich_utils

    rich_utils.ARGUMENTS_PANEL_TITLE = text("cli.page.arguments")
    rich_utils.OPTIONS_PANEL_TITLE = text("cli.page.options")
    rich_utils.COMMANDS_PANEL_TITLE = text("cli.page.commands")
    rich_utils.DEFAULT_STRING = text("cli.page.default")
    rich_utils.REQUIRED_LONG_STRING = text("cli.page.required")
