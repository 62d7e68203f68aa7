"""``Settings``, the one frozen object, and the table of its keys.

A key is a dotted name such as ``context_storage.backend``. ``schema()`` lists all of them with defaults and
other names; it is derived from the fields in ``sections``. ``Settings`` can be compared, hashed and pickled.
It remembers where each value came from, which does not count in a comparison.
"""

from __future__ import annotations

import dataclasses
import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from orihon.errors import InvalidSettings
from orihon.settings.kinds import SERVERS, BrokenEntry, BrokenPattern, FrozenMap, Reach, SettingKind, language
from orihon.settings.remote_sections import (
    ArchiveSettings,
    AuditSettings,
    DatabaseSettings,
    EncryptionSettings,
    QueueSettings,
    TracingSettings,
)
from orihon.settings.rungs import PRICES, Rung
from orihon.settings.runtime_sections import (
    MonitorSettings,
    MultiprocessSettings,
    ProxySettings,
    QuotaSettings,
    RuntimeSettings,
    SearchSettings,
    SourceSettings,
    ToolSettings,
    WebSettings,
)
from orihon.settings.sections import (
    CompressionSettings,
    ContextStorageSettings,
    ImportingSettings,
    InheritanceSettings,
    LLMSettings,
    LoggingSettings,
    MaskingSettings,
    MemorySettings,
    NotificationSettings,
    RetentionSettings,
    Spec,
    section,
    spec,
)
from orihon.texts import LANGUAGES

_DEFAULT = "default"
_FLAG = "flag"
_MASK = "***"
#: What stands before the password of an address, and the password.
_IN_ADDRESS = re.compile(r"(://[^/@\s:]*:)([^/@\s]+)@")
#: A master key that somebody wrote where its source belongs: 32 bytes as hexadecimal digits or as base64.
_MASTER_KEY = re.compile(r"(?<![0-9A-Za-z+/])(?:[0-9A-Fa-f]{64}|[0-9A-Za-z+/]{43}=)(?![0-9A-Za-z+/=])")


