"""What calls of models have cost, over all tasks: by task, user, repository, model or day.

Read from the catalogue's usage in one query; its cost follows the number of days on which tasks made calls. A cost that
somebody else has reported with a call wins over our prices. A model that nobody has named a price for is counted and
named as unpriced, never taken for free. What folding saved is an estimate: for each call, the tokens that the log had
more than the view that was sent, at the average price that the input of such calls came to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, get_args

from orihon.catalogue import Catalogue, UsageSum
from orihon.catalogue.usage import FIRST_DAY, LAST_DAY, UsageGroup
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.system.clock import as_utc
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase, opened_base
from orihon.values.tokens.prices import PriceList, Prices

GROUPS: tuple[str, ...] = get_args(UsageGroup)

#: Behind everything that costs something or nothing.
_NO_COST = -1.0
_DAY = len("2026-01-01")
_TAKEN_OVER = ("calls", "input_tokens", "cached_tokens", "output_tokens", "saved_tokens")
_FIGURES = (
    *_TAKEN_OVER,
    *("cost", "reported_cost", "summary_calls", "summary_cost", "unpriced_calls", "saved_cost"),
)


@dataclass(frozen=True, slots=True)
class CostLine(AsJson):
    """The calls of one task, user, repository, model or day. Money is in the currency of ``prices``."""

    json_fields = "* net_saved_cost"

    name: str  # empty: of tasks that have none
    label: str  # for people: what a task is about
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0  # among the input
    output_tokens: int = 0
    cost: float | None = None  # of the calls that have a price; None where none has
    reported_cost: float = 0.0  # what of that somebody else has counted
    summary_calls: int = 0
    summary_cost: float = 0.0  # what of the cost went into summaries
    unpriced_calls: int = 0
    unpriced_models: tuple[str, ...] = ()
    saved_tokens: int = 0  # that folding has kept from being sent
    saved_cost: float = 0.0  # what those would have cost, of models that have a price

    @property
    def net_saved_cost(self) -> float:
        """What folding saved, less what the summaries cost."""
        return self.saved_cost - self.summary_cost


@dataclass(frozen=True, slots=True)
class CostReport(AsJson):
    """Costs, the dearest first; days in their order."""

    by: str
    since: str | None
    until: str | None
    lines: tuple[CostLine, ...]
    total: CostLine
    left_out: int = 0  # lines beyond the limit; they are in the total


def cost_report(
    base_dir: OpenBase | Path | str | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    by: str = "task",
    since: date | str | None = None,
    until: date | str | None = None,
    *,
    limit: int | None = None,
    user: str | None = None,
) -> CostReport:
    """What calls have cost from the day ``since`` to the day ``until`` (UTC), both of them included.

    ``by`` is ``task``, ``user``, ``repository``, ``model`` or ``day``; ``limit`` cuts the lines off.
    ``user``: the calls of that user's tasks alone.
    """
    if by not in GROUPS:
        raise InvalidInput("cost_group", value=by, known=", ".join(GROUPS))
    first, last = _day(since), _day(until)
    if first is not None and last is not None and last < first:
        raise InvalidInput("days_backwards", since=first, until=last)
    base = opened_base(base_dir, settings)
    catalogue = base.open_catalogue()
    if catalogue is None:
        return CostReport(by, first, last, (), CostLine("", ""))
    days, prices = (first or FIRST_DAY, last or LAST_DAY), PriceList(base.settings)
    sums = catalogue.usage.sums(by, *days, user=user)  # type: ignore[arg-type] # checked above
    names = _ordered(sums, prices, is_by_day=by == "day")
    shown = names if limit is None else names[:limit]
    lines = _lines(sums, prices, shown)
    total = _total(catalogue.usage.sums("day", *days, user=user) if by == "task" else sums, prices)
    named = tuple(_labelled(line, catalogue) for line in lines) if by == "task" else tuple(lines)
    return CostReport(by, first, last, named, total, len(names) - len(named))


def costs_of_task(catalogue: Catalogue, settings: Settings, uuid: str) -> CostLine:
    """What one task's own calls have cost; a task that it has started is counted for itself."""
    provider = (catalogue.tasks.get(uuid).llm_provider or "").lower()
    sums = [
        UsageSum(
            uuid,
            row.model,
            provider,
            row.purpose,
            row.calls,
            row.input_tokens,
            row.cached_tokens,
            row.output_tokens,
            row.saved_tokens,
            row.cost,
        )
        for row in catalogue.usage.of_task(uuid)
    ]
    return replace(_total(sums, PriceList(settings)), name=uuid)


