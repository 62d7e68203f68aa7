"""``mcp_servers:`` of ``config.yaml``, read and checked; and which definitions of their tools were approved.

Two spellings are taken: a list of mappings that carry ``mcp_server_name``, and a mapping by name as other agents have
it. A server is a program (``command``, ``args``, ``env``, ``cwd``) or an address (``url``, ``headers``). ``${VAR}`` is
filled in from the environment. What cannot be meant is refused by name before anything is started.

All that a server says of a tool may end up before a model: its hash is kept in ``mcp_tools.json`` of the base folder
(0600), together with what the server says of itself and how it is reached. A server whose tools are seen for the first
time is trusted; afterwards a tool that is new or defined otherwise is refused until ``approve``. Hashes of before
covered name, description, schema and hints; a tool that is as they say gets the whole hash. Workers of one base folder
share the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orihon.errors import DamagedStore, InvalidSettings
from orihon.settings.load import _expand as expand_variables
from orihon.system import jsonio
from orihon.system.files import make_private_folder, replace_file, wrapping
from orihon.system.holding import lock_file

SECTION = "mcp_servers"
PROTOCOLS = ("auto", "legacy", "2026-07-28")
_LONGEST_NAME = 32
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_NAME}}}")
_COMMON = ("mcp_server_name", "name", "timeout", "repeatable", "required", "protocol", "type", "disabled")
_PROGRAM = ("command", "args", "env", "cwd")
_ADDRESS = ("url", "headers")


@dataclass(frozen=True, slots=True)
class McpServerConfig:
    """One MCP server as it is configured."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float | None = None  # seconds for one call; the tool box's when it is None
    repeatable: frozenset[str] = frozenset()  # tools that may be called again after a crash
    required: bool = True  # without it the agent does not start
    protocol: str = "auto"

    def definition(self) -> dict[str, Any]:
        """What makes it this server and no other. Of environment and headers the names: values are keys, and change."""
        place = {"command": self.command, "cwd": str(self.cwd or ""), "url": self.url}
        return {**place, "env": sorted(self.env), "headers": sorted(map(str.lower, self.headers))}


def read_mcp_servers(config: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> list[McpServerConfig]:
    """The servers of a configuration, in its order."""
    environment = os.environ if environ is None else environ
    servers: dict[str, McpServerConfig] = {}
    for name, raw in _entries(config.get(SECTION)):
        entry = expand_variables(raw, f"{SECTION}.{name}", "config", environment)
        if entry.get("disabled") is True:
            continue
        server = _server(name, entry)
        if server.name in servers:
            raise InvalidSettings("mcp_server_twice", name=name)
        servers[name] = server
    return list(servers.values())


def _entries(section: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if section is None:
        return
    if isinstance(section, Mapping):
        pairs = list(section.items())
    elif isinstance(section, Sequence) and not isinstance(section, str):
        pairs = [(_name_in(entry), entry) for entry in section]
    else:
        raise InvalidSettings("mcp_servers_shape", kind=type(section).__name__)
    for name, entry in pairs:
        if not isinstance(entry, Mapping):
            raise InvalidSettings("mcp_servers_shape", kind=type(entry).__name__)
        if _NAME.fullmatch(str(name)) is None:
            raise InvalidSettings("mcp_server_name", name=name, most=_LONGEST_NAME)
        yield str(name), entry


def _name_in(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        raise InvalidSettings("mcp_servers_shape", kind=type(entry).__name__)
    return entry.get("mcp_server_name", entry.get("name", ""))


def _server(name: str, entry: Mapping[str, Any]) -> McpServerConfig:
    known = (*_COMMON, *_PROGRAM, *_ADDRESS)
    for key in entry:
        if key not in known:
            raise InvalidSettings("mcp_server_key", name=name, key=key, known=", ".join(known))
    if ("command" in entry) == ("url" in entry):
        raise InvalidSettings("mcp_server_kind", name=name)
    protocol = entry.get("protocol", "auto")
    if protocol not in PROTOCOLS:
        raise _wrong(name, "protocol", protocol, " | ".join(PROTOCOLS))
    timeout = entry.get("timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0):
        raise _wrong(name, "timeout", timeout, "seconds > 0")
    required = entry.get("required", True)
    if not isinstance(required, bool):
        raise _wrong(name, "required", required, "true | false")
    cwd = entry.get("cwd")
    return McpServerConfig(
        name=name,
        command=_command(name, entry) if "command" in entry else (),
        env=_texts(name, "env", entry.get("env")),
        cwd=Path(str(cwd)).expanduser() if cwd else None,
        url=_url(name, entry["url"]) if "url" in entry else "",
        headers=_texts(name, "headers", entry.get("headers")),
        timeout=None if timeout is None else float(timeout),
        repeatable=frozenset(_list(name, "repeatable", entry.get("repeatable", []))),
        required=required,
        protocol=str(protocol),
    )


def _command(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The program and its arguments. A text with blanks and no ``args`` is a whole command line."""
    command, arguments = entry["command"], _list(name, "args", entry.get("args", []))
    if isinstance(command, str):
        words = [command] if arguments or "args" in entry else shlex.split(command)
    else:
        words = _list(name, "command", command)
    if not words:
        raise _wrong(name, "command", command, "[program, argument, …]")
    return (*words, *arguments)


def _url(name: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/]\S*", value):
        raise _wrong(name, "url", value, "http(s)://…")
    return value


def _list(name: str, key: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int | float) for item in value):
        raise _wrong(name, key, value, "[…]")
    return [str(item) for item in value]


def _texts(name: str, key: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(item, str | int | float) for item in value.values()):
        raise InvalidSettings("mcp_server_mapping", name=name, key=key)
    return {str(variable): str(item) for variable, item in value.items()}


def _wrong(name: str, key: str, value: Any, wanted: str) -> InvalidSettings:
    return InvalidSettings("mcp_server_value", name=name, key=key, value=value, wanted=wanted)


APPROVED_TOOLS = "mcp_tools.json"
_VERSION = 1

Digests = Mapping[str, str]  # of a server's tools, by name
_WHOLE = "2:"  # begins a digest of the whole definition; without it is one of before


def whole_digest(tool: Mapping[str, Any], server: Mapping[str, Any]) -> str:
    """The hash of all that a tool and its server are."""
    return _WHOLE + definition_digest({"tool": tool, "server": server})


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

    def refused(self, server: str, digests: Digests, former: Digests) -> frozenset[str]:
        """The tools that are not as they were approved; at first sight all are.

        What was approved when digests covered less (``former``) stays so, and is approved as a whole with that.
        """
        with self._changing() as approved:
            known = approved.get(server)
            if not known:  # a server that has named no tool yet has not been seen
                if digests:
                    approved[server] = dict(digests)
                return frozenset()
            known |= {name: digests[name] for name in digests if name in known and known[name] == former.get(name)}
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
        path = self._folder / APPROVED_TOOLS
        with _locked(self._folder):
            approved = _read_approved(path)
            before = jsonio.encode(approved)
            yield approved
            if jsonio.encode(approved) != before:
                replace_file(path, [jsonio.encode_pretty({"version": _VERSION, "servers": approved})])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with wrapping(folder):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            lock_file(fd, folder)
            yield
        finally:
            os.close(fd)


def _read_approved(path: Path) -> dict[str, dict[str, str]]:
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
