"""The prover: derives everything about a task again and says what differs.

``verify_task`` looks at the log and what is made of it; ``verify`` also compares with the catalogue and with what the
audit attests, without which a log that was rewritten with digests that fit would be as good as any. Both only read,
with bounded memory, also while a writer is at work. Damage that has a name becomes a ``Finding``; only what keeps
them from looking (no permission, a newer format) raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from orihon.audit.verify import Attested, attestations
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import is_known_beside
from orihon.errors import DamagedStore, KeyUnavailable, StorageUnavailable, TaskNotFound
from orihon.settings import Settings
from orihon.store.contract import STREAMS
from orihon.store.factory import open_for_reading
from orihon.store.kept_files import has_digest
from orihon.store.record_check import REDACTED, has_check
from orihon.store.redaction import PURPOSES
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace, tries_while_moved
from orihon.tasks.verify.database import damage_in
from orihon.tasks.verify.findings import Finding, Findings, Report
from orihon.tasks.verify.folder import check_folder, check_metadata, check_seals
from orihon.tasks.verify.folds import boundaries, check_compressions, read_folds
from orihon.tasks.verify.log import check_log
from orihon.tasks.verify.placement import check_placement, check_row
from orihon.tasks.verify.streams import check_attested, check_other_streams
from orihon.tasks.verify.view import check_counters, check_documents, check_view_file
from orihon.values.records import FINAL_SUMMARY
from orihon.values.task import check_id

__all__ = ["Finding", "verify", "verify_task"]


def verify_task(store: TaskStore, folder: Path | None = None, *, in_use: bool = False) -> list[Finding]:
    """What is wrong with a task's records and, when its ``folder`` is given, with the files there.

    ``in_use``: a writer may be at work, so that an unfinished file or line is no finding.
    """
    findings = Findings()
    if folder is not None:
        check_folder(folder, in_use=in_use, report=findings.report)
        check_metadata(store.records, findings.report)
    _reporting_damage(lambda: check_seals(store.records, findings.report), findings.report)
    _reporting_damage(lambda: _check_records(store, folder, findings.report), findings.report)
    return findings.about(store.name)


def _check_records(store: TaskStore, folder: Path | None, report: Report) -> None:
    if folder is not None:
        _check_database(folder / "context.db", report)
    wrong: list[Finding] = []
    folds = read_folds(store, wrong.append)
    log = check_log(store.records, boundaries(folds), wrong.append)
    compressions = check_compressions(store, folds, log, wrong.append)
    for finding in wrong:
        report(finding)
    check_other_streams(store.records, report)
    check_documents(store.records, report)
    if log.whole and compressions.whole:
        check_counters(store, log, compressions, report)
        # Where a record is not what was stored, the file may have the last right copy of it: nothing replaces it.
        if folder is not None and all(finding.severity == "warning" for finding in wrong):
            check_view_file(store, folder, report)


def _check_database(path: Path, report: Report) -> None:
    damage = damage_in(path)
    if damage is not None:
        report(Finding("stream", "database", path.name, fields={"why": damage}))


def _reporting_damage(check: Callable[[], None], report: Report) -> None:
    """Damage that kept a check from going on is a finding like any other."""
    try:
        check()
    except (DamagedStore, KeyUnavailable) as error:
        report(Finding("stream", "damaged", str(error.fields.get("path", "-")), fields={"why": error.cause}))


def verify(base: OpenBase, uuid: str) -> list[Finding]:
    """What is wrong with a task: its records, its folder, and its row in the catalogue."""
    with suppress(DamagedStore):  # told below
        base.open_catalogue()
    return found_steadily(base, uuid, lambda: _verify_once(base, uuid))


def found_steadily(base: OpenBase, uuid: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """What ``look`` finds while nobody begins, pauses or ends the task: a row and a folder of two moments differ.

    Of a task that never rests it is what every look has found; what is wrong, they all find.
    """
    found, always, problem = None, None, None
    for _ in tries_while_moved():
        before = _standing(base, uuid)
        try:
            found, problem = look(), None
        except StorageUnavailable as error:
            problem = error
        if _standing(base, uuid) == before:
            break
        if problem is None and found is not None:
            kinds = {finding.kind for finding in found}
            always = kinds if always is None else always & kinds
    else:
        if always is not None:
            found, problem = [finding for finding in found or () if finding.kind in always], None
    if problem is not None:
        raise problem
    return found or []


def _standing(base: OpenBase, uuid: str) -> tuple[object, ...]:
    """What changes whenever somebody begins, pauses or ends the task."""
    row = None
    with suppress(DamagedStore):
        row = base.row(uuid)
    return row and (row.status, row.epoch, row.lease_owner), *base.folders.places(uuid)


def _verify_once(base: OpenBase, uuid: str) -> list[Finding]:
    places = base.folders.places(check_id(uuid))
    try:
        base.open_catalogue()
        row = base.row(uuid)
        in_use = base.is_in_use(row)
    except DamagedStore as error:
        damage = damaged_catalogue(error, uuid)
        return [damage, *(finding for place in places for finding in verify_folder(uuid, None, place, base.settings))]
    if row is None and not places:
        raise TaskNotFound("uuid", uuid=uuid)
    beside = row is None and is_known_beside(base.path, base.settings, uuid)
    # Before the records: what is attested meanwhile must not look like a loss.
    attested = attestations(base.path, base.settings, uuid)
    return verify_placed(uuid, row, places, base.settings, in_use=in_use, is_known_beside=beside, attested=attested)


def damaged_catalogue(error: DamagedStore, uuid: str = "") -> Finding:
    """The finding for a row that cannot be read; a text that does not open is no reason to make a new catalogue."""
    check = ("seal", "text") if error.reason in ("sealed", "row_text") else ("catalogue", "damaged")
    return Finding(*check, "tasks.db", task=uuid, fields={"why": error.cause})


def verify_placed(
    uuid: str,
    row: TaskRow | None,
    places: list[TaskPlace],
    settings: Settings,
    *,
    in_use: bool,
    is_known_beside: bool = False,
    attested: Attested | None = None,
) -> list[Finding]:
    """The same for a task whose row and folders have been looked up."""
    findings = Findings()
    check_placement(row, places, findings.report, in_use=in_use, is_known_beside=is_known_beside)
    if len(places) != 1:
        return findings.about(uuid)
    contents = verify_folder(uuid, row, places[0], settings, in_use=in_use, attested=attested)
    return [*findings.about(uuid), *contents]


def verify_folder(
    uuid: str,
    row: TaskRow | None,
    place: TaskPlace,
    settings: Settings,
    *,
    in_use: bool = False,
    attested: Attested | None = None,
) -> list[Finding]:
    """One folder of a task, and its row where it has one."""
    with closing(open_for_reading(place.folder, settings, name=uuid)) as store:
        # The scratch folder of a task in the database may be missing.
        found = verify_task(store, None if place.is_in_database else place.folder, in_use=in_use)
        findings = Findings()
        if place.is_in_database:
            check_metadata(store.records, findings.report)
        if row is not None:
            _reporting_damage(lambda: check_row(row, place.folder, store, findings.report), findings.report)
        if attested is not None:
            _reporting_damage(lambda: check_attested(store.records, attested, findings.report), findings.report)
        return [*found, *findings.about(uuid)]


@dataclass(slots=True)
class Redacted:
    """How many records of a task say that something was taken out of them, and how many of these what."""

    records: int = 0
    secrets: int = 0  # by ``orihon scan --fix``
    people: int = 0  # by ``orihon privacy anonymize``


def redacted_records(base: OpenBase, uuid: str) -> Redacted:
    """What the records of a task say of redactions; one may have been redacted for both."""
    found = Redacted()
    place = base.folders.find(uuid)
    if place is None:
        return found
    with closing(base.read_store(place)) as store:
        for line in (line for stream in STREAMS for line in store.records.read(stream) if b'"redacted":' in line):
            noted = jsonio.decode(line).get(REDACTED)
            if isinstance(noted, dict):
                purposes = noted.get(PURPOSES, ())
                found.records += 1
                found.secrets += "secrets" in purposes
                found.people += "people" in purposes
    return found


def unprotected_records(base: OpenBase, uuid: str) -> dict[str, int]:
    """How many records of which stream have no check, and the final summary; older versions wrote none.

    What is sealed needs none.
    """
    place = base.folders.find(uuid)
    if place is None:
        return {}
    with closing(base.read_store(place)) as store:
        if store.records.is_sealed:
            return {}
        counts: dict[str, int] = {
            stream: sum(not has_check(line) for line in store.records.read(stream)) for stream in STREAMS
        }
        is_kept = store.records.kept_file(FINAL_SUMMARY) is not None
        counts[FINAL_SUMMARY] = int(is_kept and not has_digest(store.records, FINAL_SUMMARY))
    return {name: count for name, count in counts.items() if count}
