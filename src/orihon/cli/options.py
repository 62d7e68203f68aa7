"""The options that every command shares, and what follows from them: settings, language, logging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from orihon.settings import Settings
    from orihon.tasks.base import OpenBase


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

            flags = {"context_storage.base_dir": self.base_dir, "language": self.language}
            self._settings = load_settings(self.config_in_use, flags=flags)
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
        """That base, which must be there; opened once for a command."""
        if self._base is None:
            from orihon.tasks.base import OpenBase

            self._base = OpenBase(self.base_path, self.settings)
        return self._base

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
