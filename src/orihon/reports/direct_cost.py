"""What the requests of a proxied conversation would have cost without the proxy, as an estimate.

Each answer's record has the tokens of the client's own request. Sent as it was, the provider would have had the whole
request before it in its cache, of the same model; a request beyond the window could not have been made and is counted
as one that just fits. As long as nothing was folded, direct is what it was. Both sides are at the same prices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from orihon.store.reader import TaskReader
from orihon.system import jsonio
from orihon.values.records import ModelCall
from orihon.values.tokens.prices import Prices

#: Messages that are looked at; of more, the newest.
_MOST_MESSAGES = 20_000
_HAS_CALL = b'"call":{'


@dataclass(slots=True)
class DirectCosts:
    """The requests whose own size is known, added up; money is in the currency of the prices."""

    window: int | None
    costs: dict[int, float] = field(default_factory=dict)  # direct, by the number of the answer
    ours: float = 0.0
    beyond: int = 0  # requests that could not have been made
    _before: dict[str, tuple[int, bool]] = field(default_factory=dict)

    @property
    def direct(self) -> float:
        return sum(self.costs.values())

    @property
    def ratio(self) -> float | None:
        """What it cost, of what it would have cost."""
        return self.ours / self.direct if self.direct else None

    def add(self, seq: int, call: ModelCall, prices: Prices) -> None:
        """The next answer of the conversation."""
        used, direct = call.usage, call.direct
        if used is None or direct is None:
            return
        before, was_whole = self._before.get(call.model, (0, True))
        whole = direct if self.window is None else min(direct, max(self.window, used.input))
        is_whole = was_whole and direct == used.input
        cached = used.cached if is_whole else min(before, whole)
        self._before[call.model] = whole, is_whole
        self.beyond += whole < direct
        self.costs[seq] = prices.of_tokens(whole, cached, used.output)
        self.ours += prices.of_tokens(used.input, used.cached, used.output)


def direct_costs(store: TaskReader, window: int | None, prices: Callable[[str], Prices | None]) -> DirectCosts:
    """The requests of a task; those of models without a price are left out."""
    found = DirectCosts(window)
    last = store.count("messages")
    first = max(1, last - _MOST_MESSAGES + 1)
    if last < first:
        return found
    for seq, line in enumerate(store.records.read("messages", (first, last)), start=first):
        made = jsonio.decode(line).get("call") if _HAS_CALL in line else None
        if made is not None:
            call = ModelCall.from_record(made)
            known = prices(call.model)
            if known is not None:
                found.add(seq, call, known)
    return found
