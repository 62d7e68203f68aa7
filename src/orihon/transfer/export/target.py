"""Where an export goes: a file that is there whole or not at all, for the owner only, or a stream."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from orihon.errors import InvalidInput
from orihon.system.files import open_private, sync_folder, wrapping


@contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """The file, under its name when the block ends well; one that is there is replaced only with ``force``."""
    _refuse_existing(path, force=force)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with wrapping(path), os.fdopen(open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with wrapping(path):
            _rename(temporary, path, force=force)
            sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _refuse_existing(path: Path, *, force: bool) -> None:
    with wrapping(path):
        if os.path.lexists(path) and not (force and (path.is_file() or path.is_symlink())):
            raise InvalidInput("file_exists" if path.is_file() else "not_a_file", path=path)
        if not path.parent.exists():
            raise InvalidInput("no_folder_for", folder=path.parent, name=path.name)


def _rename(temporary: Path, path: Path, *, force: bool) -> None:
    if force:
        temporary.rename(path)
        return
    try:
        path.hardlink_to(temporary)  # which, unlike a rename, replaces nothing
    except FileExistsError as error:
        raise InvalidInput("file_exists", path=path) from error
    except OSError:  # a file system without links
        _refuse_existing(path, force=False)
        temporary.rename(path)
