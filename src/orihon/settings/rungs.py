"""A rung of the ladder: when the view is compressed and by which strategies. Data only, as configuration files have it.

Owns the names and bounds of a rung's fields. ``compression.ladder`` gives the ladders their meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orihon.settings.kinds import FLAG, BrokenEntry, FrozenMap, Reach, SettingKind, choice, number, parsed, whole

STRATEGIES = ("summarize", "prune", "offload", "sections")
EVENTS = ("approval", "phase_end", "iteration_end")
LEVELS = ("light", "standard", "aggressive")
PRICE_NAMES = ("input", "cached", "written", "output")
MOST_PRICE = 1_000_000  # for a million tokens, in any currency; sums of more would end in infinity

#: Whose words in an issue may be the user's.
SPEAKER_KINDS = ("body", "owner", "member", "collaborator", "contributor", "author", "assignee", "folder", "anyone")
_ROLE_NAMES = ("user", "assistant", "system", "developer")
_SHOWN = 40  # characters of a name that nobody knows


@dataclass(frozen=True, slots=True)
class Rung:
    """At this usage, this number of entries or this event, do that. Without strategies it only says so."""

    usage: float | None = None  # above this share
    messages: int | None = None  # above this number of entries
    event: str | None = None
    strategies: tuple[str, ...] = ()  # tried in this order until the target is reached
    level: str = "standard"  # of ``sections``
    target: float | None = None  # share to come down to; unset: the preset's
    model: bool = True  # whether a model may write the summaries
    economical: bool = False  # only when that saves more than the prompt cache it breaks
    including: bool = False  # at the usage already, not only above it

    def as_plain(self) -> dict[str, object]:
        """The fields that differ from their defaults, as a configuration file would have them."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        changed = {name: value for name, value in fields.items() if value != getattr(_DEFAULTS, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


_DEFAULTS = Rung()
_WHEN = ("usage", "messages", "event")


def _list_of(item: SettingKind) -> SettingKind:
    """A list whose wrong entries are named by their numbers."""

    def read(raw: object) -> tuple[object, ...]:
        items = parsed(raw)
        if not isinstance(items, list | tuple):
            raise ValueError(raw)
        return tuple(_read(item, one, f"[{place}]") for place, one in enumerate(items))

    return SettingKind(item.name, read, f"[{item.allowed}]")


def _read(kind: SettingKind, raw: object, where: str) -> object:
    try:
        return kind.read(raw)
    except BrokenEntry as error:
        raise BrokenEntry(f"{where}{error.where}", error.allowed) from None
    except ValueError:
        raise BrokenEntry(where, kind.allowed) from None


_FIELDS: Mapping[str, SettingKind] = {
    "usage": number(above=0, high=1),
    "messages": whole(1),
    "event": choice(*EVENTS),
    "strategies": _list_of(choice(*STRATEGIES)),
    "level": choice(*LEVELS),
    "target": number(above=0, high=1),
    "model": FLAG,
    "economical": FLAG,
    "including": FLAG,
}
_QUOTAS: Mapping[str, SettingKind] = dict.fromkeys(("tasks", "tokens_per_day", "bytes"), whole(1))
_PRICES: Mapping[str, SettingKind] = dict.fromkeys(PRICE_NAMES, number(high=MOST_PRICE))


def _read_fields(raw: object, where: str, kinds: Mapping[str, SettingKind]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise BrokenEntry(where, f"{{{', '.join(kinds)}}}")
    found = {}
    for name, value in raw.items():
        if name not in kinds:
            raise BrokenEntry(f"{where}.{_short(name)}", ", ".join(kinds))
        found[name] = _read(kinds[name], value, f"{where}.{name}")
    return found


def _short(name: object) -> str:
    shown = str(name)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _ladder(raw: object) -> tuple[Rung, ...]:
    rungs = parsed(raw)
    if not isinstance(rungs, list | tuple) or not rungs:
        raise ValueError(raw)
    return tuple(_rung(rung, f"[{place}]") for place, rung in enumerate(rungs))


def _rung(raw: object, where: str) -> Rung:
    fields = _read_fields(raw.as_plain() if isinstance(raw, Rung) else raw, where, _FIELDS)
    if sum(name in fields for name in _WHEN) != 1:
        raise BrokenEntry(where, " | ".join(_WHEN))
    rung = dataclasses.replace(_DEFAULTS, **fields)
    if rung.usage is not None and rung.target is not None and rung.target >= rung.usage:
        # It would be reached again as soon as it is left.
        raise BrokenEntry(f"{where}.target", f"0 < x < {rung.usage:g}")
    return rung


def _prices(raw: object) -> FrozenMap:
    table = parsed(raw)
    if not isinstance(table, Mapping) or not all(isinstance(name, str) and name.strip() for name in table):
        raise ValueError(raw)
    return FrozenMap({name: _price_row(row, f"[{_short(name)}]") for name, row in table.items()})


def _price_row(raw: object, where: str) -> FrozenMap:
    row = _read_fields(raw, where, _PRICES)
    if "input" not in row:
        raise BrokenEntry(where, f"{{input: x, …}}, {_PRICES['input'].allowed}")
    return FrozenMap(row)


def _quotas(raw: object) -> FrozenMap:
    table = parsed(raw)
    if not isinstance(table, Mapping) or not all(isinstance(name, str) and name for name in table):
        raise ValueError(raw)
    return FrozenMap({name: FrozenMap(_read_fields(row, f"[{_short(name)}]", _QUOTAS)) for name, row in table.items()})


LADDER = SettingKind("ladder", _ladder)
PRICES = SettingKind("prices", _prices)
QUOTAS = SettingKind("quotas", _quotas)
SPEAKERS = SettingKind("speakers", _list_of(choice(*SPEAKER_KINDS)).read, ", ".join(SPEAKER_KINDS), reach=Reach.GUARD)
ROLES = SettingKind("roles", _list_of(choice(*_ROLE_NAMES)).read, ", ".join(_ROLE_NAMES))
