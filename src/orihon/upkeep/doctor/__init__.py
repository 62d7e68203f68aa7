"""The doctor: a whole base folder examined, and put right where that loses nothing.

``examine`` only reads. ``repair`` takes hold of each task that it touches, so that it never meets a live owner, keeps
whatever it cuts or replaces in ``aside/``, and looks again afterwards: what it calls done is gone. What a repair
could not save is for a person, and the finding says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from orihon.audit.trail import audit_of
from orihon.catalogue.connect import is_known_beside
from orihon.catalogue.rows import IN_MOVE
from orihon.catalogue.sealed_db import SealedTasks
from orihon.errors import DamagedStore, OrihonError, StorageError, TaskNotFound
from orihon.guard import KEY_COPY, KEY_FILE
from orihon.guard.mask_key import key_trouble
from orihon.search.maintenance import damage_in_index, invalidate_bookmark
from orihon.system import ProgressObserver
from orihon.tasks.base import OpenBase, is_id
from orihon.tasks.proxy_trouble import read_trouble
from orihon.tasks.verify.database import damage_in
from orihon.tasks.verify.findings import Finding, Severity
from orihon.tasks.verify.folder import check_permissions, report_leftovers
from orihon.tasks.verify.verify import damaged_catalogue, found_steadily, verify_folder, verify_placed
from orihon.texts import text
from orihon.upkeep.doctor.rebuild import check_calls
from orihon.upkeep.doctor.repairs import REPAIRS, Operation

logger = logging.getLogger("orihon.doctor")

_Check = Callable[[], list[Finding]]

#: One repair can uncover the next thing to repair; nothing needs more steps than this.
_ROUNDS = 4


def examine(base: OpenBase, progress: ProgressObserver | None = None) -> list[Finding]:
    """Everything that is wrong in a base folder; nothing is changed."""
    found = [finding for check in _checks(base, progress) for finding in check()]
    return [_with_prospect(finding, base) for finding in found]


def repair(base: OpenBase, progress: ProgressObserver | None = None) -> list[Finding]:
    """Put right what can be; returns what was done, what could not be done, and what is for a person."""
    found = [finding for check in _checks(base, progress) for finding in _mended(base, check)]
    if any(finding.repair == "done" for finding in found):
        invalidate_bookmark(base)  # a row that was made anew has the times of its task
        mended = sum(finding.repair == "done" for finding in found)
        audit_of(base.path, base.settings).record("repair", details={"findings": mended})
    return found


def _checks(base: OpenBase, progress: ProgressObserver | None) -> Iterator[_Check]:
    """One look after the other, each at what the repairs before it have left."""
    yield lambda: list(_check_catalogue(base))
    yield lambda: list(_check_base(base))
    uuids = base.uuids()
    for number, uuid in enumerate(uuids, start=1):
        yield partial(found_steadily, base, uuid, partial(_check_task, base, uuid))
        if progress is not None:
            progress(number, len(uuids))
    yield lambda: list(_check_rollups(base))


def _with_prospect(finding: Finding, base: OpenBase) -> Finding:
    can_be = finding.kind in REPAIRS and not base.is_in_use(base.row(finding.task))
    return replace(finding, repair="possible") if can_be else finding


# ---- looking -------------------------------------------------------------------------------------------------------


def _check_catalogue(base: OpenBase) -> Iterator[Finding]:
    if not base.has_catalogue():
        if base.folders.all():
            yield Finding("catalogue", "missing", "tasks.db")
        return
    found: Finding | None = None
    try:
        damage = damage_in(base.database)  # nothing where the catalogue is a server's: that looks after itself
        if damage is not None:
            found = Finding("catalogue", "damaged", "tasks.db", fields={"why": damage})
        catalogue = base.open_catalogue()
        for _ in base.rows():
            pass  # every row can be read
        old = catalogue.database.count_old() if catalogue and isinstance(catalogue.database, SealedTasks) else 0
        if old:
            yield Finding("seal", "old_texts", "tasks.db", severity="warning", fields={"count": old})
    except DamagedStore as error:
        if error.reason == "foreign":
            raise  # somebody else's database is not ours to replace
        found = found or damaged_catalogue(error)
    if found is not None:
        base.close_catalogue()
        yield found


def _check_base(base: OpenBase) -> Iterator[Finding]:
    exposed: list[Finding] = []
    check_permissions("base", base.files(), base.path, exposed.append)
    yield from exposed
    if (trouble := key_trouble(base.path)) is not None:
        severity: Severity = "error" if trouble[1] == "lost" else "warning"
        yield Finding("mask_key", trouble[1], trouble[0], severity=severity, fields={"key": KEY_FILE, "copy": KEY_COPY})
    yield from _check_index(base)
    if (proxied := read_trouble(base.path)) is not None:
        told = {"why": proxied.why, "at": proxied.at, "count": proxied.count}
        yield Finding("proxy", "degraded", "proxy.json", severity="warning", fields=told)
    left: list[Finding] = []
    report_leftovers("base", base.leftovers(in_tasks=False), base.path, left.append)
    yield from left
    for place in base.folders.all():
        if not is_id(place.uuid):
            yield Finding("base", "foreign", f"{place.position}/{ascii(place.uuid)[1:-1]}", severity="warning")


def _check_index(base: OpenBase) -> Iterator[Finding]:
    """What is only derived must not keep us from the tasks."""
    try:
        kind, why = "damaged", damage_in_index(base)
    except OrihonError as error:
        kind, why = "unusable", error.cause
    if why is not None:
        yield Finding("search", kind, "search.db", severity="warning", fields={"why": why})


def _check_task(base: OpenBase, uuid: str) -> list[Finding]:
    row, places = base.row(uuid), base.folders.places(uuid)
    if row is None and not places:
        return []
    in_use = base.is_in_use(row)
    try:
        if base.catalogue is None:
            return [finding for place in places for finding in verify_folder(uuid, None, place, base.settings)]
        is_on_its_way = row is None or (row.requested or "").startswith(IN_MOVE)
        beside = is_on_its_way and is_known_beside(base.path, base.settings, uuid)
        findings = verify_placed(uuid, row, places, base.settings, in_use=in_use, is_known_beside=beside)
    except StorageError as error:
        # What keeps us from one task must not keep us from the others.
        return [Finding("folder", "unreachable", str(places[0]), task=uuid, fields={"why": error.cause})]
    if row is not None and row.lease_owner is not None and not in_use:
        owner = {"owner": row.lease_owner}
        findings.append(Finding("catalogue", "lease", "tasks.db", task=uuid, severity="warning", fields=owner))
    if row is not None and len(places) == 1 and not in_use and not findings:
        findings.extend(check_calls(base, row, places[0]))
    return findings


def _check_rollups(base: OpenBase) -> Iterator[Finding]:
    wrong = [] if base.catalogue is None else base.catalogue.statistics.check_rollups()
    if wrong:
        yield Finding("catalogue", "rollups", "tasks.db", severity="warning", fields={"count": len(wrong)})


# ---- putting right -------------------------------------------------------------------------------------------------


def _mended(base: OpenBase, check: _Check) -> list[Finding]:
    """Repair what a look finds, and look again, until it finds nothing that can be repaired."""
    tried: dict[tuple[str, ...], Finding] = {}
    found = check()
    for _ in range(_ROUNDS):
        possible = [finding for finding in found if finding.kind in REPAIRS]
        outcomes = {_identity(finding): _mend(base, finding) for finding in possible}
        tried |= outcomes
        if not any(outcome.repair == "done" for outcome in outcomes.values()):
            break
        found = check()
    left = {_identity(finding): finding for finding in found}
    done = [outcome for identity, outcome in tried.items() if identity not in left]
    return [*done, *(_unmended(finding, tried.get(identity)) for identity, finding in left.items())]


def _mend(base: OpenBase, finding: Finding) -> Finding:
    try:
        with base.own_if_registered(finding.task) as owned:
            operation = Operation(base, finding, owned)
            before = _aside(operation)
            REPAIRS[finding.kind](operation)
            kept = sorted(_aside(operation) - before)
    except OrihonError as error:
        return replace(finding, repair="failed", note=str(error))
    logger.info("%s: repaired: %s", finding.task or base.path, finding.cause)
    note = text("cli.findings.kept", names=", ".join(f"aside/{name}" for name in kept)) if kept else ""
    return replace(finding, repair="done", note=note)


def _aside(operation: Operation) -> set[str]:
    """The names of what is kept aside where the finding is."""
    with suppress(TaskNotFound, DamagedStore, FileNotFoundError, NotADirectoryError):
        return {path.name for path in (operation.folder / "aside").iterdir()}
    return set()


def _unmended(finding: Finding, tried: Finding | None) -> Finding:
    return finding if tried is None else replace(finding, repair="failed", note=tried.note)


def _identity(finding: Finding) -> tuple[str, ...]:
    return finding.task, finding.check, finding.detail, finding.where
