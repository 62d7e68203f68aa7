"""Where settings come from: flag over environment over configuration file over default.

Each source becomes a layer of checked values under canonical keys. A value that is overridden is checked all
the same, or a mistake would wait for the day when the flag is dropped. Sections of others are left alone:
one ``config.yaml`` serves the whole agent.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.errors import InvalidSettings
from orihon.settings.kinds import Reach
from orihon.settings.model import (
    Given,
    Setting,
    Settings,
    names,
    nearest,
    read,
    read_flag,
    schema,
    section_names,
    shown,
)

if TYPE_CHECKING:
    from orihon.settings.config_file import ConfigFile

logger = logging.getLogger("orihon.settings")

_Source = Mapping[str, Any] | str | os.PathLike[str]

_CONFIG_NAME = "config.yaml"
_DICT_ORIGIN = "config"
# "$${" is the way to write "${" itself.
_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# Near enough to one of our sections to be a slip of the pen and not somebody else's section.
_SLIP = 0.8


def load_settings(
    config: _Source | Settings | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings in force.

    ``config`` is the path of a YAML file, the content of one as a mapping, or ``Settings``, to which only the
    flags are added. No file is read that is not named: see ``find_config``. ``flags`` has dotted keys;
    ``None`` means that the flag was not given. An empty environment variable counts as not set.
    """
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    if isinstance(config, Settings):
        return config.replace(**given) if given else config
    environment = os.environ if environ is None else environ
    from_flags = {key: read_flag(key, value) for key, value in given.items()}
    layers = _from_config(config, environment) | _from_environment(environment) | from_flags
    file = None if config is None or isinstance(config, Mapping) else Path(config).absolute()
    return dataclasses.replace(Settings().take(layers), file=file)


def find_config(environ: Mapping[str, str] | None = None) -> Path | None:
    """The file that the command line reads: ``$ORIHON_CONFIG``, or ``config.yaml`` if there is one.

    The latter is not anybody's word: ``load_settings`` refuses it where it goes too far and is not trusted.
    """
    named = (os.environ if environ is None else environ).get("ORIHON_CONFIG")
    if named:
        return Path(named)
    if not Path(_CONFIG_NAME).is_file():
        return None
    from orihon.settings.config_file import FoundConfig

    return FoundConfig(_CONFIG_NAME)


def far_reaching(file: ConfigFile, environ: Mapping[str, str] | None = None) -> list[str]:
    """What a file says that could do more than its folder allows: the names that it uses, in its order."""
    content, folder = file.content(), file.path.parent.resolve()
    layer = _from_mapping(content, str(file.path), os.environ if environ is None else environ)
    leaves = [(name, schema()[names()[name]], raw) for name, raw in _leaves(content, "", str(file.path))]
    return [name for name, row, raw in leaves if _reads_environment(raw) or _reaches(row, layer, folder)]


def _reaches(row: Setting, layer: Mapping[str, Given], folder: Path) -> bool:
    value = layer[row.key].value if row.key in layer else row.default
    if row.reach is Reach.NONE or value == row.default:
        return False
    if row.reach is Reach.LIMIT and isinstance(value, int | float) and isinstance(row.default, int | float):
        return value > row.default
    if row.reach is not Reach.PLACE:
        return True
    place = (folder / str(value)).resolve()
    # What is hidden is another program's: .git, .ssh.
    inside = place.relative_to(folder).parts if place.is_relative_to(folder) else (".",)
    return any(part.startswith(".") for part in inside)


def _reads_environment(raw: object) -> bool:
    return any(match[2] for match in _VARIABLE.finditer(str(raw)))


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    _refuse_unknown_variables(environ)
    layer: dict[str, Given] = {}
    for row in schema().values():
        variable = next((name for name in row.env if environ.get(name, "").strip()), None)
        if variable is not None:
            origin = f"environment {variable}"
            layer[row.key] = Given(read(row, environ[variable], origin), origin)
    return layer


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """``ORIHON_<SECTION>__<KEY>`` is ours alone, so one that means nothing is a slip."""
    known = {row.env[0] for row in schema().values()}
    for variable, value in environ.items():
        if "__" in variable and variable.startswith("ORIHON_") and variable not in known and value.strip():
            key = variable.removeprefix("ORIHON_").lower().replace("__", ".")
            wanted = schema()[nearest(key)].env[0]
            raise InvalidSettings("unknown_key", key=variable, origin="environment", nearest=wanted)


