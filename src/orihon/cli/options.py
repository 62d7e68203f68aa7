"""The options that every command shares, and what follows from them: settings, language, logging."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orihon.texts import text

if TYPE_CHECKING:
    from orihon.settings import Settings
    from orihon.tasks.base import OpenBase


logger = logging.getLogger("orihon.cli")


@dataclass(slots=True)
class CommandOptions:
    """What was typed before the command. Nothing is read until a command asks for its settings."""

    base_dir: Path | None = None
    config: Path | None = None
    language: str | None = None
    verbosity: int = 0  # how often -v, less how often -q
    _settings: Settings | None = None
    _base: OpenBase | None = None

    @property
    def settings(self) -> Settings:
        """The settings, read when they are first asked for."""
        if self._settings is None:
            from orihon.settings import load_settings
            from orihon.settings.where import KEY, with_base_folder

            flags = {KEY: self.base_dir, "language": self.language}
            self._settings = with_base_folder(load_settings(self.config_in_use, flags=flags))
        return self._settings

    @property
    def config_in_use(self) -> Path | None:
        """The configuration file that is read, if any."""
        from orihon.settings import find_config

        return self.config or find_config()

    @property
    def base_path(self) -> Path:
        """The base folder that the settings name, which need not be there yet."""
        return Path(self.settings.context_storage.base_dir)

    @property
    def base(self) -> OpenBase:
        """That base, which must be there unless it is the user's own; opened once for a command."""
        if self._base is None:
            from orihon.tasks.base import OpenBase

            self._base = OpenBase(self.base_path, self.settings, create=self._is_users_own)
        return self._base

    def base_to_fill(self) -> Path:
        """The base folder for a command that may put the first task into it: then a person is told where that is."""
        if self._is_users_own and not self.base_path.exists():
            typer.echo(text("cli.first_base", path=self.base_path), err=True)
        return self.base_path

    def base_to_serve(self) -> Path:
        """The base folder for a server, which shows an empty one as well; a folder that was named must be there."""
        from orihon.system.files import make_private_folder

        if self._is_users_own:
            make_private_folder(self.base_to_fill())
        return self.base_path

    @property
    def _is_users_own(self) -> bool:
        from orihon.settings.where import KEY, USER

        return self.settings.origin(KEY) == USER

    def apply(self) -> None:
        """Put language and logging in force as the settings say."""
        from orihon.guard.logs import configure, shifted
        from orihon.texts import set_language

        settings = self.settings
        if settings.language is not None:
            set_language(settings.language)
        level = shifted(settings.logging.level, self.verbosity)
        screen = shifted("WARNING", self.verbosity)
        configure(level, settings.logging.file, screen=screen, before_masking=self._make_keys_known)
        logger.info("base folder: %s (%s)", self.base_path.absolute(), settings.origin("context_storage.base_dir"))

    def _make_keys_known(self) -> None:
        from orihon.guard.masking.known_values import register_live

        register_live(self.settings)


def base_of(context: typer.Context) -> OpenBase:
    """The base that a command works on."""
    return context.ensure_object(CommandOptions).base


def option(*names: str, help: str, **more: Any) -> Any:  # noqa: A002 - the word that Typer uses
    """An option with a value, whose default its help tells where it matters."""
    return typer.Option(*names, help=help, show_default=False, **more)


def flag(
    *names: str,
    help: str,  # noqa: A002 - the word that Typer uses
    count: bool = False,
    callback: Callable[[bool], None] | None = None,
) -> Any:
    """An option without a value; one with a ``callback`` is looked at before all others."""
    return typer.Option(
        *names, help=help, count=count, callback=callback, is_eager=callback is not None, show_default=False, metavar=""
    )
