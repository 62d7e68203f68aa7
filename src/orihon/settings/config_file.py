"""A configuration file: read once, as plain data of bounded size; and the record of those that a person trusts.

``InvalidSettings`` names file and line. Imported only when there is a file to read, because PyYAML is slow to import.
Its loader in C is not used: that one has no limit on nesting.

A file that is merely found is somebody else's input. The person's own ``orihon/trusted.json`` (0600, in the folder of
``$XDG_CONFIG_HOME`` or ``~/.config``) says which files may name programs, addresses and places all the same: by path,
owner and hash of the content, so that whatever changes is asked for again. A file that somebody else owns or may write
to is never trusted, nor is a record of that kind.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import Any, Literal

import yaml

from orihon.errors import InvalidSettings
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, replace_file, wrapping
from orihon.system.holding import lock_file

NAME = "config.yaml"
MAX_BYTES = 1024 * 1024
# Counted with every alias written out: a few lines of aliases of aliases can stand for billions of values.
MAX_VALUES = 100_000


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with a line number on the errors that it lets through bare."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (
            ValueError,
            LookupError,
            AttributeError,
        ) as error:  # such as !!bool maybe, or the date 2024-13-01
            problem = f"{str(node.value)[:40]!r} does not fit {node.tag}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read: what is judged is what is obeyed."""

    path: Path
    data: bytes
    owner: int
    mode: int

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        try:
            with path.open("rb") as file:
                data, status = file.read(MAX_BYTES + 1), os.fstat(file.fileno())
        except FileNotFoundError as error:
            raise InvalidSettings("missing_file", path=str(path)) from error
        except (OSError, ValueError) as error:
            raise InvalidSettings("unreadable_file", path=str(path), detail=str(error)) from error
        if len(data) > MAX_BYTES:
            raise InvalidSettings("file_too_large", path=str(path), limit=MAX_BYTES)
        return cls(path, data, status.st_uid, status.st_mode)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def is_exposed(self) -> bool:
        """Is it another user's, or may others write to it?"""
        return _is_exposed(self.owner, self.mode)

    def content(self) -> Mapping[Any, Any]:
        """The mapping in the file; an empty file is an empty mapping."""
        return _parsed(self.data, self.path)


def _is_exposed(owner: int, mode: int) -> bool:
    return owner not in (os.geteuid(), 0) or bool(mode & 0o022)


def _parsed(data: bytes, path: Path) -> Mapping[Any, Any]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _broken(path, data.count(b"\n", 0, error.start), str(error.reason)) from error
    try:
        document = _document(text, path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _broken(path, mark.line if mark else 0, error.problem) from error
    except yaml.reader.ReaderError as error:
        raise _broken(path, text.count("\n", 0, error.position), error.reason) from error
    except RecursionError as error:
        raise InvalidSettings("yaml_too_big", path=str(path), limit=MAX_VALUES) from error
    if not isinstance(document, Mapping | None):
        raise InvalidSettings("not_mapping", path=str(path))
    return document or {}


def _document(text: str, path: Path) -> Any:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check(root, path)
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _check(root: yaml.Node, path: Path) -> None:
    """Refuse what is too big with all aliases written out, and double keys: PyYAML would drop the first."""
    waiting = [root]
    values = 0
    while waiting:
        node = waiting.pop()
        values += 1
        if values > MAX_VALUES:
            raise InvalidSettings("yaml_too_big", path=str(path), limit=MAX_VALUES)
        if isinstance(node, yaml.MappingNode):
            _refuse_double_keys(node, path)
            waiting.extend(part for pair in node.value for part in pair)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)


def _refuse_double_keys(mapping: yaml.MappingNode, path: Path) -> None:
    seen: set[str] = set()
    for key, _ in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise _broken(path, key.start_mark.line, f"{key.value!r} is given twice")
        if isinstance(key, yaml.ScalarNode):
            seen.add(key.value)


def _broken(path: Path, line: int, detail: str | None) -> InvalidSettings:
    """``line`` is counted from 0, as PyYAML does."""
    return InvalidSettings("broken_yaml", path=str(path), line=line + 1, detail=detail or "?")


# ---- which files a person trusts -------------------------------------------------------------------------------------

TrustState = Literal["trusted", "changed", "exposed", "missing"]
_VERSION = 1
_COLUMNS = ("owner", "sha256", "trusted_at")


class FoundConfig(PosixPath):
    """The path of a configuration file that nobody named: it was there."""


@dataclass(frozen=True, slots=True)
class TrustedConfig:
    """One file that a person has trusted, and how it stands with it now."""

    path: Path
    owner: int
    sha256: str
    trusted_at: str
    state: TrustState = "trusted"


def record_path() -> Path:
    """Where it is recorded what this person trusts."""
    named = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return (named if named.is_absolute() else Path("~/.config").expanduser()) / "orihon" / "trusted.json"


def trusted_configs() -> list[TrustedConfig]:
    """All of them, in the order of their paths."""
    rows = sorted(_recorded().items())
    return [TrustedConfig(Path(path), **row, state=_state(Path(path))) for path, row in rows]


def state_of(file: ConfigFile) -> TrustState:
    """May this file be obeyed in everything? ``missing`` is one that was never trusted."""
    row = _recorded().get(_place(file.path))
    if file.is_exposed:
        return "exposed"
    if row is None:
        return "missing"
    return "trusted" if (row["owner"], row["sha256"]) == (file.owner, file.digest) else "changed"


def trust(file: ConfigFile) -> TrustedConfig:
    """From now on this file counts as if its owner had named it, until it changes."""
    if file.is_exposed:
        raise InvalidSettings("exposed_config", path=str(file.path))
    done = TrustedConfig(Path(_place(file.path)), file.owner, file.digest, utc_now())
    with _changing() as rows:
        rows[str(done.path)] = {name: getattr(done, name) for name in _COLUMNS}
    return done


def distrust(folder: Path) -> tuple[Path, bool]:
    """Trust a folder's configuration no more, also one that is gone: which file that is, and whether it was trusted."""
    place = _place(folder / NAME)
    with _changing() as rows:
        return Path(place), rows.pop(place, None) is not None


def _place(path: Path) -> str:
    return str(path.parent.resolve() / path.name)


def _state(path: Path) -> TrustState:
    try:
        return state_of(ConfigFile.read(path))
    except InvalidSettings:
        return "missing"


def _recorded() -> dict[str, dict[str, Any]]:
    path = record_path()
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status, data = os.fstat(file.fileno()), file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidSettings("damaged_record", path=str(path), detail=str(error)) from error
    if _is_exposed(status.st_uid, status.st_mode):
        raise InvalidSettings("exposed_record", path=str(path))
    try:
        record = json.loads(data)
        if record["version"] != _VERSION:
            raise ValueError(record["version"])
        return {str(row["path"]): {name: row[name] for name in _COLUMNS} for row in record["trusted"]}
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidSettings("damaged_record", path=str(path), detail=str(error)) from error


@contextmanager
def _changing() -> Iterator[dict[str, dict[str, Any]]]:
    path = record_path()
    make_private_folder(path.parent)
    with wrapping(path):
        fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            lock_file(fd, path.parent)
            rows = _recorded()
            yield rows
            listed = [{"path": place, **row} for place, row in sorted(rows.items())]
            replace_file(path, [json.dumps({"version": _VERSION, "trusted": listed}, indent=1).encode() + b"\n"])
        finally:
            os.close(fd)
