"""Programs that start MCP servers, and how each wants to be told of one: in which file, under which names.

Only values; ``install.py`` writes. Each has a file for a person and one for a project.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SERVER = "orihon"
ServerEntry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """One client. ``section`` is where its servers stand in the file."""

    name: str
    title: str
    section: str
    of_person: Callable[[Mapping[str, str], Path], Path]
    of_project: str
    entry: Callable[[Sequence[str]], ServerEntry]
    form: Literal["json", "toml"] = "json"

    def file(self, environment: Mapping[str, str], home: Path, project: Path | None) -> Path:
        """The file that it reads: the one that is there, where it takes comments under another name."""
        wanted = self.of_person(environment, home) if project is None else project / self.of_project
        commented = wanted.with_suffix(".jsonc")
        is_other = self.name == "opencode" and commented.exists() and not wanted.exists()
        return commented if is_other else wanted


def _parted(command: Sequence[str]) -> ServerEntry:
    return {"command": command[0], "args": list(command[1:])}


def _typed(command: Sequence[str]) -> ServerEntry:
    return {"type": "stdio", **_parted(command)}


def _together(command: Sequence[str]) -> ServerEntry:
    return {"type": "local", "command": list(command), "enabled": True}


def _below(variable: str, folder: str, *more: str) -> Callable[[Mapping[str, str], Path], Path]:
    """A file below the folder that a variable of the environment names, else below one of the home folder."""

    def found(environment: Mapping[str, str], home: Path) -> Path:
        named = environment.get(variable)
        return (Path(named) if named else home / folder).joinpath(*more)

    return found


def _claude(environment: Mapping[str, str], home: Path) -> Path:
    named = environment.get("CLAUDE_CONFIG_DIR")
    return (Path(named) if named else home) / ".claude.json"


def _vscode(environment: Mapping[str, str], home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "Code" / "User" / "mcp.json"
    return _below("XDG_CONFIG_HOME", ".config", "Code", "User", "mcp.json")(environment, home)


_OPENCODE = _below("XDG_CONFIG_HOME", ".config", "opencode", "opencode.json")
_CODEX = _below("CODEX_HOME", ".codex", "config.toml")
_CURSOR = _below("", ".cursor", "mcp.json")
CLIENTS = {
    client.name: client
    for client in (
        ClientProgram("claude", "Claude Code", "mcpServers", _claude, ".mcp.json", _typed),
        ClientProgram("codex", "Codex", "mcp_servers", _CODEX, ".codex/config.toml", _parted, "toml"),
        ClientProgram("cursor", "Cursor", "mcpServers", _CURSOR, ".cursor/mcp.json", _parted),
        ClientProgram("opencode", "OpenCode", "mcp", _OPENCODE, "opencode.json", _together),
        ClientProgram("vscode", "VS Code", "servers", _vscode, ".vscode/mcp.json", _typed),
    )
}


def started_by(base: Path, *, config: str | Path | None = None, allow_changes: bool = False) -> list[str]:
    """The command that a client runs, wherever it is when it does: nothing in it depends on a folder or a PATH.

    A configuration that nobody has named is not named here, either: naming it would mean to trust it.
    """
    beside = Path(sys.executable).with_name("orihon")
    program = str(beside) if beside.exists() else shutil.which("orihon") or "orihon"
    named = [] if config is None else ["--config", str(Path(config).absolute())]
    changes = ["--allow-changes"] if allow_changes else []
    return [program, *named, "--base-dir", str(base.absolute()), "mcp", *changes]