def _from_config(config: _Source | None, environ: Mapping[str, str]) -> dict[str, Given]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return _from_mapping(config, _DICT_ORIGIN, environ)
    from orihon.settings.config_file import ConfigFile, FoundConfig, state_of

    file = ConfigFile.read(Path(config))
    layer = _from_mapping(file.content(), str(file.path), environ)
    beyond = far_reaching(file, environ) if isinstance(config, FoundConfig) else []
    if beyond and (state := state_of(file)) != "trusted":
        raise InvalidSettings(f"{state}_trust", path=str(file.path.absolute()), settings=", ".join(beyond))
    return layer


def _from_mapping(config: Mapping[Any, Any], origin: str, environ: Mapping[str, str]) -> dict[str, Given]:
    layer: dict[str, Given] = {}
    used: dict[str, str] = {}
    for name, raw in _leaves(config, "", origin):
        row = schema()[names()[name]]
        filled = _expand(raw, name, origin, environ)
        if filled == "" != raw:
            continue  # "${VAR:-}" without VAR: not set, as an empty environment variable is
        value = read(row, filled, origin, written=raw)
        if row.key in layer and layer[row.key].value != value:
            raise InvalidSettings("conflict", first=used[row.key], second=name, key=row.key, origin=origin)
        layer[row.key] = Given(value, origin)
        used[row.key] = name
    return layer


def _leaves(node: Mapping[Any, Any], prefix: str, origin: str) -> Iterator[tuple[str, object]]:
    """The settings in ``node`` under the dotted names that it uses."""
    for part, raw in node.items():
        name = f"{prefix}{part}"
        if name in names():
            yield name, raw
        elif name in section_names():
            if not isinstance(raw, Mapping | None):
                raise InvalidSettings("not_section", key=name, value=shown(raw), origin=origin)
            yield from _leaves(raw or {}, f"{name}.", origin)
        else:
            _refuse_unless_foreign(name, origin)


def _refuse_unless_foreign(name: str, origin: str) -> None:
    import difflib

    ours = [known for known in {*section_names(), *names()} if "." not in known]
    if name.partition(".")[0] in ours:
        raise InvalidSettings("unknown_key", key=name, origin=origin, nearest=nearest(name))
    slips = difflib.get_close_matches(name, sorted(ours), n=1, cutoff=_SLIP)
    if slips:
        raise InvalidSettings("unknown_key", key=name, origin=origin, nearest=slips[0])
    logger.debug("%s: section %s is not Orihon's; ignored", origin, name)


def _expand(raw: Any, name: str, origin: str, environ: Mapping[str, str]) -> Any:
    """``raw`` with ``${VAR}`` and ``${VAR:-default}`` filled in, also inside lists and mappings."""
    if isinstance(raw, Mapping):
        return {key: _expand(value, f"{name}.{key}", origin, environ) for key, value in raw.items()}
    if isinstance(raw, list | tuple):
        return [_expand(value, name, origin, environ) for value in raw]
    if not isinstance(raw, str):
        return raw

    def fill(match: re.Match[str]) -> str:
        escaped, variable, default = match.groups()
        if escaped:
            return str(escaped)
        value = environ.get(variable) or default
        if value is None and name.endswith((".api_key", ".token")):
            # Most files name the keys of all providers; only the one in use needs its key, and its client says so.
            logger.debug("%s: %s is not set, so %s has no value", origin, variable, name)
            return ""
        if value is None:
            raise InvalidSettings("undefined_variable", key=name, variable=variable, origin=origin)
        return value

    return _VARIABLE.sub(fill, raw)
