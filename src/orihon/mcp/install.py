"""``install_in``: a client is told of the server, in its own file: shown, or merged into what is there.

A file is replaced whole or left alone; what it held before lies beside it. What is there already is not written again.
Where a file cannot be merged safely it is refused, with what to add by hand. A link is followed to the file itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orihon.errors import InvalidInput
from orihon.mcp.clients import CLIENTS, SERVER, ClientProgram
from orihon.mcp.config_text import CannotMerge, json_with, toml_with
from orihon.system.files import sync_folder, unfinished_file, wrapping
from orihon.system.json_shapes import AsJson
from orihon.texts import text

_MOST_BYTES = 16 << 20
_MOST_BACKUPS = 1000


@dataclass(frozen=True, slots=True)
class Installation(AsJson):
    """What a client is told, and what became of its file."""

    client: str
    file: Path
    status: Literal["shown", "written", "unchanged"]
    snippet: str
    backup: Path | None = None


def install_in(
    client: ClientProgram,
    command: Sequence[str],
    *,
    project: Path | None = None,
    write: bool = False,
    force: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Installation:
    """Show what belongs into the client's file, or write it there; ``force`` replaces another server of our name."""
    file = client.file(environment, Path.home(), project)
    entry = client.entry(command)
    snippet = _merged(client, "", entry, force=False)
    if not write:
        return Installation(client.name, file, "shown", snippet)
    target = Path(os.path.realpath(file))
    before = _read(target)
    try:
        made = _merged(client, before or "", entry, force=force).encode()
    except CannotMerge as error:
        why = text(f"cli.mcp.cannot.{error.reason}", place=error.place)
        raise InvalidInput("mcp_merge", path=file, why=why, client=client.name) from error
    old = None if before is None else before.encode()
    if made == old:
        return Installation(client.name, file, "unchanged", snippet)
    return Installation(client.name, file, "written", snippet, _replaced(target, old, made))


def _merged(client: ClientProgram, known: str, entry: Mapping[str, Any], *, force: bool) -> str:
    merge = toml_with if client.form == "toml" else json_with
    return merge(known, client.section, SERVER, entry, replace=force)


def _read(path: Path) -> str | None:
    with wrapping(path):
        if not path.exists():
            return None
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise InvalidInput("mcp_file", path=path)
        try:
            return path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise InvalidInput("mcp_file", path=path) from error


def _replaced(path: Path, old: bytes | None, new: bytes) -> Path | None:
    """The file anew, with the rights that it had; returns where the old one lies."""
    with wrapping(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if old is None else path.stat().st_mode & 0o777
        backup = None if old is None else _free_name(path)
        if old is not None and backup is not None:
            _write(backup, old, mode)
        _write(path, new, mode, instead_of=old)
    return backup


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.before-orihon{'' if not n else f'-{n}'}") for n in range(_MOST_BACKUPS))
    return next(name for name in names if not os.path.lexists(name))


def _write(path: Path, data: bytes, mode: int, instead_of: bytes | None = None) -> None:
    with unfinished_file(path) as (temporary, fd):
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.write(data)
        os.fchmod(fd, mode)
        os.fsync(fd)
        if instead_of is not None and path.read_bytes() != instead_of:  # the client has written meanwhile
            raise InvalidInput("mcp_file_changed", path=path)
        temporary.replace(path)
    sync_folder(path.parent)


def listed(environment: Mapping[str, str] = os.environ) -> list[dict[str, str]]:
    """The clients that are known, and which files they read."""
    home, here = Path.home(), Path.cwd()
    return [
        {
            "client": one.name,
            "title": one.title,
            "file": str(one.file(environment, home, None)),
            "project_file": str(one.file(environment, home, here)),
        }
        for one in CLIENTS.values()
    ]
