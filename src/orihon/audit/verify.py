"""Does every record stand as it was written? ``verify_audit``.

Goes through each chain once, a line at a time: hashes, numbers, links, the head that is noted beside the chain, anchors
from outside, the chains that the catalogue knows, and whether each person who is missing was forgotten on the record.
Changes nothing. What it cannot find is a tail that was cut off, or written anew, after the last anchor, by somebody who
also made the noted head fit; or a chain that was taken out of the catalogue, too. Without anchors it cannot tell
whether what was removed on the record was old enough for that.

Looking at the audit, forgetting a person in it, and removing what is older than it has to be kept.

``attestations``: what the audit says that a task's streams held, for whoever compares. What was removed on the record
(``delete``, ``erase``) is not attested any more; what was redacted since is, but for what redacted records say now.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orihon.audit.anchors import Anchored, known_chains, read_anchors
from orihon.audit.record import BEGUN, GENESIS, AuditRecord, BrokenLine, Head, Person, name_with, read_line, record_of
from orihon.audit.sink import AuditSink, open_sink, slot_of
from orihon.audit.trail import audit_of
from orihon.settings import Settings
from orihon.system.json_shapes import AsJson
from orihon.texts import text

# So long after its record an anchor is made at most, but for what could not be reached.
_ANCHORED_WITHIN = timedelta(hours=1)
_FIELDS = frozenset(
    ("action", "chain", "details", "hash", "host", "number", "previous", "process", "result", "task", "time", "who")
)


@dataclass(frozen=True, slots=True)
class AuditFinding(AsJson):
    """Something that cannot be; ``number`` is 0 where it is about the whole chain."""

    json_fields = "* message"

    kind: str
    chain: str
    number: int = 0

    @property
    def message(self) -> str:
        return text(f"audit.findings.{self.kind}", chain=self.chain, number=self.number)

    def __str__(self) -> str:
        return self.message


@dataclass(slots=True)
class AuditReport(AsJson):
    """What was looked at, and what was found."""

    json_fields = "sound=is_sound *"

    chains: int = 0
    records: int = 0
    anchors: int = 0
    forgotten: int = 0
    removed: int = 0  # records that were removed on the record
    heads: list[Head] = field(default_factory=list)
    findings: list[AuditFinding] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.findings


def verify_audit(
    base_dir: Path | str, settings: Settings, *, anchors: Iterable[Path | str] | None = None
) -> AuditReport:
    """Prove the chains of a store. ``anchors`` are files of anchors; unless told, the one that the settings name."""
    files = [Path(path) for path in anchors] if anchors is not None else []
    own = settings.audit.anchor_file
    if anchors is None and own is not None and own.exists():
        files = [own]
    known = [anchored for path in files for anchored in read_anchors(path)]
    base = Path(base_dir).absolute()
    begun = known_chains(base, settings)  # before the chains: one may be begun meanwhile
    return _Verification(open_sink(base, settings), known, begun, settings.audit.keep_days).report()


class _Verification:
    """One look at everything."""

    def __init__(self, sink: AuditSink, anchors: list[Anchored], begun: set[str], keep_days: int | None) -> None:
        self._sink = sink
        self._begun = begun
        self._report = AuditReport(anchors=len(anchors))
        self._anchors: dict[str, dict[int, set[str]]] = {}
        self._anchored_at: dict[str, dict[int, str]] = {}
        for head, time in anchors:
            self._anchors.setdefault(head.chain, {}).setdefault(head.number, set()).add(head.hash)
            self._anchored_at.setdefault(head.chain, {})[head.number] = time
        self._keep_days = keep_days
        self._people = sink.people()
        self._seen: set[str] = set()
        self._forgotten: set[str] = set()
        self._starts: dict[str, tuple[int, str]] = {}  # of chains that do not begin with their first record
        self._removed: dict[tuple[str, int, str], str] = {}  # what was removed on the record, and when

    def report(self) -> AuditReport:
        names = self._sink.chains()
        for name in names:
            self._check(name)
        for slot in set(range(1, max(map(slot_of, names), default=0))) - set(map(slot_of, names)):
            self._found("missing_chain", str(slot))
        for name in sorted({*self._anchors, *self._begun} - set(names)):
            self._found("missing_chain", name)
        for name, (number, previous) in self._starts.items():
            removed_at = self._removed.get((name, number, previous))
            if removed_at is None:
                self._found("head_cut", name, number)
            else:
                self._report.removed += number - 1
                self._check_removed(name, number, removed_at)
        self._check_people()
        self._report.chains = len(names)
        return self._report

    def _found(self, kind: str, chain: str, number: int = 0) -> None:
        self._report.findings.append(AuditFinding(kind, chain, number))

    def _check(self, name: str) -> None:
        # Before the records: what is written meanwhile must not look like a difference.
        noted = self._sink.head(name)
        wanted = dict(self._anchors.get(name, {}))
        if noted is not None and noted.number:
            wanted[noted.number] = wanted.get(noted.number, set()) | {noted.hash}
        number, last, is_first = 0, GENESIS, True
        for line in self._sink.lines(name):
            try:
                fields = read_line(line)
                if fields.keys() != _FIELDS or fields["chain"] != name:
                    raise BrokenLine
            except BrokenLine:
                self._found("changed", name, number + 1)
                number, last = number + 1, ""  # the next one cannot be checked against it
                is_first = False
                continue
            if is_first and fields["number"] != 1:
                self._starts[name] = fields["number"], fields["previous"]
            elif fields["number"] != number + 1:
                self._found("missing_records" if fields["number"] > number else "moved", name, number + 1)
            elif last and fields["previous"] != last:
                self._found("unlinked", name, fields["number"])
            number, last, is_first = fields["number"], fields["hash"], False
            self._note(fields, wanted)
            self._report.records += 1
        for missing in sorted(wanted):
            if missing > number or (missing and not self._is_removed_later(name, missing)):
                self._found("cut" if missing > number else "unanchored", name, missing)
        self._report.heads.append(Head(name, number, last))

    def _is_removed_later(self, chain: str, number: int) -> bool:
        """An anchor of a record that is not there: removed on the record, or gone and found as that already."""
        start = self._starts.get(chain)
        return start is not None and number < start[0]

    def _check_removed(self, chain: str, first: int, removed_at: str) -> None:
        """Whoever may write to the store can put a removal on the record: anchors say how old it was that went."""
        times = {number: time for number, time in self._anchored_at.get(chain, {}).items() if number < first}
        if self._keep_days is None:
            young = max(times, default=0)
        else:
            # A time to come would make everything old.
            then = min(datetime.fromisoformat(removed_at), datetime.now(UTC))
            kept = (then - timedelta(days=self._keep_days) + _ANCHORED_WITHIN).isoformat(timespec="microseconds")
            young = max((number for number, time in times.items() if time >= kept), default=0)
        if young:
            self._found("removed_young", chain, young)

    def _note(self, fields: Mapping[str, Any], wanted: dict[int, set[str]]) -> None:
        """What a sound record says about others."""
        hashes = wanted.pop(fields["number"], None)
        if hashes is not None and hashes != {fields["hash"]}:
            self._found("rewritten", fields["chain"], fields["number"])
        self._seen.add(fields["who"])
        action, details = fields["action"], fields["details"]
        if action == "forget":
            self._forgotten.update(details.get("names", ()))
        elif action == "prune":
            removed = (details.get("chain", ""), details.get("first", 0), details.get("previous", ""))
            self._removed[removed] = min(self._removed.get(removed, fields["time"]), fields["time"])
        elif action == "cut":
            self._found("cut", details.get("chain", ""), details.get("number", 0))

    def _check_people(self) -> None:
        for name, (person, salt) in sorted(self._people.items()):
            if name_with(person, salt) != name:
                self._found("person_changed", name)
        # Somebody may have come after the table was read.
        missing = self._seen - set(self._people)
        for name in sorted(missing - self._forgotten - (set(self._sink.people()) if missing else set())):
            self._found("person_missing", name)
        self._report.forgotten = len(missing & self._forgotten)


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


@dataclass(frozen=True, slots=True)
class Attestation:
    """What a record attests: the heads of a task's streams at a time; ``chain`` and ``number`` say which record."""

    time: str
    chain: str
    number: int
    heads: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attested:
    """All that is attested of a task, oldest first, and how many records about it are not what was written.

    ``redacted_at``: when something was last begun to be taken out of it; empty where that never was.
    """

    attestations: tuple[Attestation, ...] = ()
    broken: int = 0
    redacted_at: str = ""


def attestations(base_dir: Path | str, settings: Settings, task: str) -> Attested:
    """What the audit attests of a task."""
    trail = audit_of(base_dir, settings)
    trail.flush()
    found: list[Attestation] = []
    broken, gone, redacted = 0, "", ""
    for chain in trail.sink.chains():
        for line in trail.sink.lines_about(chain, task):
            try:
                fields = read_line(line)
            except BrokenLine:
                broken += 1
                continue
            if fields.get("task") != task:
                continue
            if fields["action"] == "attest":
                found.append(Attestation(fields["time"], chain, fields["number"], fields["details"]))
            elif fields["action"] in ("delete", "erase"):
                gone = max(gone, fields["time"])
            elif fields["action"] in ("redact", "anonymize") and fields["result"] == BEGUN:
                redacted = max(redacted, fields["time"])
    kept = sorted((one for one in found if one.time > gone), key=lambda one: (one.time, one.chain, one.number))
    return Attested(tuple(kept), broken, redacted)


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
