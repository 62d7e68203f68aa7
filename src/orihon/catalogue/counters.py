"""Counters of everything that shares a catalogue, by name; they only grow.

Take-overs are counted by the database itself, the rest by processes that add what they have counted from time to time.
A few of them are counted by time, too (``BY_TIME``), ten minutes at a time: for who wants to know how often something
has happened lately, or in a month.

Token buckets of the rate limiter: one for each provider, shared by every process that uses the catalogue.

A bucket fills at a steady rate on the clock of the leases, so no machine's wall clock opens or closes it. It may be
in debt: whoever takes a token that is not there yet has it reserved, and learns how long to wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from orihon.catalogue.tasks_db import Statements, TasksDatabase
from orihon.system.clock import utc_now
from orihon.system.counters import COMPRESSION_FAILURES, COMPRESSION_SECONDS, LOCK_ERRORS

#: What is counted by time, and under which name.
BY_TIME = {
    f"{COMPRESSION_SECONDS}_bucket": "compressions",  # each one is in one bucket
    COMPRESSION_FAILURES: "compression_failures",
    LOCK_ERRORS: "lock_errors",
}
_TIMED = "@"  # before the name of a counter by time; no other begins so
_AFTER_TIMES = "A"
_CHAIN = "audit_chain "
_WIDTH = len("2026-11-15T13:4")
_DAY = len("2026-11-15")


class Counters:
    """What the catalogue does with counters."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to counters; one that is not there yet begins with zero."""

        def action(statements: Statements) -> None:
            add_counts(statements, amounts)

        # Where the answer is lost they may be added twice: figures are not worth a record of their own.
        self._db.change(action, durable=False)

    def all(self) -> dict[str, int]:
        """All of them."""
        return dict(self._db.values("counters"))

    def take_overs(self) -> int:
        """How often a worker has taken a task over from one that was gone, since there is this catalogue."""
        found = self._db.one("counter", name="take_overs")
        return 0 if found is None else int(found["value"])

    def note_chain(self, chain: str) -> None:
        """A chain of the audit was begun: it is missed from now on when it is gone."""
        self._db.change(lambda statements: statements.run("note_chain", name=f"{_CHAIN}{chain}"))

    def noted_chains(self) -> set[str]:
        """Every chain of the audit that was ever begun."""
        return {name.removeprefix(_CHAIN) for name in self.all() if name.startswith(_CHAIN)}

    def counted(self, since: str, until: str | None = None) -> dict[str, int]:
        """What was counted by time between two times as ``utc_now`` writes them, to ten minutes."""
        sums = dict.fromkeys(BY_TIME.values(), 0)
        for day in self.by_day(since, until).values():
            for what, value in day.items():
                sums[what] = sums.get(what, 0) + value
        return sums

    def by_day(self, since: str, until: str | None = None) -> dict[str, dict[str, int]]:
        """The same, for each day on which anything was counted."""
        beyond = _AFTER_TIMES if until is None else f"{_TIMED}{until[:_WIDTH]}"
        days: dict[str, dict[str, int]] = {}
        for name, value in self._db.values("timed_counters", first=f"{_TIMED}{since[:_WIDTH]}", beyond=beyond):
            moment, _, what = name.removeprefix(_TIMED).partition(" ")
            day = days.setdefault(moment[:_DAY], {})
            day[what] = day.get(what, 0) + value
        return days

    def forget(self, before: str) -> int:
        """Take out what was counted by time before that."""
        return self._db.change(
            lambda statements: statements.run("forget_timed_counters", before=f"{_TIMED}{before[:_WIDTH]}")
        )


def add_counts(statements: Statements, amounts: Mapping[str, int]) -> None:
    """Add to counters inside a transaction."""
    added = dict(amounts)
    moment = utc_now()[:_WIDTH]
    for name, amount in amounts.items():
        family = name.partition("{")[0]
        if family in BY_TIME:
            timed = f"{_TIMED}{moment} {BY_TIME[family]}"
            added[timed] = added.get(timed, 0) + amount
    for name in sorted(added):  # in one order, so that two processes do not wait for each other
        statements.run("add_to_counter", name=name, value=added[name])


class RateLimits:
    """What the catalogue counts for rate limits."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def take(self, provider: str, *, per_second: float, burst: int) -> float:
        """Take one permission; seconds until it holds. A bucket that nobody has used is full."""

        def action(statements: Statements) -> float:
            level = float(burst)
            moment = statements.moment()
            statements.run(
                "add_permissions", provider=provider, level=level, counted_at=moment.seconds, boot=moment.era
            )
            found = statements.one("permissions", provider=provider)  # nobody else takes from it now
            moment = statements.moment()
            if found is not None and found["boot"] == moment.era and found["counted_at"] <= moment.seconds:
                level = min(level, found["level"] + (moment.seconds - found["counted_at"]) * per_second)
            statements.run(
                "set_permissions", provider=provider, level=level - 1, counted_at=moment.seconds, boot=moment.era
            )
            return max(0.0, (1 - level) / per_second)

        return self._db.change(action)  # one that is taken twice costs a moment, and no request too many
