"""A place to begin: a configuration file with every setting explained, and an empty base folder. ``set_up``.

Refuses to touch a file that is there; a base folder that is there is taken as it is. Whoever has it written trusts it.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from orihon.errors import InvalidInput, OrihonError
from orihon.settings import load_settings
from orihon.settings.config_file import NAME, ConfigFile, trust
from orihon.settings.in_force import config_template
from orihon.system.files import make_private_folder, open_private, wrapping
from orihon.tasks.base import OpenBase

logger = logging.getLogger("orihon.upkeep")


def set_up(config: Path, base_dir: Path) -> None:
    """Write the file, then make the folder with its catalogue."""
    template = config_template(base_dir).encode()
    with wrapping(config):
        try:
            file = open_private(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError as error:
            raise InvalidInput("config_exists", path=config) from error
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(template)
        except BaseException:
            config.unlink()  # half a file would be refused, and keep this from being tried again
            raise
    make_private_folder(base_dir)
    settings = load_settings(config)
    if config.name == NAME:  # any other has to be named, and needs no trust
        try:
            trust(ConfigFile.read(config))
        except OrihonError as error:  # a home that cannot be written to: the next command says what is missing
            logger.warning("%s is not recorded as trusted: %s", config, error)
    if settings.database.url is None:
        with OpenBase(base_dir, settings) as base:
            base.needed_catalogue()