def costs_of_tasks(catalogue: Catalogue, settings: Settings, uuids: Sequence[str]) -> dict[str, CostLine]:
    """What the calls of each of these tasks have cost; those without calls have no line."""
    sums = catalogue.usage.of_tasks(uuids)
    return {line.name: line for line in _lines(sums, PriceList(settings), dict.fromkeys(one.name for one in sums))}


def _ordered(sums: Iterable[UsageSum], prices: PriceList, *, is_by_day: bool) -> list[str]:
    """The names of the lines in their order. Adds up no more than that needs: there may be a line for each task."""
    costs: dict[str, float] = {}
    tokens: dict[str, int] = {}
    for one in sums:
        cost = _cost(one, prices.of(one.provider, one.model))
        known = costs.get(one.name, _NO_COST)
        costs[one.name] = known if cost is None else max(known, 0.0) + cost
        tokens[one.name] = tokens.get(one.name, 0) + one.input_tokens + one.output_tokens
    if is_by_day:
        return sorted(costs)
    return sorted(costs, key=lambda name: (-costs[name], -tokens[name], name))


def _lines(sums: Iterable[UsageSum], prices: PriceList, names: Iterable[str]) -> list[CostLine]:
    lines = {name: _Line() for name in names}
    for one in sums:
        line = lines.get(one.name)
        if line is not None:
            line.add(one, prices.of(one.provider, one.model))
    return [line.settled(name) for name, line in lines.items()]


def _total(sums: Iterable[UsageSum], prices: PriceList) -> CostLine:
    total = _Line()
    for one in sums:
        total.add(one, prices.of(one.provider, one.model))
    return total.settled("")


class _Line:
    """A line while it is added up."""

    __slots__ = ("_has_price", "_statistics", "_unpriced")

    def __init__(self) -> None:
        self._statistics: dict[str, float] = dict.fromkeys(_FIGURES, 0)
        self._has_price = False
        self._unpriced: set[str] = set()

    def add(self, one: UsageSum, price: Prices | None) -> None:
        figures, cost = self._statistics, _cost(one, price)
        for name in _TAKEN_OVER:
            figures[name] += getattr(one, name)
        figures["reported_cost"] += one.cost or 0.0
        figures["saved_cost"] += _saved_cost(one, price)
        if one.purpose == "summary":
            figures["summary_calls"] += one.calls
            figures["summary_cost"] += cost or 0.0
        if cost is None:
            figures["unpriced_calls"] += one.calls
            self._unpriced.add(one.model)
        else:
            figures["cost"] += cost
            self._has_price = True

    def settled(self, name: str) -> CostLine:
        figures: dict[str, Any] = self._statistics | {"cost": self._statistics["cost"] if self._has_price else None}
        return CostLine(name, name, unpriced_models=tuple(sorted(self._unpriced)), **figures)


def _cost(one: UsageSum, price: Prices | None) -> float | None:
    if one.cost is not None:
        return one.cost
    if price is None:
        return None if one.input_tokens or one.output_tokens else 0.0
    return price.of_tokens(one.input_tokens, one.cached_tokens, one.output_tokens)


def _saved_cost(one: UsageSum, price: Prices | None) -> float:
    """What was not sent would have been paid for as what was sent, by the same share from the cache."""
    if price is None or not one.saved_tokens:
        return 0.0
    if not one.input_tokens:
        return price.of_tokens(one.saved_tokens, one.saved_tokens, 0)
    return price.of_tokens(one.input_tokens, one.cached_tokens, 0) * one.saved_tokens / one.input_tokens


def _labelled(line: CostLine, catalogue: Catalogue) -> CostLine:
    row = catalogue.tasks.find(line.name)
    return line if row is None else replace(line, label=row.key.label)


def _day(given: date | str | None) -> str | None:
    """A day as the catalogue writes it; a time is taken for its day in UTC."""
    if given is None:
        return None
    try:
        return as_utc(given.isoformat() if isinstance(given, date) else given.strip())[:_DAY]
    except (ValueError, OverflowError) as error:
        raise InvalidInput("not_a_day", value=str(given)) from error
