"""``UsageSums``: what the calls of a log have used, summed up message by message in the log's order.

One place decides what counts: whoever reads a log again and whoever has just written it come to the same rows. Where a
provider has reported no tokens, our estimates of request and answer count; what folding saved is the difference between
log and view when a call was made. Holds sums and never messages.
"""

from __future__ import annotations

from orihon.catalogue import UsageRow
from orihon.catalogue.usage import Purpose
from orihon.values.records import ModelCall, Usage

_DAY = len("2026-01-01")


class UsageSums:
    """The rows of one task on their way."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._log = 0  # tokens, by our estimates
        self._view = 0
        # By day, model, purpose and whether the cost is known: calls, input, cached, output, saved; then the cost.
        self._sums: dict[tuple[str, str, str, bool], tuple[list[int], list[float]]] = {}

    def said(self, timestamp: str, tokens: int, call: ModelCall | None) -> None:
        """The next message of the log, with the call that it is the answer of."""
        if call is not None:
            used = call.usage or Usage(self._view, 0, tokens)
            self._add(call, used, timestamp, "answer", max(self._log - self._view, 0))
        self._log += tokens
        self._view += tokens

    def view_changed(self, tokens: int) -> None:
        """The view was folded or unfolded, and has so many tokens now."""
        self._view = tokens

    def summarised(self, call: ModelCall, made_at: str) -> None:
        """A call beside the conversation."""
        self._add(call, call.usage or Usage(), made_at, "summary", 0)

    def rows(self) -> list[UsageRow]:
        """What there is so far, by day, model and purpose."""
        rows = []
        for (day, model, purpose, is_priced), (counts, cost) in sorted(self._sums.items()):
            calls, sent, cached, output, saved = counts
            paid = cost[0] if is_priced else None
            rows.append(UsageRow(self._uuid, day, model, calls, sent, cached, output, saved, paid, purpose))
        return rows

    def _add(self, call: ModelCall, used: Usage, at: str, purpose: Purpose, saved: int) -> None:
        key = (at[:_DAY], call.model, purpose, call.cost is not None)
        counts, cost = self._sums.setdefault(key, ([0, 0, 0, 0, 0], [0.0]))
        for place, more in enumerate((1, used.input, used.cached, used.output, saved)):
            counts[place] += more
        cost[0] += call.cost or 0.0
