"""How values look on a page: the filters of the templates, and words of the records in the reader's language.

What has no name here comes from outside and is left as it is: a reason that a program gave, the format of an import.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

from orihon.settings.rungs import LEVELS, STRATEGIES
from orihon.texts import text
from orihon.transfer.export.about import role_name as exported_role
from orihon.values.records import REWIND, Compression, CompressionKind

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_THOUSAND = 1000
_BYTES_STEP = 1024


def plain(value: object) -> str:
    """A text from outside: what could not be seen, or would turn the line round, is made visible."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], str(value))


def count(value: float | None) -> str:
    """A number with its thousands apart."""
    return "–" if value is None else f"{value:,.0f}"


def short_count(value: float | None) -> str:
    """A number as people say it: ``4.2 k``."""
    if value is None:
        return "–"
    for unit in ("", "k", "M", "G"):
        if abs(value) < _THOUSAND:
            return f"{value:,.0f}{unit}" if not unit or abs(value) >= 100 else f"{value:,.1f}{unit}"
        value /= _THOUSAND
    return f"{value:,.1f}T"


def size(value: float | None) -> str:
    """A number of bytes."""
    if value is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB"):
        if value < _BYTES_STEP:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= _BYTES_STEP
    return f"{value:,.1f} TB"


def money(value: float | None) -> str:
    """Dollars; small amounts to the hundredth of a cent."""
    if value is None:
        return "–"
    return f"${value:,.4f}" if 0 < value < 1 else f"${value:,.2f}"


def percent(value: float | None) -> str:
    """A share of 1."""
    return "–" if value is None else f"{100 * value:,.0f} %"


def moment(value: str | None) -> str:
    """A time of the records, in UTC; scripts put the reader's own time in its place."""
    return "–" if not value else value[:19].replace("T", " ")


# ---- words of the records --------------------------------------------------------------------------------------------

_BETWEEN = " · "
_KINDS: tuple[str, ...] = get_args(CompressionKind)
_REASONS = (
    *("model", "extractive", "shortened", "notice", "offload", REWIND, "import"),
    *("importance", "window", "session", "topic"),
)
#: As ``checkpoints`` writes it: who has answered, and when.
_ANSWERED = re.compile(r"approval:(.+):\d{4}-\d\d-\d\dT[\d:.+-]+", re.DOTALL)


def role_name(role: str) -> str:
    """Who said a message."""
    return exported_role(role) if role.isidentifier() else role


def trigger_name(trigger: str) -> str:
    """Why a view was changed."""
    return _named("web.names.triggers", trigger)


def strategy_name(strategy: str) -> str:
    """How; several strategies that were tried one after another are named one by one."""
    return " + ".join(_named("web.actions.strategies", one) for one in strategy.split("+"))


def level_name(level: str) -> str:
    """How strongly."""
    return _named("web.actions.levels", level)


def reason_name(reason: str) -> str:
    """Why a fold reads as it does, where the compression has said so by a word of its own."""
    strategy, mark, level = reason.partition(":")
    if mark and strategy == "sections" and (known := level_name(level)) != level:
        return _BETWEEN.join((strategy_name(strategy), known))
    return _named("web.names.reasons", reason)


def maker_name(maker: str) -> str:
    """Who changed a view: a part of the program, or a person and the way that they came."""
    way, mark, who = maker.partition(":")
    if mark and way == "web":
        return text("web.names.on_the_page", user=who)
    if (answered := _ANSWERED.fullmatch(maker)) is not None:
        return text("web.names.by_an_answer", user=answered[1])
    return _named("web.names.makers", maker)


def how_name(record: Compression) -> str:
    """Why, how and how strongly, in one line."""
    said = (trigger_name(record.trigger), strategy_name(record.strategy), level_name(record.level))
    return _BETWEEN.join(filter(None, said))


def how_recorded(record: Compression) -> str:
    """The same in the words of the record."""
    return _BETWEEN.join(filter(None, (record.trigger, record.strategy, record.level)))


def timeline_names() -> dict[str, dict[str, str]]:
    """The words that the timeline's script finds in what programs are told, by field."""
    strategies = {one: strategy_name(one) for one in (*STRATEGIES, "shorten", REWIND, "import")}
    reasons = (*_REASONS, *(f"sections:{level}" for level in LEVELS))
    return {
        "kind": {one: text(f"web.names.kinds.{one}") for one in _KINDS},
        "strategy": strategies | {one: level_name(one) for one in LEVELS},
        "reason": {one: reason_name(one) for one in reasons},
    }


def _named(table: str, word: str) -> str:
    if not word.isidentifier():  # a dot would lead elsewhere in the texts
        return word
    try:
        return text(f"{table}.{word}")
    except KeyError:
        return word


FILTERS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    "count": count,
    "short_count": short_count,
    "size": size,
    "money": money,
    "percent": percent,
    "moment": moment,
    "role_name": role_name,
    "strategy_name": strategy_name,
    "level_name": level_name,
    "reason_name": reason_name,
    "maker_name": maker_name,
    "how_name": how_name,
    "how_recorded": how_recorded,
}
