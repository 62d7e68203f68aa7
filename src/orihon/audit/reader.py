"""Looking at the audit, forgetting a person in it, and removing what is older than it has to be kept."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orihon.audit.record import AuditRecord, BrokenLine, Person, read_line, record_of
from orihon.audit.sink import AuditSink, open_sink
from orihon.audit.trail import audit_of
from orihon.settings import Settings


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records are wanted; what is ``None`` does not matter.

    ``task`` may be the beginning of an id; ``since`` is a time in the form of ``clock.utc_now``.
    """

    task: str | None = None
    user: str | None = None
    action: str | None = None
    since: str | None = None

    def takes(self, fields: Mapping[str, Any], people: Mapping[str, Person]) -> bool:
        return (
            (self.task is None or fields["task"].startswith(self.task))
            and (self.action is None or fields["action"] == self.action)
            and (self.since is None or fields["time"] >= self.since)
            and (self.user is None or ((person := people.get(fields["who"])) is not None and person.user == self.user))
        )


def audit_records(
    base_dir: Path | str, settings: Settings, wanted: AuditFilter | None = None, *, limit: int | None = None
) -> list[AuditRecord]:
    """The records that are wanted, in the order of their times; with ``limit`` the newest so many.

    Lines that are no records are left out: ``verify_audit`` tells of them.
    """
    trail = audit_of(base_dir, settings)
    trail.flush()
    people = {name: person for name, (person, _) in trail.sink.people().items()}
    choice = wanted or AuditFilter()
    found = (fields for fields in _all(trail.sink) if choice.takes(fields, people))
    if limit is None:
        chosen = sorted(found, key=_order)
    else:
        chosen = sorted(heapq.nlargest(limit, found, key=_order), key=_order)
    return [record_of(fields, people) for fields in chosen]


def _order(fields: Mapping[str, Any]) -> tuple[str, str, int]:
    return fields["time"], fields["chain"], fields["number"]


def _all(sink: AuditSink) -> Iterator[dict[str, Any]]:
    for chain in sink.chains():
        for line in sink.lines(chain):
            try:
                yield read_line(line)
            except BrokenLine:
                continue


def forget_person(base_dir: Path | str, settings: Settings, user: str) -> int:
    """Remove a user's name and addresses from the audit; returns how many entries that were.

    The records stay, and the chains can be verified: they then speak of somebody who cannot be named.
    """
    trail = audit_of(base_dir, settings)
    trail.flush()
    names = sorted(name for name, (person, _) in trail.sink.people().items() if person.user == user)
    if names:
        trail.write("forget", details={"names": names})  # first, or a crash would leave nameless records unexplained
        trail.sink.forget(names)
    return len(names)


def remove_old_records(base_dir: Path | str, settings: Settings, *, now: datetime | None = None) -> int:
    """Remove records older than ``audit.keep_days``; returns how many. Each chain keeps its last, and says so."""
    days = settings.audit.keep_days
    sink = open_sink(Path(base_dir).absolute(), settings)
    if days is None or not sink.is_at_home():
        return 0
    oldest = ((now or datetime.now(UTC)) - timedelta(days=days)).isoformat(timespec="microseconds")
    removed = 0
    for chain in sink.chains():
        old, first = _old_records(sink, chain, oldest)
        if first is not None and first["number"] > 1:
            # Also where nothing more goes: the record about what went before may itself be old by now.
            details = {"chain": chain, "first": first["number"], "previous": first["previous"]}
            audit_of(base_dir, settings).write("prune", details=details)
        if first is not None and old:
            sink.drop(chain, first["number"])
            removed += old
    return removed


def _old_records(sink: AuditSink, chain: str, oldest: str) -> tuple[int, dict[str, Any] | None]:
    """How many records are to be removed, and the first that stays: it is young enough, or the last of all.

    A chain that is not sound stays whole: what was done to it has to be seen first.
    """
    fields: dict[str, Any] | None = None
    count = 0
    for line in sink.lines(chain):
        count += 1
        try:
            fields = read_line(line)
        except BrokenLine:
            return 0, None
        if fields["time"] >= oldest:
            break
    return max(0, count - 1), fields
