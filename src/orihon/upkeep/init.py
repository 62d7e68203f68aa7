"""A place to begin: a configuration file with every setting explained, and an empty base folder. ``set_up``.

Refuses to touch a file that is there; a base folder that is there is taken as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from orihon.catalogue.connect import open_catalogue
from orihon.errors import InvalidInput
from orihon.settings import load_settings
from orihon.settings.in_force import config_template
from orihon.system.files import make_private_folder, open_private, wrapping


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
    if settings.database.url is None:
        open_catalogue(base_dir, settings).close()
