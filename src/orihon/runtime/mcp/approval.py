"""Which definitions of MCP tools were approved: a server must not change under an agent's hands.

A tool's name, description, schema and hints decide what a model does with it and what Orihon does after a crash. Their
hash is kept in ``mcp_tools.json`` of the base folder (0600). A server whose tools are seen for the first time is
trusted; afterwards a tool that is new or defined otherwise is refused until ``approve``. Workers of one base folder
share the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orihon.errors import DamagedStore
from orihon.system import jsonio
from orihon.system.files import make_private_folder, replace_file, wrapping

NAME = "mcp_tools.json"
_VERSION = 1

Digests = Mapping[str, str]  # of a server's tools, by name


def definition_digest(definition: Mapping[str, Any]) -> str:
    """The hash of a definition, whatever the order of its keys."""
    return hashlib.sha256(jsonio.encode(_ordered(definition))).hexdigest()


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list | tuple) else value


class Approvals:
    """What was approved in one base folder; without a folder, in this process."""

    def __init__(self, base_dir: Path | None) -> None:
        self._folder = base_dir
        self._here: dict[str, dict[str, str]] = {}

    def refused(self, server: str, digests: Digests) -> frozenset[str]:
        """The tools that are not as they were approved; at first sight all are."""
        with self._changing() as approved:
            known = approved.get(server)
            if not known:  # a server that has named no tool yet has not been seen
                if digests:
                    approved[server] = dict(digests)
                return frozenset()
            return frozenset(name for name, digest in digests.items() if known.get(name) != digest)

    def approve(self, server: str, digests: Digests) -> None:
        """From now on these are right; what was approved of tools that are away stays."""
        with self._changing() as approved:
            approved[server] = {**approved.get(server, {}), **digests}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, dict[str, str]]]:
        if self._folder is None:
            yield self._here
            return
        make_private_folder(self._folder)
        path = self._folder / NAME
        with _locked(self._folder):
            approved = _read(path)
            before = jsonio.encode(approved)
            yield approved
            if jsonio.encode(approved) != before:
                replace_file(path, [jsonio.encode_pretty({"version": _VERSION, "servers": approved})])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with wrapping(folder):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        with wrapping(path):
            if not path.exists():
                return {}
            content = jsonio.decode(path.read_bytes())
        servers: dict[str, dict[str, str]] = content["servers"]
        if content["version"] == _VERSION and all(isinstance(tools, dict) for tools in servers.values()):
            return servers
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedStore("mcp_tools", path=path) from error
    raise DamagedStore("mcp_tools", path=path)
