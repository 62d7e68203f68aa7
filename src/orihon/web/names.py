"""Words of the records in the reader's language: why and how a view was changed, by whom, and who said a message.

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
    "role_name": role_name,
    "strategy_name": strategy_name,
    "level_name": level_name,
    "reason_name": reason_name,
    "maker_name": maker_name,
    "how_name": how_name,
    "how_recorded": how_recorded,
}
