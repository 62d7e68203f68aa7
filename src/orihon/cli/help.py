"""Help pages in the reader's language: the few words that Typer puts in by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    _Base = TyperCommand  # what the mixin is mixed into, for whoever checks types
else:
    _Base = object


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


def _translate_titles() -> None:
    from typer import rich_utils

    rich_utils.ARGUMENTS_PANEL_TITLE = text("cli.page.arguments")
    rich_utils.OPTIONS_PANEL_TITLE = text("cli.page.options")
    rich_utils.COMMANDS_PANEL_TITLE = text("cli.page.commands")
    rich_utils.DEFAULT_STRING = text("cli.page.default")
    rich_utils.REQUIRED_LONG_STRING = text("cli.page.required")