class Given(NamedTuple):
    """A value that somebody gave, and where: ``flag``, ``environment NAME`` or the path of a file."""

    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process. Made by ``load_settings``; ``Settings()`` holds the defaults."""

    context_storage: ContextStorageSettings = field(default=ContextStorageSettings(), metadata=section("context"))
    database: DatabaseSettings = field(default=DatabaseSettings(), metadata=section())
    queue: QueueSettings = field(default=QueueSettings(), metadata=section())
    llm: LLMSettings = field(default=LLMSettings(), metadata=section())
    compression: CompressionSettings = field(default=CompressionSettings(), metadata=section("context.compression"))
    memory: MemorySettings = field(default=MemorySettings(), metadata=section())
    inheritance: InheritanceSettings = field(default=InheritanceSettings(), metadata=section("context.inheritance"))
    importing: ImportingSettings = field(default=ImportingSettings(), metadata=section())
    archive: ArchiveSettings = field(default=ArchiveSettings(), metadata=section("context_storage.archive"))
    retention: RetentionSettings = field(default=RetentionSettings(), metadata=section())
    multiprocess: MultiprocessSettings = field(default=MultiprocessSettings(), metadata=section())
    runtime: RuntimeSettings = field(default=RuntimeSettings(), metadata=section())
    tools: ToolSettings = field(default=ToolSettings(), metadata=section())
    mcp_servers: Any = field(
        default=None,
        repr=False,
        metadata=spec(SERVERS, "Servers of tools, as a list or by name; see `runtime.md`. Never shown."),
    )
    sources: SourceSettings = field(default=SourceSettings(), metadata=section())
    notifications: NotificationSettings = field(default=NotificationSettings(), metadata=section())
    audit: AuditSettings = field(default=AuditSettings(), metadata=section())
    encryption: EncryptionSettings = field(default=EncryptionSettings(), metadata=section())
    quotas: QuotaSettings = field(default=QuotaSettings(), metadata=section())
    web: WebSettings = field(default=WebSettings(), metadata=section())
    proxy: ProxySettings = field(default=ProxySettings(), metadata=section())
    monitor: MonitorSettings = field(default=MonitorSettings(), metadata=section())
    search: SearchSettings = field(default=SearchSettings(), metadata=section())
    prices: Mapping[str, Mapping[str, float]] = field(
        default=FrozenMap(),
        metadata=spec(
            PRICES,
            "Prices per million tokens by the beginning of a model's name: `input`, and where they differ "
            "`cached`, `written`, `output`; unset: the built-in table.",
            reach=Reach.GUARD,
        ),
    )
    masking: MaskingSettings = field(default=MaskingSettings(), metadata=section())
    logging: LoggingSettings = field(default=LoggingSettings(), metadata=section())
    tracing: TracingSettings = field(default=TracingSettings(), metadata=section())
    language: str | None = field(
        default=None,
        metadata=spec(
            language(*LANGUAGES),
            "Language of messages for people; unset: the locale decides.",
            env=("ORIHON_LANG",),
        ),
    )
    origins: FrozenMap = field(default=FrozenMap(), repr=False, compare=False)
    #: The configuration file that was read: file tools keep away from it, whatever it says.
    file: Path | None = field(default=None, repr=False, compare=False)

    @property
    def model(self) -> str:
        """The model in use."""
        return self.llm.active.model

    @property
    def context_length(self) -> int:
        """The window of the model in use, in tokens."""
        return self.llm.active.context_length

    @property
    def reserve_output(self) -> int:
        """Tokens of that window kept free for the answer."""
        return self.llm.active.output_reserve(self.context_length)

    def get(self, key: str) -> Any:
        """The value of a dotted key."""
        value: Any = self
        for name in find(key).key.split("."):
            value = getattr(value, name)
        return value

    def origin(self, key: str) -> str:
        """Where the value came from: ``flag``, ``environment NAME``, the path of the file, or ``default``."""
        origin: str = self.origins.get(find(key).key, _DEFAULT)
        return origin

    def is_explicit(self, key: str) -> bool:
        """Somebody set the value, even if to what is the default."""
        return self.origin(key) != _DEFAULT

    def as_dict(self, *, mask_secrets: bool = True) -> dict[str, Any]:
        """Sections as nested dicts of plain JSON values, in the shape that ``load_settings`` reads."""
        result: dict[str, Any] = {}
        for row in schema().values():
            *path, name = row.key.split(".")
            node = result
            for part in path:
                node = node.setdefault(part, {})
            value = self.get(row.key)
            if mask_secrets and row.secret and value is not None:
                node[name] = _MASK
            else:
                node[name] = _without_passwords(_plain(value)) if mask_secrets else _plain(value)
        return result

    def secret_values(self) -> list[str]:
        """The values that are never shown: keys, passwords, those in addresses too."""
        from urllib.parse import unquote

        rows = [(row, self.get(row.key)) for row in schema().values()]
        texts = [(row, value) for row, value in rows if isinstance(value, str)]
        found = [value for row, value in texts if row.secret]
        found += [unquote(match[2]) for _, value in texts for match in _IN_ADDRESS.finditer(value)]
        return found + _MASTER_KEY.findall(" ".join([self.encryption.key or "", *self.encryption.former_keys]))

    def replace(self, **dotted: object) -> Settings:
        """A copy with other values: ``settings.replace(**{"context_storage.backend": "sqlite"})``."""
        return self.take({key: read_flag(key, raw) for key, raw in dotted.items()})

    def take(self, given: Mapping[str, Given]) -> Settings:
        """A copy with values that ``read`` has passed; refused when two of them contradict each other."""
        given = _with_backend(self, given)
        values = {key: one.value for key, one in given.items()}
        origins = FrozenMap({**self.origins, **{key: one.origin for key, one in given.items()}})
        changed: Settings = dataclasses.replace(_changed(self, values, ""), origins=origins)
        _check_order(changed)
        return changed


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    key: str
    default: object
    kind: SettingKind
    doc: str
    spellings: tuple[str, ...]
    env: tuple[str, ...]
    secret: bool
    reach: Reach


@cache
def schema() -> dict[str, Setting]:
    """Every setting by its dotted key."""
    return {row.key: row for row in _rows(Settings(), "", ())}


def leaf(nested: Any, key: str) -> Any:
    """The value of a dotted key in what ``Settings.as_dict`` gives."""
    for name in key.split("."):
        nested = nested[name]
    return nested


@cache
def names() -> dict[str, str]:
    """Every dotted name that a file may use, old spellings too, and the key that it means."""
    rows = schema().values()
    return {name: row.key for row in rows for name in (row.key, *row.spellings)}


@cache
def section_names() -> frozenset[str]:
    """Every dotted name of a section, old spellings too."""
    parts = (name.split(".")[:-1] for name in names())
    return frozenset(".".join(path[: depth + 1]) for path in parts for depth in range(len(path)))


def find(key: str, origin: str = "call") -> Setting:
    """The row of ``key``; an unknown key is refused together with the nearest known one."""
    if key not in schema():
        raise InvalidSettings("unknown_key", key=key, origin=origin, nearest=nearest(key))
    return schema()[key]


def nearest(name: str) -> str:
    """The known key that somebody who wrote ``name`` most likely meant."""
    import difflib

    leaf = name.rpartition(".")[2]
    alike = [known for known in names() if known.rpartition(".")[2] == leaf] or list(names())
    return names()[difflib.get_close_matches(name, alike, n=1, cutoff=0.0)[0]]


def read(row: Setting, raw: object, origin: str, *, written: object = None) -> object:
    """The value that ``raw`` stands for; errors quote it as it was ``written``."""
    if row.default is None and raw in ((None, "") if row.kind.empty_is_unset else (None,)):
        return None
    where = {"key": row.key, "origin": origin}
    if not row.kind.empty_is_unset and isinstance(raw, str) and not raw.strip():
        raise InvalidSettings("empty_secret", **where)
    try:
        return row.kind.read(raw)
    except BrokenPattern as error:
        detail = {"value": error.pattern, "detail": error.detail}
        raise InvalidSettings("broken_pattern", **where, **detail) from error
    except BrokenEntry as error:
        raise InvalidSettings("broken_entry", **where, entry=error.where, allowed=error.allowed) from None
    except ValueError:
        value = _MASK if row.secret else shown(raw if written is None else written)
        detail = {"value": value, "allowed": row.kind.allowed}
        # A traceback with the ValueError in it would show the value, secret or not.
        raise InvalidSettings(f"not_{row.kind.name}", **where, **detail) from None


def read_flag(key: str, raw: object) -> Given:
    """The value that a caller gives for a key."""
    return Given(read(find(key, _FLAG), raw, _FLAG), _FLAG)


_REPR = reprlib.Repr()
_REPR.maxlevel = 2
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def shown(value: object) -> str:
    """``value`` for an error text: short however large or nested it is."""
    try:
        return _REPR.repr(value)
    except ValueError:  # an integer of more digits than Python is willing to print
        return type(value).__name__


def _rows(node: Any, prefix: str, aliases: tuple[str, ...]) -> Iterator[Setting]:
    """The rows under ``node``: keys begin with ``prefix``, old spellings with one of ``aliases``."""
    for entry in dataclasses.fields(node):
        default = getattr(node, entry.name)
        if "section" in entry.metadata:
            others = tuple(f"{name}." for name in entry.metadata["section"])
            yield from _rows(default, f"{prefix}{entry.name}.", others)
        elif "spec" in entry.metadata:
            yield _row(entry, default, prefix, aliases)


def _row(entry: dataclasses.Field[Any], default: object, prefix: str, aliases: tuple[str, ...]) -> Setting:
    about: Spec = entry.metadata["spec"]
    key = f"{prefix}{entry.name}"
    moved = [f"{alias}{entry.name}" for alias in aliases]
    renamed = [name if "." in name else f"{prefix}{name}" for name in about.spellings]
    section_name = prefix.rstrip(".").rpartition(".")[2].upper()
    named = [variable.format(SECTION=section_name) for variable in about.env]
    generic = f"ORIHON_{key.replace('.', '__').upper()}"
    return Setting(
        key=key,
        default=default,
        kind=about.kind,
        doc=about.doc,
        spellings=(*moved, *renamed),
        env=(generic, *named),
        secret=not entry.repr,
        reach=about.reach,
    )


def _changed(node: Any, values: Mapping[str, object], prefix: str) -> Any:
    changes: dict[str, object] = {}
    for entry in dataclasses.fields(node):
        key = f"{prefix}{entry.name}"
        if "section" in entry.metadata:
            changes[entry.name] = _changed(getattr(node, entry.name), values, f"{key}.")
        elif key in values:
            changes[entry.name] = values[key]
    return dataclasses.replace(node, **changes)


def _with_backend(settings: Settings, given: Mapping[str, Given]) -> Mapping[str, Given]:
    """Whoever names a database and no back end wants the messages in it, too."""
    url, backend = given.get("database.url"), "context_storage.backend"
    if url is None or url.value is None or backend in given or settings.is_explicit(backend):
        return given
    return {**given, backend: Given("postgres", url.origin)}


def _check_order(settings: Settings) -> None:
    """Refuse values that would make the work run in circles, each sensible for itself."""
    target, pruning = "memory.target_usage", "memory.pruning_threshold"
    if settings.get(target) > settings.get(pruning):
        raise _wrong_order(settings, target, "≤", pruning)
    beat, lease = "multiprocess.heartbeat_interval", "context_storage.lease_seconds"
    if settings.multiprocess.enabled and settings.get(beat) >= settings.get(lease):
        raise _wrong_order(settings, beat, "<", lease)
    if settings.context_storage.backend == "postgres" and settings.database.url is None:
        raise InvalidSettings("no_database_url", origin=settings.origin("context_storage.backend"))
    provider = f"llm.{settings.llm.provider}"
    if settings.reserve_output >= settings.context_length:
        raise _wrong_order(settings, f"{provider}.reserve_output", "<", f"{provider}.context_length")


def _wrong_order(settings: Settings, low: str, relation: str, high: str) -> InvalidSettings:
    values = {"low_value": settings.get(low), "high_value": settings.get(high)}
    return InvalidSettings("wrong_order", low=low, relation=relation, high=high, **values)


def _without_passwords(value: Any) -> Any:
    """An address is shown, and not the password in it; nor is a master key where its source belongs."""
    if isinstance(value, list):
        return [_without_passwords(part) for part in value]
    return _MASTER_KEY.sub(_MASK, _IN_ADDRESS.sub(rf"\1{_MASK}@", value)) if isinstance(value, str) else value


def _plain(value: object) -> Any:
    if isinstance(value, FrozenMap):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Rung):
        return value.as_plain()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
